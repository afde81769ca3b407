# Steps and codecs on a GPU (outer/cuda), emulated; and the same tests on a real one
# where nvcc compiled them (label gpu: without a device they say so and pass).
set(device_sources ${CMAKE_SOURCE_DIR}/modules/cuda/device.cu
  ${CMAKE_SOURCE_DIR}/modules/cuda/transit.cu)
set_source_files_properties(${PL_ACCEL_SOURCES} ${device_sources} PROPERTIES LANGUAGE CXX)
add_library(pl_accel_emulated OBJECT ${PL_ACCEL_SOURCES})
add_library(pl_device_emulated OBJECT ${device_sources})
foreach(part pl_accel_emulated pl_device_emulated)
  target_link_libraries(${part} PUBLIC pl_emulation)
  target_compile_options(${part} PRIVATE ${PL_EMULATED_OPTIONS})
  set_target_properties(${part} PROPERTIES PL_EMULATED ON)
endforeach()

# The program with an emulated device, for whole jobs (tests/accel_job.sh). Libraries are
# linked as files: what they would bring along is what nvcc compiled.
foreach(folder serve eval workers outer router store corpus modules)
  list(APPEND accel_folders $<TARGET_FILE:pl_${folder}>)
endforeach()
add_executable(pathloom_emulated $<TARGET_OBJECTS:pl_cli>)
target_link_libraries(pathloom_emulated pl_accel_emulated pl_accel_arith pl_cuda_emulated
  pl_cuda_door ${accel_folders} pl_base ${PL_MODULES_LIBS} ${PL_ENGINE_LIBS}
  ${ROCKSDB_LIBRARY} PkgConfig::ARCHIVE PkgConfig::SENTENCEPIECE PkgConfig::MICROHTTPD)
add_dependencies(pathloom_emulated pl_serve pl_eval pl_workers)

foreach(name accel_step accel_codec accel_arith)
  set(source ${CMAKE_SOURCE_DIR}/tests/${name}.c)
  add_executable(test_${name} ${source})
  target_link_libraries(test_${name} pl_accel_emulated pl_accel_arith pl_device_emulated
    $<TARGET_FILE:pl_outer>
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
