/* Draws the view of the modules: when and from which paths each module got its
 * versions, one version with its contributors, and how the module's tensors changed. */
const modules = { arm: '', graph: null, asked: '', by: 'time', module: '', version: null, detail: null,
  heat: null, heatAsked: '', heatCursor: null, trouble: '' };

function makeModules(main) {
  main.append(
    el('section', { 'aria-labelledby': 'lineage-title' },
      el('div', { class: 'head' }, el('h2', { id: 'lineage-title' }, 'Lineage'), el('span', { class: 'sub', id: 'lineage-sub' }),
        el('div', { class: 'choice', id: 'arms', role: 'group', 'aria-label': 'Which model' }),
        el('div', { class: 'choice beside', id: 'by', role: 'group', 'aria-label': 'Horizontal axis' })),
      el('div', { class: 'scroll' }, el('canvas', { id: 'lineage', tabindex: 0, role: 'img', onkeydown: lineageKey, onclick: lineageClick })),
      el('div', { class: 'under' }, el('p', { class: 'readout', id: 'lineage-readout', 'aria-live': 'polite' }), el('p', { class: 'legend', id: 'strands' })),
      el('p', { class: 'empty', id: 'lineage-empty', hidden: true })),
    el('section', { id: 'version', 'aria-labelledby': 'version-title', hidden: true },
      el('div', { class: 'head' }, el('h2', { id: 'version-title' }), el('span', { class: 'sub', id: 'version-sub' }),
        el('div', { class: 'choice', role: 'group', 'aria-label': 'Version' },
          el('button', { class: 'plain', 'aria-label': 'Version before', onclick: () => stepVersion(-1) }, '‹'),
          el('label', { class: 'unseen', for: 'version-number' }, 'Number of the version'),
          el('input', { id: 'version-number', type: 'number', min: 0, onchange: () => chooseVersion(modules.module, Number($('version-number').value)) }),
          el('button', { class: 'plain', 'aria-label': 'Next version', onclick: () => stepVersion(1) }, '›'))),
      el('dl', { class: 'pairs columns', id: 'version-facts' }),
      el('div', { class: 'scroll' }, el('table', { id: 'contributors' })),
      el('p', { class: 'readout', id: 'version-note' })),
    el('section', { id: 'heat-part', 'aria-labelledby': 'heat-title', hidden: true },
      el('div', { class: 'head' }, el('h2', { id: 'heat-title' }, 'Change of each tensor'), el('span', { class: 'sub', id: 'heat-sub' })),
      el('div', { class: 'scroll' }, el('canvas', { id: 'heat', tabindex: 0, role: 'img', onkeydown: heatKey, onmousemove: heatMouse, onmouseleave: () => { modules.heatCursor = null; drawHeat(); } })),
      el('div', { class: 'under' }, el('p', { class: 'readout', id: 'heat-readout', 'aria-live': 'polite' }),
        el('span', { class: 'scale' }, el('span', {}, 'relative change'), el('span', { id: 'heat-low' }), el('i', { class: 'turned' }), el('span', { id: 'heat-high' }))),
      el('p', { class: 'empty', id: 'heat-empty', hidden: true })));
}

/* ---- what is known ---- */
const plainModule = (name) => name.slice(name.indexOf('/') + 1).replace(/\.E0$/, (end) => (modules.graph.modules.some((m) => m.module === name.replace(/0$/, '1')) ? end : ''));
async function askModules() {
  const state = data.state, asked = [modules.arm, state.run.versions, state.life].join(' ');
  if (modules.asked === asked) return;
  modules.asked = asked;
  try {
    const graph = await ask(modules.arm ? query('/modules.json', { arm: modules.arm }) : '/modules.json');
    if (modules.asked !== asked) return;
    Object.assign(modules, { graph, trouble: '' });
    const chosen = graph.modules.find((m) => m.module === modules.module);
    if (!chosen && graph.modules.length) {
      const shared = graph.modules.find((m) => m.nodes.some((n) => n[7].length > 1)) || graph.modules[0];
      modules.version = null;
      chooseVersion(shared.module, shared.versions - 1);
    } else {
      askHeat();
    }
  } catch (error) {
    modules.trouble = String(error.message || error);
    modules.asked = '';
  }
  if (view.id === 'modules') drawModules();
}
async function chooseVersion(module, version) {
  const m = modules.graph && modules.graph.modules.find((o) => o.module === module);
  if (!m || !Number.isFinite(version)) return;
  const number = Math.min(m.versions - 1, Math.max(0, Math.round(version)));
  if (modules.module === module && modules.version === number) return;
  Object.assign(modules, { module, version: number, heatCursor: null });
  drawLineage();
  askHeat();
  try {
    const detail = await ask(query('/modules.json', { module, version: number }));
    if (modules.module === module && modules.version === number) modules.detail = detail;
  } catch (error) {
    modules.detail = { module, version: number, trouble: String(error.message || error) };
  }
  drawVersion();
}
const stepVersion = (step) => chooseVersion(modules.module, modules.version + step);
/* Asks for the heat map. The heat map takes long to compute, so the page asks only if
 * the module, or the module's newest version, has changed. */
async function askHeat() {
  const m = modules.graph.modules.find((o) => o.module === modules.module);
  const asked = m ? m.module + ' ' + m.versions : '';
  if (!m || modules.heatAsked === asked) return;
  modules.heatAsked = asked;
  let heat;
  try {
    heat = await ask(query('/modules.json', { module: m.module, heat: 1 }));
  } catch (error) {
    heat = { module: m.module, trouble: String(error.message || error), tensors: [], columns: [] };
  }
  if (modules.heatAsked !== asked) return;
  modules.heat = heat;
  drawHeat();
}

/* ---- the lineage ---- */
function lineageLayout() {
  const rows = modules.graph.modules, many = rows.length > 24, rowHeight = rows.length <= 12 ? 46 : many ? 18 : 30;
  const holder = $('lineage').parentElement.clientWidth;
  const left = Math.min(170, Math.max(60, Math.max(...rows.map((m) => plainModule(m.module).length)) * 7.4 + 24)), right = 26;
  let from = Infinity, to = -Infinity, most = 1;
  for (const m of rows) for (const n of m.nodes) { from = Math.min(from, n[2]); to = Math.max(to, n[2]); most = Math.max(most, n[0]); }
  const width = Math.max(holder, 320);
  const x = (node) => left + 8 + (modules.by === 'time' ? (to > from ? (node[2] - from) / (to - from) : 0) : node[0] / most) * (width - left - right - 16);
  $('lineage').style.width = width + 'px';
  return { rows, rowHeight, left, right, width, x, from, to, most, height: rows.length * rowHeight + 26 };
}
function drawLineage() {
  const graph = modules.graph, none = !graph || !graph.modules.length, canvas = $('lineage');
  canvas.hidden = none;
  $('lineage-empty').hidden = !none;
  $('lineage-empty').replaceChildren(el('b', {}, 'No module yet. '), modules.trouble || 'The modules of the first model appear here as soon as the job has stored them.');
  if (none) return;
  $('arms').replaceChildren(...(graph.arms.length > 1 ? graph.arms.map((name) => el('button', { 'aria-pressed': String(name === graph.arm), 'data-arm': name,
    onclick: () => { modules.arm = name; askModules(); } }, name)) : []));
  $('by').replaceChildren(...['time', 'version'].map((by) => el('button', { 'aria-pressed': String(modules.by === by), 'data-by': by,
    onclick: () => { modules.by = by; drawLineage(); } }, 'by ' + by)));
  $('lineage-sub').textContent = graph.stride > 1 ? `a point stands for up to ${graph.stride} versions` : 'a point is a version; each coloured line to it is the update of a path';
  $('strands').replaceChildren(...(graph.paths.length <= 8 ? graph.paths.map((name, i) => el('span', {}, el('i', { class: 'swatch', colour: pathColour(i) }), name)) : []));
  const at = lineageLayout(), { pen } = sized(canvas, at.height);
  pen.textBaseline = 'middle';
  at.rows.forEach((m, i) => drawModuleRow(pen, m, at, (i + 0.5) * at.rowHeight));
  const bottom = at.rows.length * at.rowHeight + 12;
  pen.fillStyle = css.soft;
  pen.textAlign = 'left';
  pen.fillText(modules.by === 'time' ? clock(at.from) : 'version 0', at.left, bottom);
  pen.textAlign = 'right';
  pen.fillText(modules.by === 'time' ? clock(at.to) : String(at.most), at.width - at.right + 10, bottom);
  canvas.setAttribute('aria-label', `Lineage of ${at.rows.length} modules of ${graph.arm}, ${Math.max(...at.rows.map((m) => m.versions))} versions at most. Arrow keys choose a version; it is shown below.`);
  readLineage();
}
function drawModuleRow(pen, m, at, y) {
  const chosen = m.module === modules.module, room = at.rowHeight / 2 - 5;
  pen.fillStyle = chosen ? css.ink : css.soft;
  pen.textAlign = 'left';
  pen.fillText(plainModule(m.module), 0, y);
  m.nodes.forEach((node, i) => {
    const x1 = at.x(node), before = m.nodes[i - 1], x0 = before ? at.x(before) : x1, n = node[7].length;
    if (!before) return;
    pen.lineWidth = at.rowHeight > 24 ? 2 : 1.25;
    node[7].forEach((path, k) => {
      const rise = n > 1 ? ((2 * k) / (n - 1) - 1) * Math.min(room, 4 + (x1 - x0) / 3) : 0, bend = (x1 - x0) * 0.35;
      pen.strokeStyle = pathColour(path);
      pen.beginPath();
      pen.moveTo(x0, y);
      pen.bezierCurveTo(x0 + bend, y + rise, x1 - bend, y + rise, x1, y);
      pen.stroke();
    });
    if (!n) {
      pen.strokeStyle = node[6] ? css.bad : css.line;
      pen.beginPath(); pen.moveTo(x0, y); pen.lineTo(x1, y); pen.stroke();
    }
  });
  const gap = m.nodes.length > 1 ? (at.x(m.nodes[m.nodes.length - 1]) - at.x(m.nodes[0])) / (m.nodes.length - 1) : 99;
  const size = Math.max(1.5, Math.min(gap / 2.6, at.rowHeight > 24 ? 4 : 3));
  for (const node of m.nodes) {
    const on = chosen && nodeOf(m) === node;
    pen.beginPath();
    pen.arc(at.x(node), y, on ? size + 2.5 : size, 0, 7);
    pen.fillStyle = on ? css.accent : node[6] ? css.bad : css.ink;
    pen.fill();
    if (on) { pen.strokeStyle = css.paper; pen.lineWidth = 1.5; pen.stroke(); }
  }
}
/* Finds the point of the chart that contains the chosen version. */
const nodeOf = (m) => m.nodes.find((n) => n[0] >= modules.version) || m.nodes[m.nodes.length - 1];
function readLineage() {
  const m = modules.graph.modules.find((o) => o.module === modules.module), node = m && nodeOf(m);
  if (!node) { $('lineage-readout').textContent = ''; return; }
  $('lineage-readout').replaceChildren(el('b', {}, node[1] > 1 ? `${plainModule(m.module)}, versions ${node[0] - node[1] + 1} to ${node[0]}` : `${plainModule(m.module)}@${node[0]}`),
    node[6] ? ': made by a rollback' : node[5] ? `: ${node[5]} update${node[5] > 1 ? 's' : ''}, loss ${digits(node[4], 4)} nats per token, ${clock(node[2])}` : m.before ? `: began as the last version of ${m.before}` : ': the version with which training began');
}
function lineageClick(event) {
  const at = lineageLayout(), box = $('lineage').getBoundingClientRect();
  const m = at.rows[Math.floor((event.clientY - box.top) / at.rowHeight)], x = event.clientX - box.left;
  if (!m || !m.nodes.length) return;
  let best = m.nodes[0];
  for (const n of m.nodes) if (Math.abs(at.x(n) - x) < Math.abs(at.x(best) - x)) best = n;
  chooseVersion(m.module, best[0]);
}
function lineageKey(event) {
  const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (!step || !modules.graph) return;
  event.preventDefault();
  const rows = modules.graph.modules, i = Math.max(0, rows.findIndex((m) => m.module === modules.module)), m = rows[i];
  if (step[1]) { const next = rows[Math.min(rows.length - 1, Math.max(0, i + step[1]))]; chooseVersion(next.module, modules.version); return; }
  const k = m.nodes.indexOf(nodeOf(m)), node = m.nodes[Math.min(m.nodes.length - 1, Math.max(0, k + step[0]))];
  chooseVersion(m.module, node[0]);
}

/* ---- one version ---- */
function drawVersion() {
  const d = modules.detail;
  $('version').hidden = !d;
  if (!d) return;
  $('version-title').textContent = `${d.module}@${d.version}`;
  if (document.activeElement !== $('version-number')) $('version-number').value = String(d.version);
  $('version-sub').textContent = d.trouble ? '' : d.source !== undefined ? `a rollback to version ${d.source}` : d.version === 0 ? 'the version with which training began' : `${d.contributors.length + d.left_out} updates merged by ${d.method}`;
  $('version-note').textContent = d.trouble || (d.contributors.length && d.no_cosine ? `No cosines: ${d.no_cosine}.` : '');
  const pair = (name, value) => [el('dt', {}, name), el('dd', {}, value)], hash = (text) => el('span', { class: 'hash', title: text }, short(text));
  $('version-facts').replaceChildren(...(d.trouble ? [] : [
    pair('Hash', hash(d.hash)), pair('Parent', hash(d.parent)), pair('Committed', `${clock(d.wall_ms)}, ${date(d.wall_ms)}, commit ${d.commit}`),
    pair('Parameters', count(d.params) + (d.collected ? ', deleted by garbage collection; only the record is left' : '')), pair('Norm', d.params_norm > 0 ? digits(d.params_norm, 4) : '–'),
    pair('Norm of the update', d.version && d.source === undefined ? digits(d.update_norm, 4) : '–'),
    pair('Outer step', d.version && d.source === undefined ? `lr ${d.lr}, momentum ${d.momentum}` : '–')].flat()));
  const head = [['Path'], ['Worker'], ['Phase', 1], ['Samples', 1], ['Tokens', 1], ['Loss', 1], ['Weight', 1], ['Norm', 1], ['Cosine to the mean update', 1], ['Update'], ['Audit']];
  const list = d.contributors || [];
  $('contributors').replaceChildren(...(list.length ? [el('thead', {}, el('tr', {}, head.map(([name, number]) => el('th', { class: number ? 'n' : '', scope: 'col' }, name)))),
    el('tbody', {}, list.map((c) => el('tr', { 'data-path': c.path_name, 'data-worker': c.worker },
      el('td', { class: 'w' }, el('i', { class: 'swatch', colour: pathColour(c.path) }), (c.path_name || c.path) + (c.replica ? '.r' + c.replica : '')), el('td', { class: 'w', title: c.device }, c.worker),
      el('td', { class: 'n' }, c.phase), el('td', { class: 'n' }, `${c.first_sample} to ${c.first_sample + c.samples - 1}`), el('td', { class: 'n' }, count(c.tokens)),
      el('td', { class: 'n', 'data-field': 'loss' }, digits(c.loss, 4)), el('td', { class: 'n' }, c.share ? digits(100 * c.share, 1) + ' %' : '–'), el('td', { class: 'n' }, digits(c.norm, 4)),
      el('td', { class: 'n', 'data-field': 'cosine' }, cosineBar(c.cosine)), el('td', { class: 'w' }, hash(c.update), ` ${c.codec}, ${bytes(c.update_bytes)}`),
      el('td', { class: c.audit && c.audit.verdict === 'odd' ? 'w bad' : 'w' }, c.audit ? `${c.audit.verdict}, ${c.audit.workers.length} results` : ''))))] : []));
  if (d.left_out) $('version-note').textContent += ` ${d.left_out} further updates are not listed.`;
}
const cosineBar = (value) => (Number.isFinite(value) ? [el('i', { class: 'bar', 'aria-hidden': 'true', colour: `linear-gradient(90deg, ${css.accent} ${Math.max(0, 100 * value)}%, ${css.line} 0)` }), digits(value, 3)] : '–');

/* ---- the heat map ---- */
function heatLayout() {
  const h = modules.heat, holder = $('heat').parentElement.clientWidth, small = holder < 520;
  const names = h.tensors.map((t) => t.replace(/^model\.layers\./, '').replace(/^model\./, '').replace('.weight ', ' '));
  const left = small ? 150 : Math.min(300, Math.max(...names.map((t) => t.length)) * 6.6 + 10);
  const cell = Math.max(8, Math.min(96, (holder - left - 8) / Math.max(1, h.columns.length)));
  $('heat').style.width = Math.max(holder, left + cell * h.columns.length + 8) + 'px';
  return { names, left, cell, rowHeight: 20, height: names.length * 20 + 22, small };
}
const heatValue = (column, row) => (column[2].length ? column[2][row] : 0);
function drawHeat() {
  const h = modules.heat;
  $('heat-part').hidden = !h;
  if (!h) return;
  const none = !h.columns.length;
  $('heat').hidden = none;
  $('heat-empty').hidden = !none;
  $('heat-empty').textContent = h.trouble || 'Fewer than two versions of this module still have their parameters, so there is no change to show.';
  $('heat-sub').textContent = h.module + (h.columns.some((c) => c[1] - c[0] > 1) ? ', from each compared version to the next one' : ', from each version to the next one');
  if (none) return;
  const at = heatLayout(), { pen } = sized($('heat'), at.height);
  const values = h.columns.flatMap((c) => c[2]).filter((v) => v > 0 && Number.isFinite(v)), low = Math.min(...values), high = Math.max(...values);
  const share = (v) => (v > 0 && high > low ? Math.log(v / low) / Math.log(high / low) : v > 0 ? 1 : 0);
  pen.textBaseline = 'middle';
  at.names.forEach((name, row) => {
    const y = row * at.rowHeight;
    pen.fillStyle = row === at.names.length - 1 ? css.ink : css.soft;
    pen.textAlign = 'left';
    pen.fillText(at.small ? name.slice(0, 22) : name, 0, y + 9);
    h.columns.forEach((column, i) => {
      const v = heatValue(column, row);
      pen.fillStyle = v > 0 ? `rgb(${lossColour(1 - share(v))})` : css.line;
      pen.fillRect(at.left + i * at.cell, y, at.cell - 1, at.rowHeight - 1);
    });
  });
  pen.fillStyle = css.soft;
  pen.textAlign = 'center';
  const every = Math.max(1, Math.ceil(38 / at.cell));
  h.columns.forEach((c, i) => { if (i % every === 0) pen.fillText(String(c[1]), at.left + (i + 0.5) * at.cell, at.height - 9); });
  pen.textAlign = 'left';
  pen.fillText('version', 0, at.height - 9);
  $('heat-low').textContent = percent(low);
  $('heat-high').textContent = percent(high);
  const cursor = modules.heatCursor, say = $('heat-readout');
  $('heat').setAttribute('aria-label', `Relative change of ${at.names.length} tensors of ${h.module} in ${h.columns.length} steps, from ${percent(low)} to ${percent(high)}. Arrow keys read single cells.`);
  if (!cursor || !h.columns[cursor.column] || !h.tensors[cursor.row]) { say.textContent = 'Point at a cell, or use the arrow keys, to read it.'; return; }
  pen.strokeStyle = css.ink;
  pen.lineWidth = 2;
  pen.strokeRect(at.left + cursor.column * at.cell - 1, cursor.row * at.rowHeight - 1, at.cell + 1, at.rowHeight + 1);
  const column = h.columns[cursor.column];
  say.replaceChildren(el('b', {}, h.tensors[cursor.row]), `: changed by ${percent(heatValue(column, cursor.row))} of its norm from version ${column[0]} to ${column[1]}`);
}
const percent = (v) => (Number.isFinite(v) ? Number((100 * v).toPrecision(3)) + ' %' : '–');
function heatMouse(event) {
  const at = heatLayout(), box = $('heat').getBoundingClientRect();
  const column = Math.floor((event.clientX - box.left - at.left) / at.cell), row = Math.floor((event.clientY - box.top) / at.rowHeight);
  modules.heatCursor = modules.heat.columns[column] && at.names[row] ? { column, row } : null;
  drawHeat();
}
function heatKey(event) {
  const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key], h = modules.heat;
  if (!step || !h || !h.columns.length) return;
  const from = modules.heatCursor || { column: step[0] ? -step[0] : 0, row: step[1] ? -step[1] : 0 };
  modules.heatCursor = { column: Math.min(h.columns.length - 1, Math.max(0, from.column + step[0])), row: Math.min(h.tensors.length - 1, Math.max(0, from.row + step[1])) };
  event.preventDefault();
  drawHeat();
}

function drawModules() {
  askModules();
  drawLineage(); drawVersion(); drawHeat();
}
