"""The trace of all rewrites: those of passes, of nodes as they are made, and of the normal form."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import porism
from porism import pipeline
from porism.base.dtypes import index
from porism.engine.run.realize import request
from porism.ir import ops
from porism.ir.node import UOp, raw
from porism.rewrite.construction import record_rewrites
from porism.rewrite.graph_rewrite import rewrite
from porism.rewrite.rewrite_trace import Trace, process_trace
from porism.rules.index.normalize import simplify
from porism.rules.rule_sets import SIMPLE

PROGRAM = """
import numpy as np, porism
x = porism.asarray(np.ones((4, 6), np.float32))
print(porism.pad(x.reshape(3, 8), ((0, 0), (1, 2))).sum(1).numpy())
"""


def run(**settings: str) -> tuple[str, list[str]]:
    """The output of a program, and the lines of its standard error."""
    environment = {**os.environ, "PORISM_CACHE": "0", **settings}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout, done.stderr.splitlines()


@pytest.mark.slow
def test_the_setting_writes_every_rewrite_with_its_stage() -> None:
    quiet, nothing = run()
    told, lines = run(PORISM_TRACE="1")
    assert told == quiet
    assert nothing == []
    stages = {line.partition(": ")[0] for line in lines}
    assert {"rangeify", "expand", "index dtype"} <= stages
    assert all(" -> " in line and line.endswith("]") for line in lines)
    assert any(line.startswith("index dtype: ") and "[index-access]" in line for line in lines)


def test_what_happens_while_a_node_is_made_is_recorded() -> None:
    v = UOp.variable("recorded", 0, 9)
    with record_rewrites(Trace("here")) as trace:
        assert (v + 0) * 1 is v
        assert process_trace() is trace
    assert process_trace() is None
    assert [(step.rule, step.stage) for step in trace.steps] == [
        ("add-zero", "here"),
        ("mul-one", "here"),
    ]
    assert str(trace.steps[0]) == "here: recorded + 0 -> recorded  [add-zero]"


def test_nothing_is_recorded_afterwards() -> None:
    v = UOp.variable("afterwards", 0, 9)
    with record_rewrites(Trace()) as trace:
        pass
    assert v + 0 is v
    assert trace.steps == []


def test_a_pass_and_the_normal_form_are_recorded() -> None:
    v, w = UOp.variable("passed", 0, 9), UOp.variable("formed", 0, 9)
    graph = raw(ops.MAX, None, (v, UOp.const(index, 20)), None)
    with record_rewrites(Trace()) as trace:
        rewrite(graph, SIMPLE)
        simplify((v * 8 + w) // 16 + (v * 8 + w) % 16)
    fired = trace.counts()
    assert fired["max-larger"] == 1
    assert fired["index-normal-form"] == 1


def test_every_stage_of_a_compile_has_its_name() -> None:
    x = porism.asarray(np.zeros((5, 7), np.float32))
    graph = request([porism.flip(x, axis=0).sum(1).node]).graph
    with record_rewrites(Trace()) as trace:
        pipeline.schedule_graph(graph, cached=False)
    known = {
        stage.name
        for stages in (pipeline.GRAPH_STAGES, pipeline.RANGED_STAGES, pipeline.KERNEL_STAGES)
        for stage in stages
    }
    assert {step.stage for step in trace.steps} <= known | {"rangeify", "kernels"}
    assert any(step.stage == "rangeify" for step in trace.steps)
