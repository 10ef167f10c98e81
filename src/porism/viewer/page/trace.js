// The trace: what each thread did at what time. Calls of programs and tasks of compiling are in one
// lane, their kernels and stages in the lane below; the memory of temporary buffers is at the bottom.

const trace = { view: { x: 0, y: 0, scale: 1, least: 1, most: 200000 }, lanes: [], end: 0,
  memory: [], peak: 0 };
const LANE = 24, THREAD_GAP = 24, MEMORY_HIGH = 64, AXIS_HIGH = 22;

function layTrace() {
  if (trace.lanes.length || !(data.events.length || data.spans.length)) return;
  const lanes = new Map();
  const lane = (thread, inner) => {
    const key = 2 * thread + inner;
    if (!lanes.has(key)) lanes.set(key, { thread, inner, items: [] });
    return lanes.get(key).items;
  };
  const put = (thread, inner, item) => {
    lane(thread, 1 - inner); // a thread has both lanes, also if one is empty
    lane(thread, inner).push(item);
    trace.end = Math.max(trace.end, item.begin + item.length);
  };
  for (const [k, task, begin, length, thread] of data.spans)
    put(thread, task ? 0 : 1, { kind: task ? "task" : "stage", name: data.stage_names[k], begin, length });
  for (const [number, begin, length, thread] of data.calls)
    put(thread, 0, { kind: "call", name: `program ${number}`, begin, length, program: number });
  const alive = data.programs.map(aliveBytes);
  for (const [number, step, begin, length, thread] of data.events) {
    put(thread, 1, { kind: "kernel", begin, length, program: number, step });
    trace.memory.push([begin, alive[number][step]]);
  }
  for (const [, begin, length] of data.calls) trace.memory.push([begin + length, 0]);
  trace.memory.sort((a, b) => a[0] - b[0]);
  trace.peak = trace.memory.reduce((most, pair) => Math.max(most, pair[1]), 0);
  trace.lanes = [...lanes.values()].sort((a, b) => a.thread - b.thread || a.inner - b.inner);
  for (const each of trace.lanes) {
    each.items.sort((a, b) => a.begin - b.begin);
    each.begins = each.items.map((item) => item.begin);
    each.y = each.thread * (2 * LANE + THREAD_GAP) + 20 + each.inner * LANE;
  }
}

function aliveBytes({ steps, buffers }) {
  const change = new Float64Array(steps.length + 1);
  for (const buffer of buffers) if (buffer.offset !== null) {
    change[buffer.first] += buffer.bytes;
    change[buffer.last + 1] -= buffer.bytes;
  }
  let sum = 0;
  return Array.from(change, (by) => sum += by);
}

function showTrace(body) {
  layTrace();
  if (!trace.lanes.length) {
    body.append(make("p", { class: "empty" }, "No kernel was run while this was recorded."));
    return;
  }
  const sum = (rows, at) => rows.reduce((total, row) => total + row[at], 0) * 1e-6;
  const tasks = data.spans.filter((row) => row[1]);
  const canvas = make("canvas", { id: "trace", tabindex: 0,
    "aria-label": "Calls, stages of compiling and kernels of each thread by time" });
  body.append(make("div", { class: "tools" },
    make("button", { onclick: () => { Object.assign(trace.view, { x: 0, scale: 1 }); drawTrace(); } }, "fit"),
    make("span", { class: "soft" }, `${seconds(trace.end * 1e-6)} in all: ${data.calls.length} `
      + `calls took ${seconds(sum(data.calls, 2))}, compiling ${seconds(sum(tasks, 3))}; `
      + "drag to pan, wheel or Ctrl + wheel to zoom")), canvas);
  pannable(canvas, trace.view, once(drawTrace), (event) => {
    const item = traceItem(event);
    if (!item || item.program === undefined) return;
    if (item.program !== state.program) openProgram(item.program);
    find("program").value = String(item.program);
    choose(item.step ?? 0);
    drawTrace();
  });
  canvas.addEventListener("pointermove", (event) => {
    const item = traceItem(event);
    tip(event, item ? traceTip(item) : "");
  });
  canvas.addEventListener("pointerleave", (event) => tip(event, ""));
  drawTrace();
}

const stepOf = (item) => data.programs[item.program].steps[item.step];
const traceName = (item) => item.kind === "kernel" ? kernelOf(stepOf(item)).name : item.name;

function traceTip(item) {
  const time = `${seconds(item.length * 1e-6)}, at ${seconds(item.begin * 1e-6)}`;
  if (item.kind === "kernel") {
    const step = stepOf(item), line = step.line ? `\n${lineText(step)}  ${step.line.text}` : "";
    return `${traceName(item)}\nkernel ${item.step} of program ${item.program}: ${time}${line}`;
  }
  const kind = { call: "a call of", task: "compiling:", stage: "stage of compiling:" }[item.kind];
  return `${kind} ${item.name}\n${time}`;
}

function traceUnit(width) { return width * trace.view.scale / (trace.end || 1); }

function traceItem(event) {
  const unit = traceUnit(find("trace").clientWidth);
  const at = (event.offsetX - trace.view.x) / unit;
  const lane = trace.lanes.find((each) => event.offsetY >= each.y && event.offsetY < each.y + LANE);
  if (!lane) return null;
  const slack = 2 / unit; // an item is drawn at least as wide
  for (let k = bisect(lane.begins, at + slack) - 1; k >= 0 && k > bisect(lane.begins, at) - 4; k--)
    if (at <= lane.items[k].begin + Math.max(lane.items[k].length, slack)) return lane.items[k];
  return null;
}

function drawTrace() {
  const canvas = find("trace");
  if (!canvas) return;
  const last = trace.lanes[trace.lanes.length - 1];
  const below = last.y + LANE + 14;
  const memory = trace.peak ? MEMORY_HIGH + 20 : 0;
  const { context, width, height } = fit(canvas, below + memory + AXIS_HIGH);
  const view = trace.view;
  view.x = Math.min(0, Math.max(view.x, width - width * view.scale));
  const unit = traceUnit(width);
  const ink = Object.fromEntries(["good", "fair", "poor", "none", "accent", "soft", "text", "node",
    "line"].map((name) => [name, color(name)]));
  context.font = "11px system-ui, sans-serif";
  for (const lane of trace.lanes) drawLane(context, lane, width, unit, ink);
  context.fillStyle = ink.soft;
  for (const lane of trace.lanes) if (!lane.inner)
    context.fillText(`thread ${lane.thread}`, 6, lane.y - 5);
  if (memory) drawTraceMemory(context, below + 16, width, unit, ink);
  drawTimeAxis(context, width, height - AXIS_HIGH, unit * 1e6, view.x);
}

function drawLane(context, lane, width, unit, ink) {
  const from = Math.max(bisect(lane.begins, -trace.view.x / unit) - 1, 0);
  let painted = -1;
  for (let k = from; k < lane.items.length; k++) {
    const item = lane.items[k];
    const left = item.begin * unit + trace.view.x;
    if (left > width) break;
    const right = left + item.length * unit;
    const chosen = item.kind === "kernel" && item.program === state.program && item.step === state.step;
    if (right <= painted && !chosen) continue; // less than a pixel, and that one is taken
    painted = Math.max(right, Math.floor(left) + 1);
    const wide = Math.max(right - left - (right - left > 3 ? 1 : 0), 1);
    context.fillStyle = item.kind === "kernel" ? ink[quality(stepOf(item).roofline)]
      : item.kind === "call" ? ink.accent : item.kind === "task" ? ink.soft : ink.none;
    context.globalAlpha = item.kind === "kernel" && state.query && !matches(stepOf(item)) ? 0.2
      : item.kind === "stage" ? 0.75 : 1;
    context.fillRect(left, lane.y, wide, LANE - 2);
    context.globalAlpha = 1;
    if (chosen) { // a frame if there is room for it, else a mark below
      context.strokeStyle = context.fillStyle = ink.text;
      context.lineWidth = 2;
      if (wide > 8) context.strokeRect(left + 1, lane.y + 1, wide - 2, LANE - 4);
      else context.fillRect(left, lane.y + LANE - 1, Math.max(wide, 2), 3);
    }
    const begin = Math.max(left, 0);
    if (right - begin > 40) {
      context.fillStyle = color("on-color");
      context.fillText(clipped(context, traceName(item), Math.min(right, width) - begin - 8),
        begin + 5, lane.y + 15);
    }
  }
}

function drawTraceMemory(context, top, width, unit, ink) {
  const y = (value) => top + MEMORY_HIGH * (1 - value / trace.peak);
  context.fillStyle = ink.accent;
  context.globalAlpha = 0.35;
  context.beginPath();
  context.moveTo(0, y(0));
  let value = 0;
  for (const [begin, next] of trace.memory) {
    const x = Math.min(Math.max(begin * unit + trace.view.x, 0), width);
    context.lineTo(x, y(value));
    context.lineTo(x, y(next));
    value = next;
  }
  context.lineTo(width, y(value));
  context.lineTo(width, y(0));
  context.fill();
  context.globalAlpha = 1;
  context.fillStyle = ink.soft;
  context.fillText(`temporary buffers, at most ${bytes(trace.peak)}`, 6, top - 5);
  context.fillStyle = ink.line;
  context.fillRect(0, y(0), width, 1);
}
