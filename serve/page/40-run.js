/* Draws the view of the run: figures, the timeline, paths and phases, losses, machines. */
const run = { group: 'mix', cursor: null, playing: null };

const figure = (id, label, unit) =>
  el('div', {}, el('dt', {}, label), el('dd', {}, el('span', { id }), unit && el('small', { id: id + '-unit' }, unit)),
    el('dd', { class: 'more', id: id + '-more' }));

function makeRun(main) {
  main.append(
    el('dl', { class: 'figures' }, figure('f-done', 'Done', '%'), figure('f-rate', 'Speed', 'tokens/s'),
      figure('f-left', 'Time left'), figure('f-workers', 'Workers busy'), figure('f-bits', 'Held-out text', 'bits/byte')),
    el('div', { class: 'time', id: 'time' },
      el('button', { id: 'play', class: 'plain', 'aria-label': 'Play the log', onclick: play }, '▶'),
      el('div', { class: 'track' }, el('canvas', { id: 'track', 'aria-hidden': 'true' }),
        el('input', { id: 'slider', type: 'range', min: 0, max: 1000, value: 1000, 'aria-label': 'Time of the log that is shown', oninput: slide }),
        el('div', { class: 'ring' })),
      el('output', { id: 'when', for: 'slider' })),
    el('section', { 'aria-labelledby': 'weave-title' },
      el('div', { class: 'head' }, el('h2', { id: 'weave-title' }, 'Paths and phases'),
        el('div', { class: 'choice', id: 'groups', role: 'group', 'aria-label': 'Which model' })),
      el('div', { class: 'scroll' }, el('canvas', { id: 'weave', tabindex: 0, role: 'img', onkeydown: weaveKey, onmousemove: weaveMouse, onmouseleave: () => { run.cursor = null; drawWeave(); } })),
      el('div', { class: 'under' }, el('p', { class: 'readout', id: 'weave-readout', 'aria-live': 'polite' }),
        el('span', { class: 'scale' }, el('span', {}, 'training loss, nats per token'), el('span', { id: 'scale-low' }), el('i', {}), el('span', { id: 'scale-high' }))),
      el('p', { class: 'empty', id: 'weave-empty', hidden: true })),
    el('div', { class: 'two' },
      el('section', { 'aria-labelledby': 'loss-title' }, el('div', { class: 'head' }, el('h2', { id: 'loss-title' }, 'Training loss'), el('span', { class: 'sub' }, 'nats per token; dashed lines: models outside the mixture')),
        el('div', { id: 'loss' }), el('p', { class: 'empty', id: 'loss-empty', hidden: true })),
      el('section', { 'aria-labelledby': 'bits-title' }, el('div', { class: 'head' }, el('h2', { id: 'bits-title' }, 'Held-out text'), el('span', { class: 'sub' }, 'bits per byte, lower is better')),
        el('div', { id: 'curve' }), el('div', { id: 'bits' }))),
    el('section', { 'aria-labelledby': 'workers-title' }, el('div', { class: 'head' }, el('h2', { id: 'workers-title' }, 'Workers'), el('span', { class: 'sub', id: 'workers-sub' })),
      el('div', { class: 'scroll' }, el('table', { id: 'workers' }))),
    el('div', { class: 'two' },
      el('section', { 'aria-labelledby': 'events-title' }, el('div', { class: 'head' }, el('h2', { id: 'events-title' }, 'Events'), el('span', { class: 'sub' }, 'the newest first; the picture above shows the tasks')),
        el('ol', { class: 'events', id: 'events', tabindex: 0, 'aria-label': 'Events, the newest first' })),
      el('section', { 'aria-labelledby': 'homes-title' }, el('div', { class: 'head' }, el('h2', { id: 'homes-title' }, 'Homes, leases, audits')),
        el('div', { id: 'homes' }))));
}

/* ---- figures ---- */
function put(id, value, more, unit) {
  $(id).textContent = value;
  $(id + '-more').textContent = more || '';
  if (unit !== undefined && $(id + '-unit')) $(id + '-unit').textContent = unit;
}
function drawFigures() {
  const s = data.state, arms = groups();
  const done = arms.reduce((n, g) => n + g.done, 0), tasks = arms.reduce((n, g) => n + g.tasks, 0);
  const p = s.progress, share = p && p.total > 0 ? p.done / p.total : tasks ? done / tasks : 0;
  put('f-done', tasks ? String(Math.floor(100 * share + 1e-9)) : '–', tasks ? `${done} of ${tasks} tasks` : 'no task yet', tasks ? '%' : '');
  $('thread').style.width = 100 * share + '%';
  if (p) {
    const rows = s.workers.rows, busy = rows.filter((w) => w[1] === 0).length;
    const here = rows.filter((w) => w[1] < 2).length;
    put('f-rate', count(p.tokens_per_second), 'of all busy workers');
    put('f-left', p.eta_seconds === null ? '–' : duration(p.eta_seconds), p.eta_seconds === null ? 'estimated after some seconds' : 'for the models that have begun');
    put('f-workers', String(busy), `of ${here} connected` + (s.workers.left_out ? `, ${s.workers.left_out} not listed` : ''));
  } else {
    const range = timeRange(), cells = data.cells.flat().filter(Boolean);
    const tokens = cells.reduce((n, c) => n + c.tokens, 0);
    put('f-rate', range ? count(tokens / ((range[1] - range[0]) / 1000)) : '–', range ? 'mean from the first to the last event' : '');
    put('f-left', '–', range ? 'took ' + duration((range[1] - range[0]) / 1000) : '');
    put('f-workers', '–', 'no job is running');
  }
  const best = s.held_out.find((r) => r.row === (s.answers_by === 'likelihood' ? 'mix-likelihood' : 'mix')) || s.held_out[0];
  put('f-bits', best ? digits(best.bits_per_byte, 3) : '–', best ? best.title : 'not evaluated yet', best ? 'bits/byte' : '');
}

/* ---- the timeline ---- */
/* Computes tokens per second over time. The tokens of a task are spread evenly over its
 * time. */
function rateBins(from, to, n) {
  const bins = new Float64Array(n), width = (to - from) / n;
  for (const row of data.cells) for (const c of row || []) {
    const a = Math.max(0, (Math.max(c.from, c.at - 1000 * Math.max(c.seconds, 1)) - from) / width);
    const b = Math.min(n, Math.max(a + 1e-6, (c.at - from) / width));
    for (let i = Math.floor(a); i < b && i < n; i++) {
      const share = (Math.min(b, i + 1) - Math.max(a, i)) / (b - a);
      bins[i] += (c.tokens * share) / (width / 1000);
    }
  }
  return bins;
}
const isTrouble = (e) => e.level === 'warn' || e.level === 'error';
function drawTimeline() {
  const range = timeRange();
  $('time').hidden = !range;
  if (!range) return;
  const [from, to] = range, { pen, width, height } = sized($('track'), 58), base = height - 14;
  const x = (ms) => ((ms - from) / (to - from)) * width;
  const n = Math.max(20, Math.min(400, Math.floor(width / 3))), bins = rateBins(from, to, n);
  const most = Math.max(...bins, 1e-9), now = data.now === null ? to : data.now;
  const area = () => {
    pen.beginPath();
    pen.moveTo(0, base);
    bins.forEach((v, i) => { const h = base - (v / most) * (base - 4); pen.lineTo((i / n) * width, h); pen.lineTo(((i + 1) / n) * width, h); });
    pen.lineTo(width, base);
    pen.fill();
  };
  pen.fillStyle = css.line;
  area();
  pen.save();
  pen.beginPath();
  pen.rect(0, 0, x(now), height);
  pen.clip();
  pen.fillStyle = css.accent;
  pen.globalAlpha = 0.55;
  area();
  pen.restore();
  pen.fillStyle = css.line;
  pen.fillRect(0, base, width, 1);
  for (const e of data.events) if (isTrouble(e)) { pen.fillStyle = css.bad; pen.fillRect(x(e.at) - 0.5, base + 3, 1.5, 8); }
  for (const e of data.events) if (e.event === 'arm.added') { pen.fillStyle = css.soft; pen.fillRect(x(e.at) - 0.5, 0, 1, base); }
  pen.fillStyle = css.ink;
  pen.fillRect(Math.min(width - 2, x(now) - 1), 0, 2, height);
  const when = data.now === null && data.state.life === 'training' ? 'now' : data.now === null ? 'the end' : clock(now);
  $('when').replaceChildren(el('b', {}, when), `of ${clock(from)} to ${clock(to)}, ${date(to)}`);
  if (document.activeElement !== $('slider') || data.now === null)
    $('slider').value = String(Math.round((1000 * (now - from)) / (to - from)));
  $('slider').setAttribute('aria-valuetext', when === 'now' ? 'now' : clock(now));
}
function slide() {
  const range = timeRange(), value = Number($('slider').value);
  stopPlaying();
  if (range) data.now = value >= 1000 ? null : range[0] + ((range[1] - range[0]) * value) / 1000;
  drawRun();
}
function stopPlaying() {
  clearInterval(run.playing);
  run.playing = null;
  $('play').textContent = '▶';
  $('play').setAttribute('aria-label', 'Play the log');
}
function live() { data.now = null; stopPlaying(); draw(); }
/* Plays the whole history in about fifteen seconds. */
function play() {
  const range = timeRange();
  if (run.playing || !range) { if (run.playing) stopPlaying(); return; }
  if (data.now === null) data.now = range[0];
  $('play').textContent = '❚❚';
  $('play').setAttribute('aria-label', 'Stop playing');
  run.playing = setInterval(() => {
    data.now += (range[1] - range[0]) / 300;
    if (data.now >= range[1]) { data.now = null; stopPlaying(); }
    drawRun();
  }, 50);
}

/* ---- paths and phases ---- */
function lossRange(rows) {
  let low = Infinity, high = -Infinity;
  for (const row of rows) for (const c of row.cells)
    if (Number.isFinite(c.loss)) { low = Math.min(low, c.loss); high = Math.max(high, c.loss); }
  return [low, high];
}
function weaveLayout(group) {
  const canvas = $('weave'), holder = canvas.parentElement.clientWidth;
  const longest = Math.max(...group.names.map((n) => plainPath(group, n).length), 4);
  const left = Math.max(48, longest * 7.5 + 30), right = group.names.length <= 40 ? 120 : 8;
  const cell = Math.max(3, Math.min(96, (holder - left - right) / Math.max(1, group.phases)));
  const rowHeight = group.names.length <= 24 ? 26 : group.names.length <= 64 ? 14 : 6;
  canvas.style.width = Math.max(holder, left + right + cell * group.phases) + 'px';
  return { left, right, cell, rowHeight, gap: cell > 8 ? 2 : cell > 4 ? 1 : 0, height: group.names.length * rowHeight + 24 };
}
function drawWeave() {
  const all = groups(), group = all.find((g) => g.name === run.group) || all[0], canvas = $('weave');
  $('groups').replaceChildren(...all.map((g) => el('button', { 'data-group': g.name, 'aria-pressed': String(g === group),
    onclick: () => { run.group = g.name; run.cursor = null; drawWeave(); } }, g.label, ' ', el('span', { class: 'tally' }, `${g.done}/${g.tasks}`))));
  const none = !group || !group.names.length;
  canvas.hidden = none;
  $('weave-empty').hidden = !none;
  $('weave-empty').replaceChildren(el('b', {}, 'No path has begun. '), ...(data.state.life === 'preparing'
    ? ['The job is preparing its data, or is not started yet. To start it: ', el('code', {}, 'pathloom train --out ' + data.state.run.folder), '.']
    : ['The first model of the run appears here as soon as the job adds it.']));
  if (none) return;
  const rows = weave(group), [low, high] = lossRange(rows), at = weaveLayout(group);
  const { pen } = sized(canvas, at.height);
  const many = at.rowHeight < 12;
  pen.textBaseline = 'middle';
  rows.forEach((row, i) => {
    const y = i * at.rowHeight, height = at.rowHeight - (many ? 1 : 2), middle = y + height / 2;
    if (!many || i % 8 === 0) {
      pen.fillStyle = pathColour(i);
      pen.fillRect(0, middle - 4, 8, 8);
      pen.fillStyle = css.ink;
      pen.textAlign = 'left';
      pen.fillText(plainPath(group, row.name) || 'all', 16, middle + 0.5);
    }
    pen.fillStyle = css.line;
    for (let k = 0; k < group.phases && at.cell > 6; k++)
      pen.fillRect(at.left + k * at.cell + at.cell / 2 - 1, middle - 1, 2, 2);
    for (const c of row.cells) drawCell(pen, c, at, y, height, low, high);
    for (const l of row.leases) {
      const x = at.left + l.column * at.cell, share = l.tau ? l.step / l.tau : 0;
      pen.fillStyle = pathColour(i);
      pen.globalAlpha = 0.35;
      pen.fillRect(x, y, (at.cell - at.gap) * share, height);
      pen.globalAlpha = 1;
      pen.strokeStyle = pathColour(i);
      pen.lineWidth = 1.5;
      pen.strokeRect(x + 0.75, y + 0.75, Math.max(1, at.cell - at.gap - 1.5), Math.max(1, height - 1.5));
      pen.fillStyle = css.ink;
      pen.textAlign = 'left';
      const beside = at.left + group.phases * at.cell + 8;
      if (!many && beside + pen.measureText(l.worker).width <= canvas.parentElement.clientWidth) pen.fillText(l.worker, beside, middle + 0.5);
    }
  });
  drawWeaveFrame(pen, group, rows, at);
  $('scale-low').textContent = digits(low, 2);
  $('scale-high').textContent = digits(high, 2);
  canvas.setAttribute('aria-label', `${group.label}: ${rows.length} paths, ${group.phases} phases, ${group.done} of ${group.tasks} tasks done` +
    (Number.isFinite(low) ? `, loss from ${digits(low, 3)} to ${digits(high, 3)} nats per token` : '') + '. Arrow keys read single cells.');
  readWeave(group, rows);
}
function drawCell(pen, c, at, y, height, low, high) {
  const colour = lossColour(high > low ? (c.loss - low) / (high - low) : 0);
  const x = at.left + c.column * at.cell, width = Math.max(1, at.cell * (c.n > 1 ? c.n : 1) - at.gap);
  pen.fillStyle = `rgb(${colour})`;
  pen.fillRect(x, y, width, height);
  if (at.cell >= 38 && height > 18) {
    pen.fillStyle = brightness(colour) > 0.55 ? '#1d1c1a' : '#ffffff';
    pen.textAlign = 'center';
    pen.fillText(digits(c.loss, 2), x + width / 2, y + height / 2 + 0.5);
  }
}
function drawWeaveFrame(pen, group, rows, at) {
  const bottom = rows.length * at.rowHeight;
  pen.fillStyle = css.soft;
  pen.textAlign = 'center';
  const chapters = group.parts.slice(1).map((part) => part.offset); // their labels stand on the same line
  for (const v of ticks(0, group.phases - 1, Math.max(2, (group.phases * at.cell) / 70)).list)
    if (v === Math.round(v) && !chapters.some((offset) => v >= offset - 0.5 && (v - offset) * at.cell < 70)) pen.fillText(String(v), at.left + (v + 0.5) * at.cell - at.gap / 2, bottom + 12);
  pen.textAlign = 'left';
  pen.fillText('phase', 0, bottom + 12);
  chapters.forEach((offset, i) => {
    const x = at.left + offset * at.cell - at.gap / 2;
    pen.fillStyle = css.ink;
    pen.fillRect(x - 0.75, 0, 1.5, bottom + 4);
    pen.textAlign = 'left';
    pen.fillText('chapter ' + (i + 2), x + 4, bottom + 12);
  });
  if (!run.cursor) return;
  pen.strokeStyle = css.ink;
  pen.lineWidth = 2;
  pen.strokeRect(at.left + run.cursor.column * at.cell - 1, run.cursor.row * at.rowHeight - 1, at.cell - at.gap + 2, at.rowHeight);
}
function readWeave(group, rows) {
  const say = $('weave-readout'), at = run.cursor;
  if (!at || !rows[at.row]) {
    const leases = rows.reduce((n, r) => n + r.leases.length, 0);
    say.textContent = leases ? `${leases} of ${rows.length} paths are being trained` : 'Point at a cell, or use the arrow keys, to read it.';
    return;
  }
  const row = rows[at.row], name = plainPath(group, row.name) || group.label;
  const cell = row.cells.find((c) => c.column <= at.column && at.column < c.column + (c.n || 1));
  const lease = row.leases.find((l) => l.column === at.column);
  const text = cell ? `loss ${digits(cell.loss, 4)} nats per token, ${count(cell.tokens)} tokens in ${duration(cell.seconds)} by ${data.workers[cell.worker] || 'a worker'}, committed at ${clock(cell.at)}`
    : lease ? `leased by ${lease.worker}` + (lease.tau ? `, step ${lease.step} of ${lease.tau}` : '') : 'not begun';
  say.replaceChildren(el('b', {}, `${name}, phase ${at.column}`), ': ' + text);
}
function weaveMouse(event) {
  const group = groups().find((g) => g.name === run.group) || groups()[0], at = weaveLayout(group);
  const box = $('weave').getBoundingClientRect();
  const column = Math.floor((event.clientX - box.left - at.left) / at.cell), row = Math.floor((event.clientY - box.top) / at.rowHeight);
  const inside = column >= 0 && column < group.phases && row >= 0 && row < group.names.length;
  run.cursor = inside ? { column, row } : null;
  drawWeave();
}
function weaveKey(event) {
  const group = groups().find((g) => g.name === run.group) || groups()[0];
  const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (!step || !group) return;
  const from = run.cursor || { column: -step[0], row: -step[1] };
  run.cursor = { column: Math.min(group.phases - 1, Math.max(0, from.column + step[0])),
    row: Math.min(group.names.length - 1, Math.max(0, from.row + step[1])) };
  event.preventDefault();
  drawWeave();
}

/* ---- losses ---- */
function drawLoss() {
  const series = [];
  for (const g of groups()) {
    if (g.name === 'base') continue;
    const mixture = g.name === 'mix', many = g.names.length > 8;
    const rows = weave(g);
    if (!mixture && rows.length > 1) rows.splice(0, rows.length, meanRow(rows));
    rows.forEach((row, i) => {
      const points = row.cells.map((c) => [(100 * (c.column + (c.n || 1))) / g.phases, c.loss]);
      series.push({ name: mixture ? plainPath(g, row.name) : g.label, points, colour: mixture ? pathColour(i) : css.soft,
        weak: !mixture || many, quiet: mixture && many, dash: mixture ? undefined : '4 3' });
    });
  }
  const drawn = lineChart($('loss'), series, { height: 270, xLabel: 'percent of each model’s training', x: [0, 100],
    label: 'Training loss of each path in nats per token, by the share of its training' });
  $('loss-empty').hidden = Boolean(drawn);
  $('loss-empty').replaceChildren(el('b', {}, 'No phase is finished yet. '), 'A point appears for each path when its first phase is merged.');
}
function meanRow(rows) {
  const cells = rows[0].cells.map((c) => {
    const same = rows.map((r) => r.cells.find((o) => o.column === c.column)).filter(Boolean);
    const tokens = same.reduce((n, o) => n + o.tokens, 0);
    return { ...c, tokens: c.tokens, loss: same.reduce((n, o) => n + o.loss * o.tokens, 0) / (tokens || 1) };
  });
  return { ...rows[0], cells };
}
/* Draws the bits per byte of a part of the held-out text, which the workers score while
 * they train. */
function drawCurve() {
  const series = groups().map((g) => ({ name: g.label, points: heldPoints(g), colour: g.name === 'mix' ? css.accent : css.soft,
    weak: g.name !== 'mix', dash: g.name === 'mix' ? undefined : '4 3' })).filter((s) => s.points.length > 0);
  const last = series.map((s) => `${s.name} ${digits(s.points[s.points.length - 1][1], 3)}`).join(', ');
  lineChart($('curve'), series, { height: 190, xLabel: 'percent of each model’s training; on a sample of the text', x: [0, 100],
    label: 'Bits per byte of a sample of the held-out text while the models train: ' + last });
}
function drawBits() {
  const s = data.state, rows = s.held_out.filter((r) => r.bits_per_byte > 0), holder = $('bits');
  if (!rows.length) {
    holder.replaceChildren(el('p', { class: 'empty' }, el('b', {}, 'Not evaluated yet. '), 'The held-out text is scored at the end of the training, or by ',
      el('code', {}, 'pathloom eval --run ' + s.run.folder), '.'));
    return;
  }
  const width = Math.max(280, holder.clientWidth || 380), left = 168, right = 60, step = 38, height = rows.length * step + 26;
  // The standard error of the difference from the mixture, over the same documents. Bits
  // are proportional to the logarithm of the perplexity.
  const error = (r) => (r.arm !== 'mix' && Number.isFinite(r.answer_percent_error) ?
    (r.answer_percent_error / (100 - r.answer_percent_below)) * r.bits_per_byte / Math.log(r.ppl) : 0);
  const against = (r) => (r.arm !== 'mix' && Number.isFinite(r.answer_percent_below) ?
    `mixture ${digits(Math.abs(r.answer_percent_below), 1)}${Number.isFinite(r.answer_percent_error) ? ' ± ' + digits(r.answer_percent_error, 1) : ''} % ${r.answer_percent_below < 0 ? 'worse' : 'better'}` : '');
  const low = Math.min(...rows.map((r) => r.bits_per_byte - error(r))), high = Math.max(...rows.map((r) => r.bits_per_byte + error(r)));
  const x = (v) => left + 6 + ((v - low) / (high - low || 1)) * (width - left - right - 12);
  const picture = svg('svg', { viewBox: `0 0 ${width} ${height}`, height, role: 'img', 'aria-label': 'Bits per byte of held-out text: ' + rows.map((r) => `${r.title} ${digits(r.bits_per_byte, 3)}`).join(', ') });
  rows.forEach((r, i) => {
    const y = i * step + 14, mixture = r.arm === 'mix', colour = mixture ? css.accent : css.soft;
    picture.append(svg('path', { class: 'axis', d: `M${left} ${y}H${width - right}` }),
      svg('text', { x: 0, y: y + 4, class: mixture ? 'strong' : '' }, r.title),
      svg('path', { d: `M${x(r.bits_per_byte - error(r))} ${y}H${x(r.bits_per_byte + error(r))}`, stroke: colour, 'stroke-width': 1.5 }),
      svg('circle', { cx: x(r.bits_per_byte), cy: y, r: mixture ? 5 : 4, fill: colour }),
      svg('text', { x: width, y: y + 4, 'text-anchor': 'end', class: mixture ? 'strong' : '', 'data-row': r.row }, digits(r.bits_per_byte, 3)),
      svg('text', { x: 0, y: y + 18 }, against(r)));
  });
  picture.append(svg('text', { x: 0, y: height - 2 }, `by perplexity on the same ${s.held_out_documents} documents, ± standard error`));
  holder.replaceChildren(picture);
}

/* ---- machines ---- */
const WORKERS_SHOWN = 200;
function drawWorkers() {
  const s = data.state, table = $('workers');
  const head = (...names) => el('thead', {}, el('tr', {}, names.map(([name, number]) => el('th', { class: number ? 'n' : '', scope: 'col' }, name))));
  if (s.workers) {
    const { rows, states, devices, doings } = s.workers, order = rows.slice().sort((a, b) => a[1] - b[1]);
    $('workers-sub').textContent = rows.length > WORKERS_SHOWN ? `${WORKERS_SHOWN} of ${rows.length}, busy ones first` : '';
    table.replaceChildren(head(['Name'], ['State'], ['Tokens/s', 1], ['Task'], ['Step', 1], ['Up/s', 1], ['Down/s', 1], ['Round trip', 1], ['Moved again', 1], ['Reconnects', 1], ['Tasks done', 1], ['Last seen', 1], ['Joined again', 1], ['Device']),
      el('tbody', {}, order.slice(0, WORKERS_SHOWN).map(([name, state, rate, arm, path, tasks, seen, device, joined, doing, up, down, trip, again, reconnects, why]) => {
        const a = s.arms[arm], p = a && a.paths[path], busy = state === 0;
        return el('tr', { 'data-worker': name }, el('td', { class: 'w' }, name), el('td', { class: state > 2 || doings[doing] === 'stalled' ? 'bad' : busy ? '' : 'soft', title: why || '', 'data-field': 'state' }, state < 2 && doings[doing] ? doings[doing] : states[state]),
          el('td', { class: 'n', 'data-field': 'rate' }, busy ? count(rate) : '–'), el('td', { class: p ? 'w' : 'soft' }, p ? `${a.arm} ${p[0]}, phase ${p[1]}` : why || ''),
          el('td', { class: 'n' }, p && p[5] === name ? `${p[2]} of ${a.tau}` : ''),
          el('td', { class: 'n', 'data-field': 'up' }, up ? bytes(up) : '–'), el('td', { class: 'n', 'data-field': 'down' }, down ? bytes(down) : '–'), el('td', { class: 'n' }, trip ? `${trip} ms` : '–'),
          el('td', { class: again > 5 ? 'n bad' : 'n' }, `${again || 0} %`), el('td', { class: 'n' }, reconnects || 0), el('td', { class: 'n', 'data-field': 'tasks' }, tasks),
          el('td', { class: 'n' }, duration(seen) + ' ago'), el('td', { class: 'n' }, joined ? joined - 1 : 0), el('td', { class: 'soft w' }, devices[device]));
      })));
    return;
  }
  const sums = new Map();
  for (const row of data.cells) for (const c of row || []) {
    const sum = sums.get(c.worker) || { tasks: 0, tokens: 0, seconds: 0, at: 0 };
    sums.set(c.worker, { tasks: sum.tasks + (c.n || 1), tokens: sum.tokens + c.tokens, seconds: sum.seconds + c.seconds, at: Math.max(sum.at, c.at) });
  }
  $('workers-sub').textContent = sums.size ? 'from all versions in the store; no job is running' : '';
  table.replaceChildren(head(['Name'], ['Tasks done', 1], ['Tokens', 1], ['Tokens/s', 1], ['Time in inner steps', 1], ['Last task', 1]),
    el('tbody', {}, [...sums].slice(0, WORKERS_SHOWN).map(([id, w]) => el('tr', { 'data-worker': data.workers[id] || '?' }, el('td', { class: 'w' }, data.workers[id] || 'not known'), el('td', { class: 'n', 'data-field': 'tasks' }, w.tasks),
      el('td', { class: 'n' }, count(w.tokens)), el('td', { class: 'n' }, count(w.tokens / (w.seconds || 1))), el('td', { class: 'n' }, duration(w.seconds)), el('td', { class: 'n' }, clock(w.at))))));
}
function drawEvents() {
  const at = time(), list = data.events.filter((e) => e.at <= at).slice(-150).reverse();
  $('events').replaceChildren(...list.map((e) => el('li', {}, el('span', { class: 'soft' }, clock(e.at)),
    el('span', { class: isTrouble(e) ? 'bad' : '' }, e.event), el('span', { class: 'soft' }, e.role + ' ' + e.text))));
  if (!list.length) $('events').append(el('li', {}, el('span', { class: 'soft' }, 'none yet')));
}
function drawHomes() {
  const s = data.state, parts = [], pair = (name, value, bad) => [el('dt', {}, name), el('dd', { class: bad ? 'bad' : '' }, value)];
  if (!s.job) {
    parts.push(el('p', { class: 'empty' }, el('b', {}, 'No job is running. '), 'Homes, leases and audits are shown while a job runs: ', el('code', {}, 'pathloom train --out ' + s.run.folder), '.'));
  } else {
    for (const h of s.homes)
      parts.push(el('h3', {}, h.address), el('dl', { class: 'pairs' }, pair('State', h.up ? 'up' : 'away', !h.up), pair('Store', `${bytes(h.store_bytes)}, ${bytes(h.disk_free_bytes)} free`),
        pair('Versions', count(h.versions_committed)), pair('Updates that wait', h.pending), pair('Rejected, fenced', `${h.rejected}, ${h.fenced}`, h.rejected + h.fenced > 0), h.last_rejection && pair('Last rejection', h.last_rejection, true)));
    const j = s.job, audits = j.audits_agreed + j.audits_differed + j.audits_unchecked + j.audits_open;
    parts.push(el('h3', {}, 'Job'), el('dl', { class: 'pairs' }, pair('Leases', `${j.leases_granted} granted, ${j.leases_expired} expired`), pair('Tasks failed', j.tasks_failed, j.tasks_failed > 0), pair('Backups', `${j.backups_granted} granted, ${j.backups_won} came first`),
      pair('Audits', audits ? `${j.audits_agreed} agreed, ${j.audits_differed} differed, ${j.audits_unchecked} unchecked, ${j.audits_open} open` : 'none', j.audits_differed > 0),
      j.fenced.map((reason) => pair('Fenced', reason, true)), pair('Hub is up for', duration(j.uptime_seconds)), pair('Connections', j.encrypted ? 'encrypted' : 'not encrypted'), j.failure && pair('Failure', j.failure, true)));
  }
  $('homes').replaceChildren(...parts);
}

function drawRun() {
  drawFigures(); drawTimeline(); drawWeave(); drawLoss(); drawCurve(); drawBits(); drawWorkers(); drawEvents(); drawHomes();
}
