# Steps and codecs on a GPU (outer/cuda), emulated; and the same tests on a real one
# where nvcc compiled them (label gpu: without a device they say so and pass).
set(accel_sources ${PL_ACCEL_SOURCES} ${CMAKE_SOURCE_DIR}/modules/cuda/device.cu
  ${CMAKE_SOURCE_DIR}/modules/cuda/transit.cu)
set_source_files_properties(${accel_sources} PROPERTIES LANGUAGE CXX)
add_library(pl_accel_emulated OBJECT ${accel_sources})
target_link_libraries(pl_accel_emulated PUBLIC pl_emulation)
target_compile_options(pl_accel_emulated PRIVATE ${PL_EMULATED_OPTIONS})
set_target_properties(pl_accel_emulated PROPERTIES PL_EMULATED ON)

foreach(name accel_step accel_codec)
  set(source ${CMAKE_SOURCE_DIR}/tests/${name}.c)
  add_executable(test_${name} ${source})
  target_link_libraries(test_${name} pl_accel_emulated $<TARGET_FILE:pl_outer>
    $<TARGET_FILE:pl_modules> pl_base ${PL_MODULES_LIBS} ${CMOCKA_LIBRARY})
  add_dependencies(test_${name} pl_outer)
  add_test(NAME test_${name} COMMAND test_${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(test_${name} PROPERTIES LABELS "unit;outer" TIMEOUT 600)
  if(PL_HAVE_CUDA)
    add_executable(test_${name}_gpu ${source} ${CMAKE_SOURCE_DIR}/tests/accel_real.c)
    target_link_libraries(test_${name}_gpu pl_accel ${CMOCKA_LIBRARY})
    add_test(NAME test_${name}_gpu COMMAND test_${name}_gpu
      WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(test_${name}_gpu PROPERTIES LABELS "gpu;outer" TIMEOUT 600
      SKIP_REGULAR_EXPRESSION "not on this machine")
  endif()
endforeach()
