"""A part of the cases that the package onnx brings: one for each operator.

`./dev suite onnx` runs all of them.
"""

from __future__ import annotations

import warnings
from functools import cache

import pytest

from tests.tiers import quick_if
from tools.suite import onnx as suite

SHARDS = 4


@cache
def _first_of_each_operator() -> list[suite.Case]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # computing the cases divides by zero, on purpose
        cases = [case for case in suite.node_cases() if case.in_scope]
    chosen: dict[str, suite.Case] = {}
    for case in cases:
        if "expanded" not in case.tags and case.name not in suite.EXCLUDED:
            model, _ = case.load()
            if len(model.graph.node) == 1:
                chosen.setdefault(model.graph.node[0].op_type, case)
    return list(chosen.values())


@pytest.mark.parametrize("shard", quick_if(lambda shard: shard < 2, range(SHARDS)))
def test_one_case_of_each_operator(shard: int) -> None:
    cases = _first_of_each_operator()
    assert len(cases) > 150
    failed = {}
    for case in cases[shard::SHARDS]:
        result, why = suite.run_case(case)
        if result != "pass":
            failed[case.name] = f"{result}: {why}"
    assert not failed
