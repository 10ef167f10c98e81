"use strict";
// Elements, numbers, colours and the state that all parts of the page share.
// All text goes through `textContent`: nothing of the data is ever parsed as HTML.

const data = JSON.parse(document.getElementById("data").textContent);

// Steps and buffers are stored as columns, in which a value that repeats is stored once.
function unpackRows({ count, columns }) {
  const lists = Object.entries(columns).map(([key, column]) =>
    [key, Array.isArray(column) ? column : column.at.map((k) => column.values[k])]);
  return Array.from({ length: count }, (_, k) =>
    Object.fromEntries(lists.map(([key, values]) => [key, values[k]])));
}

for (const each of data.programs) {
  each.steps = unpackRows(each.steps);
  each.buffers = unpackRows(each.buffers);
}

const state = { program: 0, step: 0, programTab: "Graph", kernelTab: "Overview", query: "" };

function make(tag, attributes, ...children) {
  const svg = ["svg", "rect", "line", "text", "circle", "path", "polyline", "g", "title"].includes(tag);
  const element = svg
    ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false)
      element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

const find = (id) => document.getElementById(id);

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

function quality(share) {
  if (share === null || share === undefined) return "none";
  return share >= 0.5 ? "good" : share >= 0.2 ? "fair" : "poor";
}

function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 1) return value.toPrecision(3) + " s";
  if (value >= 1e-3) return (value * 1e3).toPrecision(3) + " ms";
  return (value * 1e6).toPrecision(3) + " µs";
}

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit++; }
  return (unit ? value.toFixed(1) : value) + " " + units[unit];
}

function percent(share) {
  return share === null || share === undefined ? "–" : Math.round(100 * share) + " %";
}

function kernels(count) { return count === 1 ? "1 kernel" : `${count} kernels`; }

function rate(amount, time) {
  return time ? amount / time * 1e-9 : null;
}

function number(value) {
  return value === null ? "–" : value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}

const program = () => data.programs[state.program];
const kernelOf = (step) => data.kernels[step.kernel];
const nameOf = (step) => kernelOf(step).name;

function bufferText(buffer) {
  return `${buffer.name} (${buffer.shape.join(", ")}) ${buffer.type}, ${bytes(buffer.bytes)}`;
}

function lineText(step) {
  return step.line ? `${step.line.file}:${step.line.line}` : "";
}

// What a step is searched by, in lower case.
const searchTexts = new Map();
function searchText(step) {
  if (!searchTexts.has(step)) {
    const kernel = kernelOf(step);
    const rules = kernel.stages.flatMap((stage) => stage.rules.map((rule) => rule[0]));
    const names = step.buffers.map((b) => program().buffers[b].name);
    const line = step.line ? [lineText(step), step.line.text, step.line.function] : [];
    searchTexts.set(step, [kernel.name, step.why, ...step.path, ...line, ...names, ...rules]
      .join("\n").toLowerCase());
  }
  return searchTexts.get(step);
}

function matches(step) {
  return !state.query || searchText(step).includes(state.query);
}

// -- a canvas in the pixels of the screen --------------------------------------------------------

function fit(canvas, height) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth || canvas.parentElement.clientWidth;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.height = height + "px";
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

function tip(event, text) {
  const box = find("tip");
  if (!text) { box.style.display = "none"; return; }
  box.textContent = text;
  box.style.display = "block";
  const left = Math.min(event.clientX + 14, window.innerWidth - box.offsetWidth - 8);
  const top = event.clientY + 18 + box.offsetHeight > window.innerHeight
    ? event.clientY - box.offsetHeight - 8 : event.clientY + 18;
  box.style.left = Math.max(left, 4) + "px";
  box.style.top = Math.max(top, 4) + "px";
}

function stepTip(step) {
  const lines = [nameOf(step), `${seconds(step.seconds)} · ${number(rate(step.flops, step.seconds))}`
    + ` GFLOP/s · ${number(rate(step.bytes, step.seconds))} GB/s · roofline ${percent(step.roofline)}`];
  if (step.line) lines.push(`${lineText(step)}  ${step.line.text}`);
  return lines.join("\n");
}

// Pan by dragging, zoom with the wheel; a press without a move is a click.
function pannable(canvas, view, redraw, click) {
  let held = null;
  canvas.addEventListener("pointerdown", (event) => {
    held = { x: event.offsetX, y: event.offsetY, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!held) return;
    const dx = event.offsetX - held.x, dy = event.offsetY - held.y;
    if (Math.abs(dx) + Math.abs(dy) > 3) held.moved = true;
    if (!held.moved) return;
    view.x += dx; view.y += dy;
    held.x = event.offsetX; held.y = event.offsetY;
    redraw();
  });
  canvas.addEventListener("pointerup", (event) => {
    if (held && !held.moved) click(event);
    held = null;
  });
  canvas.addEventListener("wheel", (event) => {
    if (document.documentElement.scrollHeight > window.innerHeight && !event.ctrlKey) return;
    event.preventDefault(); // a page that scrolls is zoomed with Ctrl
    const factor = Math.exp(-event.deltaY * 0.0015);
    const scale = Math.min(Math.max(view.scale * factor, view.least), view.most);
    const used = scale / view.scale;
    view.x = event.offsetX - (event.offsetX - view.x) * used;
    view.y = event.offsetY - (event.offsetY - view.y) * used;
    view.scale = scale;
    redraw();
  }, { passive: false });
}

function once(draw) { // at most one call a frame
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw(); });
  };
}
