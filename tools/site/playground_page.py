"""The page of examples of index arithmetic: what the playground answers, computed ahead."""

from __future__ import annotations

from typing import Final

from porism.simplifier.playground.playground_worker import answer

EXPRESSIONS: Final = (
    ("(r*8 + v) % 7", "r=0..3 v=0..2"),
    ("(x*4 + y) // 4", "x=0..99 y=0..3"),
    ("x//8*8 + x%8", "x=0..1000"),
    ("(i*6 + j*3) // 3 % 2", "i=0..9 j=0..1"),
    ("(y*64 + x) // 8 % 8 * 8 + x % 8", "x=0..63 y=0..63"),
)
RULES: Final = (
    "x//c0//c1 -> x//(c0*c1)",
    "x//c0//c1 -> x//(c0*c1) when c1 > 0",
    "(x + y) % c0 -> x % c0 + y % c0",
)


def page() -> str:
    """Return the page in Markdown."""
    lines = [
        "# A playground for index arithmetic", "",
        "`porism serve` opens a page on your machine in which you can type expressions, bounds and",
        "rules ([simplifier.md](simplifier.md)). These are some of its answers.",
    ]  # fmt: skip
    for expression, bounds in EXPRESSIONS:
        found = answer({"expression": expression, "bounds": bounds})
        lines += ["", f"## `{expression}`", "", f"with `{bounds}` is `{found['text']}`.", ""]
        for number, step in enumerate(found["steps"], 1):
            lines += [
                f"{number}. **{step['rule']}** ({step['established'] or 'a pass'}): "
                f"`{step['before']}` → `{step['after']}`  ",
                f"    {step['theorem']}",
            ]
    lines += ["", "## Rules that someone typed"]
    for rule in RULES:
        found = answer({"rule": rule})
        text = found.get("verdict") or found.get("error", "")
        lines += ["", "```text", rule, "", text, "```"]
    return "\n".join(lines) + "\n"
