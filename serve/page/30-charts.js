/* Draws charts: lines, scales, and canvases of the right size. */
function ticks(from, to, about) {
  const span = to - from || 1, raw = span / about, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const list = [];
  for (let v = Math.ceil(from / step) * step; v <= to + step * 1e-9; v += step) list.push(v);
  return { list, places: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}

/* Gives a canvas the resolution of the screen; callers draw in CSS pixels. */
function sized(canvas, height) {
  const width = canvas.clientWidth || 300, ratio = window.devicePixelRatio || 1;
  canvas.style.height = height + 'px';
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const pen = canvas.getContext('2d');
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = '12px ui-sans-serif, system-ui, "Segoe UI", sans-serif';
  return { pen, width, height };
}

/* Sets the height `at` of each label: near the label's y, but at least `least` pixels
 * from the others, so that labels do not overlap. */
function spread(labels, least, top, bottom) {
  labels.sort((a, b) => a.y - b.y);
  let before = top - least;
  for (const label of labels) { label.at = Math.max(label.y, before + least); before = label.at; }
  let after = bottom + least;
  for (const label of labels.slice().reverse()) { label.at = Math.min(label.at, after - least); after = label.at; }
  return labels;
}

/* Draws a chart into an element. Each series has a name, a colour and points [[x, y]].
 * `weak`: a thin line; `dash`: a dashed line; `quiet`: no label. */
function lineChart(holder, series, options) {
  const width = Math.max(280, holder.clientWidth || 600), height = options.height || 260;
  const left = 40, right = options.right || 92, top = 12, bottom = 34;
  const all = series.flatMap((s) => s.points).filter((p) => Number.isFinite(p[1]));
  holder.replaceChildren();
  if (!all.length) return null;
  const xs = all.map((p) => p[0]), ys = all.map((p) => p[1]);
  const [x0, x1] = options.x || [Math.min(...xs), Math.max(...xs)];
  const pad = (Math.max(...ys) - Math.min(...ys)) * 0.06 || 0.1;
  const y0 = Math.min(...ys) - pad, y1 = Math.max(...ys) + pad;
  const x = (v) => left + ((v - x0) / (x1 - x0 || 1)) * (width - left - right);
  const y = (v) => top + ((y1 - v) / (y1 - y0)) * (height - top - bottom);
  const picture = svg('svg', { viewBox: `0 0 ${width} ${height}`, height, role: 'img', 'aria-label': options.label });
  const yTicks = ticks(y0, y1, 5), xTicks = ticks(x0, x1, Math.max(3, width / 160));
  for (const v of yTicks.list)
    picture.append(svg('path', { class: 'axis', d: `M${left} ${y(v)}H${width - right}` }),
      svg('text', { x: left - 8, y: y(v) + 4, 'text-anchor': 'end' }, v.toFixed(yTicks.places)));
  for (const v of xTicks.list)
    picture.append(svg('text', { x: x(v), y: height - bottom + 18, 'text-anchor': 'middle' }, count(v)));
  picture.append(svg('text', { x: left, y: height - 3 }, options.xLabel));
  const labels = [];
  for (const s of series.slice().sort((a, b) => (b.weak ? 1 : 0) - (a.weak ? 1 : 0))) {
    if (!s.points.length) continue;
    const d = s.points.map((p, i) => (i ? 'L' : 'M') + x(p[0]).toFixed(1) + ' ' + y(p[1]).toFixed(1)).join('');
    const last = s.points[s.points.length - 1];
    picture.append(svg('path', { d, fill: 'none', stroke: s.colour, 'stroke-width': s.weak ? 1.25 : 2,
      'stroke-linejoin': 'round', 'stroke-linecap': 'round', 'stroke-dasharray': s.dash },
      svg('title', {}, s.name)),
      svg('circle', { cx: x(last[0]), cy: y(last[1]), r: s.weak ? 2 : 3, fill: s.colour }));
    if (!s.quiet) labels.push({ y: y(last[1]) + 4, x: x(last[0]), text: s.name, colour: s.colour, weak: s.weak });
  }
  for (const label of spread(labels.slice(0, 14), 14, top + 8, height - bottom)) {
    const near = label.x + 8 < width - right + 6 ? label.x + 8 : width - right + 10;
    if (Math.abs(label.at - label.y) > 7)
      picture.append(svg('path', { class: 'axis', d: `M${label.x} ${label.y - 4}L${near - 2} ${label.at - 4}` }));
    picture.append(svg('text', { x: near, y: label.at, class: label.weak ? '' : 'strong' }, label.text));
  }
  holder.append(picture);
  return { x, y };
}
