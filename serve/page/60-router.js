/* Draws the view of the router: the path that a given text would get, the documents as
 * points, the domains of each shard, and the margins. */
const router = { map: null, asked: '', trouble: '', by: 'path', point: null, order: [],
  text: '', sent: '', answer: null, refused: '', timer: null, sending: null, bar: null };
const TEXT_BYTES = 4000; // the server accepts at most 4,095 bytes

function makeRouter(main) {
  main.append(
    el('section', { 'aria-labelledby': 'ask-title' },
      el('div', { class: 'head' }, el('h2', { id: 'ask-title' }, 'Where would a text go?'), el('span', { class: 'sub', id: 'ask-sub' })),
      el('label', { class: 'unseen', for: 'ask' }, 'Text whose path is shown'),
      el('textarea', { id: 'ask', rows: 3, placeholder: 'Type or paste the beginning of a text', oninput: typeText }),
      el('p', { class: 'readout', id: 'ask-readout', 'aria-live': 'polite' }),
      el('div', { class: 'scroll' }, el('table', { id: 'ask-paths' }))),
    el('section', { id: 'map-part', 'aria-labelledby': 'map-title' },
      el('div', { class: 'head' }, el('h2', { id: 'map-title' }, 'Documents'), el('span', { class: 'sub', id: 'map-sub' }),
        el('div', { class: 'choice', id: 'map-by', role: 'group', 'aria-label': 'Colour of the points' })),
      el('canvas', { id: 'map', tabindex: 0, role: 'img', onkeydown: mapKey, onmousemove: mapMouse, onmouseleave: () => { router.point = null; drawMap(); } }),
      el('p', { class: 'readout', id: 'map-readout', 'aria-live': 'polite' }),
      el('p', { class: 'legend', id: 'map-legend' }),
      el('p', { class: 'empty', id: 'map-empty', hidden: true })),
    el('div', { class: 'two', id: 'shares-part' },
      el('section', { 'aria-labelledby': 'shards-title' }, el('div', { class: 'head' }, el('h2', { id: 'shards-title' }, 'Shards'), el('span', { class: 'sub' }, 'tokens of each path, by domain')),
        el('canvas', { id: 'shards', tabindex: 0, role: 'img', onkeydown: shardsKey, onmousemove: shardsMouse, onmouseleave: () => { router.bar = null; drawShards(); } }),
        el('p', { class: 'readout', id: 'shards-readout', 'aria-live': 'polite' }),
        el('p', { class: 'legend', id: 'shards-legend' })),
      el('section', { 'aria-labelledby': 'margins-title' }, el('div', { class: 'head' }, el('h2', { id: 'margins-title' }, 'Margins'), el('span', { class: 'sub' }, 'nats by which the best path is ahead of the second')),
        el('div', { id: 'margins' }), el('p', { class: 'readout', id: 'margins-readout' }))));
  $('ask').value = router.text;
}

/* ---- what is known ---- */
async function askRouter() {
  const s = data.state, chapters = s.arms.filter((a) => a.chapter >= 0).length, asked = s.life + ' ' + chapters;
  if (router.asked === asked) return;
  router.asked = asked;
  try {
    const map = await ask('/router.json');
    Object.assign(router, { map, trouble: '', point: null });
    router.order = map.x.map((x, i) => i).sort((a, b) => map.x[a] - map.x[b] || map.y[a] - map.y[b]);
  } catch (error) {
    router.trouble = String(error.message || error);
  }
  if (view.id === 'router') drawRouter();
}
const domainName = (i) => (router.map.domains[i] === '' ? 'no domain' : router.map.domains[i]);

/* ---- a text ---- */
/* Cuts a text to the length that the server accepts, without splitting a character. */
function cutText(text) {
  let bytes = 0, cut = '';
  for (const c of text) {
    bytes += new TextEncoder().encode(c).length;
    if (bytes > TEXT_BYTES) return cut;
    cut += c;
  }
  return cut;
}
function typeText() {
  router.text = $('ask').value;
  clearTimeout(router.timer);
  router.timer = setTimeout(sendText, 350);
}
async function sendText() {
  const text = cutText(router.text), sending = new AbortController();
  if (router.sending) router.sending.abort(); // the answer to the earlier text is not needed
  Object.assign(router, { sent: text, sending });
  if (!text.trim()) { Object.assign(router, { answer: null, refused: '', sent: '' }); drawAnswer(); return; }
  try {
    const answer = await fetch(query('/route.json', { text }), { headers: headers(), cache: 'no-store', signal: sending.signal });
    if (router.sending !== sending) return;
    if (answer.status === 503) { router.timer = setTimeout(sendText, 300); return; } // the server routed another text a moment ago
    if (answer.status === 401) $('token').hidden = false;
    if (!answer.ok) throw new Error((await answer.text()).trim() || 'HTTP ' + answer.status);
    Object.assign(router, { answer: await answer.json(), refused: '' });
  } catch (error) {
    if (router.sending !== sending) return;
    Object.assign(router, { answer: null, refused: String(error.message || error) });
  }
  if (view.id === 'router') drawAnswer();
}
const share = (v) => (v >= 0.9995 ? '100 %' : digits(100 * v, 1) + ' %');
function drawAnswer() {
  const a = router.answer, say = $('ask-readout'), table = $('ask-paths');
  const cut = cutText(router.text).length < router.text.length;
  $('ask-sub').textContent = router.map && a && a.by_likelihood ? `every path reads the first ${router.map.prefix} tokens, and the router’s counts judge the later ones` : '';
  if (!a) {
    say.textContent = router.refused || 'The text is sent only to pathloom page, which does not keep it. The newest versions of the paths answer.';
    table.replaceChildren();
    return;
  }
  const margin = a.by_likelihood ? a.margin_nats : a.router_margin;
  say.replaceChildren(el('b', {}, a.path + ' answers'), `: ${a.why}` + (margin === null ? '' : `, ${digits(margin, 2)} nats ahead of the second path`) +
    `; ${a.tokens} tokens chose it` + (a.router_path !== a.path ? `; the router alone would choose ${a.router_path}` : '') + (cut ? '; only the beginning was sent, so the whole text may get a different path' : '') + '.' +
    (a.note ? ' ' + a.note + '.' : ''));
  const key = a.by_likelihood ? 1 : 3, rows = a.paths.map((p, i) => ({ p, i })).sort((x, y) => (x.p[key] ?? Infinity) - (y.p[key] ?? Infinity)).slice(0, 16);
  const least = Math.min(...a.paths.map((p) => p[3] ?? Infinity)), shareOf = (p) => (p[2] !== null ? p[2] : Math.exp(least - p[3]) / a.paths.reduce((n, q) => n + Math.exp(least - q[3]), 0));
  const head = [['Path'], [a.by_likelihood ? 'Posterior' : "Share by the router's counts"], ['Nats', 1], ['Router’s cost', 1]];
  table.replaceChildren(el('thead', {}, el('tr', {}, head.map(([name, n]) => el('th', { class: n ? 'n' : '', scope: 'col' }, name)))),
    el('tbody', {}, rows.map(({ p, i }) => el('tr', { 'data-path': p[0] },
      el('td', { class: 'w' }, el('i', { class: 'swatch', colour: pathColour(i) }), p[0], p[0] === a.path ? ' answers' : ''),
      el('td', { class: 'w', 'data-field': 'share' }, el('i', { class: 'bar', 'aria-hidden': 'true', colour: `linear-gradient(90deg, ${css.accent} ${100 * shareOf(p)}%, ${css.line} 0)` }), share(shareOf(p))),
      el('td', { class: 'n', 'data-field': 'nats' }, p[1] === null ? '–' : digits(p[1], 2)), el('td', { class: 'n', 'data-field': 'cost' }, digits(p[3], 2))))));
  if (a.paths.length > rows.length) say.append(` The best ${rows.length} of ${a.paths.length} paths are listed.`);
}

/* ---- documents ---- */
/* Returns the names of the groups by which points are coloured, and the group of each
 * point. There are eight colours; groups with the same colour have different shapes. */
function mapGroups() {
  const m = router.map;
  return router.by === 'path' ? { names: m.paths, of: m.path } : { names: m.domains.map((d, i) => domainName(i)), of: m.domain };
}
const marginShare = (v) => (v === null ? 1 : Math.min(1, Math.log1p(Math.max(0, v)) / Math.log(1 + 50)));
function pointColour(i) {
  const m = router.map;
  return router.by === 'margin' ? `rgb(${lossColour(1 - marginShare(m.margin[i]))})` : pathColour(mapGroups().of[i]);
}
function drawShape(pen, kind, x, y, r) {
  pen.beginPath();
  if (kind % 3 === 0) pen.arc(x, y, r, 0, 7);
  else if (kind % 3 === 1) pen.rect(x - r * 0.9, y - r * 0.9, 1.8 * r, 1.8 * r);
  else { pen.moveTo(x, y - 1.2 * r); pen.lineTo(x + 1.2 * r, y + r); pen.lineTo(x - 1.2 * r, y + r); pen.closePath(); }
}
const mapPlace = (width, height) => ({ x: (i) => 8 + (router.map.x[i] / 1000) * (width - 16), y: (i) => height - 8 - (router.map.y[i] / 1000) * (height - 16) });
function drawMap() {
  const m = router.map, none = !m;
  for (const id of ['map', 'map-readout', 'map-legend', 'map-by']) $(id).hidden = none;
  $('shares-part').hidden = none;
  $('map-empty').hidden = !none;
  $('map-empty').replaceChildren(el('b', {}, 'No picture yet. '), router.trouble || 'The job draws it when the base model is trained and documents are dealt to paths.');
  if (none) return;
  $('map-by').replaceChildren(...['path', 'domain', 'margin'].map((by) => el('button', { 'aria-pressed': String(router.by === by), 'data-by': by, onclick: () => { router.by = by; drawMap(); } }, 'by ' + by)));
  const shown = m.x.length, total = 100 * (m.shares[0] + m.shares[1]);
  $('map-sub').textContent = (shown < m.documents ? `${count(shown)} of ${count(m.documents)}` : count(shown)) + ` documents; two principal components of their features, ${digits(total, 0)} % of the variance; router: ${m.router}`;
  const { pen, width, height } = sized($('map'), Math.min(440, Math.max(260, $('map').clientWidth * 0.5))), at = mapPlace(width, height);
  const of = router.by === 'margin' ? null : mapGroups().of, size = shown > 800 ? 2.2 : shown > 200 ? 3 : 4.5;
  pen.globalAlpha = 0.8;
  for (const i of router.order) {
    pen.fillStyle = pointColour(i);
    drawShape(pen, of ? Math.floor(of[i] / 8) : 0, at.x(i), at.y(i), size);
    pen.fill();
  }
  pen.globalAlpha = 1;
  drawMapLegend();
  const say = $('map-readout'), i = router.point;
  $('map').setAttribute('aria-label', `${shown} documents on a plane, coloured by ${router.by}; ${m.paths.length} paths, ${m.domains.length} domains. Arrow keys read single documents from left to right.`);
  if (i === null) { say.textContent = 'Point at a document, or use the arrow keys, to read it.'; return; }
  pen.strokeStyle = css.ink;
  pen.lineWidth = 2;
  pen.beginPath(); pen.arc(at.x(i), at.y(i), size + 4, 0, 7); pen.stroke();
  say.replaceChildren(el('b', {}, m.paths[m.path[i]]), `: a document of ${domainName(m.domain[i])}; new text that begins like it goes to ${m.paths[m.answer[i]]}` +
    (m.margin[i] === null ? '' : `, ${digits(m.margin[i], 2)} nats ahead of the second path`));
}
function drawMapLegend() {
  if (router.by === 'margin') {
    $('map-legend').replaceChildren(el('span', { class: 'scale' }, el('span', {}, 'margin'), el('span', {}, '0'), el('i', { class: 'turned' }), el('span', {}, '50 nats or more')));
    return;
  }
  const { names, of } = mapGroups(), counts = names.map((n, k) => of.filter((v) => v === k).length);
  const shown = names.map((name, k) => ({ name, k })).sort((a, b) => counts[b.k] - counts[a.k]).slice(0, 24);
  $('map-legend').replaceChildren(...shown.map(({ name, k }) => el('span', {}, el('i', { class: 'swatch', colour: pathColour(k) }), ['', '□ ', '△ '][Math.floor(k / 8) % 3] + name, ` ${counts[k]}`)));
  if (names.length > shown.length) $('map-legend').append(`and ${names.length - shown.length} more`);
}
function mapMouse(event) {
  const box = $('map').getBoundingClientRect(), at = mapPlace(box.width, box.height), x = event.clientX - box.left, y = event.clientY - box.top;
  let best = null, nearest = 18 * 18;
  for (const i of router.order) {
    const d = (at.x(i) - x) ** 2 + (at.y(i) - y) ** 2;
    if (d < nearest) { nearest = d; best = i; }
  }
  if (best === router.point) return;
  router.point = best;
  drawMap();
}
function mapKey(event) {
  const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key], n = router.order.length;
  if (!step || !n) return;
  event.preventDefault();
  const at = router.point === null ? (step > 0 ? -1 : n) : router.order.indexOf(router.point);
  router.point = router.order[Math.min(n - 1, Math.max(0, at + step))];
  drawMap();
}

/* ---- shards ---- */
const sum = (list) => list.reduce((a, b) => a + b, 0);
function shardsLayout() {
  const rows = router.map.paths.length, rowHeight = rows <= 16 ? 26 : rows <= 64 ? 12 : 5;
  return { rows, rowHeight, left: rowHeight > 8 ? Math.max(...router.map.paths.map((n) => n.length)) * 7.6 + 14 : 4, height: rows * rowHeight + 4 };
}
function drawShards() {
  const m = router.map;
  if (!m) return;
  const at = shardsLayout(), { pen, width } = sized($('shards'), at.height), most = Math.max(...m.shard_tokens.map(sum), 1);
  pen.textBaseline = 'middle';
  m.shard_tokens.forEach((row, i) => {
    let x = at.left;
    const y = i * at.rowHeight + 1, height = at.rowHeight - (at.rowHeight > 8 ? 5 : 1);
    pen.fillStyle = css.ink;
    if (at.rowHeight > 8) pen.fillText(m.paths[i], 0, y + height / 2 + 1);
    row.forEach((tokens, d) => {
      const w = (tokens / most) * (width - at.left - 4);
      pen.fillStyle = pathColour(d);
      pen.globalAlpha = d < 8 ? 1 : 0.55;
      pen.fillRect(x, y, Math.max(0, w - (w > 3 ? 1 : 0)), height);
      x += w;
    });
    pen.globalAlpha = 1;
    if (router.bar === i) { pen.strokeStyle = css.ink; pen.lineWidth = 1.5; pen.strokeRect(at.left - 2, y - 1, x - at.left + 3, height + 2); }
  });
  $('shards-legend').replaceChildren(...m.domains.map((name, d) => el('span', {}, el('i', { class: d < 8 ? 'swatch' : 'swatch pale', colour: pathColour(d) }), domainName(d))));
  const i = router.bar, say = $('shards-readout'), sizes = m.shard_tokens.map(sum);
  $('shards').setAttribute('aria-label', `Tokens of ${m.paths.length} shards, from ${count(Math.min(...sizes))} to ${count(Math.max(...sizes))}, by ${m.domains.length} domains. Arrow keys read single shards.`);
  if (i === null || !m.paths[i]) { say.textContent = 'Point at a shard, or use the arrow keys, to read it.'; return; }
  const parts = m.shard_tokens[i].map((tokens, d) => ({ tokens, d })).filter((p) => p.tokens > 0).sort((a, b) => b.tokens - a.tokens);
  say.replaceChildren(el('b', {}, m.paths[i]), `: ${count(sizes[i])} tokens in ${m.shard_documents[i]} documents; ` + parts.slice(0, 4).map((p) => `${digits((100 * p.tokens) / sizes[i], 0)} % ${domainName(p.d)}`).join(', '));
}
function shardsMouse(event) {
  const row = Math.floor((event.clientY - $('shards').getBoundingClientRect().top) / shardsLayout().rowHeight);
  router.bar = router.map.paths[row] ? row : null;
  drawShards();
}
function shardsKey(event) {
  const step = { ArrowUp: -1, ArrowDown: 1, ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!step || !router.map) return;
  event.preventDefault();
  router.bar = Math.min(router.map.paths.length - 1, Math.max(0, (router.bar === null ? -1 : router.bar) + step));
  drawShards();
}

/* ---- margins ---- */
function drawMargins() {
  const m = router.map, margins = m ? m.margin.filter((v) => v !== null) : [], holder = $('margins');
  holder.replaceChildren();
  if (!m) return;
  $('margins-readout').textContent = margins.length ? '' : 'There is only one path, so no text has a margin.';
  if (!margins.length) return;
  const edges = [0, 0.5, 1, 2, 4, 8, 16, 32, Infinity], bins = edges.slice(1).map((to, k) => margins.filter((v) => v >= edges[k] && v < to).length);
  const width = Math.max(280, holder.clientWidth || 380), height = 170, top = 16, bottom = 22, step = width / bins.length, most = Math.max(...bins);
  const picture = svg('svg', { viewBox: `0 0 ${width} ${height}`, height, role: 'img', 'aria-label': 'Number of documents by margin in nats: ' + bins.map((n, k) => `from ${edges[k]}: ${n}`).join(', ') });
  bins.forEach((n, k) => {
    const h = (n / most) * (height - top - bottom);
    picture.append(svg('rect', { x: k * step + 2, y: height - bottom - h, width: step - 4, height: h, fill: css.accent }),
      svg('text', { x: (k + 0.5) * step, y: height - bottom - h - 4, 'text-anchor': 'middle' }, n),
      svg('text', { x: (k + 0.5) * step, y: height - 5, 'text-anchor': 'middle' }, k === bins.length - 1 ? edges[k] + '+' : edges[k]));
  });
  holder.append(picture);
  const sorted = margins.slice().sort((a, b) => a - b), same = m.answer.filter((a, i) => a === m.path[i]).length;
  $('margins-readout').textContent = `The median is ${digits(sorted[Math.floor(sorted.length / 2)], 2)} nats. If the router chose by the first ${m.prefix} tokens, ${digits((100 * same) / m.path.length, 0)} % of the documents would get the path of their shard.`;
}

function drawRouter() {
  askRouter();
  drawMap(); drawShards(); drawMargins(); drawAnswer();
}
