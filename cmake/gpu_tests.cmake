# test_ops_gpu and test_model_gpu: the tests that every backend has to pass, on the GPU.
# Where cmocka is missing, tests/standin has what they need of it.
if(PL_HAVE_CUDA)
  foreach(name ops model)
    add_executable(test_${name}_gpu ${CMAKE_SOURCE_DIR}/tests/test_${name}_cpu.c)
    target_compile_definitions(test_${name}_gpu PRIVATE PAIRS_OF="cuda")
    target_compile_options(test_${name}_gpu PRIVATE -Wno-missing-prototypes)
    target_link_libraries(test_${name}_gpu pl_modules)
    if(CMOCKA_LIBRARY)
      target_link_libraries(test_${name}_gpu ${CMOCKA_LIBRARY})
    else()
      target_include_directories(test_${name}_gpu PRIVATE ${CMAKE_SOURCE_DIR}/tests/standin)
    endif()
    add_test(NAME test_${name}_gpu COMMAND test_${name}_gpu
      WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(test_${name}_gpu PROPERTIES LABELS "gpu;modules" TIMEOUT 600
      SKIP_REGULAR_EXPRESSION "not on this machine")
  endforeach()
endif()
