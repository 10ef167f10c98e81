// The timeline: the kernels of one run in order, as wide as the time each takes.

const timeline = { view: { x: 0, y: 0, scale: 1, least: 1, most: 4000 }, begins: [], total: 0 };

function layTimeline() {
  const steps = program().steps;
  const timed = steps.some((step) => step.seconds);
  timeline.begins = [];
  timeline.total = 0;
  for (const step of steps) {
    timeline.begins.push(timeline.total);
    timeline.total += timed ? step.seconds || 0 : 1;
  }
  timeline.begins.push(timeline.total);
  Object.assign(timeline.view, { x: 0, y: 0, scale: 1 });
  find("timeline-note").textContent = timed
    ? `${seconds(timeline.total)} in ${kernels(steps.length)}; green from 50 % of the roofline, amber from 20 %`
    : `${kernels(steps.length)}, which ${steps.length === 1 ? "was" : "were"} not run`;
}

function drawTimeline() {
  const { context, width, height } = fit(find("timeline"), 86);
  const view = timeline.view, steps = program().steps;
  view.x = Math.min(0, Math.max(view.x, width - width * view.scale));
  const unit = width * view.scale / (timeline.total || 1);
  const top = 8, bottom = height - 24;
  const colors = Object.fromEntries(["good", "fair", "poor", "none"].map((n) => [n, color(n)]));
  context.font = "11px system-ui, sans-serif";
  let first = bisect(timeline.begins, -view.x / unit);
  let painted = -1;
  for (let k = Math.max(first - 1, 0); k < steps.length; k++) {
    const left = timeline.begins[k] * unit + view.x;
    if (left > width) break;
    const right = timeline.begins[k + 1] * unit + view.x;
    const chosen = k === state.step;
    if (right <= painted && !chosen) continue; // less than a pixel, and that one is taken
    painted = Math.max(right, Math.floor(left) + 1);
    context.globalAlpha = matches(steps[k]) ? 1 : 0.15;
    context.fillStyle = colors[quality(steps[k].roofline)];
    context.fillRect(left, top, Math.max(right - left - (right - left > 3 ? 1 : 0), 1), bottom - top);
    if (right - left > 46) {
      context.fillStyle = color("on-color");
      context.save();
      context.beginPath();
      context.rect(left, top, right - left - 4, bottom - top);
      context.clip();
      context.fillText(nameOf(steps[k]), Math.max(left, 0) + 5, top + 16);
      context.fillText(seconds(steps[k].seconds), Math.max(left, 0) + 5, top + 32);
      context.restore();
    }
    context.globalAlpha = 1;
  }
  const left = timeline.begins[state.step] * unit + view.x;
  const right = timeline.begins[state.step + 1] * unit + view.x;
  context.strokeStyle = color("text");
  context.lineWidth = 2;
  context.strokeRect(left, top - 3, Math.max(right - left, 2), bottom - top + 6);
  if (steps.some((step) => step.seconds)) drawTimeAxis(context, width, bottom, unit, view.x);
}

function drawTimeAxis(context, width, top, unit, begin) { // `unit` is the pixels of a second
  const span = width / unit;
  const most = Math.max(width / 80, 1);
  let tick = 10 ** Math.floor(Math.log10(span / most));
  for (const factor of [2.5, 2, 2]) if (span / tick > most) tick *= factor;
  context.fillStyle = color("soft");
  const start = Math.ceil(-begin / unit / tick);
  for (let k = start; k * tick * unit + begin < width - 40; k++) {
    const x = k * tick * unit + begin;
    context.fillRect(x, top + 4, 1, 5);
    context.fillText(k ? tickText(k * tick) : "0", x + 3, top + 16);
  }
}

function tickText(value) { // as many digits as a tick needs
  const [unit, name] = value >= 1 ? [1, "s"] : value >= 1e-3 ? [1e-3, "ms"] : [1e-6, "µs"];
  return Number((value / unit).toPrecision(6)) + " " + name;
}

function bisect(values, wanted) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= wanted) low = middle + 1; else high = middle;
  }
  return low;
}

function timelineStep(event) {
  const width = find("timeline").clientWidth;
  const unit = width * timeline.view.scale / (timeline.total || 1);
  const at = (event.offsetX - timeline.view.x) / unit;
  return Math.min(Math.max(bisect(timeline.begins, at) - 1, 0), program().steps.length - 1);
}

function startTimeline() {
  const canvas = find("timeline");
  pannable(canvas, timeline.view, once(drawTimeline), (event) => choose(timelineStep(event)));
  canvas.addEventListener("pointermove", (event) => {
    if (program().steps.length) tip(event, stepTip(program().steps[timelineStep(event)]));
  });
  canvas.addEventListener("pointerleave", (event) => tip(event, ""));
}
