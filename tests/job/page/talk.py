"""Looks at the page of a server. One path, and then two paths, continue a text. The page
must show what the API answers.
"""
import json
import urllib.request

from chrome import audit, check, look_small


def told(url, **body):
    request = urllib.request.Request(url + "v1/completions", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)["choices"][0]


def spans(browser, column):
    return browser.value(f"[...document.querySelectorAll('#text-{column} [data-token]')].map((e) => e.textContent).join('')")


def ask(browser, first, second, prompt):
    browser.value(f"""(() => {{ $('first').value = {json.dumps(first)}; $('second').value = {json.dumps(second)};
        $('prompt').value = {json.dumps(prompt)}; $('tokens').value = 24; $('temperature').value = 0; }})()""")
    browser.value("document.getElementById('prompt').focus()")
    browser.send("Input.dispatchKeyEvent", type="keyDown", key="Enter", code="Enter", modifiers=2)
    browser.wait("talk.answers.length && talk.answers.every((a) => a.done) && !$('go').disabled")
    trouble = browser.value("talk.answers.map((a) => a.trouble).join('') + $('note').textContent")
    check(not trouble, f"the page says: {trouble}")


def look(browser, url):
    browser.screen(1280, 900, "light")
    browser.open(url)
    # The page writes the number of paths and the facts after its second request.
    browser.wait("document.readyState === 'complete' && typeof talk === 'object' && talk.models.length > 4 && $('facts').textContent")
    check("4 paths" in browser.value("$('life').textContent"), "the number of paths")

    # With one answer, checks the path that the API chooses, the text, and the probability
    # of a token.
    prompt = "static int read"
    ask(browser, "auto", "", prompt)
    same = dict(prompt=prompt, max_tokens=24, temperature=0, logprobs=5, echo=True)
    api = told(url, model="auto", **same)
    check(browser.value("talk.answers[0].path") == api["path"], "the page and the API show different paths")
    check(browser.value("talk.answers[0].text") == api["text"], "the page and the API show different texts")
    check(spans(browser, 0).replace(" end of the text", "") == api["text"], f"the tokens are not the text: {spans(browser, 0)!r}")
    scores = api["logprobs"]
    last = len(scores["tokens"]) - 1
    browser.value("document.getElementById('text-0').focus()")
    browser.key("End")
    browser.wait(f"talk.cursor && talk.cursor.index === {last}")
    shown = browser.value("document.querySelector('#token-detail .readout').textContent")
    share = browser.value(f"percent(Math.exp({scores['token_logprobs'][last]}))")
    check(share in shown, f"the last token has {share}, the page shows {shown}")
    check(browser.value("document.querySelectorAll('#token-detail .tops code').length") == len(scores["top_logprobs"][last]),
          "the page and the API show different likeliest tokens")
    browser.picture("talk-one-light")
    audit(browser, "talk")

    # With two answers, a token of the prompt must have details for both paths.
    ask(browser, "p00", "p11", prompt)
    for column, path in enumerate(("p00", "p11")):
        check(browser.value(f"talk.answers[{column}].text") == told(url, model=path, **same)["text"], f"the text of {path}")
    browser.value("""document.querySelector('#text-0 [data-token="2"]').dispatchEvent(new MouseEvent('mouseover', { bubbles: true }))""")
    browser.wait("document.querySelectorAll('#token-detail h3').length === 2")
    check(browser.value("document.querySelectorAll('.text .read').length") == 2, "the token is not marked in both answers")
    for scheme in ("light", "dark"):
        browser.screen(1280, 900, scheme)
        browser.picture(f"talk-two-{scheme}")
        audit(browser, "two answers, " + scheme)
    look_small(browser, "talk-two-small", "talk, small")

    # Markup from the model or the user must be shown as text, and an error as a sentence.
    ask(browser, "p00", "", "<img src=x onerror='window.bitten = 1'><script>window.bitten = 1</script>")
    check(browser.value("window.bitten === undefined && document.querySelectorAll('.text img, .text script').length === 0"),
          "markup in a text was taken for HTML")
    browser.value("$('first').append(el('option', { value: 'p99' }, 'p99')); $('first').value = 'p99'; talkNow();")
    browser.wait("talk.answers.length === 1 && talk.answers[0].done")
    check("p99" in browser.value("talk.answers[0].trouble"), "the page shows no error about the unknown path p99")
    errors = [e for e in browser.errors if "404" not in e]
    check(not errors, "the console says: " + "; ".join(errors[:4]))
