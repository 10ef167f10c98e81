"""Procedures of lowering and passes of the scheduler: each is tried, and a wrong one is found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from porism.base.dtypes import Kind
from porism.catalogue import rule_listing
from porism.catalogue.kernel_passes import PASSES_AND_MOVEMENT
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import substitute, toposort
from porism.lower.decompose.decompose import DECOMPOSITIONS
from porism.prove import procedure_checks
from porism.rewrite.rule import Procedure
from porism.rules.seed_rows import STEPS
from tests.examples import pass_examples
from tests.examples.catalogue_examples import EXAMPLES
from tests.tiers import quick_if

TRIED = [
    item for item in (*DECOMPOSITIONS, *PASSES_AND_MOVEMENT) if isinstance(item, Procedure)
]  # fmt: skip
MANY_CASES = ("power-of-words", "truncate-by-constant", "floor-by-truncation")
BY_NAME = {item.name: item for item in TRIED}


@pytest.mark.parametrize(
    "item", quick_if(lambda item: item.name not in MANY_CASES, TRIED), ids=lambda item: item.name
)
def test_every_procedure_and_pass_is_established(item: Procedure) -> None:
    tried = procedure_checks.check(item, EXAMPLES)
    assert tried.ok, tried.fault
    assert tried.cases > 0


def test_nothing_is_checked_that_is_not_there() -> None:
    assert set(EXAMPLES.checks) == set(BY_NAME)
    assert set(BY_NAME) <= {item.name for item in rule_listing.KNOWN}


def test_the_steps_of_the_seeds_are_in_the_catalogue() -> None:
    assert set(STEPS.values()) <= {row["name"] for row in rule_listing.rows()}


def fault(name: str, function: object) -> str:
    """What is found wrong when something else is done instead."""
    wrong = replace(BY_NAME[name], function=function)  # type: ignore[arg-type]
    return procedure_checks.check(wrong, EXAMPLES).fault


def forgets_signs(node: UOp) -> UOp | None:
    """Right for what is not negative."""
    if node.dtype.kind not in (Kind.SIGNED, Kind.UNSIGNED) or node.src[1].op is not ops.CONST:
        return None
    divisor = int(node.src[1].arg)
    if node.op is not ops.CDIV or divisor < 1 or divisor & (divisor - 1):
        return None
    return node.src[0] >> (divisor.bit_length() - 1)


def test_a_wrong_division_is_found() -> None:
    assert "CDIV of i8 on" in fault("divide-by-power", forgets_signs)


def test_a_formula_that_is_not_close_is_found() -> None:
    wrong = fault("exp2-polynomial", lambda node, machine: node.src[0] + 1.0)
    assert wrong.startswith("EXP2 of f32 on")


def test_a_procedure_that_does_nothing_is_found() -> None:
    assert fault("shift-inside", lambda node, machine: None) == "it fires on none of its examples"


def test_a_wrong_movement_is_found() -> None:
    right = BY_NAME["index-movement"].function

    def forgets_flips(node: UOp) -> UOp | None:
        if node.src[0].op is ops.FLIP:
            return node.src[0].src[0].index(*node.src[1:])
        return right(node)

    assert fault("index-movement", forgets_flips).startswith("before [")
    assert fault("index-movement", lambda node: None) == "it does not fire"
    assert fault("end-movement", lambda node: None).startswith("it gives")


def test_a_wrong_pass_is_found() -> None:
    def adds_one(sink: UOp) -> UOp:
        """Changes what is read."""
        read = [n for n in toposort(sink) if n.op is ops.INDEX and n.src[0].arg == 1]
        return substitute(sink, {node: node + 1.0 for node in read})

    wrong = pass_examples._on_kernels(adds_one)
    assert all(wrong(BY_NAME["flatten-ends"]))
    assert list(pass_examples._on_kernels(lambda sink: sink)(BY_NAME["flatten-ends"])) == [
        "it changes none of its kernels"
    ]
