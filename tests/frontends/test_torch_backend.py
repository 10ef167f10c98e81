"""The table of ATen operators and the report, as far as they need no torch.

The backend itself is compared with torch by `./dev suite opinfo` and `./dev suite zoo`.
"""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import porism
import porism.torch
from porism.frontends.torch.aten_table import TABLE
from porism.frontends.torch.fallback_report import Report

MODULES = ("elementwise", "indexing", "movement", "network", "normalization", "reductions")
for name in MODULES:
    importlib.import_module(f"porism.frontends.torch.aten_{name}")


def call(name: str, *args: object, **kwargs: object) -> object:
    """Call an operator of the table."""
    return TABLE[f"aten.{name}"].run(*args, **kwargs)


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("add.Tensor", ([1.0, 2.0], [3.0, 4.0], 2), [7.0, 10.0]),
        ("rsub.Scalar", ([1.0, 2.0], 5.0), [4.0, 3.0]),
        ("div.Tensor_mode", ([-7, 7], [2, 2], "trunc"), [-3, 3]),
        ("div.Tensor_mode", ([-7, 7], [2, 2], "floor"), [-4, 3]),
        ("clamp.default", ([1.0, 5.0], 4.0, 2.0), [2.0, 2.0]),
        ("squeeze.dims", ([[[1.0]], [[2.0]]], [0, 1]), [[1.0], [2.0]]),
        ("constant_pad_nd.default", ([[1.0, 2.0]], [1, 0, 0, 1]), [[0.0, 1.0, 2.0], [0.0] * 3]),
        ("slice_scatter.default", ([0.0] * 5, [1.0, 2.0], 0, 1, 4, 2), [0.0, 1.0, 0.0, 2.0, 0.0]),
        ("select_scatter.default", ([[0.0, 0.0]], [3.0], 1, -1), [[0.0, 3.0]]),
        ("index_put.default", ([1.0, 2.0], [[1, 1]], [5.0, 6.0], True), [1.0, 13.0]),
        ("var.correction", ([1.0, 3.0],), 2.0),
        ("unfold.default", ([0, 1, 2, 3], 0, 2, 1), [[0, 1], [1, 2], [2, 3]]),
        ("upsample_nearest2d.default", ([[[[1.0, 2.0]]]], [1, 4]), [[[[1.0, 1.0, 2.0, 2.0]]]]),
        ("scatter_reduce.two", ([1.0, 2.0], 0, [0, 0], [5.0, 3.0], "amax"), [5.0, 2.0]),
    ],
)
def test_an_operator_computes_what_atens_schema_says(
    name: str, args: tuple[object, ...], expected: object
) -> None:
    tensors = [_tensor(a) for a in args]
    if name.startswith("index_put"):
        tensors[1] = [porism.asarray(args[1][0])]  # type: ignore[index]
    if name in ("squeeze.dims", "constant_pad_nd.default", "upsample_nearest2d.default"):
        tensors[1] = args[1]
    result = call(name, *tensors)
    assert isinstance(result, porism.Tensor)
    assert result.tolist() == expected


def _tensor(value: object) -> object:
    return porism.asarray(value) if isinstance(value, list) else value


def test_a_pool_tells_where_its_maxima_are() -> None:
    x = porism.asarray([[[[1.0, 5.0, 5.0], [float("nan"), 0.0, 2.0], [3.0, 3.0, 1.0]]]])
    values, indices = TABLE["aten.max_pool2d_with_indices.default"].run(x, [2, 2], [1, 1])
    assert indices.tolist() == [[[[3, 1], [3, 7]]]], "NaN is largest, and of equal ones the first"
    assert values.tolist()[0][0][1][1] == 3.0


def test_the_report_counts_and_prints() -> None:
    report = Report()
    report.compiled.update(["aten.add.Tensor"] * 3)
    report.fallbacks["aten.nonzero.default"] = 1
    report.reasons["aten.nonzero.default"] = "its shape depends on values"
    assert str(report).splitlines() == [
        "3 of 4 calls of operators were compiled by Porism",
        "  aten.nonzero.default: 1 calls by torch, its shape depends on values",
    ]
    report.reset()
    assert not report.compiled


def test_porism_does_not_import_torch() -> None:
    program = "import sys, porism, porism.torch; porism.ones(2).numpy()"
    program += "; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
