# Whole jobs under faults: what they are looked at with, and their short runs.
if(TARGET pl_store)
  add_executable(chaos_ledger ${CMAKE_CURRENT_SOURCE_DIR}/chaos_ledger.c)
  target_link_libraries(chaos_ledger pl_store)
endif()
add_test(NAME fault_points_check COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/chaos_check_points.sh
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(fault_points_check PROPERTIES LABELS "unit;base" TIMEOUT 60)

# name, labels, seconds, script, arguments: runs from the project's root
function(pl_script_test name labels seconds script)
  if(TARGET pathloom)
    add_test(NAME ${name}
      COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/${script} ${ARGN}
      WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${seconds})
  endif()
endfunction()
# The same for 15 minutes, alone on the machine: what it kills or measures must not meet
# others. name, labels, script, arguments
function(pl_job_test name labels script)
  pl_script_test(${name} "${labels}" 900 ${script} ${ARGN})
  if(TEST ${name})
    set_tests_properties(${name} PROPERTIES RUN_SERIAL TRUE)
  endif()
endfunction()
function(pl_test_limit name seconds)
  if(TEST ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${seconds})
  endif()
endfunction()
function(pl_may_skip name) # where the machine does not allow it
  if(TEST ${name})
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
  endif()
endfunction()
set(tools $<TARGET_FILE:pathloom> $<TARGET_FILE:chaos_ledger>)
pl_job_test(chaos_short "fault;workers" chaos.sh --kills 12 --gap 200
  --pathloom $<TARGET_FILE:pathloom> --ledger $<TARGET_FILE:chaos_ledger>
  --work ${CMAKE_BINARY_DIR}/chaos)
pl_job_test(fault_backup "fault;workers" fault_backup.sh ${tools} ${CMAKE_BINARY_DIR}/fault_backup
  short)
pl_job_test(fault_mates "fault;workers" fault_mates.sh ${tools} ${CMAKE_BINARY_DIR}/fault_mates)
pl_job_test(fault_audit "fault;workers" fault_audit.sh ${tools} ${CMAKE_BINARY_DIR}/fault_audit)
pl_job_test(fault_quorum "fault;outer" fault_quorum.sh $<TARGET_FILE:pathloom>
  ${CMAKE_BINARY_DIR}/fault_quorum)
pl_job_test(fault_quorum_late "fault;outer" fault_quorum.sh $<TARGET_FILE:pathloom>
  ${CMAKE_BINARY_DIR}/fault_quorum_late 0.5)
pl_job_test(fault_points "fault;base" fault_points.sh ${tools} ${CMAKE_BINARY_DIR}/fault_points
  short)
add_library(interpose MODULE ${CMAKE_CURRENT_SOURCE_DIR}/interpose.c)
target_compile_definitions(interpose PRIVATE _GNU_SOURCE)
target_compile_options(interpose PRIVATE ${PL_WARNINGS} ${PL_C_WARNINGS} -Wno-missing-prototypes)
pl_job_test(fault_io "fault;store" fault_io.sh ${tools} $<TARGET_FILE:interpose>
  ${CMAKE_BINARY_DIR}/fault_io short)

# Tasks trained once more; what it trains is a job of its own.
if(TARGET pl_workers)
  add_executable(retrain_check ${CMAKE_CURRENT_SOURCE_DIR}/retrain_check.c)
  target_link_libraries(retrain_check pl_workers)
  add_executable(audit_distance ${CMAKE_CURRENT_SOURCE_DIR}/audit_distance.c)
  target_link_libraries(audit_distance pl_workers)
  add_executable(merge_rate ${CMAKE_CURRENT_SOURCE_DIR}/merge_rate.c)
  target_link_libraries(merge_rate pl_home)
  pl_script_test(retrain "integration;workers" 300 retrain.sh $<TARGET_FILE:pathloom>
    $<TARGET_FILE:retrain_check> ${CMAKE_BINARY_DIR}/retrain)
endif()

# A job among hostile workers and strangers.
if(TARGET pl_workers AND NOT PL_ONLY_MODULES)
  add_executable(adversary adversary.c adversary_line.c adversary_hub.c adversary_home.c
    adversary_raw.c hostile.c)
  target_link_libraries(adversary pl_workers)
  pl_job_test(adversary "fault;workers" adversary.sh --minutes 1 --seed 1
    --build ${CMAKE_BINARY_DIR})
endif()

# Power cuts, played from a trace of what a process wrote.
if(TARGET pl_store)
  add_library(power_trace MODULE ${CMAKE_CURRENT_SOURCE_DIR}/power_trace.c)
  target_include_directories(power_trace PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_definitions(power_trace PRIVATE _GNU_SOURCE)
  target_compile_options(power_trace PRIVATE ${PL_WARNINGS} ${PL_C_WARNINGS} -Wno-missing-prototypes)
  add_executable(power_cut power_cut.c power_model.c)
  target_link_libraries(power_cut pl_store)
  add_test(NAME fault_power COMMAND power_cut play -
    $<TARGET_FILE:power_trace> 25 40 1 WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(fault_power PROPERTIES LABELS "fault;store" TIMEOUT 300)
endif()

# Fuzz targets: tests/fuzz_X.c has one function. With PL_FUZZ (clang) it becomes a
# program of libFuzzer; else fuzz_driver.c changes its seeds at random, as a test.
option(PL_FUZZ "Fuzz targets for libFuzzer instead of tests; needs clang" OFF)
file(GLOB fuzz_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/fuzz_*.c)
list(FILTER fuzz_sources EXCLUDE REGEX "fuzz_driver")
foreach(source ${fuzz_sources})
  get_filename_component(name ${source} NAME_WE)
  file(STRINGS ${source} head LIMIT_COUNT 2)
  string(REGEX MATCH "folder: ([a-z]+)" _ "${head}")
  set(folder ${CMAKE_MATCH_1})
  string(REGEX MATCH "runs: ([0-9]+)" _ "${head}") # of a target that opens a store
  set(runs ${CMAKE_MATCH_1})
  if(NOT runs)
    set(runs 20000)
  endif()
  if(NOT TARGET pl_${folder} OR PL_ONLY_MODULES)
    continue()
  endif()
  add_executable(${name} ${source})
  if(name MATCHES "fuzz_(home|hub)")
    target_sources(${name} PRIVATE hostile.c)
  endif()
  target_link_libraries(${name} pl_${folder} ${CMOCKA_LIBRARY})
  if(PL_FUZZ)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  else()
    target_sources(${name} PRIVATE fuzz_driver.c)
    add_test(NAME ${name} COMMAND ${name} --runs ${runs} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(${name} PROPERTIES LABELS "unit;${folder}" TIMEOUT 300)
  endif()
endforeach()
pl_job_test(fault_net "fault;outer" fault_net.sh ${tools} ${CMAKE_BINARY_DIR}/fault_net short)
pl_may_skip(fault_net)
