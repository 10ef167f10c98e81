"use strict";
// Asks the server on this machine, and shows what it answers; all of it as text.

const find = (id) => document.getElementById(id);

function make(tag, name, ...children) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.append(...children);
  return element;
}

const asked = new Map(); // the number of the last question of each section: later answers win

async function ask(question, section, show) {
  const number = (asked.get(section) || 0) + 1;
  asked.set(section, number);
  section.replaceChildren(make("p", "soft", "…"));
  const put = (...children) => {
    if (asked.get(section) === number) section.replaceChildren(make("div", "panel", ...children));
  };
  const fail = (text) => put(make("p", "", make("span", "badge error", "error")), make("pre", "", text));
  try {
    const response = await fetch("ask", { method: "POST", body: JSON.stringify(question),
      headers: { "Content-Type": "application/json" } });
    const text = await response.text();
    const answer = response.ok ? JSON.parse(text) : { error: text };
    if (answer.error) fail(answer.error);
    else put(...show(answer));
  } catch (error) {
    fail("no answer: is porism serve still running?");
  }
}

function count(number, word) { return `${number} ${word}${number === 1 ? "" : "s"}`; }

function showSteps(answer) {
  const steps = answer.steps.map((step) => make("li", "",
    make("strong", "", step.rule), " ",
    step.established ? make("span", "badge " + step.established, step.established) : "",
    make("br"), make("code", "before", step.before), " → ", make("code", "after", step.after),
    make("div", "soft", step.theorem)));
  return [make("div", "answer", answer.text),
    make("div", "soft", `${count(answer.divisions, "division")}, cost ${answer.cost}; in C: `,
      make("code", "", answer.c)),
    steps.length ? make("ol", "", ...steps) : make("p", "soft", "nothing was found to simplify")];
}

function showVerdict(answer) {
  const [, word, rest] = /^(\w+): ([^]*)$/.exec(answer.verdict) || [null, "", answer.verdict];
  return [word ? make("p", "", make("span", "badge " + word, word)) : "", make("pre", "", rest)];
}

function simplify() {
  ask({ expression: find("expression").value, bounds: find("bounds").value }, find("result"), showSteps);
}

function prove() {
  ask({ rule: find("rule").value }, find("verdict"), showVerdict);
}

for (const [form, submit] of [["simplify", simplify], ["prove", prove]])
  find(form).addEventListener("submit", (event) => { event.preventDefault(); submit(); });
find("expressions").addEventListener("click", ({ target }) => {
  if (!target.dataset.expression) return;
  find("expression").value = target.dataset.expression;
  find("bounds").value = target.dataset.bounds;
  simplify();
});
find("rules").addEventListener("click", ({ target }) => {
  if (!target.dataset.rule) return;
  find("rule").value = target.dataset.rule;
  prove();
});
simplify();
