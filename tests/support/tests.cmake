# Functions that define tests from scripts. Such a script runs whole jobs. The path of a
# script is relative to tests/.

# pl_script_test(name labels script arguments...) makes a test that runs a script in the
# project's root. With these variables, verbs that compute need not execute themselves
# once more (execute_with_settings in cli/main.c), which is half of the time of a short
# command. tests/job/tutorial.sh unsets them. Script tests start before unit tests, which
# are shorter.
function(pl_script_test name labels script)
  if(TARGET pathloom)
    add_test(NAME ${name}
      COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/${script} ${ARGN}
      WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(${name} PROPERTIES LABELS "${labels}" COST 600
      ENVIRONMENT "OMP_WAIT_POLICY=passive;GOMP_SPINCOUNT=2000")
  endif()
endfunction()
# pl_job_test(name labels script arguments...) makes a script test of a whole job. Its
# processes wait for each other for more than half of the time, so tests/run.sh runs
# other tests beside it. Job tests are the longest, so they start first: small tests fill
# the gaps at the end.
function(pl_job_test name labels script)
  pl_script_test(${name} "${labels}" ${script} ${ARGN})
  if(TEST ${name})
    set_tests_properties(${name} PROPERTIES COST 1000)
  endif()
endfunction()
# pl_scripts(folder labels names...) makes the script test NAME of FOLDER/NAME.sh for each
# name. The script gets the program and a folder of its own in the build folder.
function(pl_scripts folder labels)
  foreach(name ${ARGN})
    pl_script_test(${name} "${labels}" ${folder}/${name}.sh ${program} ${CMAKE_BINARY_DIR}/${name})
  endforeach()
endfunction()
function(pl_jobs folder labels) # the same for job tests
  foreach(name ${ARGN})
    pl_job_test(${name} "${labels}" ${folder}/${name}.sh ${program} ${CMAKE_BINARY_DIR}/${name})
  endforeach()
endfunction()
# Marks job tests that keep two cores busy or compare the times of processes. Beside
# such a test, tests/run.sh runs at most one other on two cores. They start before all
# others, because a test that needs two places waits until two are free.
function(pl_needs_two_cores)
  foreach(name ${ARGN})
    if(TEST ${name})
      set_tests_properties(${name} PROPERTIES PROCESSORS 2 COST 2000)
    endif()
  endforeach()
endfunction()
# Makes tests start before those without a cost. (ctest then ignores the times of earlier
# runs.)
function(pl_early)
  foreach(name ${ARGN})
    if(TEST ${name})
      set_tests_properties(${name} PROPERTIES COST 500)
    endif()
  endforeach()
endfunction()
# Marks tests that run only with `sh tests/run.sh --all`.
function(pl_slow)
  foreach(name ${ARGN})
    if(TEST ${name})
      set_property(TEST ${name} APPEND PROPERTY LABELS slow)
    endif()
  endforeach()
endfunction()
function(pl_may_skip) # exit code 77 means that this machine cannot run the test
  foreach(name ${ARGN})
    if(TEST ${name})
      set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
    endif()
  endforeach()
endfunction()
