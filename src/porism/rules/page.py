"""The page docs/rules.md: every rule by topic, how it is established, and an example that runs."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any, Final

from porism.rules import catalogue
from porism.rules.accounting import PASSES
from porism.rules.catalogue import NOT_RECORDED, Topic

FILE: Final = Path(__file__).parents[3] / "docs" / "rules.md"
"""Where the page is kept in a checkout of the sources."""

HEAD = """# Rules

Every rewrite rule of the compiler, a section a topic, from the files in `src/porism/rules/`.
Made by `porism rules --page`.

In a rule `c0`, `c1` … stand for constants, other names for any node; `lo(x)` and `hi(x)` are what
is known of its bounds. A *law* is what a normal form rests on: it is proved like a rule, but not
tried. A *procedure* is a function, for what no equation says.

*proved* is by the solver, for all inputs, from the rule's own declaration, in every type in which
it can fire: all widths of integers, signed or not, and all float types; a rule of fast math, which
changes float results, is proved on real numbers. *evaluated* is by comparing what the reference
evaluator, or another source of truth, gives before and after, on all examples. It is what
`./dev prove --record` has found.

The examples run as tests. Each shows one rule by itself, so that what other rules do next is not
seen; `p0`, `p1` … are inputs. All rules together are what `porism.simplify` shows:

```python
>>> import porism
>>> porism.simplify("(x*8 + y) // 4 + 0", {"x": (0, 9), "y": (0, 3)}).text
'x * 2'
>>> from porism.rules.catalogue import examples

```
"""


def page() -> str:
    """The whole page, in Markdown."""
    return "\n".join([HEAD, *(_section(topic) for topic in catalogue.topics()), _steps()])


def _section(topic: Topic) -> str:
    lines = [f"## {topic.title}\n", f"{topic.about} (`rules/{topic.name.replace('.', '/')}.py`)\n"]
    rows = [catalogue.row(item) for item in topic.items]
    stated = [row for row in rows if row["kind"] != "procedure"]
    functions = [row for row in rows if row["kind"] == "procedure"]
    if stated:
        lines.append("| rule | before → after | when | theory | established | seeds |")
        lines.append("|---|---|---|---|---|---|")
        lines += [
            f"| {_name(row)} | {_code(row['before'])} → {_code(row['after'])} | {_when(row)} "
            f"| {', '.join(row['theory'])} | {_how(row)} | {', '.join(row['seeds'])} |"
            for row in stated
        ]
        lines.append("")
    if functions:
        lines.append("| procedure | what it does | theory | established | seeds |")
        lines.append("|---|---|---|---|---|")
        lines += [_procedure(row) for row in functions]
        lines.append("")
    return "\n".join([*lines, *_example(topic)])


def _procedure(row: dict[str, Any]) -> str:
    theory, seeds = ", ".join(row["theory"]), ", ".join(row["seeds"])
    return f"| {_name(row)} | {_plain(row['after'])} | {theory} | {_how(row)} | {seeds} |"


def _name(row: dict[str, Any]) -> str:
    return f"`{row['name']}`" + (" (law)" if row["kind"] == "law" else "")


def _when(row: dict[str, Any]) -> str:
    return _code(row["when"]) if row["when"] else ""


def _how(row: dict[str, Any]) -> str:
    how: str = row["established"] or NOT_RECORDED
    return f"{how}; changes: {_plain(row['fast_math'])}" if row["fast_math"] else how


def _code(text: str) -> str:
    return f"`{_plain(text)}`"


def _plain(text: str) -> str:
    return text.replace("|", "\\|")


def _example(topic: Topic) -> list[str]:
    call = f'examples("{topic.name}")'
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        catalogue.examples(topic.name)
    return ["```python", f">>> {call}", printed.getvalue().rstrip("\n"), "", "```\n"]


def _steps() -> str:
    rows = [catalogue.step_row(), *(catalogue.pass_row(name) for name in PASSES)]
    head = (
        "## Steps\n\nWhat no rule says: it is done at every node, or by a pass that looks at all "
        "of a kernel.\n"
    )
    table = "| step | what it does | theory | established | seeds |\n|---|---|---|---|---|"
    return "\n".join((head, table, *map(_procedure, rows), ""))
