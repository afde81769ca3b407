"""Starts a headless Chromium, and checks what a reader would see in it.

The functions talk to the browser by its debugging pipe (descriptors 3 and 4), with JSON
messages that end with a zero byte. They need only Python.
"""
import base64
import json
import os
import subprocess
import sys
import time


class Browser:
    def __init__(self, chromium, pictures):
        self.pictures = pictures
        self.read, theirs_out = os.pipe()
        theirs_in, self.write = os.pipe()

        def connect():
            # These pipes may have the numbers 3 or 4, which dup2 below would close. So
            # they are moved to higher numbers first.
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

    def open(self, url):
        """Opens a page. What the page before reports while it ends does not count."""
        self.send("Page.navigate", url="about:blank")
        self.errors.clear()
        self.send("Page.navigate", url=url)

    def take(self):
        while b"\0" not in self.held:
            more = os.read(self.read, 1 << 16)
            if not more:
                sys.exit("the browser has ended")
            self.held += more
        message, self.held = self.held.split(b"\0", 1)
        return json.loads(message)

    def note(self, event):
        """Keeps the errors that the page's console reports."""
        params = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", str(details)))
        if event.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
            entry = params["entry"]
            self.errors.append(f"{entry['text']} {entry.get('url', '')}".rstrip())

    def value(self, expression):
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in answer:
            sys.exit(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, expression, seconds=120):
        until = time.time() + seconds
        while not self.value(expression):
            if time.time() > until:
                sys.exit(f"FAILED: in {seconds} s not true: {expression}")
            time.sleep(0.05)

    def settle(self):
        """Waits until the page has drawn itself again after a change of its size, which
        it does 80 ms after the change."""
        self.value("""new Promise((done) => requestAnimationFrame(() =>
            setTimeout(() => requestAnimationFrame(done), 100)))""")

    def screen(self, width, height, scheme):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)
        self.send("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, name):
        self.value("window.scrollTo(0, 0)")
        self.settle()
        data = self.send("Page.captureScreenshot", format="png")["data"]
        with open(os.path.join(self.pictures, name + ".png"), "wb") as out:
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


# Checks what an accessibility checker checks. Every control must have a name, and every
# picture a text. Ids must be unique, and headings must not skip a level. Every visible
# text must have the contrast of WCAG AA with its background.
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


def no_wider(browser, width):
    wide = browser.value("""[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > %d
        && !e.parentElement.closest('.skip, .scroll, svg')).map(e => e.tagName + '#' + e.id + '.' + e.className + ' ' +
        e.textContent.slice(0, 60)).slice(0, 4).join('; ')""" % (width + 1))
    check(browser.value(f"innerWidth === {width} && document.documentElement.scrollWidth <= {width}"),
          f"the page is {browser.value('document.documentElement.scrollWidth')} wide on a screen of {width}: {wide}")


def look_small(browser, picture, where):
    """Takes a picture of the page on a small screen, where no element may be wider than
    the screen."""
    browser.screen(390, 844, "light")
    browser.picture(picture)
    no_wider(browser, 390)
    audit(browser, where)
