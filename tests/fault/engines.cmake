# Tests of storage engines. engine_check tests any engine. ctest runs it with the small
# server s3_server.c, and tests/ceph.sh runs it with a real Ceph and its radosgw.
add_executable(engine_check ${CMAKE_CURRENT_SOURCE_DIR}/fault/engine_check.c)
target_link_libraries(engine_check pl_store)
add_executable(remote_store ${CMAKE_CURRENT_SOURCE_DIR}/fault/remote_store.c)
target_link_libraries(remote_store pl_store ${CMOCKA_LIBRARY})
target_compile_options(remote_store PRIVATE -Wno-missing-prototypes)
if(CURL_FOUND AND TARGET pathloom)
  add_executable(s3_server ${CMAKE_CURRENT_SOURCE_DIR}/fault/s3_server.c)
  target_link_libraries(s3_server pl_base PkgConfig::MICROHTTPD)
  add_test(NAME engine_s3
    COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/fault/engine_s3.sh $<TARGET_FILE:pathloom>
            ${CMAKE_CURRENT_BINARY_DIR} ${CMAKE_BINARY_DIR}/engine_s3
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  add_test(NAME direct
    COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/fault/direct.sh $<TARGET_FILE:pathloom>
            ${CMAKE_CURRENT_BINARY_DIR} ${CMAKE_BINARY_DIR}/direct
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(engine_s3 PROPERTIES LABELS "integration;store")
  set_tests_properties(direct PROPERTIES LABELS "fault;store")
endif()
