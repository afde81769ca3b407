# The programs test_X_gpu run tests on the GPU: the tests that every backend must pass,
# and the tests of the cuda backend that need no emulation. If cmocka is missing,
# tests/gpu/standin replaces the parts of cmocka that these tests use.
if(NOT TARGET pl_support)
  include(${CMAKE_SOURCE_DIR}/tests/support/support.cmake)
endif()

function(pl_gpu_test name source)
  add_executable(test_${name}_gpu ${CMAKE_SOURCE_DIR}/tests/${source})
  target_compile_definitions(test_${name}_gpu PRIVATE PAIRS_OF="cuda")
  target_compile_options(test_${name}_gpu PRIVATE
    $<$<COMPILE_LANGUAGE:C>:-Wno-missing-prototypes>)
  target_link_libraries(test_${name}_gpu pl_probe pl_modules)
  if(CMOCKA_LIBRARY)
    target_link_libraries(test_${name}_gpu ${CMOCKA_LIBRARY})
  else()
    target_include_directories(test_${name}_gpu PRIVATE ${CMAKE_SOURCE_DIR}/tests/gpu/standin)
  endif()
  add_test(NAME test_${name}_gpu COMMAND test_${name}_gpu
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(test_${name}_gpu PROPERTIES LABELS "gpu;modules" TIMEOUT 1800
    SKIP_REGULAR_EXPRESSION "not on this machine")
endfunction()

if(PL_HAVE_CUDA)
  pl_gpu_test(ops unit/test_ops_cpu.c)
  pl_gpu_test(model unit/test_model_cpu.c)
  pl_gpu_test(model_curve unit/test_model_curve.c)
  pl_gpu_test(reference gpu/test_cuda_reference.cc)
  pl_gpu_test(probe unit/test_probe.c)
  add_executable(gpu_rates ${CMAKE_SOURCE_DIR}/tests/gpu/gpu_rates.c)
  target_link_libraries(gpu_rates pl_probe)
endif()
