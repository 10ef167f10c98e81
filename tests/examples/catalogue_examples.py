"""Examples of the whole catalogue: what procedures are tried on, and a line for each rule."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from typing import Final

from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.prove.procedure_checks import Examples
from porism.rewrite.graph_rewrite import rewrite
from porism.rewrite.rule import Procedure, Rewrite, RuleSet
from porism.rules import proof_record
from porism.rules.proof_record import Entry
from tests.examples import lowering_examples, pass_examples, procedure_examples
from tests.examples.rule_examples import rule_example

EXAMPLES: Final = Examples(
    graphs=procedure_examples.EXAMPLES,
    checks={**lowering_examples.CHECKS, **pass_examples.CHECKS},
)
"""What `./dev prove` tries procedures on."""

LONGEST_GRAPH: Final = 150
"""Characters of a graph in an example line."""


def example_line(item: Rewrite) -> str:
    """Return a graph on which a rule fires and the result, as text; "" if there is none."""
    pair = before_and_after(item)
    if pair is None:
        return ""
    before, after = (show(graph, LONGEST_GRAPH) for graph in pair)
    bounds = ", ".join(_bounds(pair[0]))
    return f"{before}  =>  {after}" + (f"  where {bounds}" if bounds else "")


def before_and_after(item: Rewrite) -> tuple[UOp, UOp] | None:
    """Return a graph that a rule, procedure or pass changes, and the result."""
    pairs: Iterable[tuple[UOp, UOp]]
    if isinstance(item, Procedure) and item.name in lowering_examples.EXAMPLES:
        alone = RuleSet(item.name, rules=(item,))
        pairs = (
            (graph, rewrite(graph, alone, lowering_examples.MACHINE))
            for graph, _ in lowering_examples.EXAMPLES[item.name]()
        )
    elif isinstance(item, Procedure) and item.name in pass_examples.CHECKS:
        pairs = pass_examples.before_and_after(item)
    else:
        return rule_example(item)
    return next(((before, after) for before, after in pairs if after is not before), None)


def _bounds(graph: UOp) -> Iterator[str]:
    for node in toposort(graph):
        if node.op is ops.VARIABLE:
            name, low, high = node.arg
            if low is not None and (low, high) != (node.dtype.min, node.dtype.max):
                yield f"{low} <= {name} <= {high}"


# -- the record ------------------------------------------------------------------------------------


def examples_digest(item: Rewrite) -> str:
    """Return a digest of the source text of a procedure's examples; "" for a rule.

    What is called as `view_examples.elements()` belongs to them, with all it uses in its module.
    """
    if not isinstance(item, Procedure):
        return ""
    written = procedure_examples.EXAMPLES.get(item.name)
    if written is not None:
        texts = proof_record.source_texts(written.__module__, written.__name__)
        return proof_record.digest_of_texts([*texts, *_called_texts(texts)])
    for module, checks in ((lowering_examples, lowering_examples.CHECKS),
                           (pass_examples, pass_examples.CHECKS)):  # fmt: skip
        if item.name in checks:
            text = inspect.getsource(module)
            return proof_record.digest_of_texts([text, *_called_texts([text])])
    return ""


_CALL: Final = re.compile(r"\b(\w+_examples)\.(\w+)\(")


def _called_texts(texts: Iterable[str]) -> list[str]:
    """Return the texts of the functions of other modules of examples that some texts call."""
    called = sorted({call for text in texts for call in _CALL.findall(text)})
    return [
        text
        for module, name in called
        for text in proof_record.source_texts(f"tests.examples.{module}", name)
    ]


def is_current(item: Rewrite) -> bool:
    """Whether the proof record holds a rule as it is, tried on the examples as they are."""
    entry = proof_record.current_entry(item)
    return entry is not None and entry.examples == examples_digest(item)


def entry(item: Rewrite, established: str) -> Entry:
    """Return what the record says of a rule that has just been established."""
    return Entry(proof_record.digest(item), established, example_line(item), examples_digest(item))
