// The kernel that is chosen: what it is for, its stages, its rules, its code, its search.

const TEXTS = { loops: "Loops", instructions: "Instructions", llvm: "LLVM IR", c: "C",
  assembly: "Assembly" };

function showKernel() {
  const detail = find("detail");
  const steps = program().steps;
  if (!steps.length) {
    detail.replaceChildren(make("div", { class: "panel empty" }, "No kernel was run."));
    return;
  }
  const step = steps[state.step], kernel = kernelOf(step);
  const tabs = kernelTabs(step, kernel);
  if (!(state.kernelTab in tabs)) state.kernelTab = "Overview";
  const body = make("div", { class: "body", id: "kernel-body" });
  detail.replaceChildren(make("div", { class: "panel" },
    make("div", { class: "title" }, make("strong", {}, kernel.name),
      make("span", { class: "soft" }, `kernel ${state.step}, of ${steps.length}`),
      make("span", { class: "grow" }),
      make("button", { class: "widen", title: "The kernel in the whole window, and back (w)",
        "aria-pressed": document.body.classList.contains("wide") ? "true" : "false",
        onclick: nextWidth }, "⇔")),
    tabBar(Object.keys(tabs), state.kernelTab, (tab) => { state.kernelTab = tab; showKernel(); }),
    body));
  tabs[state.kernelTab](body);
}

function kernelTabs(step, kernel) {
  const tabs = { Overview: (body) => showOverview(body, step, kernel) };
  if (kernel.stages.length) tabs.Stages = (body) => showStages(body, kernel);
  tabs.Code = (body) => showCode(body, kernel);
  if (kernel.search.length) tabs.Search = (body) => showSearch(body, kernel);
  return tabs;
}

function tabBar(names, chosen, choose) {
  return make("nav", { class: "tabs", role: "tablist" }, names.map((name) =>
    make("button", { role: "tab", "aria-selected": name === chosen ? "true" : "false",
      onclick: () => choose(name) }, name)));
}

function meter(share) {
  const bar = make("span", {});
  bar.style.width = Math.min(100, 100 * (share || 0)) + "%";
  bar.style.background = color(quality(share));
  return make("span", {}, make("span", { class: "meter" }, bar), percent(share));
}

function pairs(rows) {
  return make("dl", {}, rows.filter((row) => row).map(([term, ...values]) =>
    [make("dt", {}, term), make("dd", {}, values)]));
}

function showOverview(body, step, kernel) {
  const buffers = program().buffers, steps = program().steps;
  const content = make("div", { class: "pad" });
  if (step.line) {
    content.append(make("div", { class: "soft" },
      `${step.line.asked ? "computed for " : ""}${step.line.file}, line ${step.line.line}, in `
      + step.line.function),
      make("div", { class: "quote code" }, step.line.text || "(the source text is not at hand)"));
  }
  const readers = (b) => steps.flatMap((other, k) =>
    other.buffers.indexOf(b) >= other.writes ? [stepLink(k)] : []).slice(0, 12);
  content.append(pairs([
    step.path.length && ["within", step.path.join(" › ")],
    ["time", `${seconds(step.seconds)}`, step.runs > 1
      ? ` fastest of ${step.runs} runs, ${seconds(step.total)} in all` : ""],
    ["speed", step.seconds ? `${number(rate(step.flops, step.seconds))} GFLOP/s, `
      + `${number(rate(step.bytes, step.seconds))} GB/s` : "–"],
    ["roofline", meter(step.roofline), ...roofText(step)],
    ["work", `${step.flops.toLocaleString("en")} operations on floats, ${bytes(step.bytes)} of memory`],
    ...step.buffers.slice(0, step.writes).map((b, k) => [k ? "" : "writes", bufferText(buffers[b])]),
    ["because", step.why],
    ["read by", ...(readers(step.buffers[0]).length ? readers(step.buffers[0]) : ["the caller"])],
    ...step.buffers.slice(step.writes).map((b, k) => [k ? "" : "reads", bufferText(buffers[b])]),
    step.after.length && ["runs after", ...step.after.slice(0, 12).map(stepLink)],
    ["schedule", kernel.actions === null ? "not in this report, see below"
      : kernel.actions.length ? kernel.actions.join(", ") : "the loops stay as they are",
      kernel.tuned ? " (tuned)" : ""],
  ]));
  if (kernel.actions === null) content.append(make("p", { class: "soft" },
    "The slowest kernels are described in full; of this one the report has only its loops."));
  content.append(make("h3", {}, kernel.actions === null ? "Loops" : "Loops as scheduled"),
    make("pre", {}, kernel.texts.loops.text));
  body.append(content);
}

function roofText(step) {
  const { gflops, gigabytes } = data.machine;
  if (!step.roofline || !gflops) return [];
  const memory = step.bytes / gigabytes > step.flops / gflops;
  return [make("span", { class: "soft" }, ` bound by ${memory ? "memory" : "arithmetic"}: `
    + (memory ? `${gigabytes} GB/s` : `${gflops} GFLOP/s`) + " measured here")];
}

function stepLink(k) {
  return make("button", { class: "chip", title: nameOf(program().steps[k]),
    onclick: () => choose(k) }, "kernel " + k);
}

function showStages(body, kernel) {
  body.append(stageList(kernel.stages, kernel.unchanged));
}

function stageList(stages, unchanged) {
  const list = make("div", { class: "pad" });
  for (const stage of stages) {
    const lines = make("pre", { class: "diff" });
    for (const line of stage.text ? stage.text.split("\n") : []) {
      const mark = stage.diff ? line[0] : " ";
      lines.append(make("div", { class: mark === "+" ? "add" : mark === "-" ? "cut" : "" },
        line || " "));
    }
    list.append(make("div", { class: "stage" },
      make("h3", {}, stage.stage, make("span", {}, `${stage.level} level, ${stage.size}`)),
      stage.text ? lines : make("div", { class: "soft" }, "the text stays as it is"),
      stage.rules.length ? make("div", {}, stage.rules.map(([rule, count]) =>
        ruleChip(rule, count))) : null));
  }
  if (unchanged.length) list.append(make("p", { class: "soft" }, `unchanged by: ${unchanged.join(", ")}`));
  return list;
}

function ruleChip(rule, count) {
  const row = data.rules[rule];
  return make("button", { class: "chip " + (row ? row.established : ""), "data-rule": rule,
    onclick: () => showRule(rule) }, count > 1 ? `${rule} ×${count}` : rule);
}

function showRule(rule) {
  const row = data.rules[rule], dialog = find("dialog");
  const close = make("button", { onclick: () => dialog.close() }, "close");
  dialog.replaceChildren(make("h2", {}, rule), row ? make("div", {},
    row.before ? make("pre", {}, `${row.before}  →  ${row.after}`
      + (row.when ? `\n  when ${row.when}` : "")) : null,
    pairs([["theorem", row.theorem], ["kind", `${row.kind}, ${row.theory.join(", ")}`],
      ["established", row.established], ["proof", row.proof],
      row.example && ["example", make("code", {}, row.example)]]))
    : make("p", {}, "This step is part of a pass; it is not in the catalogue of rules."), close);
  dialog.showModal();
}

// -- code ----------------------------------------------------------------------------------------

const shownTexts = { names: null };

function showCode(body, kernel) {
  const names = Object.keys(TEXTS).filter((name) => name in kernel.texts);
  const narrow = find("detail").clientWidth < 700;
  shownTexts.names ||= new Set(narrow ? ["loops", "assembly"] : ["loops", "llvm", "assembly"]);
  if (!names.some((name) => shownTexts.names.has(name))) shownTexts.names.add("loops");
  const columns = make("div", { class: "columns" });
  const tools = make("div", { class: "tools" }, names.map((name) => {
    const box = make("input", { type: "checkbox", checked: shownTexts.names.has(name),
      onchange: () => {
        if (box.checked) shownTexts.names.add(name); else shownTexts.names.delete(name);
        showKernel();
      } });
    return make("label", {}, box, " ", TEXTS[name]);
  }), make("span", { class: "soft" }, "point at a line: the lines of its loop light up, and brighter the instructions of LLVM IR and "
    + "assembly that belong together; click holds the loop"));
  body.append(tools, columns);
  const columnsOf = names.filter((name) => shownTexts.names.has(name))
    .map((name) => codeColumn(name, kernel));
  columns.append(...columnsOf.map((each) => each.element));
  body.style.display = "flex";
  body.style.flexDirection = "column";
  linkLoops(columnsOf, kernel.loops);
}

function codeColumn(name, kernel) {
  const text = kernel.texts[name];
  const lines = make("div", { class: "lines code", tabindex: 0, "aria-label": TEXTS[name] });
  const loops = [];
  const parts = text.text.split("\n");
  text.loops.forEach(([begin, loop], k) => {
    const end = k + 1 < text.loops.length ? text.loops[k + 1][0] : parts.length;
    for (let line = begin; line < end; line++) loops[line] = loop;
  });
  const rows = parts.map((part, k) => make("div", { "data-line": k }, part || " "));
  lines.append(...rows);
  return { element: make("div", { class: "column" }, make("h3", {}, TEXTS[name]), lines),
    lines, rows, loops, numbers: text.numbers || [] };
}

function linkLoops(columns, loops) {
  let held = null;
  const inside = (loop, outer) => {
    while (loop >= 0 && loop !== outer) loop = loops[loop][1];
    return loop === outer;
  };
  const bring = (column, row) => { // into sight
    const top = row.offsetTop - column.lines.offsetTop;
    const { scrollTop, clientHeight } = column.lines;
    if (top < scrollTop || top > scrollTop + clientHeight - 20)
      column.lines.scrollTop = Math.max(top - 40, 0);
  };
  const light = (loop, from, name) => {
    for (const column of columns) {
      let first = null;
      column.rows.forEach((row, k) => {
        const lit = loop >= 0 && inside(column.loops[k], loop);
        row.classList.toggle(name, lit);
        if (lit && first === null) first = row;
      });
      if (column !== from && first) bring(column, first);
    }
  };
  let bright = [];
  const brighten = (number, from) => { // the lines of one line of LLVM IR
    bright.forEach((row) => row.classList.remove("exact"));
    bright = [];
    if (number) for (const column of columns) {
      const rows = column.rows.filter((_, k) => column.numbers[k] === number);
      rows.forEach((row) => row.classList.add("exact"));
      bright.push(...rows);
      if (column !== from && rows.length) bring(column, rows[0]);
    }
  };
  let last = -2;
  for (const column of columns) {
    const loopAt = (event) => {
      const row = event.target.closest("[data-line]");
      return row ? column.loops[Number(row.dataset.line)] ?? -1 : -1;
    };
    column.lines.addEventListener("mouseover", (event) => {
      const loop = loopAt(event);
      if (held === null && loop !== last) { last = loop; light(loop, column, "lit"); }
      const row = event.target.closest("[data-line]");
      brighten(row ? column.numbers[Number(row.dataset.line)] : 0, column);
    });
    column.lines.addEventListener("click", (event) => {
      const loop = loopAt(event);
      held = held === loop || loop < 0 ? null : loop;
      light(-1, column, "lit");
      light(held === null ? -1 : held, column, "pinned");
    });
    column.lines.addEventListener("mouseleave", () => {
      if (held === null) { last = -2; light(-1, column, "lit"); }
      brighten(0, column);
    });
  }
}

// -- search --------------------------------------------------------------------------------------

function showSearch(body, kernel) {
  const width = 680, height = 340, left = 62, right = 12, top = 14, bottom = 40;
  const times = kernel.search.map((pair) => pair[0]);
  const [least, most] = [Math.min(...times), Math.max(...times)];
  const span = Math.log(most / least) || 1;
  const x = (k) => left + k * (width - left - right) / Math.max(times.length - 1, 1);
  const y = (time) => top + Math.log(most / time) / span * (height - top - bottom);
  const best = times.indexOf(least);
  let fastest = Infinity;
  const frontier = times.flatMap((time, k) => {
    const before = fastest;
    fastest = Math.min(fastest, time);
    return before > fastest ? (k ? [`${x(k)},${y(before)}`, `${x(k)},${y(fastest)}`]
      : [`${x(k)},${y(fastest)}`]) : k === times.length - 1 ? [`${x(k)},${y(fastest)}`] : [];
  });
  const shown = make("div", {});
  const dots = [];
  const show = (k) => {
    dots.forEach((dot, at) => dot.classList.toggle("held", at === k));
    const [time, actions] = kernel.search[k];
    const compared = times[0] / time;
    shown.replaceChildren(make("p", {}, make("strong", {}, seconds(time)), ` candidate ${k}`
      + (k ? `, ${number(compared)} × the speed of the heuristic's schedule` : ", the heuristic's schedule")
      + (k === best ? "; the fastest" : "")), make("pre", { class: "wrap" }, actions));
  };
  kernel.search.forEach(([time, actions], k) => dots.push(make("circle", { class: "plot", cx: x(k),
    cy: y(time), r: k === best || k === 0 ? 6 : 4, "fill-opacity": 0.85,
    fill: color(k === best ? "good" : k === 0 ? "fair" : "accent"), onclick: () => show(k) },
    make("title", {}, `${seconds(time)}\n${actions}`))));
  const levels = [0, 1, 2, 3].map((part) => most * (least / most) ** (part / 3));
  const plot = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": "Candidates of the search by time" },
    (most > least ? levels : [most]).map((time) => [
      make("line", { class: "axis", x1: left, x2: width - right, y1: y(time), y2: y(time) }),
      make("text", { x: left - 8, y: y(time) + 4, "text-anchor": "end" }, seconds(time))]),
    make("text", { x: left, y: height - 10 }, `${times.length} candidates, in the order of measuring`),
    make("polyline", { points: frontier.join(" "), fill: "none", stroke: color("good") }), dots);
  body.append(make("div", { class: "pad" }, make("p", { class: "soft" },
    "Amber is the heuristic's schedule, green the fastest candidate; the line is the fastest so far. "
    + "Click a candidate for its actions."), plot, shown));
  show(best);
}
