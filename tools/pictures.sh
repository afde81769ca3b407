#!/bin/sh
# Makes the pictures of the page in docs/ (page.png, modules.png, router.png) from a
# finished run.
#   sh tools/pictures.sh RUN [FOLDER]      writes into FOLDER (default: docs)
# Needs chromium and python3. The pictures show the name of the run's folder, but not its
# path, because no job is running.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
run=$1
folder=$(cd "${2:-$root/docs}" && pwd)
ready=$(mktemp -d)
: >"$ready/log"
page=''
trap '[ -z "$page" ] || kill "$page" 2>/dev/null; rm -rf "$ready"' EXIT
cd "$(dirname "$run")"
"$root/build/release/pathloom" page --run "$(basename "$run")" --listen '127.0.0.1:*' \
    >"$ready/log" 2>&1 &
page=$!
until grep -q ' at http' "$ready/log"; do
    kill -0 "$page"
    sleep 0.2
done
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$root/tests/job/page" python3 - \
    "$(command -v chromium || command -v google-chrome)" \
    "$(sed -n 's/.* at //p' "$ready/log")" "$folder" <<'end'
import sys
import chrome

browser = chrome.Browser(sys.argv[1], sys.argv[3])
browser.screen(1280, 1180, "light")
browser.send("Page.navigate", url=sys.argv[2])
browser.wait("document.readyState === 'complete' && typeof data === 'object' && data.state !== null")
browser.wait("!data.state.reading && data.cells.flat().length > 0", 60)
browser.picture("page")
browser.key("2")
browser.wait("modules.graph && modules.graph.modules.length && modules.detail && modules.heat")
browser.value("chooseVersion('mix/L1.E0', 2)")
browser.wait("modules.detail.module === 'mix/L1.E0' && modules.detail.version === 2 && modules.heat.columns.length > 0")
browser.picture("modules")
browser.value("document.activeElement.blur()")
browser.key("3")
browser.wait("router.map && document.getElementById('map-sub').textContent !== ''")
browser.value("""(() => { const a = document.getElementById('ask'); a.value = 'The council said on Monday that the new road';
    a.dispatchEvent(new Event('input')); })()""")
browser.wait("router.answer && document.querySelector('#ask-paths tbody tr') !== null")
browser.picture("router")
browser.process.kill()
end
