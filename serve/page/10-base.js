'use strict';
/* Functions for all views: elements, numbers as text, colours, requests to the server.
 * Text from the run is only set as textContent, so this text cannot become HTML. */
const $ = (id) => document.getElementById(id);
const SVG = 'http://www.w3.org/2000/svg';

function fill(node, properties, children) {
  for (const [key, value] of Object.entries(properties || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (key === 'colour') node.style.background = value;
    else node.setAttribute(key, value === true ? '' : value);
  }
  for (const child of children.flat(3))
    if (child !== undefined && child !== null && child !== false)
      node.append(child.nodeType ? child : document.createTextNode(String(child)));
  return node;
}
const el = (tag, properties, ...children) =>
  fill(document.createElement(tag), properties, children);
const svg = (tag, properties, ...children) =>
  fill(document.createElementNS(SVG, tag), properties, children);

/* ---- numbers ---- */
const digits = (value, n) => (Number.isFinite(value) ? value.toFixed(n) : '–');
function count(value) {
  if (!Number.isFinite(value)) return '–';
  const units = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']];
  for (const [size, unit] of units)
    if (Math.abs(value) >= size) return (value / size).toFixed(value < 10 * size ? 2 : 1).replace(/\.0+$/, '') + ' ' + unit;
  return String(Math.round(value));
}
function bytes(value) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let i = 0;
  for (; value >= 1024 && i < units.length - 1; i++) value /= 1024;
  return value.toFixed(i && value < 100 ? 1 : 0) + ' ' + units[i];
}
function duration(seconds) {
  if (!Number.isFinite(seconds)) return '–';
  const s = Math.max(0, Math.round(seconds));
  if (seconds < 10) return seconds.toFixed(1) + ' s';
  if (s < 60) return s + ' s';
  if (s < 3600) return Math.floor(s / 60) + ' min ' + (s % 60) + ' s';
  if (s < 172800) return Math.floor(s / 3600) + ' h ' + Math.floor((s % 3600) / 60) + ' min';
  return Math.floor(s / 86400) + ' d ' + Math.floor((s % 86400) / 3600) + ' h';
}
const two = (n) => String(n).padStart(2, '0');
function clock(ms) {
  const d = new Date(ms);
  return two(d.getHours()) + ':' + two(d.getMinutes()) + ':' + two(d.getSeconds());
}
function date(ms) {
  return new Date(ms).toLocaleDateString('en-GB', { day: 'numeric', month: 'short', year: 'numeric' });
}
const short = (hash) => (hash ? hash.slice(0, 12) : '–');

/* ---- colours ---- */
let css = {};
function readColours() {
  const style = getComputedStyle(document.documentElement);
  css = {};
  for (const name of ['paper', 'ink', 'soft', 'line', 'accent', 'bad', 'good', 'low', 'middle', 'high'])
    css[name] = style.getPropertyValue('--' + name).trim();
  css.paths = Array.from({ length: 8 }, (_, i) => style.getPropertyValue('--p' + i).trim());
}
const pathColour = (index) => css.paths[index % 8];
const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
/* Returns the colour of a loss; share is 0 for the lowest loss and 1 for the
 * highest. */
function lossColour(share) {
  const t = Math.min(1, Math.max(0, share)) * 2;
  const [a, b] = t < 1 ? [rgb(css.low), rgb(css.middle)] : [rgb(css.middle), rgb(css.high)];
  return a.map((v, i) => Math.round(v + (b[i] - v) * (t % 1 || (t === 2 ? 1 : 0))));
}
const brightness = (c) => (0.299 * c[0] + 0.587 * c[1] + 0.114 * c[2]) / 255;

/* ---- questions ---- */
let token = location.hash.slice(1);
const headers = () => (token ? { Authorization: 'Bearer ' + token } : {});
async function ask(url, signal) {
  const answer = await fetch(url, { headers: headers(), signal, cache: 'no-store' });
  if (answer.status === 401) $('token').hidden = false;
  if (!answer.ok) throw new Error((await answer.text()).trim() || 'HTTP ' + answer.status);
  return answer.json();
}
const query = (url, values) => url + '?' + new URLSearchParams(values);
