"""Points: trial values say what a form is there, so that they refute only what is not so."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given

from porism.base.errors import PorismError
from porism.evaluate import evaluate
from porism.ir.node import UOp
from porism.rules.index import trial_points
from porism.rules.index.nodes_to_forms import Reader
from tests import graphs


@pytest.mark.parametrize(
    ("low", "high"), [(0, 0), (-3, 4), (5, math.inf), (-math.inf, -7), (-math.inf, math.inf)]
)
def test_leaves_are_tried_within_their_bounds(low: float, high: float) -> None:
    for number in range(2 * trial_points.PATTERNS):
        values = trial_points.of_leaf(number, low, high)
        assert len(values) == trial_points.COUNT
        assert all(low <= value <= high for value in values)


def test_the_ends_of_a_leaf_are_tried() -> None:
    assert trial_points.of_leaf(3, -5, 10**30)[:2] == (-5, 10**30)


@given(graphs.index_expressions())
@graphs.examples(100)
def test_a_form_has_the_value_of_its_node(node: UOp) -> None:
    reader = Reader()
    values = reader.form(node).values
    forms = {leaf: reader.form(leaf) for leaf in graphs.leaves(node)}
    assume(len(reader.arena.leaves()) == len(forms))  # no other part is opaque to arithmetic
    for i in range(trial_points.COUNT):
        at = {leaf: form.values[i] for leaf, form in forms.items()}
        try:
            expected = evaluate(node, at)[0].item()
        except PorismError:  # such as a division by zero
            continue
        assert values[i] == expected


def test_trial_points_refute_a_bucket() -> None:
    reader = Reader()
    x = UOp.variable("x", 0, 99)
    rest = reader.form(x - x // 8 * 8)
    here = reader.arena.here
    assert here.bucket(0, rest.terms, 8) == 0
    assert here.bucket(16, rest.terms, 8) == 2
    assert here.bucket(0, rest.terms, 4) is None
    assert here.bucket(1, rest.terms, 8) is None
