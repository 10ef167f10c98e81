// The page as a whole: tabs about the program, choices, keys, theme.

const PROGRAM_TABS = { Graph: showGraph, Kernels: showTable, Trace: showTrace, Memory: showMemory,
  Roofline: showRoofline, Stages: showProgramStages, Rules: showRules };

function showProgram() {
  find("program-tabs").replaceChildren(...tabBar(Object.keys(PROGRAM_TABS), state.programTab,
    (tab) => { state.programTab = tab; showProgram(); }).children);
  const body = find("program-body");
  body.replaceChildren();
  body.onscroll = null;
  PROGRAM_TABS[state.programTab](body);
}

function choose(k) {
  state.step = Math.min(Math.max(k, 0), program().steps.length - 1);
  if (location.protocol !== "about:") // a frame in a notebook has no address of its own
    history.replaceState(null, "", "#" + state.program + "." + state.step);
  reveal();
  drawTimeline();
  showKernel();
  if (state.programTab === "Graph") drawGraph(true);
  else if (state.programTab === "Kernels") drawTable();
  else if (state.programTab === "Trace") drawTrace();
  else if (["Memory", "Roofline"].includes(state.programTab)) showProgram();
}

function reveal() { // open the groups around the chosen kernel
  if (!graph.root) return;
  let changed = false;
  let group = graph.root;
  while (group && group.inner.length) {
    if (!graph.open.has(group.key)) { graph.open.add(group.key); changed = true; }
    group = group.inner.find((g) => g.first <= state.step && state.step <= g.last);
  }
  if (changed && find("graph")) layGraph();
}

// -- the list of kernels: only the rows that can be seen are in the page ----------------------------

const COLUMNS = [ // name, value, text, whether it is a number, width
  ["#", (step, k) => k, (v) => v, true, "38px"],
  ["kernel", (step) => nameOf(step), (v) => v, false, "38%"],
  ["time", (step) => step.seconds, seconds, true, "74px"],
  ["share", (step) => step.seconds / (timeline.total || 1), percent, true, "54px"],
  ["GFLOP/s", (step) => rate(step.flops, step.seconds), number, true, "72px"],
  ["GB/s", (step) => rate(step.bytes, step.seconds), number, true, "62px"],
  ["roofline", (step) => step.roofline, percent, true, "76px"],
  ["line", (step) => step.line ? lineText(step) : "", (v) => v, false, "26%"],
];
const ROW_PIXELS = 26;
const table = { sort: 0, down: false, order: [], body: null };

function showTable(body) {
  const rows = make("tbody", {});
  table.body = rows;
  const heads = COLUMNS.map(([name, , , numeric, width], k) => {
    const head = make("th", { class: numeric ? "number" : "", onclick: () => {
      table.down = table.sort === k ? !table.down : numeric && k > 0;
      table.sort = k;
      showProgram();
    } }, name + (table.sort === k ? (table.down ? " ↓" : " ↑") : ""));
    head.style.width = width;
    return head;
  });
  body.append(make("table", { class: "kernels" }, make("thead", {}, make("tr", {}, heads)), rows));
  const value = COLUMNS[table.sort][1], steps = program().steps;
  table.order = steps.map((_, k) => k).filter((k) => matches(steps[k]));
  const keys = steps.map(value);
  table.order.sort((a, b) => {
    const [x, y] = [keys[a] ?? -1, keys[b] ?? -1];
    const sign = x < y ? -1 : x > y ? 1 : 0;
    return (table.down ? -sign : sign) || a - b;
  });
  body.onscroll = once(drawTable);
  drawTable();
}

function drawTable() {
  const body = find("program-body"), steps = program().steps;
  if (!table.body || !table.body.isConnected) return;
  const everything = table.order.length <= 300;
  const first = everything ? 0 : Math.max(0, Math.floor(body.scrollTop / ROW_PIXELS) - 10);
  const last = everything ? table.order.length
    : Math.min(table.order.length, first + Math.ceil(body.clientHeight / ROW_PIXELS) + 20);
  const space = (count) => {
    const cell = make("td", { colspan: COLUMNS.length });
    cell.style.height = count * ROW_PIXELS + "px";
    cell.style.padding = "0";
    return make("tr", { "aria-hidden": "true" }, cell);
  };
  const rows = table.order.slice(first, last).map((k) => make("tr",
    { class: k === state.step ? "chosen" : "", "data-step": k, onclick: () => choose(k) },
    COLUMNS.map(([, value, text, numeric]) => {
      const exact = value(steps[k], k), shown = String(text(exact));
      const cell = make("td", { class: numeric ? "number" : "", title: numeric ? null : shown }, shown);
      if (text === percent && value === COLUMNS[6][1] && exact !== null) cell.style.boxShadow =
        `inset 4px 0 ${color(quality(exact))}`;
      return cell;
    })));
  table.body.replaceChildren(...(first ? [space(first)] : []), ...rows,
    ...(last < table.order.length ? [space(table.order.length - last)] : []));
}

// -- memory ----------------------------------------------------------------------------------------

function showMemory(body) {
  const { buffers, arena, steps } = program();
  const kept = buffers.map((buffer, b) => [buffer, b]).filter(([buffer]) => buffer.offset !== null);
  if (!kept.length) {
    body.append(make("p", { class: "empty" }, "No temporary buffers: every value is an input, an "
      + "output, or stays inside of a kernel."));
    return;
  }
  const width = 720, height = 380, left = 66, top = 8, bottom = 26;
  const x = (step) => left + step * (width - left - 8) / steps.length;
  const y = (offset) => height - bottom - offset * (height - top - bottom) / arena.peak;
  const writer = new Map(steps.flatMap((step, k) =>
    step.buffers.slice(0, step.writes).map((b) => [b, k])));
  const tint = ["accent", "good", "fair", "none", "poor"].map(color);
  const plot = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": "Temporary buffers over time" },
    make("line", { class: "axis", x1: left, y1: y(0), x2: width, y2: y(0) }),
    [0, 0.5, 1].map((part) => make("text", { x: 2, y: y(part * arena.peak) + 4 },
      bytes(Math.round(part * arena.peak)))),
    make("text", { x: left, y: height - 8 }, "kernel 0"),
    make("text", { x: width - 8, y: height - 8, "text-anchor": "end" }, "kernel " + (steps.length - 1)),
    kept.map(([buffer, b], k) => make("rect", { class: "plot", x: x(buffer.first),
      y: y(buffer.offset + buffer.bytes), width: Math.max(x(buffer.last + 1) - x(buffer.first) - 0.6, 1),
      height: Math.max(y(buffer.offset) - y(buffer.offset + buffer.bytes) - 0.6, 1),
      fill: tint[k % tint.length], "fill-opacity": writer.get(b) === state.step ? 1 : 0.55,
      stroke: writer.get(b) === state.step ? color("text") : "none",
      onclick: () => choose(writer.get(b) ?? 0) }, make("title", {}, bufferText(buffer)
        + `\nfrom kernel ${buffer.first} to ${buffer.last}, at byte ${buffer.offset}`
        + (writer.has(b) ? `\n${steps[writer.get(b)].why}` : "")))));
  const saved = arena.sum > arena.peak ? `, ${bytes(arena.sum)} without reuse` : "";
  body.append(make("div", { class: "pad" }, make("p", {}, `${kept.length} temporary buffers share `
    + `${bytes(arena.peak)}${saved}. Each is as wide as it lives; two overlap where a kernel writes `
    + "into a buffer that it reads for the last time. Point at one to see why it is stored."), plot));
}

// -- roofline --------------------------------------------------------------------------------------

function showRoofline(body) {
  const { gflops, gigabytes } = data.machine;
  const points = program().steps.map((step, k) => [step, k])
    .filter(([step]) => step.seconds && step.flops && step.bytes);
  if (!gflops || !points.length) {
    body.append(make("p", { class: "empty" }, "No kernel with arithmetic was timed."));
    return;
  }
  const width = 720, height = 360, left = 60, bottom = 40;
  const intensity = points.map(([step]) => Math.log10(step.flops / step.bytes));
  const speeds = points.map(([step]) => Math.log10(step.flops / step.seconds * 1e-9));
  const [x0, x1] = [Math.min(-2, ...intensity) - 0.2, Math.max(2.5, ...intensity) + 0.2];
  const [y0, y1] = [Math.min(...speeds, Math.log10(gflops) - 2) - 0.2,
    Math.max(Math.log10(gflops), ...speeds) + 0.2];
  const x = (v) => left + (v - x0) / (x1 - x0) * (width - left - 10);
  const y = (v) => height - bottom - (v - y0) / (y1 - y0) * (height - bottom - 10);
  const ridge = Math.log10(gflops / gigabytes);
  const roof = `M ${x(x0)} ${y(x0 + Math.log10(gigabytes))} L ${x(ridge)} ${y(Math.log10(gflops))} `
    + `L ${x(x1)} ${y(Math.log10(gflops))}`;
  const ticks = (low, high) => Array.from({ length: Math.floor(high) - Math.ceil(low) + 1 },
    (_, k) => Math.ceil(low) + k);
  const plot = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Roofline" },
    ticks(x0, x1).map((v) => [make("line", { class: "axis", x1: x(v), x2: x(v), y1: 10,
      y2: height - bottom }), make("text", { x: x(v), y: height - 22, "text-anchor": "middle" },
      String(Number((10 ** v).toPrecision(3))))]),
    ticks(y0, y1).map((v) => [make("line", { class: "axis", x1: left, x2: width - 10, y1: y(v),
      y2: y(v) }), make("text", { x: left - 8, y: y(v) + 4, "text-anchor": "end" },
      String(Number((10 ** v).toPrecision(3))))]),
    make("text", { x: width / 2, y: height - 5, "text-anchor": "middle" }, "operations a byte"),
    make("text", { x: 4, y: 14 }, "GFLOP/s"),
    make("path", { d: roof, fill: "none", stroke: color("text"), "stroke-width": 2 }),
    points.map(([step, k], at) => make("circle", { class: "plot", cx: x(intensity[at]),
      cy: y(speeds[at]), r: k === state.step ? 8 : 5, fill: color(quality(step.roofline)),
      "fill-opacity": 0.8, stroke: k === state.step ? color("text") : "none",
      onclick: () => choose(k) }, make("title", {}, stepTip(step)))));
  body.append(make("div", { class: "pad" }, make("p", {}, `Measured on this machine: ${gflops} GFLOP/s `
    + `(a product of matrices by NumPy), ${gigabytes} GB/s (copies by NumPy in `
    + `${data.machine.cores} threads). Data in a cache can be faster than memory.`), plot));
}

// -- stages and rules of the program ---------------------------------------------------------------

function showProgramStages(body) {
  const { stages, unchanged } = program();
  if (stages.length) body.append(stageList(stages, unchanged));
  else body.append(make("p", { class: "empty" }, "The stages of the whole graph are not in this "
    + "report: the program was scheduled before, or has too many kernels."));
}

function showRules(body) {
  const counts = new Map();
  const add = (stages) => {
    for (const stage of stages) for (const [rule, count] of stage.rules)
      counts.set(rule, (counts.get(rule) || 0) + count);
  };
  add(program().stages);
  new Set(program().steps.map((step) => step.kernel)).forEach((k) => add(data.kernels[k].stages));
  const rows = [...counts].sort((a, b) => b[1] - a[1])
    .filter(([rule]) => !state.query || rule.includes(state.query));
  if (!rows.length) { body.append(make("p", { class: "empty" }, "No rule fired.")); return; }
  body.append(make("table", {}, make("thead", {}, make("tr", {}, ["rule", "fired", "before → after",
    "established"].map((name) => make("th", {}, name)))), make("tbody", {}, rows.map(([rule, count]) => {
      const row = data.rules[rule] || {};
      return make("tr", { onclick: () => showRule(rule), "data-rule": rule },
        make("td", {}, rule), make("td", { class: "number" }, count),
        make("td", {}, make("code", {}, row.before ? `${row.before} → ${row.after}` : row.after || "")),
        make("td", {}, row.established || ""));
    }))));
}

// -- print: on paper there are no tabs, so what they show comes one below the other ----------------------

const MOST_PRINTED = 400; // rows of the list of kernels

function beginPrint() { // in the colours of paper, also what is drawn on canvases
  document.documentElement.dataset.theme = "light";
  redrawAll();
  addPrinted();
}

function endPrint() {
  find("printed").replaceChildren();
  applyTheme();
  redrawAll();
}

function addPrinted() {
  const steps = program().steps, shown = steps.slice(0, MOST_PRINTED);
  const part = (title, show) => {
    if (state.programTab === title) return null;
    const body = make("div", {});
    show(body);
    return make("section", {}, make("h2", {}, title), body);
  };
  const list = (body) => {
    body.append(make("table", {}, make("thead", {}, make("tr", {}, COLUMNS.map(([name, , , numeric]) =>
      make("th", { class: numeric ? "number" : "" }, name)))), make("tbody", {}, shown.map((step, k) =>
      make("tr", {}, COLUMNS.map(([, value, text, numeric]) =>
        make("td", { class: numeric ? "number" : "" }, text(value(step, k)))))))));
    if (steps.length > shown.length)
      body.append(make("p", { class: "soft" }, `and ${steps.length - shown.length} more`));
  };
  find("printed").replaceChildren(...[part("Kernels", list), part("Memory", showMemory),
    part("Roofline", showRoofline), part("Rules", showRules)].filter((each) => each));
}

// -- keys, search, theme -----------------------------------------------------------------------------

const KEYS = [["/", "search"], ["j k or ← →", "next and previous kernel"],
  ["Enter in the search", "next kernel that is found"], ["1 … 7", "tabs of the program"],
  ["o s c", "overview, stages and code of the kernel"], ["w", "the kernel in the whole window, and back"],
  ["t", "theme"], ["?", "these keys"],
  ["Esc", "close"]];

function showHelp() {
  const dialog = find("dialog");
  dialog.replaceChildren(make("h2", {}, "Keys"), pairs(KEYS),
    make("button", { onclick: () => dialog.close() }, "close"));
  dialog.showModal();
}

function move(by, found) {
  const steps = program().steps;
  for (let k = state.step + by; k >= 0 && k < steps.length; k += by)
    if (!found || matches(steps[k])) { choose(k); return; }
  if (found) {
    const first = steps.findIndex(matches);
    if (first >= 0) choose(first);
  }
}

const PRESSED = {
  "/": () => find("search").focus(), "?": showHelp, t: nextTheme,
  j: () => move(1), k: () => move(-1), ArrowRight: () => move(1), ArrowLeft: () => move(-1),
  w: nextWidth, o: () => kernelTab("Overview"), s: () => kernelTab("Stages"), c: () => kernelTab("Code"),
};

function nextWidth() {
  document.body.classList.toggle("wide");
  showKernel();
  redrawCanvases();
}

function redrawCanvases() {
  if (document.body.classList.contains("wide")) return;
  drawTimeline();
  drawGraph();
  drawTrace();
  drawTable();
}

function kernelTab(name) { state.kernelTab = name; showKernel(); }

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || find("dialog").open) return;
  if (["INPUT", "SELECT"].includes(event.target.tagName)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const tab = Object.keys(PROGRAM_TABS)[Number(event.key) - 1];
  if (tab) { state.programTab = tab; showProgram(); } else if (event.key in PRESSED) {
    event.preventDefault();
    PRESSED[event.key]();
  }
}

const dark = window.matchMedia("(prefers-color-scheme: dark)");
let theme = "system";

function applyTheme() {
  const name = theme === "system" ? (dark.matches ? "dark" : "light") : theme;
  document.documentElement.dataset.theme = name;
  find("theme").textContent = theme === "system" ? "◐ system" : theme === "dark" ? "● dark" : "○ light";
}

function nextTheme() {
  theme = { system: dark.matches ? "light" : "dark", light: dark.matches ? "dark" : "system",
    dark: dark.matches ? "system" : "light" }[theme];
  applyTheme();
  redrawAll();
}

function redrawAll() {
  drawTimeline();
  showProgram();
  showKernel();
}

function openProgram(k) {
  state.program = k;
  state.step = 0;
  graph.root = null;
  searchTexts.clear();
  const { steps, runs, backend } = program();
  layTimeline();
  const flops = steps.reduce((sum, step) => sum + step.flops, 0);
  const speed = timeline.total && runs ? `, ${number(rate(flops, timeline.total))} GFLOP/s` : "";
  find("subtitle").textContent = `${kernels(steps.length)}${runs ? `, ${seconds(timeline.total)} a run` : ""}`
    + `${speed}${backend ? `, ${backend}` : ""}, ${data.machine.cores} cores ${data.machine.system}`;
}

function start() {
  applyTheme();
  dark.addEventListener("change", () => { applyTheme(); redrawAll(); });
  find("title").textContent = data.title;
  if (!data.programs.length) {
    find("subtitle").textContent = "nothing was computed";
    find("detail").replaceChildren(make("div", { class: "panel empty" }, "No kernel was run."));
    return;
  }
  const total = (p) => p.steps.reduce((sum, step) => sum + step.total, 0);
  const order = data.programs.map((p, k) => [total(p), k]).sort((a, b) => b[0] - a[0]);
  if (data.programs.length > 1) {
    find("program-label").classList.remove("hidden");
    find("program").append(...order.map(([time, k]) => make("option", { value: k },
      `${k}: ${kernels(data.programs[k].steps.length)}, ${data.programs[k].runs} runs, ${seconds(time)}`)));
    find("program").addEventListener("change", (event) => {
      openProgram(Number(event.target.value));
      redrawAll();
    });
  }
  const [wanted, step] = location.hash.slice(1).split(".").map(Number);
  openProgram(wanted in data.programs ? wanted : order[0][1]);
  find("program").value = String(state.program);
  const slowest = program().steps.reduce((best, s, k, all) =>
    (s.seconds || 0) > (all[best].seconds || 0) ? k : best, 0);
  state.step = step in program().steps ? step : slowest;
  if (data.first_tab in PROGRAM_TABS) state.programTab = data.first_tab;
  startTimeline();
  redrawAll();
  find("search").addEventListener("input", (event) => {
    state.query = event.target.value.trim().toLowerCase();
    drawTimeline();
    showProgram();
  });
  find("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter") move(event.shiftKey ? -1 : 1, true);
  });
  find("theme").addEventListener("click", nextTheme);
  find("help").addEventListener("click", showHelp);
  document.addEventListener("keydown", pressed);
  window.addEventListener("resize", once(redrawCanvases));
  window.addEventListener("beforeprint", beginPrint);
  window.addEventListener("afterprint", endPrint);
  requestAnimationFrame(() => setTimeout(() => { // when the first frame is on the screen
    document.documentElement.dataset.ready = String(Math.round(performance.now()));
  }));
}

start();
