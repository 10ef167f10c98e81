"""Stages that choose an algorithm: what they recognize, and that values stay."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import porism
from porism import pipeline
from porism.base.target import GENERIC_CPU, Target
from porism.engine.run.realize import request
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.schedule.algorithms import chunked_scan, symmetric_product
from porism.schedule.algorithms.chunked_scan import ENOUGH_ROWS, MIN_CHUNK, chunk_scans

LONG = ENOUGH_ROWS * MIN_CHUNK


def graph_of(tensor: porism.Tensor) -> UOp:
    return request([tensor.node]).graph


def zeros(*shape: int, dtype: str = "float32") -> porism.Tensor:
    return porism.asarray(np.zeros(shape, dtype)).realize()


@pytest.mark.parametrize(
    ("shape", "axis", "parts"),
    [
        ((LONG,), 0, 64),
        ((2, LONG), 1, 32),
        ((LONG, 2), 0, 32),
        ((3, LONG // 3), 1, 1),  # no equal chunks that are long enough
        ((ENOUGH_ROWS, LONG), 1, 1),
        ((LONG // 2,), 0, 1),
        ((1, 5, LONG), 2, 16),
    ],
)
def test_scans_of_few_long_rows_are_cut(shape: tuple[int, ...], axis: int, parts: int) -> None:
    graph = graph_of(porism.cumsum(zeros(*shape), axis))
    chunked = chunk_scans(graph, GENERIC_CPU)
    if parts == 1:
        assert chunked is graph
    else:
        sums = [n for n in toposort(chunked) if n.op is ops.REDUCE_AXIS]
        assert any(parts in [d.arg for d in n.src[0].src[1].src[0].src[1:]] for n in sums[1:]), sums


def test_a_machine_with_many_cores_cuts_more() -> None:
    graph = graph_of(porism.cummax(zeros(ENOUGH_ROWS, LONG), 1))
    assert chunk_scans(graph, GENERIC_CPU) is graph
    many = dataclasses.replace(GENERIC_CPU, cores=4 * ENOUGH_ROWS)
    assert chunk_scans(graph, many) is not graph


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin"])
@pytest.mark.parametrize("axis", [0, 1])
def test_values_of_chunked_scans(name: str, axis: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunked_scan, "MIN_CHUNK", 4)
    x = np.random.default_rng(3).integers(-3, 3, (256, 256)).astype(np.int32)
    x = x[:2] if axis == 1 else x[:, :2]
    graph = graph_of(getattr(porism, name)(porism.asarray(x).realize(), axis))
    assert chunk_scans(graph, GENERIC_CPU) is not graph
    numpy_name = {"cummax": "maximum", "cummin": "minimum"}.get(name)
    expected = (
        getattr(np, numpy_name).accumulate(x, axis)
        if numpy_name
        else getattr(np, name)(x, axis, dtype=np.int32)
    )
    actual = getattr(porism, name)(porism.asarray(x), axis)
    np.testing.assert_array_equal(actual.numpy().astype(np.int32), expected)


def test_what_only_looks_like_a_scan_stays() -> None:
    x = zeros(LONG // 64)
    n = LONG // 64
    later = porism.arange(n) >= porism.arange(n).reshape(n, 1)
    suffixes = porism.where(later, x, 0.0).sum(1).contiguous()
    graph = graph_of(suffixes)
    assert chunk_scans(graph, GENERIC_CPU) is graph


@pytest.mark.parametrize("program", ["scan", pytest.param("product", marks=pytest.mark.slow)])
def test_verification_compares_the_stages(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunked_scan, "MIN_CHUNK", 4)
    for limit, value in (("MIN_MULTIPLIES", 1), ("MIN_K", 1), ("MIN_BLOCK_ROWS", 2)):
        monkeypatch.setattr(symmetric_product, limit, value)
    monkeypatch.setattr(symmetric_product, "BLOCK_MULTIPLE", 2)
    x = porism.asarray(np.ones((16, 16), np.float32)).realize()
    tensor = porism.cumsum(x.reshape(256), 0) if program == "scan" else x @ x.T
    rows = porism.verify(tensor, level=2).rows
    name = {"scan": "chunk scans", "product": "halve symmetric products"}[program]
    assert any(row.stage == name for row in rows)


def test_every_stage_on_graphs_is_given_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    targets: list[Target] = []

    def watched(stage: pipeline.GraphStage) -> pipeline.GraphStage:
        def run(graph: UOp, target: Target) -> Any:
            targets.append(target)
            return stage.run(graph, target)

        return dataclasses.replace(stage, run=run)

    stages = tuple(map(watched, pipeline.GRAPH_STAGES))
    monkeypatch.setattr(pipeline, "GRAPH_STAGES", stages)
    many = dataclasses.replace(GENERIC_CPU, cores=99)
    pipeline.schedule_graph(graph_of(zeros(7).sum()), target=many)
    assert targets == [many] * len(stages)
