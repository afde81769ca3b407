"""Opens the page of a run in headless Chromium and checks what a reader would see.

usage: browser.py CHROMIUM URL PATHLOOM RUN PICTURES training|finished

Talks to the browser by its debugging pipe: messages of JSON that end in a zero byte, on
descriptors 3 and 4. Needs nothing but Python.
"""
import base64
import json
import os
import subprocess
import sys
import time

chromium, url, pathloom, run, pictures, life = sys.argv[1:7]


class Browser:
    def __init__(self):
        self.read, theirs_out = os.pipe()
        theirs_in, self.write = os.pipe()

        def connect():
            # Copies that lie above 4 cannot be overwritten by the two that follow.
            a, b = os.dup(theirs_in), os.dup(theirs_out)
            high_a, high_b = os.dup2(a, 20), os.dup2(b, 21)
            os.dup2(high_a, 3)
            os.dup2(high_b, 4)

        self.process = subprocess.Popen(
            [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--disable-dev-shm-usage", "--remote-debugging-pipe", "about:blank"],
            preexec_fn=connect, close_fds=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        self.held, self.number, self.session, self.errors = b"", 0, None, []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target,
                                 flatten=True)["sessionId"]
        self.send("Page.enable")
        self.send("Runtime.enable")
        self.send("Log.enable")

    def send(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.take()
            if answer.get("id") == self.number:
                if "error" in answer:
                    sys.exit(f"{method}: {answer['error']}")
                return answer["result"]
            self.note(answer)

    def take(self):
        while b"\0" not in self.held:
            more = os.read(self.read, 1 << 16)
            if not more:
                sys.exit("the browser has ended")
            self.held += more
        message, self.held = self.held.split(b"\0", 1)
        return json.loads(message)

    def note(self, event):
        """Keeps what the page's console says of errors."""
        params = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", str(details)))
        if event.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])

    def value(self, expression):
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in answer:
            sys.exit(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, expression, seconds=20):
        until = time.time() + seconds
        while not self.value(expression):
            if time.time() > until:
                sys.exit(f"FAILED: in {seconds} s not true: {expression}")
            time.sleep(0.2)

    def screen(self, width, height, scheme):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)
        self.send("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, name):
        self.value("window.scrollTo(0, 0)")
        time.sleep(0.4)
        data = self.send("Page.captureScreenshot", format="png")["data"]
        with open(os.path.join(pictures, name + ".png"), "wb") as out:
            out.write(base64.b64decode(data))

    def key(self, key):
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                      text=key if len(key) == 1 and kind == "keyDown" else "")


checks = 0


def check(is_true, sentence):
    global checks
    checks += 1
    if not is_true:
        sys.exit("FAILED: " + sentence)


# What an accessibility checker looks for: every control has a name, every picture a
# text, ids are unique, headings do not skip a level; and every visible text has the
# contrast of WCAG AA with what lies behind it.
AUDIT = r"""
(() => {
  const found = [];
  const name = (e) => e.getAttribute('aria-label') || e.getAttribute('title') ||
    (e.getAttribute('aria-labelledby') || '').split(' ').map((i) => (document.getElementById(i) || {}).textContent || '').join('') ||
    (e.labels && e.labels.length ? e.labels[0].textContent : '') || e.textContent.trim();
  const seen = (e) => e.getClientRects().length > 0;
  for (const e of document.querySelectorAll('button, input, a, textarea, select, [tabindex="0"]'))
    if (seen(e) && !name(e)) found.push('no name: ' + e.outerHTML.slice(0, 80));
  for (const e of document.querySelectorAll('canvas, svg, img'))
    if (seen(e) && e.getAttribute('aria-hidden') !== 'true' && !(e.getAttribute('role') === 'img' && name(e))) found.push('no text: ' + e.tagName + e.id);
  const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) found.push('two elements are ' + id);
  if (!document.documentElement.lang || !document.title) found.push('no language or title');
  let level = 0;
  for (const e of document.querySelectorAll('h1, h2, h3')) {
    if (Number(e.tagName[1]) > level + 1) found.push('a level is skipped before ' + e.textContent);
    level = Number(e.tagName[1]);
  }
  for (const t of document.querySelectorAll('th')) if (!t.scope) found.push('a heading of a table without scope');
  const parse = (c) => { const m = c.match(/[\d.]+/g).map(Number); return m.length > 3 ? m : [...m, 1]; };
  const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] > 0.99) return c; } return [255, 255, 255, 1]; };
  let texts = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || /^(SCRIPT|STYLE|TITLE|title)$/.test(e.tagName) || !seen(e)) continue;
    const style = getComputedStyle(e), front = parse(e instanceof SVGElement ? style.fill : style.color);
    const [a, b] = [light(front), light(behind(e))].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
    const large = parseFloat(style.fontSize) >= 24;
    texts++;
    if (ratio < (large ? 3 : 4.5)) found.push(`contrast ${ratio.toFixed(2)}: "${walker.currentNode.textContent.trim().slice(0, 40)}"`);
  }
  if (texts < 20) found.push('hardly any text: ' + texts);
  // Colours of paths and lines need 3 to 1.
  const paper = light(parse(getComputedStyle(document.documentElement).backgroundColor));
  for (const c of css.paths) { const l = light(rgb(c)), r = (Math.max(l, paper) + 0.05) / (Math.min(l, paper) + 0.05); if (r < 3) found.push(`path colour ${c}: ${r.toFixed(2)}`); }
  return [...new Set(found)];
})()
"""


def audit(browser, where):
    found = browser.value(AUDIT)
    check(not found, f"{where}: " + "; ".join(found[:12]))


def status():
    """What the hub says; empty when it has ended."""
    done = subprocess.run([pathloom, "status", "--run", run, "--json"], capture_output=True,
                          text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def same_as_status(browser):
    """What the page shows is what `status --json` says; both are asked until neither
    has changed in between."""
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
    """What a verb of the store prints as JSON, a list of objects."""
    done = subprocess.run([pathloom, "store", *words, "--run", run, "--json"],
                          capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def texts(browser, selector):
    return browser.value(f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.textContent)")


def no_wider(browser, width):
    wide = browser.value("""[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > %d
        && !e.parentElement.closest('.skip, .scroll, svg')).map(e => e.tagName + '#' + e.id + '.' + e.className + ' ' +
        e.textContent.slice(0, 60)).slice(0, 4).join('; ')""" % (width + 1))
    check(browser.value(f"innerWidth === {width} && document.documentElement.scrollWidth <= {width}"),
          f"the page is {browser.value('document.documentElement.scrollWidth')} wide on a screen of {width}: {wide}")


def look_at_modules(browser):
    """The lineage, a version and the heat map show what `store` prints."""
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
    check(browser.value("modules.detail.hash") == version["hash"], "another hash than that of the store")
    check(texts(browser, "#version .hash")[0] == version["hash"][:12], "the hash is not shown")
    parts = version["contributions"]
    check(texts(browser, "#contributors [data-field=loss]") == [f"{c['loss']:.4f}" for c in parts],
          "other contributors than those of the store")
    cosines = [float(t) for t in texts(browser, "#contributors [data-field=cosine]")]
    check(len(cosines) == 2 and all(0 < c <= 1 for c in cosines), f"cosines {cosines}")
    browser.wait("modules.heat.module === 'mix/L1.E0' && modules.heat.columns.length > 0")
    change = [d for d in told("diff", module + "@0", module + "@1") if "tensor" in d]
    column = browser.value("modules.heat.columns[0]")
    check(column[:2] == [0, 1] and len(column[2]) == len(change) + 1, f"the heat map begins with {column}")
    for tensor, value in zip(change, column[2]):
        check(abs(tensor["relative_l2"] - value) <= 1e-3 * value + 1e-9,
              f"{tensor['tensor']} changed by {tensor['relative_l2']}, the page shows {value}")
    # the keyboard: the next version, another module, a cell
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
    browser.screen(390, 844, "light")
    time.sleep(1)
    browser.picture(f"modules-{life}-small")
    no_wider(browser, 390)
    audit(browser, "modules, small")
    browser.screen(1280, 1180, "light")
    browser.key("1")
    browser.wait("view.id === 'run'")


browser = Browser()
browser.screen(1280, 1180, "light")
browser.send("Page.navigate", url=url)
browser.wait("document.readyState === 'complete' && typeof data === 'object' && data.state !== null")
browser.wait(f"data.state.life === '{life}' && !data.state.reading")
browser.wait("data.cells.flat().length > 0", 60)

if life == "training":
    check(same_as_status(browser), "the job ended before the page was compared")
    before = browser.value("data.state.number")
    browser.wait(f"data.state.number > {before} + 1")  # by events, nobody asked
    browser.wait("document.querySelectorAll('#workers [data-field=rate]').length === 2")
else:
    browser.wait("document.getElementById('f-done').textContent === '100'")
    with open(os.path.join(run, "report.json")) as file:
        report = json.load(file)
    for row in report["arms"]:
        text = browser.value(f"(document.querySelector('#bits [data-row=\"{row['row']}\"]') || {{}}).textContent")
        check(text and text.startswith(f"{row['bits_per_byte']:.3f}"),
              f"{row['row']} has {row['bits_per_byte']:.4f} bits per byte, the page shows {text}")

check(browser.value("document.getElementById('life').textContent").startswith(life), "the state of the job")
check(browser.value("document.querySelectorAll('#events li').length") > 2, "there are hardly any events")
check(browser.value("document.querySelectorAll('#loss path[stroke]').length") >= 4, "no loss of four paths")
browser.picture(f"run-{life}-light")
audit(browser, "light")
browser.screen(1280, 1180, "dark")
browser.picture(f"run-{life}-dark")
audit(browser, "dark")

# Small screens: nothing is wider than the screen.
browser.screen(390, 844, "light")
time.sleep(1)
browser.picture(f"run-{life}-small")
no_wider(browser, 390)
audit(browser, "small")
browser.screen(1280, 1180, "light")

# The keyboard: a cell is read, the log is replayed, and `l` returns.
browser.value("document.getElementById('weave').focus()")
browser.key("ArrowRight")
browser.key("ArrowDown")
browser.wait("/phase 0: loss [0-9.]+ nats per token/.test(document.getElementById('weave-readout').textContent)")
browser.value("(() => { const s = document.getElementById('slider'); s.value = 500; s.dispatchEvent(new Event('input')); })()")
check(browser.value("data.now !== null"), "the slider does not move the time")
check(browser.value("weave(groups()[0]).reduce((n, r) => n + r.cells.length, 0) < weave(groups()[0]).reduce((n, r) => n + 1, 0) * groups()[0].phases"),
      "half of the log shows all of the run")
browser.picture(f"run-{life}-replay")
browser.value("document.activeElement.blur()")
browser.key("l")
browser.wait("data.now === null")

look_at_modules(browser)

# A name from the network is text, whatever is in it.
browser.value("""data.events.push({ at: Date.now(), level: 'info', role: '<img src=x onerror="window.bitten = 1">',
    event: '<script>window.bitten = 1<\\/script>', text: '<b>' }); drawRun();""")
time.sleep(0.3)
check(browser.value("window.bitten === undefined && document.querySelectorAll('#events img, #events b').length === 0"),
      "markup in an event came to life")
check(not browser.errors, "the console says: " + "; ".join(browser.errors[:4]))
browser.process.kill()
print(f"{life}: {checks} checks in {chromium}")
