# Tests of jobs with faults: first the programs that check these jobs, then the tests.
if(TARGET pl_store)
  add_executable(chaos_ledger ${CMAKE_CURRENT_SOURCE_DIR}/fault/chaos_ledger.c)
  target_link_libraries(chaos_ledger pl_store)
  add_executable(text_traces ${CMAKE_CURRENT_SOURCE_DIR}/fault/text_traces.c)
  target_link_libraries(text_traces pl_store pl_corpus)
endif()
add_test(NAME fault_points_check COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/fault/chaos_check_points.sh
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(fault_points_check PROPERTIES LABELS "unit;base")

pl_jobs(fault "fault;store" damage_matrix store_quota)
pl_jobs(fault "fault;outer" fault_quorum fault_methods)
pl_jobs(fault "fault;workers" fault_kill fault_cache fault_repeat slurm_scripts netns_join
  drain other_user signals moved_hub machine_faults)
pl_scripts(fault "integration;store" several_homes)
pl_jobs(fault "fault;job" pods)
pl_may_skip(netns_join moved_hub pods)

pl_job_test(chaos_short "fault;workers" chaos.sh --kills 12 --gap 200
  --pathloom $<TARGET_FILE:pathloom> --ledger $<TARGET_FILE:chaos_ledger>
  --work ${CMAKE_BINARY_DIR}/chaos)
pl_job_test(fault_backup "fault;workers" fault/fault_backup.sh ${tools} ${CMAKE_BINARY_DIR}/fault_backup
  short)
pl_job_test(set_homes "fault;store" fault/set_homes.sh ${tools} ${CMAKE_BINARY_DIR}/set_homes)
pl_job_test(home_away "fault;workers" fault/home_away.sh ${tools} ${CMAKE_BINARY_DIR}/home_away)
pl_job_test(strangers "fault;base" fault/strangers.sh $<TARGET_FILE:pathloom>
  ${CMAKE_BINARY_DIR}/strangers $<TARGET_FILE:serve_odd>)
pl_job_test(fault_own "fault;workers" fault/fault_own.sh ${tools} ${CMAKE_BINARY_DIR}/fault_own
  $<TARGET_FILE:hurt_store>)
pl_job_test(fault_mates "fault;workers" fault/fault_mates.sh ${tools} ${CMAKE_BINARY_DIR}/fault_mates)
pl_job_test(fault_audit "fault;workers" fault/fault_audit.sh ${tools} ${CMAKE_BINARY_DIR}/fault_audit)
pl_job_test(restored_trust "fault;workers" fault/restored_trust.sh ${tools}
  ${CMAKE_BINARY_DIR}/restored_trust)
pl_job_test(fault_points "fault;base" fault/fault_points.sh ${tools} ${CMAKE_BINARY_DIR}/fault_points
  short)
add_library(interpose MODULE ${CMAKE_CURRENT_SOURCE_DIR}/fault/interpose.c)
target_include_directories(interpose PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_definitions(interpose PRIVATE _GNU_SOURCE)
target_compile_options(interpose PRIVATE ${PL_WARNINGS} ${PL_C_WARNINGS} -Wno-missing-prototypes)
pl_job_test(fault_io "fault;store" fault/fault_io.sh ${tools} $<TARGET_FILE:interpose>
  ${CMAKE_BINARY_DIR}/fault_io short)

# Trains tasks of a job again, and compares the results with the stored updates.
if(TARGET pl_workers)
  add_executable(retrain_check ${CMAKE_CURRENT_SOURCE_DIR}/fault/retrain_check.c)
  target_link_libraries(retrain_check pl_workers)
  add_executable(merge_rate ${CMAKE_CURRENT_SOURCE_DIR}/fault/merge_rate.c)
  target_link_libraries(merge_rate pl_home)
  pl_script_test(retrain "integration;workers" fault/retrain.sh $<TARGET_FILE:pathloom>
    $<TARGET_FILE:retrain_check> ${CMAKE_BINARY_DIR}/retrain)
endif()

# A job that hostile workers and strangers attack.
if(TARGET pl_workers AND NOT PL_ONLY_MODULES)
  add_executable(adversary fault/adversary.c fault/adversary_line.c fault/adversary_hub.c fault/adversary_home.c
    fault/adversary_raw.c fault/hostile.c)
  target_link_libraries(adversary pl_workers)
  pl_job_test(adversary "fault;workers" adversary.sh --minutes 1 --seed 1
    --build ${CMAKE_BINARY_DIR})
  pl_job_test(adversary_homes "fault;workers" adversary.sh --minutes 1 --seed 1
    --build ${CMAKE_BINARY_DIR} --work ${CMAKE_BINARY_DIR}/adversary-homes
    --variant homes --only end-empty)
  pl_job_test(adversary_again "fault;workers" adversary.sh --minutes 1 --seed 1
    --build ${CMAKE_BINARY_DIR} --work ${CMAKE_BINARY_DIR}/adversary-again
    --variant again --only replay,old-lease,hold,sit,relay)
endif()

# Power cuts, which are simulated from the recorded writes of a process.
if(TARGET pl_store)
  add_library(power_trace MODULE ${CMAKE_CURRENT_SOURCE_DIR}/fault/power_trace.c)
  target_include_directories(power_trace PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_definitions(power_trace PRIVATE _GNU_SOURCE)
  target_compile_options(power_trace PRIVATE ${PL_WARNINGS} ${PL_C_WARNINGS} -Wno-missing-prototypes)
  add_executable(power_cut fault/power_cut.c fault/power_model.c)
  target_link_libraries(power_cut pl_store)
  add_test(NAME fault_power COMMAND power_cut play -
    $<TARGET_FILE:power_trace> 25 40 1 WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(fault_power PROPERTIES LABELS "fault;store")
endif()

pl_job_test(fault_net "fault;outer" fault/fault_net.sh ${tools} ${CMAKE_BINARY_DIR}/fault_net short)
pl_may_skip(fault_net)

pl_job_test(freeze "fault;job" fault/freeze.sh ${tools} ${CMAKE_BINARY_DIR}/freeze)
pl_job_test(lengthen "fault;job" fault/lengthen.sh ${tools} ${CMAKE_BINARY_DIR}/lengthen)
pl_job_test(split "fault;job" fault/split.sh ${tools} ${CMAKE_BINARY_DIR}/split)
pl_job_test(drop "fault;job" fault/drop.sh ${tools} ${CMAKE_BINARY_DIR}/drop)
pl_job_test(forget "fault;job" fault/forget.sh ${tools} ${CMAKE_BINARY_DIR}/forget
  $<TARGET_FILE:text_traces>)

# Every outer method and codec while processes are killed, and noloco with a stopped
# worker.
if(TARGET pathloom)
  add_executable(holder_mean ${CMAKE_CURRENT_SOURCE_DIR}/fault/holder_mean.c)
  target_link_libraries(holder_mean pl_home)
endif()
pl_job_test(fault_straggler "fault;outer" fault/fault_straggler.sh ${program}
  $<TARGET_FILE:holder_mean> ${CMAKE_BINARY_DIR}/fault_straggler)
# Jobs over slow, long and lossy links between network namespaces.
add_executable(wan_link ${CMAKE_CURRENT_SOURCE_DIR}/wan/wan_link.c)
target_compile_definitions(wan_link PRIVATE _GNU_SOURCE)
pl_job_test(wan "fault;net" wan.sh --no-times --build ${CMAKE_BINARY_DIR}
  --work ${CMAKE_BINARY_DIR}/wan)
pl_may_skip(wan)
