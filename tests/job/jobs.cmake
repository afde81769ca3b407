# Scripts that test whole jobs and commands. Each script says what it tests.
pl_scripts(job "fault;cli" store_verbs)
pl_jobs(job "integration;job" chapters graft bisect curves dial tutorial terminal quality)
pl_scripts(job "integration;cli" exposure surgery json_pages eval_text
  store_verbs_finished bad_input worker_settings bench_verbs serve_api exchange)
pl_jobs(job "integration;cli" hand_started memory_plan)
pl_scripts(job "unit;cli" presets deploy)
pl_jobs(job "fault;job" changes)
pl_may_skip(curves serve_api terminal)

# Whole jobs on an emulated device.
if(TARGET pathloom_emulated)
  pl_job_test(gpu_job "integration;workers" gpu/gpu_job.sh $<TARGET_FILE:pathloom_emulated>
    ${CMAKE_BINARY_DIR}/gpu_job)
  pl_may_skip(gpu_job)
endif()

# Checks the invariants of a run, and finds damage in a store.
if(TARGET pathloom)
  add_executable(hurt_store ${CMAKE_CURRENT_SOURCE_DIR}/job/hurt_store.c)
  target_link_libraries(hurt_store pl_store)
endif()
pl_script_test(check "integration;cli" job/check.sh ${program} $<TARGET_FILE:hurt_store>
  ${CMAKE_BINARY_DIR}/check)

pl_job_test(select "integration;job" job/select.sh ${tools} ${CMAKE_BINARY_DIR}/select)

# The slow link (bench/link.sh), which measurements of communication use.
pl_script_test(link_rate "integration;base" job/link_rate.sh ${program})
if(TEST link_rate)
  set_tests_properties(link_rate PROPERTIES RUN_SERIAL TRUE)
endif()
pl_may_skip(link_rate)

# Completions over HTTP.
if(TARGET pathloom)
  add_executable(serve_odd ${CMAKE_CURRENT_SOURCE_DIR}/job/serve_odd.c)
  target_link_libraries(serve_odd pl_base)
endif()
pl_script_test(serve "integration;cli" job/serve.sh ${program} $<TARGET_FILE:serve_odd>
  ${CMAKE_BINARY_DIR}/serve)
pl_may_skip(serve)

# The example program in C learns to count.
if(TARGET train_one)
  pl_script_test(train_one "integration;serve" job/train_one.sh $<TARGET_FILE:train_one>
    ${program} ${CMAKE_BINARY_DIR}/train_one)
endif()

# libpathloom from an installation. Skipped without pkg-config.
if(TARGET libpathloom)
  pl_script_test(library "integration;lib" job/library.sh ${CMAKE_BINARY_DIR} ${program}
    ${CMAKE_BINARY_DIR}/library)
  pl_may_skip(library)
  # Skipped without numpy and pytest.
  pl_script_test(python "integration;lib" job/python.sh ${CMAKE_BINARY_DIR} ${program}
    ${CMAKE_BINARY_DIR}/python)
  pl_may_skip(python)
endif()

# /metrics, `status` and `top` of a running job. Skipped without curl.
pl_script_test(watch "integration;cli" job/watch.sh ${program} ${CMAKE_BINARY_DIR}/watch
  $<TARGET_FILE:serve_odd>)
pl_may_skip(watch)

pl_script_test(explain "unit;cli" job/explain.sh ${program})

# What the scripts print that install and build.
pl_script_test(scripts "unit;cli" job/scripts.sh ${CMAKE_BINARY_DIR}/scripts)

# The installed files, the Debian package and the Containerfile. Skipped without
# dpkg-dev.
pl_script_test(package "integration;cli" job/package.sh ${CMAKE_BINARY_DIR}
  ${CMAKE_BINARY_DIR}/package)
pl_may_skip(package)

# docs/CONFIG.md must agree with the keys of the program.
if(TARGET pathloom)
  add_test(NAME config_reference
    COMMAND sh -c "'$<TARGET_FILE:pathloom>' init --reference | diff - docs/CONFIG.md"
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(config_reference PROPERTIES LABELS "unit;cli")
endif()

pl_script_test(pages "unit;cli" job/pages.sh ${program})

# Makes a corpus from two small Debian packages. Skipped without dpkg-deb.
pl_script_test(corpus_packages "integration;cli" job/corpus.sh
  ${CMAKE_BINARY_DIR}/corpus_packages)
pl_may_skip(corpus_packages)

# The status page over HTTP. Skipped without curl or jq. tests/page.sh tests the page in
# a real browser; `sh tests/run.sh --all` runs it.
pl_script_test(page "integration;cli" job/page.sh ${program} ${CMAKE_BINARY_DIR}/page
  $<TARGET_FILE:serve_odd>)
pl_may_skip(page)
pl_script_test(page_browser "integration;cli" page.sh ${program} ${CMAKE_BINARY_DIR}/page_browser)
pl_may_skip(page_browser)

