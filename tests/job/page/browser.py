"""Opens the page of a run in headless Chromium and checks what a reader would see.

usage: browser.py CHROMIUM URL PATHLOOM RUN PICTURES training
       browser.py CHROMIUM URL PATHLOOM RUN PICTURES finished REPORT URL-OF-A-SERVER

With a finished run, checks also its report and the page of a server.
"""
import json
import os
import subprocess
import sys
import time

import chrome
import report
import talk
from chrome import audit, check, look_small

chromium, url, pathloom, run, pictures, life = sys.argv[1:7]


def status():
    """Returns what `status --json` prints; empty after the job has ended."""
    done = subprocess.run([pathloom, "status", "--run", run, "--json"], capture_output=True,
                          text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def same_as_status(browser):
    """Checks that the page shows what `status --json` prints. Asks both again if one of
    them changed meanwhile. Returns False if the job has ended."""
    shown = told = None
    for _ in range(40):
        before = status()
        if "arms" not in before:
            return False
        browser.value("refresh()")
        shown = browser.value("""Object.fromEntries([...document.querySelectorAll('#groups button')]
            .map((b) => [b.dataset.group, b.querySelector('.tally').textContent]))""")
        workers = browser.value("""Object.fromEntries([...document.querySelectorAll('#workers tbody tr')]
            .map((r) => [r.dataset.worker, r.querySelector('[data-field=tasks]').textContent]))""")
        after = status()
        if "arms" not in after:
            return False
        told = {a["arm"]: f"{a['tasks_done']}/{a['tasks']}" for a in before["arms"]}
        is_quiet = told == {a["arm"]: f"{a['tasks_done']}/{a['tasks']}" for a in after["arms"]}
        rows = {w["worker"]: str(w["tasks"]) for w in before["workers"]}
        if is_quiet and shown == told and workers == rows:
            return True
        time.sleep(0.1)
    sys.exit(f"FAILED: the page shows {shown} and {workers}, status says {told} and {rows}")


def told(*words):
    """Returns the objects that a verb of `pathloom store` prints with --json."""
    done = subprocess.run([pathloom, "store", *words, "--run", run, "--json"],
                          capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def texts(browser, selector):
    return browser.value(f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.textContent)")


def look_at_modules(browser):
    """Checks that the lineage, a version and the heat map show what `store` prints."""
    browser.value("document.activeElement.blur()")
    browser.key("2")
    browser.wait("modules.graph && modules.graph.modules.length && modules.detail && modules.heat")
    heads = {m["module"]: m["version"] for m in told("ls", "mix") if m["module"].startswith("mix/")}
    shown = browser.value("Object.fromEntries(modules.graph.modules.map((m) => [m.module, m.versions - 1]))")
    check(set(shown) == set(heads), f"other modules than in the store: {shown}")
    check(life == "training" or shown == heads, f"the page has {shown}, the store {heads}")
    module = "mix/L1.E0"
    browser.value(f"chooseVersion('{module}', 1)")
    browser.wait(f"modules.detail.module === '{module}' && modules.detail.version === 1")
    version = told("show", module + "@1")[0]
    check(browser.value("modules.detail.hash") == version["hash"], "the page and the store have different hashes")
    check(texts(browser, "#version .hash")[0] == version["hash"][:12], "the hash is not shown")
    parts = version["contributions"]
    check(texts(browser, "#contributors [data-field=loss]") == [f"{c['loss']:.4f}" for c in parts],
          "the page and the store have different contributors")
    cosines = [float(t) for t in texts(browser, "#contributors [data-field=cosine]")]
    check(len(cosines) == 2 and all(0 < c <= 1 for c in cosines), f"cosines {cosines}")
    browser.wait("modules.heat.module === 'mix/L1.E0' && modules.heat.columns.length > 0")
    change = [d for d in told("diff", module + "@0", module + "@1") if "tensor" in d]
    column = browser.value("modules.heat.columns[0]")
    check(column[:2] == [0, 1] and len(column[2]) == len(change) + 1, f"the heat map begins with {column}")
    for tensor, value in zip(change, column[2]):
        check(abs(tensor["relative_l2"] - value) <= 1e-3 * value + 1e-9,
              f"{tensor['tensor']} changed by {tensor['relative_l2']}, the page shows {value}")
    # Keys choose the next version, another module and a cell.
    browser.value("document.getElementById('lineage').focus()")
    browser.key("ArrowRight")
    browser.wait("modules.version === 2 && modules.detail.version === 2" if life == "finished" else "modules.version >= 1")
    browser.key("ArrowDown")
    browser.wait("modules.module !== 'mix/L1.E0' && modules.detail.module === modules.module")
    browser.wait("modules.heat.module === modules.module")
    browser.value("document.getElementById('heat').focus()")
    browser.key("ArrowRight")
    browser.wait("/changed by [0-9.]+ % of its norm from version 0 to 1/.test(document.getElementById('heat-readout').textContent)")
    browser.value("document.activeElement.blur()")
    for scheme in ("light", "dark"):
        browser.screen(1280, 1180, scheme)
        browser.picture(f"modules-{life}-{scheme}")
        audit(browser, "modules, " + scheme)
    look_small(browser, f"modules-{life}-small", "modules, small")
    browser.screen(1280, 1180, "light")
    browser.key("1")
    browser.wait("view.id === 'run'")


def look_at_router(browser):
    """Checks the view of the router. Documents, shards and margins must be those of
    router_map.json. A text must get the path that `route` names. Markup in a text or in
    a domain must be shown as text."""
    browser.value("document.activeElement.blur()")
    browser.key("3")
    browser.wait("router.map && document.getElementById('map-sub').textContent !== ''")
    with open(os.path.join(run, "router_map.json")) as file:
        told_map = json.load(file)
    check(browser.value("router.map") == told_map, "the page and router_map.json have different data")
    check(browser.value("document.getElementById('map-sub').textContent").startswith(f"{len(told_map['x'])} documents"),
          "the page shows another number of documents")
    # Points are drawn in all three colourings.
    for by in ("domain", "margin", "path"):
        browser.value(f"document.querySelector('#map-by [data-by={by}]').click()")
        check(browser.value(f"document.querySelector('#map-by [data-by={by}]').getAttribute('aria-pressed')") == "true", by)
        check(browser.value("""(() => { const c = document.getElementById('map'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n; })()""") > 3 * len(told_map["x"]),
              f"hardly any points are drawn with the colours of {by}")
    legend = browser.value("document.getElementById('map-legend').textContent")
    for i, name in enumerate(told_map["paths"]):
        check(f"{name} {told_map['path'].count(i)}" in legend, f"{name} in the legend: {legend}")
    # Keys choose the leftmost document and the first shard.
    browser.value("document.getElementById('map').focus()")
    browser.key("ArrowRight")
    first = browser.value("router.point")
    check(told_map["x"][first] == 0, "the first document is not the leftmost one")
    said = browser.value("document.getElementById('map-readout').textContent")
    check(said.startswith(told_map["paths"][told_map["path"][first]] + ": a document of " + told_map["domains"][told_map["domain"][first]]),
          "the readout: " + said)
    browser.value("document.getElementById('shards').focus()")
    browser.key("ArrowDown")
    browser.key("ArrowDown")
    browser.wait("/^p01: .* tokens in [0-9]+ documents; [0-9]+ % /.test(document.getElementById('shards-readout').textContent)")
    same = sum(a == p for a, p in zip(told_map["answer"], told_map["path"]))
    check(f"{100 * same / len(told_map['path']):.0f} % of the documents" in browser.value("document.getElementById('margins-readout').textContent"),
          "the share of documents that keep their path")
    # The user types a text.
    browser.value("document.getElementById('ask').focus()")
    for character in "static int x":
        browser.key(character)
    # On a slow machine the beginning of the text was sent first, and its answer is shown.
    browser.wait("router.answer && router.sent === 'static int x'")
    browser.value("router.answer = null; void sendText()")
    browser.wait("router.answer && document.querySelector('#ask-paths tbody tr') !== null")
    done = subprocess.run([pathloom, "route", "--run", run, "--prompt", "static int x", "--json"], capture_output=True, text=True, check=True)
    route = json.loads(done.stdout)
    if life == "finished":
        shown = browser.value("document.getElementById('ask-readout').textContent")
        check(shown.startswith(route["path"] + " answers"), f"`route` says {route['path']}, the page: {shown}")
        shown = browser.value("""Object.fromEntries([...document.querySelectorAll('#ask-paths tbody tr')].map((r) =>
            [r.dataset.path, r.querySelector('[data-field=nats]').textContent]))""")
        # The page gets four decimals, and rounds them again.
        off = [abs(float(shown[p["path"]]) - p["nats"]) for p in route["paths"]]
        check(len(shown) == len(off) and max(off) < 0.0051, f"the nats of the paths: {shown}")
        shares = texts(browser, "#ask-paths [data-field=share]")
        check(abs(sum(float(t.rstrip(" %")) for t in shares) - 100) < 1, f"the shares {shares}")
    check(browser.value("view.id") == "router", "typing a digit or a letter in the text changes the view")
    browser.value("document.activeElement.blur()")
    for scheme in ("light", "dark"):
        browser.screen(1280, 1180, scheme)
        browser.picture(f"router-{life}-{scheme}")
        audit(browser, "router, " + scheme)
    look_small(browser, f"router-{life}-small", "router, small")
    browser.screen(1280, 1180, "light")
    # A long text is cut between two characters, markup is shown as text, and an empty
    # text clears the answer.
    ask = "(t) => { const a = document.getElementById('ask'); a.value = t; a.dispatchEvent(new Event('input')); }"
    browser.value(f"({ask})('é'.repeat(3000))")
    browser.wait("router.answer && router.sent === 'é'.repeat(2000) && /only the beginning was sent/.test(document.getElementById('ask-readout').textContent)")
    browser.value(f"({ask})('<img src=x onerror=\"window.bitten = 1\">')")
    browser.wait("router.answer && router.sent.startsWith('<img')")
    browser.value("router.map.domains[0] = '<b>bold</b>'; router.by = 'domain'; drawRouter();")
    time.sleep(0.3)
    check(browser.value("window.bitten === undefined && document.querySelectorAll('main img, main b b, .legend b').length === 0"),
          "markup in a text was taken for HTML")
    browser.value(f"({ask})('')")
    browser.wait("router.answer === null && document.querySelectorAll('#ask-paths tr').length === 0")
    browser.value("Object.assign(router, { by: 'path', asked: '' }); document.activeElement.blur()")
    browser.key("1")
    browser.wait("view.id === 'run'")


browser = chrome.Browser(chromium, pictures)
browser.screen(1280, 1180, "light")
browser.open(url)
browser.wait("document.readyState === 'complete' && typeof data === 'object' && data.state !== null")
browser.wait(f"data.state.life === '{life}' && !data.state.reading")
browser.wait("data.cells.flat().length > 0", 60)

if life == "training":
    check(same_as_status(browser), "the job ended before the page was compared")
    before = browser.value("data.state.number")
    browser.wait(f"data.state.number > {before} + 1")  # the server sends new states by itself
    browser.wait("document.querySelectorAll('#workers [data-field=rate]').length === 2")
else:
    browser.wait("document.getElementById('f-done').textContent === '100'")
    with open(os.path.join(run, "report.json")) as file:
        arms = json.load(file)["arms"]
    for row in arms:
        text = browser.value(f"(document.querySelector('#bits [data-row=\"{row['row']}\"]') || {{}}).textContent")
        check(text and text.startswith(f"{row['bits_per_byte']:.3f}"),
              f"{row['row']} has {row['bits_per_byte']:.4f} bits per byte, the page shows {text}")
    curve = browser.value("heldPoints(groups()[0])")
    check(len(curve) >= 3 and curve[0][0] == 0 and curve[0][1] > curve[-1][1] > 0,
          f"the held-out text of the mixture: {curve}")
    check(browser.value("document.querySelectorAll('#curve path[stroke]').length") >= 1, "no held-out curve")

check(browser.value("document.getElementById('life').textContent").startswith(life), "the state of the job")
check(browser.value("document.querySelectorAll('#events li').length") > 2, "there are hardly any events")
check(browser.value("document.querySelectorAll('#loss path[stroke]').length") >= 4, "no loss of four paths")
browser.picture(f"run-{life}-light")
audit(browser, "light")
browser.screen(1280, 1180, "dark")
browser.picture(f"run-{life}-dark")
audit(browser, "dark")

look_small(browser, f"run-{life}-small", "small")
browser.screen(1280, 1180, "light")

# Keys show a cell, replay the log, and return to the present (`l`).
browser.value("document.getElementById('weave').focus()")
browser.key("ArrowRight")
browser.key("ArrowDown")
browser.wait("/phase 0: loss [0-9.]+ nats per token/.test(document.getElementById('weave-readout').textContent)")
browser.value("(() => { const s = document.getElementById('slider'); s.value = 500; s.dispatchEvent(new Event('input')); })()")
check(browser.value("data.now !== null"), "the slider does not move the time")
check(browser.value("weave(groups()[0]).reduce((n, r) => n + r.cells.length, 0) < weave(groups()[0]).reduce((n, r) => n + 1, 0) * groups()[0].phases"),
      "the replay of half of the log shows the whole run")
browser.picture(f"run-{life}-replay")
browser.value("document.activeElement.blur()")
browser.key("l")
browser.wait("data.now === null")

look_at_modules(browser)
look_at_router(browser)

# A name from the network is shown as text, also if it contains markup.
browser.value("""data.events.push({ at: Date.now(), level: 'info', role: '<img src=x onerror="window.bitten = 1">',
    event: '<script>window.bitten = 1<\\/script>', text: '<b>' }); drawRun();""")
time.sleep(0.3)
check(browser.value("window.bitten === undefined && document.querySelectorAll('#events img, #events b').length === 0"),
      "markup in an event was taken for HTML")
check(not browser.errors, "the console says: " + "; ".join(browser.errors[:4]))
if life == "finished":
    report.look(browser, sys.argv[7], run)
    talk.look(browser, sys.argv[8])
browser.process.kill()
print(f"{life}: {chrome.checks} checks in {chromium}")
