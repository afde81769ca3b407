/* The run's data in the browser: the newest state, and the history so far. Each refresh
 * adds new records to the history. */
const data = {
  state: null, lost: '', paths: [], heldBytes: [], workers: [], cells: [], leases: [], events: [],
  epoch: 0, serial: 0, eventsSerial: 0, leasesSerial: 0, now: null, // time that is shown, in ms; null: the newest state
};

function takeHistory(h) {
  if (h.whole) Object.assign(data, { cells: [], leases: [], events: [] });
  data.paths = h.paths;
  data.heldBytes = h.held_bytes;
  data.workers = h.workers;
  for (const [path, phase, n, loss, tokens, seconds, worker, from, at, held] of h.cells) {
    const row = (data.cells[path] = data.cells[path] || []);
    const cell = { path, phase, n, loss, tokens, seconds, worker, from, at, held };
    const old = row.findIndex((c) => c.phase === phase);
    if (old >= 0) row[old] = cell; else row.push(cell);
  }
  for (const row of data.cells) if (row) row.sort((a, b) => a.phase - b.phase);
  for (const [at, path, phase, worker] of h.leases) data.leases.push({ at, path, phase, worker });
  data.leases.sort((a, b) => a.at - b.at);
  if (data.leases.length > 20000) data.leases = data.leases.slice(-16000);
  for (const [at, level, role, event, text] of h.events) data.events.push({ at, level, role, event, text });
  data.events.sort((a, b) => a.at - b.at);
  if (data.events.length > 5000) data.events = data.events.slice(-4000);
  Object.assign(data, { epoch: h.epoch, serial: h.serial, stride: h.stride,
    eventsSerial: h.events_serial, leasesSerial: h.leases_serial });
}

/* Asks for the newest data. Only one refresh runs at a time; if refresh() is called
 * meanwhile, another refresh follows. */
let refreshing = null, again = false;
async function refresh() {
  if (refreshing) { again = true; return refreshing; }
  refreshing = (async () => {
    try {
      const state = await ask('/state.json');
      if (!data.state || state.serial !== data.serial || state.epoch !== data.epoch ||
          state.events !== data.eventsSerial + data.leasesSerial)
        takeHistory(await ask(query('/history', { epoch: data.epoch, since: data.serial,
          events: data.eventsSerial, leases: data.leasesSerial })));
      data.state = state;
      data.lost = '';
      $('token').hidden = true;
    } catch (error) {
      data.lost = String(error.message || error);
    }
    draw();
  })();
  await refreshing;
  refreshing = null;
  if (again) { again = false; setTimeout(refresh, 400); }
}

/* Reads server-sent events with fetch, because EventSource cannot send a token. */
async function listen() {
  for (;;) {
    try {
      const answer = await fetch('/events', { headers: headers() });
      if (!answer.ok) throw new Error('HTTP ' + answer.status);
      const reader = answer.body.getReader(), text = new TextDecoder();
      let held = '';
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        held += text.decode(value, { stream: true });
        if (held.includes('event: state')) refresh();
        held = held.slice(held.lastIndexOf('\n\n') + 1);
      }
    } catch (error) {
      data.lost = 'the page cannot reach pathloom page; start this program again';
      draw();
    }
    await new Promise((resolve) => setTimeout(resolve, 2000));
    refresh();
  }
}

/* ---- the run at the time that is shown ---- */
const time = () => (data.now === null ? Infinity : data.now);
function timeRange() {
  let from = Infinity, to = -Infinity;
  for (const row of data.cells) for (const c of row || []) {
    from = Math.min(from, c.from);
    to = Math.max(to, c.at);
  }
  for (const e of data.events) { from = Math.min(from, e.at); to = Math.max(to, e.at); }
  for (const l of data.leases) { from = Math.min(from, l.at); to = Math.max(to, l.at); }
  if (data.state && data.state.life === 'training') to = Math.max(to, data.state.wall_ms);
  return from < to ? [from, to] : null;
}

/* Groups the arms of the run: all chapters of the mixture form one group, and each other
 * arm is a group. Arms that only score documents (score...) are left out. A group has its
 * arms in order (parts), the names of its paths, and the number of its phases. */
function groups() {
  const list = [], byName = new Map();
  for (const arm of data.state ? data.state.arms : []) {
    if (arm.arm.startsWith('score')) continue;
    const name = arm.chapter >= 0 ? 'mix' : arm.arm;
    if (!byName.has(name)) {
      byName.set(name, { name, parts: [] });
      list.push(byName.get(name));
    }
    byName.get(name).parts.push(arm);
  }
  const order = (g) => (g.name === 'mix' ? 0 : g.name === 'base' ? 2 : 1);
  list.sort((a, b) => order(a) - order(b));
  for (const g of list) {
    g.parts.sort((a, b) => a.chapter - b.chapter);
    g.phases = 0;
    for (const part of g.parts) { part.offset = g.phases; g.phases += part.phases; }
    const last = g.parts[g.parts.length - 1];
    g.names = last.paths.map((p) => p[0]);
    g.done = g.parts.reduce((sum, part) => sum + part.tasks_done, 0);
    g.tasks = g.parts.reduce((sum, part) => sum + part.tasks, 0);
    g.label = { mix: 'mixture', base: 'base model', diloco: 'DiLoCo', dense: 'dense' }[g.name] || g.name;
  }
  return list;
}
const plainPath = (group, name) =>
  group.names.every((n) => n.endsWith('.r0')) ? name.replace(/\.r0$/, '')
    : group.names.every((n) => n.startsWith('p00')) ? name.replace(/^p0+\./, '') : name;

/* Returns the held-out curve of one group at the time that is shown. It has a point
 * [percent of the group's training, bits per byte] for each phase before which all
 * paths scored their part of the held-out text. */
function heldPoints(group) {
  const at = time(), points = [];
  for (const part of group.parts) {
    const ids = part.paths.map(([name]) => data.paths.indexOf(part.arm + '/' + name)).filter((id) => data.heldBytes[id] > 0);
    const bytes = ids.reduce((n, id) => n + data.heldBytes[id], 0), sums = new Map();
    for (const id of ids) for (const c of data.cells[id] || []) {
      if (!(c.held > 0) || c.at > at) continue;
      const sum = sums.get(c.phase) || { n: 0, nats: 0 };
      sums.set(c.phase, { n: sum.n + 1, nats: sum.nats + c.held });
    }
    for (const [phase, sum] of sums)
      if (sum.n === ids.length) points.push([(100 * (part.offset + phase)) / group.phases, sum.nats / Math.LN2 / bytes]);
  }
  return points.sort((a, b) => a[0] - b[0]);
}

/* Returns one row per path of a group, with the path's cells and leases at the time
 * that is shown. */
function weave(group) {
  const at = time(), rows = group.names.map((name) => ({ name, cells: [], leases: [] }));
  for (const part of group.parts)
    part.paths.forEach(([name, phase, step, , , worker], i) => {
      if (i >= rows.length) return;
      const id = data.paths.indexOf(part.arm + '/' + name), row = rows[i];
      for (const c of data.cells[id] || [])
        if (c.at <= at) row.cells.push({ ...c, column: part.offset + c.phase });
      if (data.now === null && worker)
        row.leases.push({ column: part.offset + phase, worker, step, tau: part.tau });
      if (data.now !== null) {
        let lease = null;
        for (const l of data.leases) if (l.path === id && l.at <= at) lease = l;
        const cell = lease && (data.cells[id] || []).find((c) => c.phase <= lease.phase && lease.phase < c.phase + (c.n || 1));
        if (lease && !(cell && cell.at <= at))
          row.leases.push({ column: part.offset + lease.phase, worker: data.workers[lease.worker] || '?' });
      }
    });
  return rows;
}
