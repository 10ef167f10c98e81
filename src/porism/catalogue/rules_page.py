"""The page docs/rules.md: every rule by topic, how it is established, and an example that runs."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any, Final

from porism.catalogue import rule_listing
from porism.catalogue.rule_listing import NOT_RECORDED, Topic

FILE: Final = Path(__file__).parents[3] / "docs" / "rules.md"
"""Where the page is kept in a checkout of the sources."""

HEAD = """# Rules

Every rewrite rule of the compiler, a section a topic: a file in `src/porism/`. Made by
`porism rules --page`.

In a rule `c0`, `c1` … stand for constants, other names for any node; `lo(x)` and `hi(x)` are what
is known of its bounds. A *lemma* is what a procedure or the normal form rests on: it is proved like
a rule, but not tried. A *procedure* is a function, for what no equation says, a *pass* one that
looks at all of a kernel.

*proved* is by the solver, for all inputs, from the rule's own declaration, in every type in which
it can fire: all widths of integers, signed or not, and all float types; a rule of fast math, which
changes float results, is proved on real numbers. *evaluated* is by comparing what the reference
evaluator, or another source of truth, gives before and after, on all examples. It is what
`./dev prove --record` has found.

*fires* is how often a rule fired while a corpus of programs and models was compiled, as
`porism rules --fired --record` has counted it, or why a rule is kept that did not. `porism rules`
also lists the stages that try it.

The examples run as tests. Each shows one rule by itself, so that what other rules do next is not
seen; `p0`, `p1` … are inputs. All rules together are what `porism.simplify` shows:

```python
>>> import porism
>>> porism.simplify("(x*8 + y) // 4 + 0", {"x": (0, 9), "y": (0, 3)}).text
'x * 2'
>>> from porism.catalogue.rule_listing import examples

```
"""


def page() -> str:
    """The whole page, in Markdown."""
    return "\n".join([HEAD, *(_section(topic) for topic in rule_listing.topics()), _steps()])


def _section(topic: Topic) -> str:
    lines = [f"## {topic.title}\n", f"{topic.about} (`{topic.file}`)\n"]
    rows = [rule_listing.row(item) for item in topic.items]
    stated = [row for row in rows if row["before"]]
    functions = [row for row in rows if not row["before"]]
    if stated:
        lines.append("| rule | before → after | when | theory | established | fires | seeds |")
        lines.append("|---|---|---|---|---|---|---|")
        lines += [
            f"| {_name(row)} | {_code(row['before'])} → {_code(row['after'])} | {_when(row)} "
            f"| {', '.join(row['theory'])} | {_how(row)} | {_fires(row)} "
            f"| {', '.join(row['seeds'])} |"
            for row in stated
        ]
        lines.append("")
    if functions:
        lines.append("| procedure | what it does | theory | established | fires | seeds |")
        lines.append("|---|---|---|---|---|---|")
        lines += [_procedure(row) for row in functions]
        lines.append("")
    return "\n".join([*lines, *_example(topic)])


def _procedure(row: dict[str, Any]) -> str:
    theory, seeds = ", ".join(row["theory"]), ", ".join(row["seeds"])
    how = f"{_how(row)} | {_fires(row)}"
    return f"| {_name(row)} | {_plain(row['after'])} | {theory} | {how} | {seeds} |"


def _name(row: dict[str, Any]) -> str:
    return f"`{row['name']}`" + f" ({row['kind']})" * (row["kind"] in ("lemma", "pass"))


def _when(row: dict[str, Any]) -> str:
    return _code(row["when"]) if row["when"] else ""


def _how(row: dict[str, Any]) -> str:
    how: str = row["established"] or NOT_RECORDED
    return f"{how}; changes: {_plain(row['fast_math'])}" if row["fast_math"] else how


def _fires(row: dict[str, Any]) -> str:
    """How often it fired, or why it is kept."""
    if row["fired"] is None:
        return ""
    return str(row["fired"]) if row["fired"] else f"no: {row['idle']}"


def _code(text: str) -> str:
    return f"`{_plain(text)}`"


def _plain(text: str) -> str:
    return text.replace("|", "\\|")


def _example(topic: Topic) -> list[str]:
    call = f'examples("{topic.name}")'
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        rule_listing.examples(topic.name)
    return ["```python", f">>> {call}", printed.getvalue().rstrip("\n"), "", "```\n"]


def _steps() -> str:
    head = "## Steps\n\nWhat no rule says, since it is done whenever a node is made.\n"
    columns = "| step | what it does | theory | established | fires | seeds |"
    table = f"{columns}\n|---|---|---|---|---|---|"
    return "\n".join((head, table, _procedure(rule_listing.step_row()), ""))
