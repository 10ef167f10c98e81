"use strict";
// Asks the server on this machine, and shows what it answers; all of it as text.

function make(tag, name, ...children) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.append(...children);
  return element;
}

async function ask(question, section, show) {
  section.replaceChildren(make("p", "soft", "…"));
  try {
    const response = await fetch("ask", { method: "POST", body: JSON.stringify(question),
      headers: { "Content-Type": "application/json" } });
    const text = await response.text();
    const answer = response.ok ? JSON.parse(text) : { error: text };
    if (answer.error) section.replaceChildren(make("pre", "before", answer.error));
    else section.replaceChildren(...show(answer));
  } catch (error) {
    section.replaceChildren(make("pre", "before", "no answer: is porism serve still running?"));
  }
}

function showSteps(answer) {
  const steps = answer.steps.map((step) => make("li", "",
    make("strong", "", step.rule), make("span", "soft", ` ${step.established}`), make("br"),
    make("code", "before", step.before), make("br"), make("code", "after", "→ " + step.after),
    make("div", "soft", step.theorem)));
  return [make("pre", "", answer.text),
    make("p", "soft", `${answer.divisions} divisions, cost ${answer.cost}`),
    steps.length ? make("ol", "", ...steps) : make("p", "soft", "nothing was found to simplify")];
}

const find = (id) => document.getElementById(id);

find("simplify").addEventListener("submit", (event) => {
  event.preventDefault();
  ask({ expression: find("expression").value, bounds: find("bounds").value }, find("result"), showSteps);
});
find("prove").addEventListener("submit", (event) => {
  event.preventDefault();
  ask({ rule: find("rule").value }, find("verdict"), (answer) => [make("pre", "", answer.verdict)]);
});
