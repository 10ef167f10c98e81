// The graph: kernels and groups of them, and which reads what another has written.
//
// Steps are in an order in which they can run, so a group is an interval of them: what lies between
// two of its kernels belongs to it or is a group inside. Edges then always lead downwards. The layout
// takes time in proportion to nodes and edges, so it needs no limit below MOST_NODES.

const MOST_NODES = 12000;
const FIRST_NODES = 60; // groups are opened from the outside until so many nodes would be shown
const WIDE = 216, HIGH = 58, GAP = 28, ROW = 92;
const LEGIBLE = 0.65; // the smallest scale that is chosen for the reader
const LOOK = 64; // rows that an edge is checked for nodes in its way

const graph = { view: { x: 0, y: 0, scale: 1, least: 0.02, most: 3 }, open: new Set(),
  nodes: [], edges: [], fitted: false, root: null };

function groupTree() {
  const steps = program().steps;
  const root = { label: "", first: 0, last: steps.length - 1, inner: [], key: "" };
  const paths = steps.map((step) => groupPath(step));
  split(root, paths, 0);
  chunk(root);
  graph.root = root;
  graph.open = new Set();
  let todo = [root], shown = 1;
  while (todo.length) { // open the outer groups first, while there is room
    const group = todo.shift();
    const count = group.inner.length;
    if (!count || shown + count - 1 > FIRST_NODES) continue;
    graph.open.add(group.key);
    shown += count - 1;
    todo.push(...group.inner);
  }
  graph.open.add(root.key);
}

function groupPath(step) {
  if (step.path.length) return step.path;
  return step.line ? [`${step.line.function} · ${lineText(step)}`] : [];
}

function split(group, paths, depth) {
  let k = group.first;
  while (k <= group.last) {
    const label = paths[k][depth];
    let last = k;
    while (label !== undefined && last < group.last && paths[last + 1][depth] === label) last++;
    const inner = { label: label, first: k, last, inner: [], key: `${depth}:${k}:${last}` };
    if (last > k) split(inner, paths, depth + 1);
    while (inner.inner.length === 1 && inner.inner[0].inner.length) { // a group of one group
      inner.label = `${inner.label} / ${inner.inner[0].label}`;
      inner.inner = inner.inner[0].inner;
    }
    group.inner.push(inner);
    k = last + 1;
  }
}

// A group of more nodes than are shown at first is divided into intervals.
function chunk(group) {
  group.inner.forEach(chunk);
  if (group.inner.length <= FIRST_NODES) return;
  const size = Math.ceil(Math.sqrt(group.inner.length));
  const chunks = [];
  for (let k = 0; k < group.inner.length; k += size) {
    const inner = group.inner.slice(k, k + size);
    const [one, other] = [inner[0], inner[inner.length - 1]];
    const label = one.label && other.label && one.label !== other.label
      ? `${one.label} – ${other.label}` : `kernels ${one.first}–${other.last}`;
    chunks.push({ label, first: one.first, last: other.last, inner, key: `c${one.key}` });
  }
  group.inner = chunks;
}

function visible() {
  const nodes = [];
  const visit = (group) => {
    if (graph.open.has(group.key) && group.inner.length) group.inner.forEach(visit);
    else nodes.push(group);
  };
  visit(graph.root);
  return nodes;
}

function layGraph() {
  const steps = program().steps;
  const nodes = visible().slice(0, MOST_NODES);
  const owner = new Int32Array(steps.length).fill(-1);
  nodes.forEach((node, k) => { for (let s = node.first; s <= node.last; s++) owner[s] = k; });
  const writer = new Map();
  const edges = new Map();
  steps.forEach((step, s) => {
    for (const b of step.buffers.slice(step.writes)) {
      if (!writer.has(b)) continue;
      const from = owner[writer.get(b)], to = owner[s];
      if (from === to || from < 0 || to < 0) continue;
      const key = from * nodes.length + to;
      edges.set(key, (edges.get(key) || 0) + program().buffers[b].bytes);
    }
    for (const b of step.buffers.slice(0, step.writes)) writer.set(b, s);
  });
  const rank = new Int32Array(nodes.length), above = nodes.map(() => []);
  graph.edges = [...edges].map(([key, size]) => {
    const from = Math.floor(key / nodes.length), to = key % nodes.length;
    above[to].push(from);
    return { from, to, size };
  });
  const rows = [];
  nodes.forEach((node, k) => { // in order, so that those above have their places already
    rank[k] = above[k].reduce((most, a) => Math.max(most, rank[a] + 1), 0);
    (rows[rank[k]] ||= []).push(k);
  });
  const wide = Math.max(1, Math.ceil(Math.sqrt(nodes.length) * 1.2));
  let y = 0;
  for (const row of rows) { // a row of many independent kernels is folded
    const wanted = new Map(row.map((k) => [k, above[k].length
      ? above[k].reduce((sum, a) => sum + nodes[a].x, 0) / above[k].length : 0]));
    row.sort((a, b) => wanted.get(a) - wanted.get(b) || a - b);
    for (let begin = 0; begin < row.length; begin += wide) {
      const part = row.slice(begin, begin + wide);
      const span = (part.length - 1) * (WIDE + GAP);
      const center = part.length === 1 ? wanted.get(part[0]) : 0;
      part.forEach((k, at) => {
        nodes[k].x = center - span / 2 + at * (WIDE + GAP);
        nodes[k].y = y;
      });
      y += ROW;
    }
  }
  for (const node of nodes) describe(node, steps);
  graph.nodes = nodes;
  bendEdges(rows, rank);
}

// Edges that would run behind a node go around it, on a lane to the right of the rows between.
function bendEdges(rows, rank) {
  const nodes = graph.nodes;
  const rights = rows.map((row) => row.reduce((most, k) => Math.max(most, nodes[k].x), -Infinity) + WIDE);
  const farthest = rights.reduce((most, right) => Math.max(most, right), 0);
  const last = new Map(); // of each line of nodes, the rightmost one
  for (const node of nodes) if (!(last.get(node.y)?.x > node.x)) last.set(node.y, node);
  for (const node of nodes) node.isLast = last.get(node.y) === node;
  const taken = []; // of each lane, the rank at which its last edge ends
  for (const edge of graph.edges.sort((a, b) => a.from - b.from || a.to - b.to)) {
    const [low, high] = [rank[edge.from], rank[edge.to]];
    edge.lane = null;
    if (high - low < 2) continue;
    const [a, b] = [nodes[edge.from], nodes[edge.to]];
    let hidden = high - low > LOOK, right = hidden ? farthest : Math.max(a.x, b.x) + WIDE;
    for (let r = low + 1; r < high && high - low <= LOOK; r++) {
      right = Math.max(right, rights[r]);
      hidden ||= rows[r].some((k) => {
        const x = a.x + (b.x - a.x) * (nodes[k].y - a.y) / (b.y - a.y) + WIDE / 2;
        return x > nodes[k].x - 4 && x < nodes[k].x + WIDE + 4;
      });
    }
    if (!hidden) continue;
    let lane = taken.findIndex((end) => end <= low);
    if (lane < 0) lane = taken.length;
    taken[lane] = high;
    edge.lane = right + 14 + (lane % 16) * 8;
  }
}

function traceEdge(context, a, b, lane) {
  context.beginPath();
  if (lane === null) {
    const [x0, y0, x1, y1] = [a.x + WIDE / 2, a.y + HIGH, b.x + WIDE / 2, b.y];
    context.moveTo(x0, y0);
    context.bezierCurveTo(x0, y0 + 22, x1, y1 - 22, x1, y1);
  } else {
    // from the right side if nothing is beside the node, else through the space between lines
    const half = WIDE / 2, gap = (ROW - HIGH) / 2;
    const [x0, y0] = a.isLast ? [a.x + WIDE, a.y + HIGH / 2] : [a.x + half, a.y + HIGH + gap];
    const [x1, y1] = b.isLast ? [b.x + WIDE, b.y + HIGH / 2] : [b.x + half, b.y - gap];
    if (a.isLast) context.moveTo(x0, y0);
    else { context.moveTo(x0, a.y + HIGH); context.arcTo(x0, y0, lane, y0, 8); }
    context.arcTo(lane, y0, lane, y1, 8);
    context.arcTo(lane, y1, x1, y1, 8);
    if (b.isLast) context.lineTo(x1, y1);
    else { context.arcTo(x1, y1, x1, b.y, 8); context.lineTo(x1, b.y); }
  }
  context.stroke();
}

function describe(node, steps) {
  const inside = steps.slice(node.first, node.last + 1);
  node.seconds = inside.reduce((sum, step) => sum + (step.seconds || 0), 0);
  const least = inside.reduce((sum, step) => sum + (step.roofline || 0) * (step.seconds || 0), 0);
  node.share = node.seconds ? least / node.seconds : null;
  node.count = inside.length;
  node.title = node.count === 1 ? nameOf(inside[0]) : node.label || "group";
  const lines = new Set(inside.map(lineText).filter((line) => line));
  const more = lines.size > 1 ? ` and ${lines.size - 1} more` : "";
  node.line = ([...lines][0] || "") + more;
}

const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
const most = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);

function fitGraph(width, height) {
  const xs = graph.nodes.map((node) => node.x), ys = graph.nodes.map((node) => node.y);
  const lanes = graph.edges.map((edge) => edge.lane ?? -Infinity);
  const [left, right] = [least(xs), Math.max(most(xs) + WIDE, most(lanes))];
  const across = Math.min(width / (right - left + 40), 1);
  const scale = Math.min(across, height / (most(ys) + HIGH + 40));
  const used = graph.view.scale = scale >= LEGIBLE ? scale
    : Math.min(Math.max(across, LEGIBLE), 0.8); // what does not fit is panned
  graph.view.x = used > across ? 12 - left * used : (width - (right + left) * used) / 2;
  graph.view.y = 16;
  if (used > scale) center(width, height);
}

function center(width, height) { // on the chosen kernel, if it is not in sight
  const view = graph.view;
  const node = graph.nodes.find((n) => n.first <= state.step && state.step <= n.last);
  if (!node) return;
  const x = node.x * view.scale + view.x, y = node.y * view.scale + view.y;
  if (x < 0 || x + WIDE * view.scale > width) view.x += width / 2 - x - WIDE / 2 * view.scale;
  if (y < 0 || y + HIGH * view.scale > height) view.y += height / 2 - y;
}

function showGraph(body) {
  const canvas = make("canvas", { id: "graph", tabindex: 0,
    "aria-label": "Graph of kernels; the tab Kernels lists the same" });
  body.append(make("div", { class: "tools" },
    make("button", { onclick: () => openAll(false) }, "collapse all"),
    make("button", { onclick: () => openAll(true) }, "expand all"),
    make("button", { onclick: () => { graph.fitted = false; drawGraph(); } }, "fit"),
    make("span", { class: "soft" }, "click a group to open it; drag to pan, wheel or Ctrl + wheel to zoom")), canvas);
  const redraw = once(() => drawGraph());
  pannable(canvas, graph.view, redraw, (event) => {
    const node = nodeAt(event);
    if (!node) return;
    if (node.inner.length) {
      graph.open.add(node.key);
      relay();
    } else choose(node.first);
  });
  canvas.addEventListener("pointermove", (event) => {
    const node = nodeAt(event);
    if (!node) tip(event, "");
    else if (node.count === 1) tip(event, stepTip(program().steps[node.first]));
    else tip(event, `${node.title}\n${node.count} kernels, ${seconds(node.seconds)}, roofline `
      + percent(node.share));
  });
  canvas.addEventListener("pointerleave", (event) => tip(event, ""));
  if (!graph.root) groupTree();
  layGraph();
  graph.fitted = false;
  drawGraph();
}

function openAll(all) {
  const visit = (group) => {
    if (all || group === graph.root) graph.open.add(group.key); else graph.open.delete(group.key);
    group.inner.forEach(visit);
  };
  visit(graph.root);
  relay(true);
}

function relay(again) {
  layGraph();
  if (again) graph.fitted = false;
  drawGraph();
}

function nodeAt(event) {
  const view = graph.view;
  const x = (event.offsetX - view.x) / view.scale, y = (event.offsetY - view.y) / view.scale;
  return graph.nodes.find((n) => x >= n.x && x <= n.x + WIDE && y >= n.y && y <= n.y + HIGH);
}

function drawGraph(follow = false) {
  const canvas = find("graph");
  if (!canvas) return;
  const room = find("program-body").clientHeight - canvas.offsetTop - 6;
  const { context, width, height } = fit(canvas, Math.max(room, 240));
  if (!graph.fitted) { fitGraph(width, height); graph.fitted = true; }
  if (follow) center(width, height);
  const view = graph.view, steps = program().steps;
  context.translate(view.x, view.y);
  context.scale(view.scale, view.scale);
  const box = { left: -view.x / view.scale, top: -view.y / view.scale,
    right: (width - view.x) / view.scale, bottom: (height - view.y) / view.scale };
  const seen = (y0, y1) => y1 >= box.top && y0 <= box.bottom;
  context.strokeStyle = color("none");
  for (const { from, to, size, lane } of graph.edges) {
    const a = graph.nodes[from], b = graph.nodes[to];
    if (!seen(a.y, b.y + HIGH)) continue;
    const chosen = [a, b].some((n) => state.step >= n.first && state.step <= n.last);
    context.globalAlpha = chosen ? 1 : 0.55;
    context.lineWidth = Math.min(1 + Math.log2(1 + size / 65536) / 3, 5);
    traceEdge(context, a, b, lane);
  }
  context.globalAlpha = 1;
  const [panel, ink, soft, accent, ground] =
    ["panel", "text", "soft", "accent", "node"].map(color);
  const colors = Object.fromEntries(["good", "fair", "poor", "none"].map((n) => [n, color(n)]));
  const legible = view.scale > 0.3;
  for (const node of graph.nodes) {
    if (!seen(node.y, node.y + HIGH) || node.x + WIDE < box.left || node.x > box.right) continue;
    const chosen = state.step >= node.first && state.step <= node.last;
    const group = node.count > 1;
    let found = !state.query;
    for (let s = node.first; !found && s <= node.last; s++) found = matches(steps[s]);
    context.globalAlpha = found ? 1 : 0.2;
    context.fillStyle = group ? ground : panel;
    context.strokeStyle = chosen ? accent : soft;
    context.lineWidth = chosen ? 3 : 1;
    context.beginPath();
    context.roundRect(node.x, node.y, WIDE, HIGH, 6);
    context.fill();
    context.stroke();
    context.fillStyle = colors[quality(node.share)];
    context.fillRect(node.x, node.y + 4, 5, HIGH - 8);
    if (legible) {
      context.fillStyle = ink;
      context.font = (group ? "600 " : "") + "12px system-ui, sans-serif";
      context.fillText(clipped(context, node.title, WIDE - 22), node.x + 12, node.y + 18);
      context.fillStyle = soft;
      context.font = "11px system-ui, sans-serif";
      const count = group ? `${node.count} kernels · ` : "";
      context.fillText(`${count}${seconds(node.seconds || null)} · ${percent(node.share)}`,
        node.x + 12, node.y + 34);
      context.fillText(clipped(context, node.line, WIDE - 22), node.x + 12, node.y + 49);
    }
    context.globalAlpha = 1;
  }
}

function clipped(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let end = Math.min(text.length, 40);
  while (end > 1 && context.measureText(text.slice(0, end) + "…").width > width) end--;
  return text.slice(0, end) + "…";
}
