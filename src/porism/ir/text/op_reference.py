"""Op reference: the page `docs/ops.md`, which lists every op of the table."""

from __future__ import annotations

from porism.ir import ops
from porism.ir.ops import ANY_NUMBER, Group, Op

HEAD = """# Ops

Every op, from the table in `src/porism/ir/ops.py`. Made by `porism ops --page`.
"""


def page() -> str:
    """Return the page, in Markdown."""
    parts = [HEAD]
    for group in Group:
        parts.append(f"## {group.value.capitalize()}\n")
        parts.append("| op | symbol | sources | what it is |\n|---|---|---|---|")
        parts += [row(op) for op in ops.table() if op.group is group]
        parts.append("")
    return "\n".join(parts)


def row(op: Op) -> str:
    sources = f"{op.min_arity} or more" if op.arity == ANY_NUMBER else str(op.arity)
    symbol = f"`{op.symbol}`".replace("|", "\\|") if op.symbol else ""
    return f"| `{op.name}` | {symbol} | {sources} | {op.doc} |"
