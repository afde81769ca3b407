# Scripts that test whole jobs and commands. Each script says what it tests.
# Whole jobs on an emulated device.
if(TARGET pathloom_emulated)
  pl_job_test(gpu_job "integration;workers" gpu/gpu_job.sh $<TARGET_FILE:pathloom_emulated>
    ${CMAKE_BINARY_DIR}/gpu_job)
  pl_may_skip(gpu_job)
endif()

pl_script_test(store_verbs "fault;cli" job/store_verbs.sh ${program}
  ${CMAKE_BINARY_DIR}/store_verbs)

pl_job_test(chapters "integration;job" job/chapters.sh ${program} ${CMAKE_BINARY_DIR}/chapters)

# Modules and paths are dropped or added when a run is lengthened.
pl_job_test(graft "integration;job" job/graft.sh ${program} ${CMAKE_BINARY_DIR}/graft)

# Shows how much of a domain each path and module was trained on.
pl_script_test(exposure "integration;cli" job/exposure.sh ${program}
  ${CMAKE_BINARY_DIR}/exposure)

pl_script_test(surgery "integration;cli" job/surgery.sh ${program}
  ${CMAKE_BINARY_DIR}/surgery)
# Checks the invariants of a run, and finds damage in a store.
if(TARGET pathloom)
  add_executable(hurt_store ${CMAKE_CURRENT_SOURCE_DIR}/job/hurt_store.c)
  target_link_libraries(hurt_store pl_store)
endif()
pl_script_test(check "integration;cli" job/check.sh ${program} $<TARGET_FILE:hurt_store>
  ${CMAKE_BINARY_DIR}/check)

pl_job_test(bisect "integration;job" job/bisect.sh ${program} ${CMAKE_BINARY_DIR}/bisect)

pl_job_test(select "integration;job" job/select.sh ${tools} ${CMAKE_BINARY_DIR}/select)

pl_job_test(curves "integration;job" job/curves.sh ${program} ${CMAKE_BINARY_DIR}/curves)
pl_may_skip(curves)

pl_job_test(dial "integration;job" job/dial.sh ${program} ${CMAKE_BINARY_DIR}/dial)

pl_job_test(tutorial "integration;job" job/tutorial.sh ${program} ${CMAKE_BINARY_DIR}/tutorial)

pl_script_test(json_pages "integration;cli" job/json_pages.sh ${program}
  ${CMAKE_BINARY_DIR}/json_pages)

pl_script_test(eval_text "integration;cli" job/eval_text.sh ${program}
  ${CMAKE_BINARY_DIR}/eval_text)

pl_script_test(store_verbs_finished "integration;cli" job/store_verbs_finished.sh ${program}
  ${CMAKE_BINARY_DIR}/store_verbs_finished)

pl_script_test(bad_input "integration;cli" job/bad_input.sh ${program}
  ${CMAKE_BINARY_DIR}/bad_input)

pl_script_test(worker_settings "integration;cli" job/worker_settings.sh ${program}
  ${CMAKE_BINARY_DIR}/worker_settings)

pl_job_test(hand_started "integration;cli" job/hand_started.sh ${program}
  ${CMAKE_BINARY_DIR}/hand_started)

pl_script_test(bench_verbs "integration;cli" job/bench_verbs.sh ${program}
  ${CMAKE_BINARY_DIR}/bench_verbs)
# The slow link (bench/link.sh), which measurements of communication use.
pl_script_test(link_rate "integration;base" job/link_rate.sh ${program})
if(TEST link_rate)
  set_tests_properties(link_rate PROPERTIES RUN_SERIAL TRUE)
endif()

pl_script_test(presets "unit;cli" job/presets.sh ${program} ${CMAKE_BINARY_DIR}/presets)

# Completions over HTTP.
if(TARGET pathloom)
  add_executable(serve_odd ${CMAKE_CURRENT_SOURCE_DIR}/job/serve_odd.c)
  target_link_libraries(serve_odd pl_base)
endif()
pl_script_test(serve "integration;cli" job/serve.sh ${program} $<TARGET_FILE:serve_odd>
  ${CMAKE_BINARY_DIR}/serve)
pl_may_skip(serve)

# The store changes under a server and under a report; limits of the machine.
pl_job_test(changes "fault;job" job/changes.sh ${program} ${CMAKE_BINARY_DIR}/changes)

# The API for programs that evaluate models, and for front ends. Skipped without curl or
# jq.
pl_script_test(serve_api "integration;cli" job/serve_api.sh ${program}
  ${CMAKE_BINARY_DIR}/serve_api)
pl_may_skip(serve_api)

pl_script_test(exchange "integration;cli" job/exchange.sh ${program} ${CMAKE_BINARY_DIR}/exchange)

# Tests `train` and `top` on a small terminal. Skipped without script(1).
pl_job_test(terminal "integration;job" job/terminal.sh ${program} ${CMAKE_BINARY_DIR}/terminal)
pl_may_skip(terminal)

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

pl_job_test(memory_plan "integration;cli" job/memory_plan.sh ${program}
  ${CMAKE_BINARY_DIR}/memory_plan)

# What the scripts print that install and build.
pl_script_test(scripts "unit;cli" job/scripts.sh ${CMAKE_BINARY_DIR}/scripts)

pl_script_test(deploy "unit;cli" job/deploy.sh ${program} ${CMAKE_BINARY_DIR}/deploy)

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

# The mixture is better than its base and a dense model; planted faults are noticed.
pl_job_test(quality "integration;job" job/quality.sh ${program} ${CMAKE_BINARY_DIR}/quality)
