"""Plays the life of a run in Kubernetes, as the manifests of deploy/kubernetes describe it.

usage: pods.py PATHLOOM WORKFOLDER      (tests/fault/pods.sh gives it namespaces of its own)

Commands, environment, volumes, users, probes and what to do after a pod has ended are read
from the manifests. Each pod has an address, a host name, a process tree and a read-only root
of its own. Names of services are in /etc/hosts, as the cluster's name service would know
them. Times of probes are a thirtieth of those in the manifests.

Workers and head are started in the wrong order; a worker and a home are killed, a worker is
stopped until its probe fails, a worker and the head are evicted. Until the workers have
joined the new head their steps are slow, so that the run does not end too early; then faster
workers replace them. The run must end, all jobs with it, each with exit code 0, and nothing
may be left running. The modules must be those of an undisturbed run. Then the run is served.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from shlex import quote

import yaml

FASTER = 30
SLOW = "worker.step.before@worker:sleep:800"
MANIFESTS = "deploy/kubernetes"
CONFIG = {
    "data": {"vocab": 512, "valid_share": 0.1},
    "model": {"width": 48, "heads": 2, "blocks": 2, "context": 64},
    "train": {"batch": 4, "tau": 5, "phases": 10, "base_steps": 2},
    "router": {"prefix": 16},
    "eval": {"baselines": "none", "max_tokens": 500, "sample_tokens": 0},
}
BEGUN = time.monotonic()
IS_ROOT = open("/proc/self/uid_map", encoding="ascii").read().split()[2] != "1"


def say(text):
    print(f"{time.monotonic() - BEGUN:5.1f} s  {text}", flush=True)


def command(*words):
    subprocess.run(words, check=True)


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


class Pod:
    """One pod with one container. `condition` is set when the cluster disturbs it."""

    def __init__(self, cluster, name, template):
        self.cluster, self.name = cluster, name
        self.labels, self.spec = template["metadata"]["labels"], template["spec"]
        (self.container,) = self.spec["containers"]
        self.folder = f"{cluster.work}/pods/{name}"
        self.process = self.code = self.condition = self.deadline = None
        self.ready, self.failed_probes, self.next_probe = False, {}, {}

    def environment(self):
        found = {"PATH": "/image:/usr/bin:/bin", "HOSTNAME": self.name,
                 "PATHLOOM_FAILPOINT": self.cluster.failpoint}
        # the undisturbed run has the same instructions, and so the same bytes
        found.update({k: v for k, v in os.environ.items() if k == "PATHLOOM_CPU"})
        for entry in self.container.get("env", []):
            source = entry.get("valueFrom", {})
            if "secretKeyRef" in source:
                at = source["secretKeyRef"]
                found[entry["name"]] = self.cluster.secrets[at["name"]][at["key"]]
            elif source:
                assert source == {"fieldRef": {"fieldPath": "metadata.name"}}
                found[entry["name"]] = self.name
            else:
                found[entry["name"]] = entry["value"]
        return found

    def fill_volume(self, volume):
        """Makes the folder of a volume, with the owner and the modes that Kubernetes gives."""
        folder, group = f"{self.folder}/{volume['name']}", self.spec["securityContext"]["fsGroup"]
        mode, files = 0o444, {}
        if "persistentVolumeClaim" in volume:
            folder = f"{self.cluster.work}/claims/{volume['persistentVolumeClaim']['claimName']}"
        elif "secret" in volume:
            files = self.cluster.secrets[volume["secret"]["secretName"]]
            mode = volume["secret"]["defaultMode"] if IS_ROOT else 0o400
        elif "configMap" in volume:
            files = self.cluster.configs[volume["configMap"]["name"]]
        os.makedirs(folder, exist_ok=True)
        if IS_ROOT:
            os.chown(folder, 0, group)
            os.chmod(folder, 0o2775)
        for name, text in files.items():
            with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(f"{folder}/{name}", mode)
            if IS_ROOT:
                os.chown(f"{folder}/{name}", 0, group)
        return folder

    def entering(self):
        """The command that takes a process to the user of the container."""
        if not IS_ROOT:
            return ["setpriv", "--no-new-privs"]
        who = self.spec["securityContext"]
        assert who["runAsNonRoot"] and who["runAsUser"] != 0
        return ["setpriv", f"--reuid={who['runAsUser']}", f"--regid={who['runAsGroup']}",
                f"--groups={who['fsGroup']}", "--no-new-privs", "--bounding-set=-all"]

    def start(self):
        """Starts the container. Returns False while a Secret is missing."""
        try:
            environment = self.environment()
            volumes = {v["name"]: self.fill_volume(v) for v in self.spec["volumes"]}
        except KeyError:
            return False
        os.makedirs(f"{self.folder}/tree")
        root, work = quote(f"{self.folder}/tree"), quote(self.cluster.work)
        lines = ["set -e", "read -r go", "ip link set lo up", f"hostname {self.name}",
                 f"mount -t tmpfs pod {root}", f"mkdir {root}/proc {root}/image"]
        for name in ("bin", "sbin", "lib", "lib32", "lib64", "usr", "etc", "dev"):
            if os.path.islink(f"/{name}"):
                lines.append(f"cp -P /{name} {root}/{name}")
            elif os.path.isdir(f"/{name}"):
                lines.append(f"mkdir {root}/{name}; mount --rbind /{name} {root}/{name}")
        lines += [f"touch {root}/image/pathloom",
                  f"mount --bind {quote(self.cluster.pathloom)} {root}/image/pathloom",
                  f"mount --bind {work}/hosts {root}/etc/hosts",
                  f"mount --bind {work}/nsswitch.conf {root}/etc/nsswitch.conf"]
        for mount in self.container["volumeMounts"]:
            at = root + mount["mountPath"]
            lines += [f"mkdir -p {at}", f"mount --bind {quote(volumes[mount['name']])} {at}"]
            if mount.get("readOnly"):
                lines.append(f"mount -o remount,bind,ro {at}")
        assert self.container["securityContext"]["readOnlyRootFilesystem"]
        lines += [f"mount -t proc proc {root}/proc", f"mount -o remount,bind,ro {root}",
                  f'exec chroot {root} "$@" </dev/null']
        words = ["pathloom"] + self.container["args"]
        for name, value in environment.items():
            words = [word.replace(f"$({name})", value) for word in words]
        with open(f"{self.folder}/log", "wb") as log:
            self.process = subprocess.Popen(
                ["unshare", "--net", "--mount", "--uts", "--pid",
                 "sh", "-c", 'exec 3<&0; sh -c "$@" <&3 3<&- & wait $!', "sh",
                 "\n".join(lines), "sh"] + self.entering() +
                ["env", "-i"] + [f"{k}={v}" for k, v in environment.items()] + words,
                stdin=subprocess.PIPE, stdout=log, stderr=log)
        self.address = self.cluster.join_network(self.process.pid)
        self.init = children(self.process.pid)[0]
        self.cluster.tell_names()
        self.process.stdin.write(b"\n")
        self.process.stdin.close()
        return True

    def run(self, *words):
        """Runs a command in the container; returns its exit code and its output."""
        done = subprocess.run(
            ["nsenter", "-t", str(self.init), "-m", "-n", "-u", "-p", "-r"] + self.entering() +
            ["env", "-i"] + [f"{k}={v}" for k, v in self.environment().items()] + list(words),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return done.returncode, done.stdout

    def probe_succeeds(self, probe):
        if "exec" in probe:
            return self.run(*probe["exec"]["command"])[0] == 0
        (port,) = [p["containerPort"] for p in self.container["ports"]
                   if p["name"] == probe["httpGet"]["port"]]
        try:
            url = f"http://{self.address}:{port}{probe['httpGet']['path']}"
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def run_probes(self):
        """Runs the probes that are due. The first one only delays the others here, however
        slow this machine is. Not alive ends the container."""
        for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
            probe = self.container.get(kind)
            has_started = kind == "startupProbe" and self.failed_probes.get(kind) == 0
            if not probe or has_started:
                continue
            if time.monotonic() < self.next_probe.get(kind, 0):
                if kind == "startupProbe":
                    return
                continue
            good = self.probe_succeeds(probe)
            self.next_probe[kind] = time.monotonic() + probe["periodSeconds"] / FASTER
            self.failed_probes[kind] = 0 if good else self.failed_probes.get(kind, 0) + 1
            if kind == "startupProbe" and not good:
                return
            if kind == "readinessProbe":
                self.ready = good
            elif self.failed_probes[kind] == probe.get("failureThreshold", 3):
                say(f"{self.name}: not alive")
                self.end()

    def signal(self, number):
        os.kill(self.init, number)

    def end(self, condition=None):
        """TERM, and KILL when the grace period is over."""
        self.condition = condition
        self.deadline = time.monotonic() + self.spec["terminationGracePeriodSeconds"]
        self.signal(signal.SIGTERM)
        if self.failed_probes.get("livenessProbe"):  # it is stopped and cannot hear TERM
            self.deadline = time.monotonic() + 1

    def tend(self):
        if self.process is None:
            self.start()
            return
        self.code = self.process.poll()
        if self.code is not None:
            say(f"{self.name}: exit code {self.code}")
            self.cluster.tell_names()
        elif self.deadline is None:
            self.run_probes()
        elif time.monotonic() > self.deadline:
            self.signal(signal.SIGKILL)


class Job:
    """The Job controller for pods that are never restarted in place."""

    def __init__(self, cluster, document):
        self.cluster, self.spec = cluster, document["spec"]
        self.name = document["metadata"]["name"]
        assert self.spec["template"]["spec"]["restartPolicy"] == "Never"
        self.pods, self.n_made, self.codes, self.n_failed, self.state = [], 0, [], 0, None

    def action(self, pod):
        """What podFailurePolicy says about a pod that has failed."""
        for rule in self.spec["podFailurePolicy"]["rules"]:
            if any(c["type"] == pod.condition for c in rule.get("onPodConditions", [])):
                return rule["action"]
            if pod.code in rule.get("onExitCodes", {}).get("values", []):
                return rule["action"]
        return "Count"

    def tend(self):
        for pod in self.pods:
            pod.tend()
        for pod in [p for p in self.pods if p.code is not None]:
            self.pods.remove(pod)
            self.codes.append(pod.code)
            if pod.code == 0:
                continue
            action = self.action(pod)
            self.n_failed += action == "Count"
            if action == "FailJob" or self.n_failed > self.spec["backoffLimit"]:
                self.state = "Failed"
        # After the first success no pod is replaced, and the job is complete when the rest
        # has ended.
        wanted = 0 if 0 in self.codes or self.state else self.spec.get("parallelism", 1)
        while len(self.pods) < wanted:
            self.n_made += 1
            self.pods.append(Pod(self.cluster, f"{self.name}-{self.n_made}", self.spec["template"]))
        if 0 in self.codes and not self.pods and not self.state:
            self.state = "Complete"
        assert self.state != "Failed", f"the job {self.name} has failed: exit codes {self.codes}"


class Deployment:
    """Starts one pod, again and again."""

    def __init__(self, cluster, document):
        self.cluster, self.spec = cluster, document["spec"]
        self.name, self.pods, self.n_made = document["metadata"]["name"], [], 0

    def tend(self):
        for pod in self.pods:
            pod.tend()
        self.pods = [p for p in self.pods if p.code is None]
        while len(self.pods) < self.spec["replicas"]:
            self.n_made += 1
            self.pods.append(Pod(self.cluster, f"{self.name}-{self.n_made}", self.spec["template"]))


class Cluster:
    """Everything that was applied, one network, and a name service of one file."""

    def __init__(self, pathloom, work):
        self.pathloom, self.work = os.path.abspath(pathloom), work
        self.secrets, self.configs, self.services = {}, {}, {}
        self.controllers, self.n_addresses, self.failpoint = {}, 1, SLOW
        with open(f"{work}/nsswitch.conf", "w", encoding="ascii") as file:
            file.write("hosts: files\n")
        self.tell_names()
        command("ip", "link", "set", "lo", "up")
        command("ip", "link", "add", "pods", "type", "bridge")
        command("ip", "addr", "add", "10.78.0.1/16", "dev", "pods")
        command("ip", "link", "set", "pods", "up")

    def apply(self, file):
        with open(f"{MANIFESTS}/{file}", encoding="utf-8") as text:
            for document in yaml.safe_load_all(text):
                name = document["metadata"]["name"]
                if document["kind"] == "Job":
                    self.controllers[name] = Job(self, document)
                elif document["kind"] == "Deployment":
                    self.controllers[name] = Deployment(self, document)
                elif document["kind"] == "Service":
                    self.services[name] = document["spec"]

    def pods(self):
        return [p for c in self.controllers.values() for p in c.pods
                if p.process is not None and p.code is None]

    def of_service(self, name):
        """The pods of a service, ready or not (publishNotReadyAddresses)."""
        service = self.services[name]
        return [p for p in self.pods() if service["selector"].items() <= p.labels.items() and
                (p.ready or service.get("publishNotReadyAddresses"))]

    def tell_names(self):
        lines = ["127.0.0.1 localhost"]
        lines += [f"{p.address} {name}" for name in self.services for p in self.of_service(name)]
        with open(f"{self.work}/hosts", "w", encoding="ascii") as file:
            file.write("\n".join(lines) + "\n")

    def join_network(self, pid):
        """Gives the network of a process an address on the bridge."""
        own = os.readlink("/proc/self/ns/net")
        until("a pod has its namespaces", lambda: os.readlink(f"/proc/{pid}/ns/net") != own and
              children(pid))
        self.n_addresses += 1
        address = f"10.78.{self.n_addresses // 250}.{self.n_addresses % 250}"
        near = f"pod{self.n_addresses}"
        inside = ["nsenter", "-t", str(pid), "-n", "ip"]
        command("ip", "link", "add", near, "type", "veth", "peer", "name", "eth0",
                "netns", str(pid))
        command("ip", "link", "set", near, "master", "pods", "up")
        command(*inside, "addr", "add", f"{address}/16", "dev", "eth0")
        command(*inside, "link", "set", "eth0", "up")
        return address

    def tend(self):
        for controller in self.controllers.values():
            controller.tend()


def until(what, is_so, cluster=None, seconds=240):
    """Lets the cluster live until something is so. Returns it."""
    end = time.monotonic() + seconds
    while True:
        if cluster:
            cluster.tend()
        found = is_so()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.05)


def check_manifests():
    """What no schema says: selectors find one template each, and the GPU's workers differ
    from the others only in image, resources, tolerations and backend."""
    documents = []
    for file in sorted(os.listdir(MANIFESTS)):
        with open(f"{MANIFESTS}/{file}", encoding="utf-8") as text:
            documents += list(yaml.safe_load_all(text))
    templates = [d["spec"]["template"]["metadata"]["labels"] for d in documents
                 if "template" in d["spec"]]
    for d in documents:
        selector = d["spec"].get("selector")
        selector = selector.get("matchLabels", selector) if selector else None
        n = sum(selector.items() <= labels.items() for labels in templates) if selector else 1
        assert n == 1, f"{d['kind']} {d['metadata']['name']} selects {n} templates"
    specs = {d["metadata"]["name"]: d["spec"]["template"]["spec"] for d in documents
             if d["kind"] == "Job"}
    (gpu,), (cpu,) = (specs[n]["containers"] for n in ("pathloom-gpu-workers", "pathloom-workers"))
    assert specs["pathloom-gpu-workers"].pop("tolerations")[0]["key"] in gpu["resources"]["limits"]
    assert gpu["resources"]["limits"]["nvidia.com/gpu"] == "1"
    gpu["args"] = [{"--backend": "--threads", "cuda": "4"}.get(w, w) for w in gpu["args"]]
    gpu.update(image=cpu["image"], resources=cpu["resources"])
    assert specs["pathloom-gpu-workers"] == specs["pathloom-workers"]


def process_of(pod, role):
    """The process of a role in a pod, as this namespace knows it."""
    for pid in children(pod.init):
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            if file.read().split(b"\0")[1:2] == [role.encode()]:
                return pid
    return None


def modules(cluster, run):
    """Name, version and hash of each module of a run."""
    lines = subprocess.run([cluster.pathloom, "store", "ls", "--run", run, "--json"], check=True,
                           stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return sorted((m["module"], m["version"], m["hash"]) for m in map(json.loads, lines))


def train_undisturbed(cluster):
    with open(f"{cluster.work}/run.yaml", "w", encoding="ascii") as file:
        yaml.safe_dump(CONFIG, file)
    with open(f"{cluster.work}/calm.log", "w", encoding="ascii") as log:
        return subprocess.Popen(
            [cluster.pathloom, "train", f"{cluster.work}/run.yaml", "--corpus",
             f"{cluster.work}/claims/pathloom-corpus", "--out", f"{cluster.work}/calm",
             "--workers", "2", "--set", "workers.threads=4"], stdout=log, stderr=log)


def play(cluster):
    work = cluster.work
    undisturbed = train_undisturbed(cluster)
    hub_log = f"{work}/claims/pathloom-run/run/log/hub.log"
    cluster.configs["pathloom-config"] = {"run.yaml": yaml.safe_dump(CONFIG)}
    cluster.apply("workers.yaml")
    cluster.tend()
    cluster.apply("job.yaml")
    head_job, workers = (cluster.controllers[n] for n in ("pathloom", "pathloom-workers"))

    def told(words):
        with open(hub_log, encoding="utf-8") as file:
            return file.read().count(words)

    def leases(name):
        return told(f"worker={name} token=")

    def replaced(pod, what):
        """Waits until the job has a new pod for this one, which gets a task."""
        until(f"{what}: the pod ends", lambda: pod.code is not None, cluster)
        number = workers.n_made
        until(f"{what}: its replacement gets a task", lambda: workers.pods and
              leases(f"pathloom-workers-{number}"), cluster)

    until("the head is ready", lambda: head_job.pods[0].ready, cluster)
    head = head_job.pods[0]
    assert not workers.pods[0].process, "a worker runs without its Secret"
    # the command of docs/KUBERNETES.md
    cluster.secrets["pathloom-worker"] = {
        name: head.run("cat", f"/run-data/run/{file}")[1].rstrip("\n")
        for name, file in (("hub", "proc/hub.address"), ("worker.key", "keys/worker.key"))}
    until("all workers get tasks",
          lambda: all(p.process and leases(p.name) for p in workers.pods), cluster)
    stopped, killed, evicted = workers.pods[:3]
    say("the workers wait for their Secret, then all get tasks")

    stopped.signal(signal.SIGSTOP)
    killed.signal(signal.SIGKILL)
    replaced(killed, "a killed worker")
    assert killed.code == 137 and workers.n_failed == 1
    home = process_of(head, "home")
    os.kill(home, signal.SIGKILL)
    until("a new home", lambda: process_of(head, "home") not in (None, home), cluster)
    evicted.end("DisruptionTarget")
    replaced(evicted, "an evicted worker")
    assert evicted.code == 130 and workers.n_failed == 1 and not workers.state
    replaced(stopped, "a stopped worker")
    assert stopped.code == 137 and workers.n_failed == 2
    say("killed, stopped and evicted workers are replaced")

    joined = {p: told(f"worker.joined worker={p.name} ") for p in workers.pods}
    head.end("DisruptionTarget")
    until("the head has moved", lambda: head_job.pods and head_job.pods[0] is not head and
          head_job.pods[0].ready, cluster)
    assert head.code == 130 and head_job.n_failed == 0
    until("the workers join the new head", lambda: all(
        told(f"worker.joined worker={p.name} ") > n for p, n in joined.items()), cluster)
    say("the head continues at another address, and the workers with it")
    cluster.failpoint = ""
    for pod in joined:
        pod.end("DisruptionTarget")
    until("the run ends", lambda: head_job.state and workers.state, cluster)
    assert head_job.state == workers.state == "Complete"
    assert head_job.codes == [130, 0] and workers.codes.count(0) == workers.spec["parallelism"]
    assert not cluster.pods() and workers.n_failed == 2
    assert undisturbed.wait() == 0, "the undisturbed run"
    left = [pid for pid in os.listdir("/proc") if pid.isdigit() and int(pid) != os.getpid()]
    assert not left, f"processes are left: {left}"
    say("both jobs are complete, and nothing runs")
    made = modules(cluster, f"{work}/claims/pathloom-run/run")
    assert len(made) > 8 and made == modules(cluster, f"{work}/calm"), "other modules"
    say(f"{len(made)} modules, the same as of an undisturbed run")


def serve(cluster):
    """The run is served to a client with a key, and to nobody else."""
    made = subprocess.run([cluster.pathloom, "key", "api", "alice", "--keys",
                           f"{cluster.work}/api"], stdout=subprocess.PIPE, text=True, check=True)
    with open(f"{cluster.work}/api", encoding="ascii") as file:
        cluster.secrets["pathloom-api"] = {"api": file.read()}
    cluster.apply("serve.yaml")
    (pod,) = until("the server is ready", lambda: cluster.of_service("pathloom-serve"), cluster)
    port = cluster.services["pathloom-serve"]["ports"][0]["targetPort"]
    (port,) = [p["containerPort"] for p in pod.container["ports"] if p["name"] == port]
    url = f"http://{pod.address}:{port}/v1/completions"
    ask = json.dumps({"prompt": "the ", "max_tokens": 4}).encode()
    try:
        urllib.request.urlopen(urllib.request.Request(url, ask), timeout=60)
        raise AssertionError("the server answers without a key")
    except urllib.error.HTTPError as refusal:
        assert refusal.code == 401
    key = made.stdout.split()[-1]
    with urllib.request.urlopen(urllib.request.Request(
            url, ask, {"Authorization": f"Bearer {key}"}), timeout=60) as answer:
        assert json.load(answer)["usage"]["completion_tokens"] == 4
    pod.end()
    until("the server ends", lambda: pod.process.poll() is not None)
    assert pod.process.returncode == 0
    say("served to a client with a key")


def main():
    pathloom, work = sys.argv[1], os.path.abspath(sys.argv[2])
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(f"{work}/claims/pathloom-corpus")
    for name in sorted(os.listdir("base"))[:40]:
        with open(f"base/{name}", encoding="utf-8") as text:
            with open(f"{work}/claims/pathloom-corpus/{name}", "w", encoding="utf-8") as out:
                out.write("".join(text.readlines()[:60]))
    check_manifests()
    cluster = Cluster(pathloom, work)
    try:
        play(cluster)
        serve(cluster)
    except BaseException:
        for pod in sorted(os.listdir(f"{work}/pods") if os.path.isdir(f"{work}/pods") else []):
            with open(f"{work}/pods/{pod}/log", encoding="utf-8", errors="replace") as log:
                print(f"--- {pod}", *log.readlines()[-12:], sep="\n")
        raise


main()
