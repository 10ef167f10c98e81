"""Playground worker: answers one question, JSON on the standard input, in a process of its own.

    {"expression": "(r*8+v)%7", "bounds": "r=0..3 v=0..2"}  →  {"text": …, "steps": […]}
    {"rule": "x//c0//c1 -> x//(c0*c1)"}                     →  {"verdict": …, "proved": …}

The server ends a worker that takes too long, and a worker limits its own memory.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from typing import Any, Final

from porism.base.errors import PorismError

MAX_BYTES: Final = 4 << 30
"""Address space of a worker; most of it is what libraries reserve and do not use."""
MAX_STEPS: Final = 200
"""Steps of one answer."""
NORMAL_FORM: Final = "index-normal-form"
NORMAL_FORM_THEOREM: Final = (
    "The whole as a sum of multiples of its parts, in which x % c is x - c * (x // c): the "
    "quotients of the steps above are put in, and equal terms cancel. It is a pass, whose lemmas "
    "are proved."
)
"""What the last step does, which puts the others together and is no single rule."""

Row = dict[str, Any]


def answer(question: Row) -> Row:
    """Return the answer to a question, or the message of the error.

    >>> answer({"expression": "x*4//4", "bounds": "x=0..9"})["text"]
    'x'
    >>> answer({"expression": "x+", "bounds": ""})["error"].partition(":")[0] != ""
    True
    """
    try:
        if "rule" in question:
            return verdict(str(question["rule"]))
        return simplified(str(question.get("expression", "")), str(question.get("bounds", "")))
    except PorismError as error:
        return {"error": str(error)}


def simplified(expression: str, bounds: str) -> Row:
    """Return an expression in normal form, with each step and its theorem."""
    from porism.simplifier.simplify import simplify
    from porism.simplifier.variable_bounds import from_arguments
    from porism.viewer.rule_report import rule_rows

    result = simplify(expression, from_arguments(bounds.split()), explain=True)
    steps = result.steps[:MAX_STEPS]
    rules = {NORMAL_FORM: {"theorem": NORMAL_FORM_THEOREM}}
    rules |= rule_rows(step.rule for step in steps)
    return {
        "text": result.text,
        "c": result.c,
        "divisions": result.divmods,
        "cost": result.cost,
        "steps": [
            {
                "rule": step.rule,
                "before": step.before,
                "after": step.after,
                "theorem": rules.get(step.rule, {}).get("theorem", ""),
                "established": rules.get(step.rule, {}).get("established", ""),
            }
            for step in steps
        ],
    }


def verdict(rule: str) -> Row:
    """Return whether a typed rule is proved, and values for which it is false if it is not."""
    try:
        import porism.prove  # noqa: F401 - needs the solver
        from porism.simplifier import conjecture, conjecture_verdict
    except ImportError:
        return {"error": "rules are proved by the solver z3: pip install z3-solver"}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        status = conjecture_verdict.run(conjecture.read(rule))
    return {"verdict": printed.getvalue().strip(), "proved": status == 0}


def main() -> None:
    """Answer the question on the standard input."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
    except (ImportError, ValueError, OSError):  # another system, or a lower limit already
        pass
    print(json.dumps(answer(json.loads(sys.stdin.buffer.read()))))


if __name__ == "__main__":
    main()
