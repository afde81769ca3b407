/* The page of a server: one or two paths continue a text, and the line under each token
 * shows its path (by colour) and its probability. The page uses only the server's API. */
const talk = { models: [], answers: [], cursor: null, abort: null };
const isPath = (name) => /^p[0-9a-f]+$/.test(name);
const colourOf = (name) => (isPath(name) ? pathColour(talk.models.filter(isPath).indexOf(name)) : css.soft);

function complain(text) {
  $('note').hidden = !text;
  $('note').textContent = text || '';
}
/* Returns the message of an error, from the server's JSON or from the browser's text. */
function sentence(text) {
  try { return JSON.parse(text).error.message; } catch { return text; }
}
async function loadModels() {
  try {
    const list = (await ask('/v1/models')).data, before = [$('first').value, $('second').value];
    talk.models = list.map((m) => m.id);
    const option = (value, text) => el('option', { value }, text);
    const arms = talk.models.filter((m) => m !== 'auto').map((m) => option(m, m));
    $('first').replaceChildren(option('auto', 'the server chooses'), ...arms);
    $('second').replaceChildren(option('', 'none'), ...talk.models.map((m) => option(m, m === 'auto' ? 'the server chooses' : m)));
    if (before[0]) { $('first').value = before[0]; $('second').value = before[1]; }
    const paths = talk.models.filter(isPath).length, props = await ask('/props');
    $('life').textContent = `${paths} path${paths === 1 ? '' : 's'}, a context of ${props.default_generation_settings.n_ctx} tokens`;
    $('facts').textContent = `${props.model_path}, served by ${props.build_info}`;
    $('token').hidden = true;
    complain('');
  } catch (error) {
    if ($('token').hidden) complain(sentence(String(error.message || error)));
  }
}

/* ---- asking ---- */
async function talkNow() {
  if (talk.abort) return;
  const names = [$('first').value, $('second').value].filter(Boolean);
  talk.abort = new AbortController();
  Object.assign(talk, { cursor: null, answers: names.map((asked) => ({ asked, path: '', tokens: [], text: '', done: false, trouble: '' })) });
  complain('');
  $('stop').hidden = false;
  $('go').disabled = true;
  $('answers').classList.toggle('beside', names.length > 1);
  $('answers').replaceChildren(...talk.answers.map(makeAnswer));
  readToken();
  await Promise.all(talk.answers.map(streamAnswer));
  talk.abort = null;
  $('stop').hidden = true;
  $('go').disabled = false;
}
async function streamAnswer(answer, column) {
  const body = { model: answer.asked, prompt: $('prompt').value, max_tokens: Number($('tokens').value), temperature: Number($('temperature').value),
    seed: Number($('seed').value), logprobs: 5, echo: true, stream: true, stream_options: { include_usage: true } };
  try {
    const reply = await fetch('/v1/completions', { method: 'POST', headers: { ...headers(), 'Content-Type': 'application/json' }, body: JSON.stringify(body), signal: talk.abort.signal });
    if (reply.status === 401) $('token').hidden = false;
    if (!reply.ok) throw new Error(sentence(await reply.text()));
    const reader = reply.body.getReader(), decoder = new TextDecoder();
    let held = '';
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const parts = (held + decoder.decode(value, { stream: true })).split('\n\n');
      held = parts.pop();
      for (const part of parts) if (part.startsWith('data: {')) takeEvent(answer, JSON.parse(part.slice(6)));
      drawAnswer(answer, column);
    }
  } catch (error) {
    answer.trouble = error.name === 'AbortError' ? 'stopped' : String(error.message || error);
  }
  answer.done = true;
  drawAnswer(answer, column);
}
function takeEvent(answer, event) {
  if (event.error) throw new Error(event.error.message);
  if (event.usage) answer.usage = event.usage;
  for (const choice of event.choices) {
    answer.path = choice.path;
    answer.text += choice.text;
    if (choice.finish_reason) answer.finish = choice.finish_reason;
    const scores = choice.logprobs;
    for (let i = 0; scores && i < scores.tokens.length; i++)
      answer.tokens.push({ token: scores.tokens[i], logprob: scores.token_logprobs[i], top: scores.top_logprobs[i] });
  }
}

/* ---- the text ---- */
/* Returns the text to show for each token. If several tokens form one character, the
 * character is shown at the last of them. */
function shownTexts(tokens) {
  let bytes = [];
  return tokens.map(({ token }) => {
    if (token === '<s>' || token === '<unk>') return '';
    if (token === '</s>') return ' end of the text';
    if (!token.startsWith('bytes:')) { bytes = []; return token; }
    bytes.push(...token.slice(6).split('\\x').slice(1).map((h) => parseInt(h, 16)));
    try {
      const text = new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array(bytes));
      bytes = [];
      return text;
    } catch { return ''; }
  });
}
function makeAnswer(answer, column) {
  return el('section', { 'aria-labelledby': 'answer-' + column },
    el('div', { class: 'head' }, el('h2', { id: 'answer-' + column }, '…'), el('span', { class: 'sub', id: 'answer-sub-' + column })),
    el('div', { class: 'text', id: 'text-' + column, tabindex: 0, role: 'group', 'aria-labelledby': 'answer-' + column, onkeydown: (event) => tokenKey(event, column),
      onmouseover: (event) => { const at = event.target.dataset.token; if (at !== undefined) pointAt(column, Number(at)); } }));
}
function chosenBy(answer) {
  const route = answer.usage && answer.usage.routes ? answer.usage.routes[0] : null;
  return !route ? 'chosen by the server' : `chosen by ${route.rule === 'router' ? 'the router' : 'likelihood'}` +
    (route.margin_nats === null ? '' : `, ${route.margin_nats.toFixed(1)} nats ahead of the next path`);
}
function drawAnswer(answer, column) {
  const title = $('answer-' + column), texts = shownTexts(answer.tokens), colour = colourOf(answer.path);
  const given = answer.usage ? answer.usage.prompt_tokens : Infinity;
  title.replaceChildren(el('i', { class: 'swatch', colour }), answer.path || answer.asked);
  $('answer-sub-' + column).textContent = answer.trouble ? '' : [answer.asked === 'auto' && answer.path ? chosenBy(answer) : '',
    answer.usage ? `${answer.usage.completion_tokens} tokens, ${answer.finish === 'stop' ? 'ended by the model' : 'ended at the limit'}` : answer.done ? '' : 'writing'].filter(Boolean).join('; ');
  $('text-' + column).replaceChildren(...answer.tokens.map((t, i) => {
    const p = t.logprob === null ? 0 : Math.exp(t.logprob);
    const node = el('span', { 'data-token': i, class: t.token === '</s>' ? 'end' : i < given && Number.isFinite(given) ? 'given' : '' }, texts[i]);
    node.style.boxShadow = `inset 0 -0.16em 0 color-mix(in srgb, ${colour} ${Math.round(20 + 80 * p)}%, transparent)`;
    return node;
  }), ...(answer.trouble ? [el('p', { class: 'bad' }, answer.trouble)] : []));
  markToken();
}

/* ---- one token ---- */
function pointAt(column, index) {
  talk.cursor = { column, index };
  markToken();
  readToken();
}
const promptLength = (answer) => (answer.usage ? answer.usage.prompt_tokens : 0);
/* Returns the tokens under the cursor. A token of the prompt is the same in both answers,
 * so both are marked. */
function pointed() {
  const at = talk.cursor;
  if (!at) return [];
  return talk.answers.map((answer, column) => (column === at.column || at.index < promptLength(talk.answers[at.column]) ? [column, answer, answer.tokens[at.index]] : [column]))
    .filter(([, , token]) => token);
}
function markToken() {
  for (const node of document.querySelectorAll('.text .read')) node.classList.remove('read');
  for (const [column] of pointed()) {
    const node = document.querySelector(`#text-${column} [data-token="${talk.cursor.index}"]`);
    if (node) node.classList.add('read');
  }
}
const visible = (text) => text.replace(/\n/g, '⏎').replace(/\t/g, '⇥').replace(/^ | $/g, '␣');
function readToken() {
  const list = pointed();
  $('detail').hidden = !list.length;
  $('token-detail').replaceChildren(...list.map(([, answer, t]) => el('div', {},
    el('h3', {}, el('i', { class: 'swatch', colour: colourOf(answer.path) }), answer.path),
    el('p', { class: 'readout' }, el('b', {}, visible(t.token)), t.logprob === null ? ': the first token, which the model does not predict' : `: ${percent(Math.exp(t.logprob))}, ${(-t.logprob / Math.LN2).toFixed(2)} bits`),
    el('div', { class: 'tops' }, Object.entries(t.top || {}).sort((a, b) => b[1] - a[1]).map(([text, logprob]) => {
      const bar = el('i', { 'aria-hidden': 'true', colour: text === t.token ? colourOf(answer.path) : css.line });
      bar.style.width = 100 * Math.exp(logprob) + '%';
      return [el('code', {}, visible(text)), bar, el('span', { class: 'n' }, percent(Math.exp(logprob)))];
    })))));
}
const percent = (p) => (p >= 0.9995 ? '100 %' : p < 0.0001 ? '< 0.01 %' : Number((100 * p).toPrecision(3)) + ' %');
function tokenKey(event, column) {
  const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key], n = talk.answers[column].tokens.length;
  if (!step || !n) return;
  event.preventDefault();
  const from = talk.cursor && talk.cursor.column === column ? talk.cursor.index : step > 0 ? -1 : n;
  pointAt(column, Math.min(n - 1, Math.max(0, from + step)));
}

/* ---- the frame ---- */
$('ask').addEventListener('submit', (event) => { event.preventDefault(); talkNow(); });
$('stop').addEventListener('click', () => { if (talk.abort) talk.abort.abort(); });
$('token').addEventListener('submit', (event) => { event.preventDefault(); token = $('token-text').value.trim(); loadModels(); });
document.addEventListener('keydown', (event) => { if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) { event.preventDefault(); talkNow(); } });
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { readColours(); talk.answers.forEach(drawAnswer); readToken(); });
readColours();
loadModels();
