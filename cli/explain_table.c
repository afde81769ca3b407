/* Says what each status and each event means. Scripts match these names, so they do not
 * change. tests/job/explain.sh checks that everything the program reports is in this
 * table.
 */
#include "cli/cli.h"
#include "cli/explain.h"

const explanation explanations[] = {
    /* ---- statuses: how a command ends, and what is answered to a question ---- */
    {"OK", "It was done.", "", ""},
    {"ERR_ARG", "A part of the program called another one wrongly.",
     "A bug; seldom a value that an option let through.",
     "Report the command and the sentence."},
    {"ERR_USAGE", "The command line is wrong.",
     "A misspelt verb or option, a missing value, a word too many.",
     "The sentence names the word and the nearest known one; pathloom VERB --help "
     "lists "
     "all."},
    {"ERR_CONFIG", "The configuration does not add up.",
     "An unknown key, a value out of its range, two keys that contradict each other, "
     "an "
     "address that other machines reach without a key.",
     "Change the key that the sentence names; pathloom init lists all with defaults."},
    {"ERR_DATA", "Input data are unusable.",
     "A corpus that is no text, a file of another format, a number that is none.",
     "Look at the named file and line."},
    {"ERR_DAMAGED", "Stored or sent bytes are not what their checksum says.",
     "A failing disk or memory, a file cut off or changed by hand.",
     "pathloom store fsck --run RUN names all that is damaged; restore it from a "
     "backup "
     "or from another home. Check disk and memory."},
    {"ERR_NOT_FOUND", "The named thing does not exist.",
     "A misspelt path or module, a run that was never made, a job that does not run.",
     "The sentence says what was looked for, and where."},
    {"ERR_EXISTS", "The named thing exists already, and otherwise.",
     "A run made with another configuration; a key file that would be overwritten.",
     "Give the same configuration as before, or another name."},
    {"ERR_BUSY", "The thing is in use by another process.",
     "A second job in the same folder, a port that is taken, a home whose memory for "
     "uploads is full.",
     "Stop the other one, choose another port or folder, or wait."},
    {"ERR_IO", "Reading or writing failed.",
     "A failing disk, a network file system that went away, a pipe whose reader ended.",
     "See the kernel's log. Everything that was acknowledged is on disk: start again."},
    {"ERR_NOSPACE", "The disk is full.",
     "Updates and versions of a long run, other users of the disk.",
     "Make room (pathloom store gc --run RUN shows what may go), then start again."},
    {"ERR_NOMEM", "Memory does not suffice.",
     "Too many workers on one machine, a model too large for it, a small container.",
     "Fewer workers, a smaller workers.cache, batch or context."},
    {"ERR_OS", "The operating system refused something.",
     "A limit on processes, files or threads; an old kernel.",
     "The sentence has the system's own words; see ulimit -a and the kernel's log."},
    {"ERR_NET", "The peer cannot be reached.",
     "It is not running, the address is wrong, a firewall is between.",
     "pathloom doctor --hub ADDRESS tries the way there."},
    {"ERR_TIMEOUT", "No answer in time.",
     "The peer hangs, restarts or is overloaded; a slow link.",
     "See the log of the peer. workers.patience_s says how long is waited."},
    {"ERR_PROTO", "The peer broke the protocol.",
     "Two releases that do not understand each other; bytes from somebody else.",
     "The same release on all machines: pathloom --version."},
    {"ERR_STALE", "The lease or version is no longer current.",
     "A worker that stood still for longer than the lease, a hub that has restarted.",
     "None needed: the work goes on elsewhere and gives the same bytes."},
    {"ERR_NOPERM", "Permission denied.",
     "A key that is not in the list, was revoked or has expired; a role that may not "
     "do "
     "this; a key file that others can read; file permissions.",
     "pathloom key list --run RUN shows who may connect; pathloom key invite makes a "
     "new "
     "token; chmod 600 the key file."},
    {"ERR_DEVICE", "The compute device failed.",
     "A GPU that fell off the bus or has too little memory; a driver that does not "
     "fit.",
     "pathloom doctor names the devices; workers.backend=cpu goes without."},
    {"ERR_NUMERIC", "A value is not finite.",
     "A learning rate that is too high, damaged input, failing memory.",
     "Lower train.lr or raise train.warmup; if one machine alone says so, check its "
     "memory."},
    {"ERR_PEEL", "A sum of sketches (codec sketch16 or tagc) cannot be decoded.",
     "More values than the cells of the sketch can tell apart, which is rare; the home "
     "then decodes each update by itself.",
     "None needed; a higher codec.cells makes it rarer."},
    {"ERR_CANCELLED", "Stopped on request, half-way.",
     "Ctrl+C, TERM, USR1 or HUP while a command other than train worked, such as "
     "pathloom homes. What train was told so ends with 130.",
     "The same command goes on from there."},
    {"ERR_UNSUPPORTED", "This build or machine cannot do that.",
     "A backend that was not built, a method that does not go with a codec, a library "
     "that is too old.",
     "The sentence says what is missing."},
    {"ERR_INTERNAL", "A bug in pathloom, or a self-test that failed.",
     "The encryption's self-test ends a process before it serves anybody.",
     "Report the sentence and the log."},

    /* ---- exit codes that belong to no status ---- */
    {"130",
     "pathloom train was stopped by a signal: it has drained and saved. Two Ctrl+C "
     "stop it at once, without losing a committed version.",
     "Ctrl+C, TERM, USR1, or HUP (a connection that dropped).",
     "The same command goes on from there."},

    /* ---- events: the name in a line of a log ---- */
    {"answer.dropped", "The hub had an answer that is too long for one message.",
     "Very many homes, or names that are very long.", "Report it."},
    {"arm.added", "The hub learnt of something to train.", "A job began or went on.",
     ""},
    {"audit.closed", "What came of a task that was done twice (fleet.audit).", "",
     "pathloom audit --run RUN lists them all."},
    {"audit.differs",
     "Two workers made different results of one task; a third is asked.",
     "Failing memory, another build, a worker that lies.",
     "A third worker decides. `distance` below 0: other bytes on the same kind of "
     "device; above: across kinds, more than fleet.audit_tolerance."},
    {"backend.remark", "The backend works otherwise than it should; `remark` says why.",
     "A driver that cannot capture CUDA graphs, for example.",
     "None needed: the bytes are the same, the speed is not."},
    {"backup.granted",
     "An idle worker began a task that another (`slow`) is slow at (fleet.backup).",
     "A machine that is slower than the others, was stopped, or has other work.", ""},
    {"backup.settled",
     "One of two workers at a task delivered it (`first`), the other was told to stop.",
     "", ""},
    {"group.sent", "A relay sent the sum of several updates.", "", ""},
    {"home.added", "A home more takes part.", "pathloom homes add.", ""},
    {"home.away", "A home has said nothing for ten seconds.",
     "It ended, restarts, or the link is down.",
     "See its log. Workers wait and go on by themselves."},
    {"home.local", "The hub listens for other machines, a home does not.",
     "The home was started without --listen.",
     "Start it with --listen tcp://0.0.0.0:PORT, or workers elsewhere cannot work."},
    {"home.nonsense", "A home sent something that the hub cannot read.",
     "Two releases that do not understand each other.",
     "The same release on all machines."},
    {"home.ready", "A home listens.", "", ""},
    {"home.restarted", "A home came back; the hub repeats its fences.", "", ""},
    {"hub.ready", "The hub listens; `address` is what others are told.", "", ""},
    {"key.enrolled", "A key was put into the list by an invitation.",
     "pathloom join on another machine.",
     "Nothing, if it was you. Else: pathloom key revoke KEY."},
    {"keys.trouble",
     "The list of keys (RUN/keys/allow) has a line that cannot be read, or cannot be "
     "read "
     "at all; `reason` says which.",
     "Somebody edited the file, or the disk failed.",
     "Correct or delete the line. While the whole list cannot be read, connections "
     "that "
     "exist go on, revoking has no effect, and no new key is let in."},
    {"shard.damaged",
     "A data shard in the worker's cache is not what its name says, and is fetched "
     "again; `reason` says what was found.",
     "Somebody wrote into the cache, or its disk fails.",
     "None needed. If it happens often, look at the disk."},
    {"job.finished", "The hub says that all is trained, and this worker ends.", "", ""},
    {"lease.expired", "Leases were not renewed in time; others get the tasks.",
     "A worker died, was stopped, or its link is down.",
     "None needed. If it happens often, raise workers.ttl_ms."},
    {"lease.granted", "A worker got a task.", "", ""},
    {"lease.overdue",
     "A worker held a lease for very long and delivered nothing; others get the task.",
     "It hangs, is far too slow, or only pretends to work.",
     "Look at that worker. It counts as a failure, and three in a row bar it."},
    {"lease.released", "A worker gave a task back; `reason` says why.",
     "It goes, or the task failed there.",
     "Three failures in a row bar the worker for a minute or more. The job ends when "
     "different workers fail three times at one task."},
    {"mate.lied",
     "A worker gave its mate another update than its home; the phase is done again.",
     "A worker that lies, or whose memory fails.",
     "Look at the worker of the path that `mate` names. This worker asks homes only "
     "from now on."},
    {"mate.met", "A worker got an update from another one directly (noloco).", "", ""},
    {"metrics.ready", "The hub answers Prometheus.", "", ""},
    {"model.made", "A worker made its model; what it took of the device's memory.", "",
     ""},
    {"name.given", "A home gave a module, path or object to another one.",
     "pathloom homes.", ""},
    {"name.taken", "A home owns a module, path or object from now on.",
     "pathloom homes.", ""},
    {"pair.split", "Two paths did not meet after a round: one came too late (noloco).",
     "A deadline was set, and the mate's update was not there by then.",
     "None needed; a longer deadline lets more pairs meet."},
    {"peer.gone", "Somebody who asked a worker went away before the answer.", "", ""},
    {"peer.refused",
     "A connection or a message was refused; `key`, `from` and `reason` "
     "say whose and why.",
     "A key that is not in the list or was revoked, a role that may not, a client "
     "without encryption, somebody who scans ports.",
     "If it is a machine of yours: pathloom key invite, and join there. Else nothing: "
     "it "
     "was refused."},
    {"process.defaults",
     "A process of a run goes by the defaults of all keys, because there is no "
     "run.yaml "
     "yet.",
     "it was started before the first `pathloom train`",
     "write the configuration first (pathloom init > RUN/run.yaml), or start the "
     "process "
     "again when the run has begun."},
    {"process.end", "A process ended as it should.", "", ""},
    {"process.failed", "A process ended with the status and the sentence in this line.",
     "See pathloom explain STATUS.", ""},
    {"relay.carried", "What a relay did until it ended.", "", ""},
    {"relay.ready", "A relay listens.", "", ""},
    {"serve.reload_failed", "The store could not be read again; `error` says why.",
     "The server goes on with the versions that it has.", "Mend the store; send HUP."},
    {"serve.reloaded", "New requests are answered by the newest versions.", "", ""},
    {"serve.routing",
     "Says what picks the path of a request for model auto: by=likelihood or "
     "by=router.",
     "With a `reason` the run's router.answer asks for likelihood, but a second model "
     "of each path would take `memory` and only `room` may be used.",
     "None is needed. For routing by likelihood free memory and start the server "
     "again."},
    {"state.dropped",
     "The optimizer state that a worker left for a path was thrown away, because "
     "nobody "
     "could go on from it; the path begins with an empty one.",
     "the worker that is named sent a false state, or its machine damages bytes",
     "pathloom audit, and `pathloom key revoke` for its key."},
    {"serve.step_failed", "A step of decoding failed; `error` says why.",
     "The requests of that path were answered with an error.", ""},
    {"state.fresh", "A path begins without moments of the optimizer.",
     "train.state local, and another worker had the path before.", ""},
    {"store.mended",
     "The end of a store's log was cut off; no acknowledged commit was in it.",
     "The power went, or the machine crashed, in the middle of a commit.",
     "None needed. The mark HWM proves that nobody was told of what is gone."},
    {"store.name", "A word was taken for an arm or a module, though a tag has it too.",
     "A tag of an earlier release; such names are refused now.",
     "NAME@NAME is what the tag names. Make it under another name: `pathloom store "
     "tag`."},
    {"store.resumed", "A home made its share of a rollback over several homes.",
     "`store rollback` was killed after it was decided, before all homes had made it.",
     "None needed: the other homes do the same."},
    {"store.tidy", "A home stopped recoding old versions in its idle time.",
     "A damaged chunk, or a disk that is full or failing.",
     "pathloom store fsck --run RUN; training goes on meanwhile."},
    {"task.abandoned", "A worker gave a task up; `reason` says why.",
     "A lost lease, a home that restarted, a rejected update, a device that failed.",
     "See pathloom explain of the status in the reason."},
    {"task.done", "A task is finished and its updates are on disk.", "", ""},
    {"task.lost", "A task was given to another worker before it began.",
     "It waited for longer than the lease.", "None needed."},
    {"task.returned", "A worker that goes gave a task back unfinished.",
     "A second TERM, or --grace-s ran out.", "None needed: others begin it anew."},
    {"update.accepted", "A home took an update; it is on disk.", "", ""},
    {"version.committed", "A module has a new version.", "", ""},
    {"update.other",
     "The home counts another worker's update of this task; `reason` names it.",
     "An earlier holder of the lease sent it and did not end the task.",
     "None needed: the path goes on from the home's versions. Whether that update was "
     "right, audits tell."},
    {"update.dropped",
     "A round was merged without an update that came too late (outer.quorum).",
     "The worker is slower than the others, and outer.quorum is below 1.",
     "None needed: the path goes on. outer.late_weight keeps such updates for the next "
     "round; outer.quorum=1 waits for all."},
    {"worker.draining", "A worker was told to go and finishes its tasks.",
     "TERM, USR1, HUP, or Ctrl+C.", ""},
    {"worker.barred",
     "A worker gets no tasks for a while; `reason` is its last failure.",
     "It failed three tasks in a row.",
     "Mend that machine. It is asked again when the time is over, each time later."},
    {"worker.fenced",
     "Nothing is taken from a worker any more: it made another result than two others.",
     "Failing memory, another build, a worker that lies.",
     "pathloom audit NAME --run RUN lists the versions that it contributed to, "
     "and how to go back before them. Its machine joins with another name and key."},
    {"worker.forgotten", "The name of a worker that has gone makes room for a new one.",
     "Its key has 64 workers, or the hub has 16,384.", "None needed."},
    {"worker.joined", "A worker said hello to the hub.", "", ""},
    {"worker.left", "A worker took its open question back and goes.",
     "TERM, USR1, HUP, or Ctrl+C.", ""},
    {"worker.ready", "A worker knows its homes and asks for tasks.", "", ""},
    {"worker.settings",
     "What a worker computes with: its options, else its run's configuration.",
     "run is empty where no run.yaml was read: then what no option says is the "
     "default.",
     ""},
};

const size_t n_explanations = sizeof explanations / sizeof *explanations;
