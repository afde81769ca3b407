/* The frame around all views: it switches views, handles keys, and shows the facts of the
 * run. */
const views = [{ id: 'run', title: 'Run', make: makeRun, draw: drawRun },
  { id: 'modules', title: 'Modules', make: makeModules, draw: drawModules },
  { id: 'router', title: 'Router', make: makeRouter, draw: drawRouter }];
let view = null;

function show(id) {
  view = views.find((v) => v.id === id) || views[0];
  for (const button of document.querySelectorAll('[role=tab]')) {
    button.setAttribute('aria-selected', String(button.dataset.view === view.id));
    button.tabIndex = button.dataset.view === view.id ? 0 : -1;
  }
  $('main').replaceChildren();
  $('main').setAttribute('aria-labelledby', 'tab-' + view.id);
  view.make($('main'));
  draw();
}

const lives = { training: 'training', finished: 'finished', stopped: 'stopped; no job is running',
  preparing: 'nothing is trained yet', silent: 'the hub does not answer: the job is starting, or was killed' };
function draw() {
  const s = data.state, trouble = data.lost || (s && s.trouble);
  $('note').hidden = !trouble || !$('token').hidden;
  $('note').textContent = trouble || '';
  if (!s) return;
  $('run-name').textContent = s.run.name;
  document.title = s.run.name + ' · Pathloom';
  $('life').textContent = data.lost ? 'connection lost' : s.reading ? lives[s.life] + ', reading the store' : lives[s.life];
  $('life').className = data.lost ? 'lost' : s.life;
  $('facts').textContent = `${s.run.folder}: ${s.run.topology} mixture, ${s.run.paths} paths of ${count(s.run.params_per_path)} parameters each, ${count(s.run.params_total)} parameters in all, ${count(s.run.versions)} versions read. Pathloom ${s.version}`;
  if (view) view.draw();
}

function tabKey(event) {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!step) return;
  const next = views[(views.indexOf(view) + step + views.length) % views.length];
  show(next.id);
  document.getElementById('tab-' + next.id).focus();
}
document.addEventListener('keydown', (event) => {
  const at = event.target, typing = /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName) && at.type !== 'range';
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const n = Number(event.key);
  if (n >= 1 && n <= views.length) show(views[n - 1].id);
  else if (view.id === 'run' && event.key === ' ' && !/^(BUTTON|A)$/.test(at.tagName)) { event.preventDefault(); play(); }
  else if (view.id === 'run' && event.key.toLowerCase() === 'l') live();
});
let resized = null;
window.addEventListener('resize', () => { clearTimeout(resized); resized = setTimeout(draw, 80); });
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { readColours(); draw(); });
$('token').addEventListener('submit', (event) => {
  event.preventDefault();
  token = $('token-text').value.trim();
  refresh();
});
document.querySelector('.tabs').hidden = views.length === 1;
document.querySelector('.tabs').append(...views.map((v) => el('button', { role: 'tab', id: 'tab-' + v.id, 'data-view': v.id, 'aria-controls': 'main', onclick: () => show(v.id), onkeydown: tabKey }, v.title)));
$('main').setAttribute('role', 'tabpanel');
readColours();
show('run');
refresh();
listen();
