/* Says what each status and each event means. Scripts look for these names, so the
 * names do not change. tests/job/explain.sh checks that the table has everything that
 * the program reports. */
#include "base/explain.h"

const pl_explanation pl_explanations[] = {
    /* ---- statuses: the result of a command or of a request to a process ---- */
    {"OK", "The command or the request succeeded.", "", ""},
    {"ERR_ARG", "A function of the program was called with a wrong argument.",
     "A bug in pathloom; rarely a wrong value of an option that pathloom did not "
     "check.",
     "Report the command and the error sentence."},
    {"ERR_USAGE", "The command line is wrong.",
     "A misspelt verb or option, a missing value, an extra word.",
     "The error names the wrong word and the most similar known word; pathloom VERB "
     "--help lists all options."},
    {"ERR_CONFIG", "The configuration is wrong.",
     "An unknown key, a value out of its range, two keys that contradict each other, "
     "an address that other machines can reach, although the process has no key.",
     "Change the key that the error names; pathloom init lists all keys with their "
     "defaults."},
    {"ERR_DATA", "Input data cannot be used.",
     "A corpus that is not text, a file in an unknown format, a word where a number is "
     "needed.",
     "Look at the named file and line."},
    {"ERR_DAMAGED", "Stored or received bytes do not match their checksum.",
     "A failing disk or memory, a file that was cut off or changed by hand.",
     "pathloom store fsck --run RUN lists everything that is damaged; restore it from "
     "a backup. Check disk and memory."},
    {"ERR_NOT_FOUND", "The named thing does not exist.",
     "A misspelt path or module, a run that was never made, a job that is not running.",
     "The error says what was looked for, and where."},
    {"ERR_EXISTS", "The named thing exists already, with different contents.",
     "A run made with another configuration; a key file that would be overwritten.",
     "Give the same configuration as before, or another name."},
    {"ERR_BUSY", "The thing is in use by another process.",
     "A second job in the same folder, a port that is taken, a home whose memory for "
     "uploads is full.",
     "Stop the other process, choose another port or folder, or wait."},
    {"ERR_FILES", "The process or the machine may not open more files.",
     "The limit of open files (ulimit -n) is too low for the connections and the files "
     "of a store.",
     "Raise the limit; the error says how many files are needed if that is known. "
     "`pathloom train` starts such a process again."},
    {"ERR_IO", "Reading or writing failed.",
     "A failing disk, a network file system that went away, a pipe whose reader ended.",
     "See the kernel's log. Everything that was acknowledged is on disk: start again."},
    {"ERR_NOSPACE", "The disk is full, or a store has reached its quota.",
     "Updates and versions of a long run, or other data on the disk.",
     "Make room, then start again. pathloom store gc --run RUN shows what can be "
     "deleted. On a full disk first delete other files: garbage collection itself "
     "needs at least 16 MiB. RUN/cache may be deleted while no process of the run "
     "works; it is made again."},
    {"ERR_NOMEM", "There is not enough memory.",
     "Too many workers on one machine, a model that is too large, a container with a "
     "low limit.",
     "Lower workers.count, workers.cache, train.batch or model.context, or set "
     "train.micro_batch."},
    {"ERR_OS", "The operating system refused something.",
     "A limit on processes, files or threads; an old kernel.",
     "The error contains the system's message; see also ulimit -a and the kernel's "
     "log."},
    {"ERR_NET", "The other process cannot be reached.",
     "It is not running, its address is wrong, or a firewall blocks the connection.",
     "pathloom doctor --hub ADDRESS checks the connection."},
    {"ERR_TIMEOUT", "The other process did not answer in time.",
     "It hangs, restarts or is overloaded, or the network is slow.",
     "See the log of that process. workers.patience_s sets how long a worker waits."},
    {"ERR_PROTO", "The other process broke the protocol.",
     "Two releases that do not understand each other, or bytes from a foreign program.",
     "Use the same release on all machines (pathloom --version)."},
    {"ERR_STALE", "The lease or version is no longer current.",
     "A worker that was stopped for longer than its lease lasts, or a hub that has "
     "restarted.",
     "None needed: another worker does the work and gets the same bytes."},
    {"ERR_NOPERM", "Permission denied.",
     "A key that is not in the list, was revoked or has expired; a role that may not "
     "do this; a key file that others can read; file permissions.",
     "pathloom key list --run RUN shows who may connect; pathloom key invite makes a "
     "new token; chmod 600 the key file."},
    {"ERR_DEVICE", "The compute device failed.",
     "A GPU that failed or has too little memory; a driver of the wrong version.",
     "pathloom doctor lists the devices. Set workers.backend=cpu to train without "
     "them."},
    {"ERR_NUMERIC", "A value is not finite.",
     "A learning rate that is too high, damaged input, failing memory.",
     "Lower train.lr or raise train.warmup. If only one machine reports this, check "
     "its memory."},
    {"ERR_PEEL", "A sum of sketches (codec sketch16 or tagc) cannot be decoded.",
     "The sum has more values than the cells of the sketch can separate, which is "
     "rare; the home then decodes each update by itself.",
     "None needed; a higher codec.cells makes this error rarer."},
    {"ERR_CANCELLED", "The command was stopped on request before it was complete.",
     "Ctrl+C, TERM, USR1 or HUP during a command other than train, such as pathloom "
     "homes. (After these signals train, join and worker end with exit code 130.)",
     "Run the same command again; it continues where it stopped."},
    {"ERR_UNSUPPORTED", "This build or machine cannot do that.",
     "A backend that is not in this build, an outer method that cannot use the codec, "
     "a library that is too old.",
     "The error says what is missing."},
    {"ERR_INTERNAL", "A bug in pathloom, or a self-test that failed.",
     "A self-test of the encryption ends a process before it accepts any connection.",
     "Report the error sentence and the log."},

    /* ---- exit codes without a status ---- */
    {"130",
     "pathloom train, join or worker was stopped by a signal. Workers have finished "
     "their tasks or given them back, and everything is saved. A second Ctrl+C stops "
     "train at once; no committed version is lost.",
     "Ctrl+C, TERM, USR1, or HUP (the terminal was closed or disconnected).",
     "Run the same command again; it continues where it stopped."},

    /* ---- events: the names in the lines of a log ---- */
    {"answer.dropped",
     "The hub did not send an answer, because it is too long for one message.",
     "There are very many homes, or their addresses are very long.", "Report it."},
    {"arm.added", "The hub learned of a new arm to train.",
     "A job began or was resumed.", ""},
    {"audit.closed",
     "An audit ended: own workers repeated a task (fleet.audit). Under `odd` and "
     "`undecided` its results were dropped, and it is trained again; `unchecked`: the "
     "job has no worker with the device.",
     "", "pathloom audit --run RUN lists all audits."},
    {"audit.differs",
     "An own worker did not make the bytes that another worker sent for the same task, "
     "so the task is repeated once more.",
     "Failing memory, a different build, a dishonest worker.",
     "None needed: the second repetition decides."},
    {"audit.unfenced",
     "A result was wrong, but its worker is not fenced, because the worker's name now "
     "belongs to a different key.",
     "One of the job's own workers made the result, and a stranger has used its name "
     "since then.",
     "Check the memory and the build of pathloom on the machine of that worker."},
    {"audit.waits",
     "An audit waits, and with it a path: the job has no worker of its own with the "
     "device of the result.",
     "The last such worker has left.",
     "Start a worker of the job with this device, or list the device in "
     "fleet.devices."},
    {"backend.remark",
     "The worker computes more slowly than it could; `remark` says why.",
     "The driver cannot capture CUDA graphs, or the cuda backend cannot be used "
     "although the machine has a GPU.",
     "None needed: training works. For the full speed, remove the cause."},
    {"backup.granted",
     "An idle worker began a backup of a task of the slow worker `slow` "
     "(fleet.backup).",
     "The machine of the slow worker is slower than others, was stopped, or has other "
     "work.",
     ""},
    {"backup.settled",
     "Two workers did the same task: `first` delivered its result, so `stopped` was "
     "told to stop.",
     "", ""},
    {"curve.none", "An arm trains without held-out curves (eval.curves).",
     "Every document of the held-out text is longer than what a path may score at "
     "once.",
     "Use shorter documents (data.cut), more steps per phase, or a larger "
     "eval.curves."},
    {"forget.left",
     "The command `pathloom forget` failed, and its unfinished copy of the store could "
     "not be removed.",
     "The disk failed, or its permissions forbid it. The run is unchanged.",
     "None needed: the next `pathloom forget` replaces the folder."},
    {"group.sent", "A relay sent the sum of several updates.", "", ""},
    {"home.away", "A home has said nothing for ten seconds.",
     "It ended, restarts, or the network is down.",
     "See the home's log. Workers wait and continue by themselves."},
    {"home.local", "Other machines can reach the hub, but not one of the homes.",
     "The home was started without --listen.",
     "Start the home with --listen tcp://0.0.0.0:PORT; otherwise workers on other "
     "machines cannot work."},
    {"home.nonsense", "A home sent something that the hub cannot read.",
     "Two releases that do not understand each other.",
     "Use the same release on all machines."},
    {"home.older", "A home has an older copy of its store, so the hub ignores it.",
     "The store was restored or copied while the job ran.",
     "Start the home with its newest copy. To go on without the lost commits, start "
     "the hub again."},
    {"home.ready", "A home listens.", "", ""},
    {"home.restarted",
     "A home has restarted; the hub tells it again which tokens and workers to refuse.",
     "", ""},
    {"home.upload", "A home could not read what a worker has written into S3.",
     "The worker did not write it, or the service failed.",
     "None needed: the worker sends the bytes to the home."},
    {"hub.ready", "The hub listens; other processes connect to `address`.", "", ""},
    {"key.enrolled", "A key was added to the list of keys by an invitation.",
     "The command pathloom join on another machine.",
     "None needed if you expected it. Otherwise: pathloom key revoke KEY."},
    {"keys.trouble",
     "The list of keys (RUN/keys/allow), or a line of it, cannot be read; `reason` "
     "says which.",
     "The file was edited by hand, or the disk failed.",
     "Correct or delete the line. While the whole list cannot be read, existing "
     "connections continue, keys cannot be revoked, and no new key is accepted."},
    {"shard.damaged",
     "A data shard in the worker's cache does not match the hash in its name and is "
     "fetched again; `reason` says what was found.",
     "The file was changed, or the disk of the cache fails.",
     "None needed. If it happens often, check the disk."},
    {"homes.moved",
     "The homes have different addresses than before, or there are more or fewer: this "
     "worker drops its tasks and connects to the new addresses.",
     "The job was continued on another machine, with another port, or with another "
     "number of homes.",
     "None needed."},
    {"lease.expired", "Leases were not renewed in time; other workers get the tasks.",
     "A worker died, was stopped, or lost its connection.",
     "None needed. If it happens often, raise workers.ttl_ms."},
    {"lease.granted", "A worker got a task.", "", ""},
    {"lease.late",
     "A worker held a lease for more than three times the usual time; another worker "
     "does the task.",
     "The worker is slow, or only pretends to work.",
     "None needed. If it is one of your machines, look what keeps it busy."},
    {"lease.overdue",
     "A worker held a lease for very long and delivered nothing; another worker gets "
     "the task.",
     "The worker hangs, is far too slow, or only pretends to work.",
     "Check that worker. This counts as a failure; after three failures in a row it "
     "gets no tasks for a while."},
    {"lease.released", "A worker gave a task back; `reason` says why.",
     "The worker ends, or the task failed there.",
     "After three failures in a row the worker gets no tasks for a minute or more. The "
     "job ends if different workers fail three times at the same task."},
    {"mate.lied",
     "A worker sent its mate a different update than it sent to its home; the mate's "
     "phase is done again.",
     "A dishonest worker, or failing memory.",
     "Check the worker of the path that `mate` names. From now on, this worker asks "
     "only homes for updates."},
    {"mate.met", "A worker got an update directly from another worker (noloco).", "",
     ""},
    {"metrics.ready", "The hub serves Prometheus metrics at `address`.", "", ""},
    {"model.made",
     "A worker prepared its model; the line says how much device memory each part of "
     "it takes.",
     "", ""},
    {"name.taken_back",
     "A worker lost its name to one of the job's own workers, or to the key to which "
     "the list of keys gives the name.",
     "A worker joined under this name before its owner did.",
     "If the worker that lost its name is yours, start it with a different --name."},
    {"pair.split",
     "Two mates did not exchange updates after a round, because one came too late "
     "(noloco).",
     "outer.deadline_s is set, and the mate's update did not arrive in time.",
     "None needed; with a longer deadline more pairs meet."},
    {"peer.away",
     "The hub or a home has not answered since the time `since`. The worker waits, and "
     "says so again after growing times.",
     "That process or its machine is down, or the network between is.",
     "None needed if it comes back. Otherwise continue the job (`pathloom train`), "
     "also on another machine, if the address has a name."},
    {"peer.back", "A hub or home that was away since `away_since` answers again.", "",
     ""},
    {"peer.gone",
     "A process asked this worker for an update and disconnected before the answer.",
     "", ""},
    {"peer.refused",
     "A connection or a message was refused; `key`, `from` and `reason` say who was "
     "refused, and why.",
     "A key that is not in the list or was revoked, a role that does not allow the "
     "message, a client without encryption, a scan of ports.",
     "If it is one of your machines: pathloom key invite, and pathloom join there. "
     "Otherwise none needed."},
    {"process.defaults",
     "A process of a run uses the defaults of all keys, because there is no run.yaml "
     "yet.",
     "It was started before the first `pathloom train`.",
     "Write the configuration first (pathloom init > RUN/run.yaml), or restart the "
     "process when the run has begun."},
    {"process.end", "A process ended normally.", "", ""},
    {"process.failed", "A process ended with the status and the sentence in this line.",
     "", "See pathloom explain STATUS."},
    {"relay.carried",
     "A relay has ended; the line says how much it has received, sent and added up.",
     "", ""},
    {"relay.ready", "A relay listens.", "", ""},
    {"serve.memory",
     "Says how much memory the server's modules, paths and decoding slots take, and "
     "how much is free.",
     "", ""},
    {"serve.keys_failed",
     "After HUP the server could not read the file of its keys. So the old keys are "
     "still valid; a key that was taken out of the file is valid, too.",
     "A line of the file is wrong, or others may write the file.",
     "Do what `error` says, then send HUP again."},
    {"serve.reload_failed",
     "The server did not change the versions that it serves; `error` says why.",
     "The run has a new arm or the tag was changed; versions were deleted; or the "
     "store cannot be read.",
     "For a new arm, start `pathloom serve` again; else do what `error` says, then "
     "send HUP again."},
    {"serve.reloaded",
     "The store was read again: new requests are answered by the newest versions.", "",
     ""},
    {"serve.request", "A request was answered.", "", ""},
    {"serve.routing",
     "Says how the path of a request for the model `auto` is chosen: by=likelihood or "
     "by=router.",
     "If there is a `reason`: router.answer asks for likelihood, but a second model of "
     "each path would take `memory`, and only `room` may be used.",
     "None needed. For routing by likelihood, free memory and restart the server."},
    {"state.dropped",
     "The optimizer state that a worker delivered for a path was dropped, because no "
     "worker could continue from it; the path continues with a fresh state.",
     "The named worker sent a false state, or its machine damages bytes.",
     "See pathloom audit; pathloom key revoke shuts out its key."},
    {"serve.step_failed",
     "A decoding step failed, and its requests were answered with an error; `error` "
     "says why.",
     "", ""},
    {"serve.usage_failed",
     "The counts of tokens at the end of a streamed answer could not be written; "
     "`error` says why.",
     "There is not enough memory.",
     "None needed: the answer itself is complete. Check the machine's memory."},
    {"state.fresh", "A path begins without moments of the optimizer.",
     "train.state is local, and another worker had the path before.", ""},
    {"state.differs",
     "A worker repeated phases of a path, and its state differs from the one that "
     "another worker reported; the path continues with the repeated state.",
     "The two workers run on different kinds of devices, which round differently; or "
     "one of them has faulty memory or a different build, or sent a false hash.",
     "None needed with different kinds of devices. Otherwise the run may differ from "
     "an undisturbed one: see pathloom audit, and check both machines."},
    {"state.repeated", "A worker has made a path's state again by repeating phases.",
     "", ""},
    {"state.repeating",
     "A worker begins to repeat phases of a path, because only the worker that had the "
     "path before has its state (train.state_every).",
     "That worker is gone, is slow, or an audit repeats one of its tasks.",
     "None needed."},
    {"state.restarted",
     "A path begins again from the newest versions, without its state.",
     "No worker could continue from the state that the path had.", "None needed."},
    {"state.unsaved",
     "A worker could not write a path's state to its cache folder; `reason` says why.",
     "The disk is full, or the folder cannot be written.",
     "Make room. Until then the phases since the last upload are repeated if the state "
     "is needed again."},
    {"store.mended",
     "The end of a store's log was cut off; no acknowledged commit was in it.",
     "A power failure or a crash of the machine in the middle of a commit.",
     "None needed. The store's file HWM proves that the lost commit was never "
     "acknowledged."},
    {"store.name",
     "A word was taken as the name of an arm or a module, although a tag has the same "
     "name.",
     "The tag was made by an earlier release; such names are refused now.",
     "NAME@NAME means the versions of the tag. Make the tag again under another name: "
     "`pathloom store tag`."},
    {"store.resumed", "A home completed its part of a rollback over several homes.",
     "`store rollback` was killed after the rollback was decided, before all homes had "
     "done their part.",
     "None needed: the other homes complete their parts, too."},
    {"store.thinned",
     "A home dropped the data of old versions that no tag and no task needs, to keep "
     "its quota.",
     "store.quota is smaller than what all versions take.",
     "None needed; a larger store.quota keeps more history."},
    {"store.tidy", "A home stopped compressing old versions in its idle time.",
     "A damaged chunk, or a disk that is full or failing.",
     "Check with pathloom store fsck --run RUN; training continues meanwhile."},
    {"task.abandoned", "A worker gave a task up; `reason` says why.",
     "A lost lease, a home that restarted, a rejected update, a device that failed; at "
     "the level info, another worker was faster.",
     "See pathloom explain for the status in the reason."},
    {"task.done", "A task is finished and its updates are on disk.", "", ""},
    {"task.dropped",
     "An audit found a result wrong, so the task is trained again; no version has it.",
     "The worker's memory, build or intent.",
     "`pathloom audit` names the worker. If it is yours, test its memory."},
    {"task.lost", "A task was given to another worker before this worker began it.",
     "The task waited for longer than its lease lasts.", "None needed."},
    {"task.returned", "A worker that was told to end gave a task back unfinished.",
     "A second TERM, or the time of --grace-s was over.",
     "None needed: another worker does the task from its beginning."},
    {"update.accepted", "A home has accepted an update, which is on disk.", "", ""},
    {"update.rejected",
     "A home has refused an update, or a relay's sum; `reason` says why.",
     "The update is not finite, is much larger than others (store.norm_gate), or does "
     "not fit its round; or the home already has some of the updates in a sum (the "
     "relay then sends each update alone).",
     "See the reason. If it is always the same worker, look at that machine; "
     "store.norm_gate=0 accepts updates of any size."},
    {"version.committed", "A module has a new version.", "", ""},
    {"update.first",
     "The home has another worker's update of this phase, and the state names that "
     "one.",
     "Two workers did the task, on different devices.", "None needed."},
    {"update.other",
     "The home has accepted another worker's update of this task; `reason` names that "
     "worker.",
     "An earlier holder of the lease sent an update but did not finish the task.",
     "None needed: the path continues from the home's versions. Audits tell whether "
     "that update was right."},
    {"update.dropped",
     "A round was merged without an update that came too late (outer.quorum).",
     "The worker is slower than the others, and outer.quorum is below 1.",
     "None needed: the path continues. outer.quorum=1 waits for all updates."},
    {"worker.direct",
     "A worker exchanges large blobs with S3 itself, or, with error=, could not do so.",
     "The service refused a request, or this machine cannot reach it.",
     "None needed: the bytes go through the home. Let workers reach the service."},
    {"worker.dismissed",
     "The hub has told this worker to end: everything is trained, or the operator has "
     "removed it.",
     "The end of the job, or pathloom drain.", ""},
    {"worker.draining", "A worker was told to end and finishes its tasks.",
     "TERM, USR1, USR2, HUP, Ctrl+C, or pathloom drain.", ""},
    {"worker.barred",
     "A worker gets no tasks for a while; `reason` is its last failure.",
     "A fault of its machine (disk, memory, device), or three tasks in a row that "
     "failed.",
     "Repair that machine. The worker gets tasks again after some time, which grows "
     "with each such event."},
    {"worker.withheld",
     "A worker gets no task for now, because the others finish all ready tasks "
     "earlier; `reason` has both times.",
     "Its processor or its link is slower than theirs, and transfers count.",
     "None needed: it gets tasks that it will finish in time, and is tried again "
     "later. It helps in jobs with longer phases (train.tau) or more paths than "
     "workers."},
    {"worker.fenced",
     "Nothing more is accepted from a worker, because its result differed from two "
     "equal ones of the same kind of device. The result is in no version.",
     "Failing memory, a different build, a dishonest worker.",
     "With fleet.audit below 1 tasks of it that were not drawn may be wrong: pathloom "
     "audit NAME --run RUN lists the versions, and how to go back to before them. Its "
     "machine may join again with another name and key."},
    {"worker.forgotten",
     "The hub forgot the name of a worker that has gone, to make room for a new "
     "worker.",
     "The new worker's key already had 64 workers, or the hub already had 16,384.",
     "None needed."},
    {"worker.joined", "A worker connected to the hub.", "", ""},
    {"worker.left", "A worker has ended and asks for no more tasks.",
     "TERM, USR1, HUP, or Ctrl+C.", ""},
    {"worker.ready", "A worker knows its homes and asks for tasks.", "", ""},
    {"worker.settings",
     "Lists the settings with which a worker computes: from its options, else from the "
     "run's configuration.",
     "`run` is empty if no run.yaml was read; then settings without an option have "
     "their defaults.",
     ""},
};

const size_t pl_n_explanations = sizeof pl_explanations / sizeof *pl_explanations;
