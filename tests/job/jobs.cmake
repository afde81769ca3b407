# Scripts that test whole jobs and commands. Each script says what it tests.
# Whole jobs on an emulated device.
if(TARGET pathloom_emulated)
  pl_job_test(gpu_job "integration;workers" gpu/gpu_job.sh $<TARGET_FILE:pathloom_emulated>
    ${CMAKE_BINARY_DIR}/gpu_job)
endif()

pl_script_test(store_verbs "fault;cli" 600 job/store_verbs.sh ${program}
  ${CMAKE_BINARY_DIR}/store_verbs)

pl_job_test(chapters "integration;job" job/chapters.sh ${program} ${CMAKE_BINARY_DIR}/chapters)
pl_test_limit(chapters 300)

# Modules and paths are dropped or added when a run is lengthened.
pl_job_test(graft "integration;job" job/graft.sh ${program} ${CMAKE_BINARY_DIR}/graft)
pl_test_limit(graft 300)

# Shows how much of a domain each path and module was trained on.
pl_script_test(exposure "integration;cli" 300 job/exposure.sh ${program}
  ${CMAKE_BINARY_DIR}/exposure)

pl_script_test(surgery "integration;cli" 300 job/surgery.sh ${program}
  ${CMAKE_BINARY_DIR}/surgery)
# Checks the invariants of a run, and finds damage in a store.
if(TARGET pathloom)
  add_executable(hurt_store ${CMAKE_CURRENT_SOURCE_DIR}/job/hurt_store.c)
  target_link_libraries(hurt_store pl_store)
endif()
pl_script_test(check "integration;cli" 300 job/check.sh ${program} $<TARGET_FILE:hurt_store>
  ${CMAKE_BINARY_DIR}/check)

pl_job_test(bisect "integration;job" job/bisect.sh ${program} ${CMAKE_BINARY_DIR}/bisect)
pl_test_limit(bisect 300)

pl_job_test(select "integration;job" job/select.sh ${tools} ${CMAKE_BINARY_DIR}/select)
pl_test_limit(select 300)

pl_job_test(curves "integration;job" job/curves.sh ${program} ${CMAKE_BINARY_DIR}/curves)
pl_test_limit(curves 300)

pl_job_test(dial "integration;job" job/dial.sh ${program} ${CMAKE_BINARY_DIR}/dial)
pl_test_limit(dial 600)

pl_job_test(tutorial "integration;job" job/tutorial.sh ${program} ${CMAKE_BINARY_DIR}/tutorial)
pl_test_limit(tutorial 300)

pl_script_test(json_pages "integration;cli" 300 job/json_pages.sh ${program}
  ${CMAKE_BINARY_DIR}/json_pages)

pl_script_test(eval_text "integration;cli" 300 job/eval_text.sh ${program}
  ${CMAKE_BINARY_DIR}/eval_text)

pl_script_test(store_verbs_finished "integration;cli" 120 job/store_verbs_finished.sh ${program}
  ${CMAKE_BINARY_DIR}/store_verbs_finished)

pl_script_test(bad_input "integration;cli" 600 job/bad_input.sh ${program}
  ${CMAKE_BINARY_DIR}/bad_input)

pl_script_test(worker_settings "integration;cli" 120 job/worker_settings.sh ${program}
  ${CMAKE_BINARY_DIR}/worker_settings)

pl_job_test(hand_started "integration;cli" job/hand_started.sh ${program}
  ${CMAKE_BINARY_DIR}/hand_started)
pl_test_limit(hand_started 300)

pl_script_test(bench_verbs "integration;cli" 300 job/bench_verbs.sh ${program}
  ${CMAKE_BINARY_DIR}/bench_verbs)

pl_script_test(presets "unit;cli" 60 job/presets.sh ${program} ${CMAKE_BINARY_DIR}/presets)

# Completions over HTTP.
if(TARGET pathloom)
  add_executable(serve_odd ${CMAKE_CURRENT_SOURCE_DIR}/job/serve_odd.c)
  target_link_libraries(serve_odd pl_base)
endif()
pl_script_test(serve "integration;cli" 300 job/serve.sh ${program} $<TARGET_FILE:serve_odd>
  ${CMAKE_BINARY_DIR}/serve)

# The store changes under a server and under a report; limits of the machine.
pl_job_test(changes "fault;job" job/changes.sh ${program} ${CMAKE_BINARY_DIR}/changes)

# The API for programs that evaluate models, and for front ends. Skipped without curl or
# jq.
pl_script_test(serve_api "integration;cli" 300 job/serve_api.sh ${program}
  ${CMAKE_BINARY_DIR}/serve_api)
pl_may_skip(serve_api)

pl_script_test(exchange "integration;cli" 300 job/exchange.sh ${program} ${CMAKE_BINARY_DIR}/exchange)

# Tests `train` and `top` on a small terminal. Skipped without script(1).
pl_job_test(terminal "integration;job" job/terminal.sh ${program} ${CMAKE_BINARY_DIR}/terminal)
pl_test_limit(terminal 120)
pl_may_skip(terminal)

# The example program in C learns to count.
if(TARGET train_one)
  pl_script_test(train_one "integration;serve" 60 job/train_one.sh $<TARGET_FILE:train_one>
    ${program} ${CMAKE_BINARY_DIR}/train_one)
endif()

# /metrics, `status` and `top` of a running job. Skipped without curl.
pl_script_test(watch "integration;cli" 300 job/watch.sh ${program} ${CMAKE_BINARY_DIR}/watch)
pl_may_skip(watch)

pl_script_test(explain "unit;cli" 60 job/explain.sh ${program})

pl_job_test(memory_plan "integration;cli" job/memory_plan.sh ${program}
  ${CMAKE_BINARY_DIR}/memory_plan)

pl_script_test(deploy "unit;cli" 60 job/deploy.sh ${program} ${CMAKE_BINARY_DIR}/deploy)

# The installed files, the Debian package and the Containerfile. Skipped without
# dpkg-dev.
pl_script_test(package "integration;cli" 120 job/package.sh ${CMAKE_BINARY_DIR}
  ${CMAKE_BINARY_DIR}/package)
pl_may_skip(package)

# docs/CONFIG.md must agree with the keys of the program.
if(TARGET pathloom)
  add_test(NAME config_reference
    COMMAND sh -c "'$<TARGET_FILE:pathloom>' init --reference | diff - docs/CONFIG.md"
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(config_reference PROPERTIES LABELS "unit;cli" TIMEOUT 60)
endif()

pl_script_test(pages "unit;cli" 60 job/pages.sh ${program})

# Makes a corpus from two small Debian packages. Skipped without dpkg-deb.
pl_script_test(corpus_packages "integration;cli" 120 job/corpus.sh
  ${CMAKE_BINARY_DIR}/corpus_packages)
pl_may_skip(corpus_packages)

# The status page over HTTP. Skipped without curl or jq. tests/page.sh tests the page in
# a real browser; `sh tests/run.sh --all` runs it.
pl_script_test(page "integration;cli" 300 job/page.sh ${program} ${CMAKE_BINARY_DIR}/page)
pl_may_skip(page)
pl_script_test(page_browser "integration;cli" 600 page.sh ${program} ${CMAKE_BINARY_DIR}/page_browser)
pl_may_skip(page_browser)
