# Whole jobs under faults: what they are looked at with, and their short runs.
if(TARGET pl_store)
  add_executable(chaos_ledger ${CMAKE_CURRENT_SOURCE_DIR}/chaos_ledger.c)
  target_link_libraries(chaos_ledger pl_store)
endif()
add_test(NAME fault_points_check COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/chaos_check_points.sh
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(fault_points_check PROPERTIES LABELS "unit;base" TIMEOUT 60)
