# How the scripts that run whole jobs become tests. A script is named from tests/.

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
# Runs under `sh tests/run.sh --all` only.
function(pl_slow)
  foreach(name ${ARGN})
    if(TEST ${name})
      set_property(TEST ${name} APPEND PROPERTY LABELS slow)
    endif()
  endforeach()
endfunction()
function(pl_may_skip name) # where the machine does not allow it
  if(TEST ${name})
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
  endif()
endfunction()
