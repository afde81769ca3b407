"""Looks at the report of a run as a reader does."""
import json
import os

from chrome import check


def look(browser, report, run):
    browser.screen(1280, 1180, "light")
    browser.open("file://" + os.path.abspath(report))
    browser.wait("document.readyState === 'complete' && document.querySelectorAll('svg').length >= 3")
    with open(os.path.join(run, "report.json")) as file:
        arms = json.load(file)["arms"]
    for arm in arms:
        row = browser.value(f"""[...document.querySelectorAll('tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))
            .find((r) => r[0] === {json.dumps(arm["title"])})""")
        check(row and row[1] == f"{arm['bits_per_byte']:.4f}", f"{arm['title']}: {row}")
    check(browser.value("document.querySelectorAll('svg path.line').length") >= 4, "the report has fewer than four curves")
    check(browser.value("document.querySelectorAll('svg rect').length") == 24, "the grid does not have four paths and six phases")
    check(browser.value("[...document.querySelectorAll('svg')].every((s) => s.getAttribute('role') === 'img' && s.getAttribute('aria-label'))"),
          "a picture has no text for screen readers")
    check(browser.value("document.querySelectorAll('script, link, img, iframe').length") == 0, "the report loads something")
    browser.picture("report-light")
    browser.screen(1280, 1180, "dark")
    check(browser.value("getComputedStyle(document.documentElement).backgroundColor") == "rgb(21, 22, 26)", "the report has no dark colours")
    browser.picture("report-dark")
    browser.screen(390, 844, "light")
    check(browser.value("document.documentElement.scrollWidth") <= 390, "the report is wider than a small screen")
    browser.picture("report-small")
    check(not browser.errors, "the console says: " + "; ".join(browser.errors[:4]))
