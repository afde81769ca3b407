#!/bin/sh
# Checks the sources: every function that calls write, fsync, rename, zmq_send or a
# similar function must have a fail point (base/failpoint.h). With it a test can end the
# process before or after this call.
#
# usage: chaos_check_points.sh [--list]     --list prints the names of all points
#
# Calls that delete are left out, because deleted data is not needed any more. Calls
# that write to a terminal (cli/, the log) are left out, too.
set -u
export LC_ALL=C # awk, sort, printf and [a-z] depend on it
folders="base corpus store codec outer net history home relay workers"
if [ "${1-}" = --list ]; then
    # shellcheck disable=SC2086 # the list is several words
    grep -rhoE 'pl_failpoint\("[^"]*"\)' $folders job --include='*.c' |
        sed 's/.*("//; s/").*//' | LC_ALL=C sort -u
    exit
fi
# shellcheck disable=SC2086
find $folders -name '*.c' | LC_ALL=C sort | xargs awk '
    # The one frame that send_frame sends is part of send_message, which has the fail
    # points.
    BEGIN { passed["base/wire.c:send_frame"] = passed["base/wire.c:give_pieces"] = 1
            # pl_exchange_folders has the points; its other caller exchanges empty folders.
            passed["base/fs.c:exchange"] = 1
            passed["base/log.c"] = 1
            passed["base/failpoint.c"] = 1
            # These calls send only within the process, or to the launcher on a pipe.
            passed["base/gate.c:answer_requests"] = 1
            passed["workers/launch.c:report_start"] = 1 }
    FNR == 1 { name = ""; in_function = 0 }
    /^[A-Za-z_].*\(/ && !in_function {
        name = $0; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name)
    }
    /^\{$/ { in_function = 1; n_calls = 0; has_point = 0 }
    in_function && /pl_failpoint\(/ { has_point = 1 }
    in_function && /(^|[^A-Za-z0-9_."])(p?writev?|fsync|fdatasync|sync_file_range|renameat2?|rename|ftruncate|fwrite|fputs|zmq_send|zmq_msg_send|rocksdb_write|rocksdb_write_writebatch_wi|rocksdb_ingest_external_file_cf|kv_table_finish|rocksdb_flush_wal|rocksdb_checkpoint_create|archive_write_data)\(/ &&
        !/^ *(\*|\/\*)/ && !/stdout|stderr/ { call[++n_calls] = FNR }
    /^\}/ && in_function {
        in_function = 0
        if (!has_point && !(FILENAME in passed) && !((FILENAME ":" name) in passed))
            for (i = 1; i <= n_calls; i++) {
                print FILENAME ":" call[i] ": " name " writes without a fail point"
                bad++
            }
        n_all += n_calls
    }
    END {
        if (n_all < 8) { print "only " n_all " writing calls found"; bad++ }
        if (bad) exit 1
        print n_all " writing calls, each beside a fail point"
    }'
