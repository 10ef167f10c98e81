"""The processor benchmark: that it runs, and that what it says follows from what it measured."""

from __future__ import annotations

import ast
import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import cpu, cpu_backends, cpu_growth, cpu_limits, cpu_sampling, cpu_table
from benchmarks.cpu_backends.on_numpy import NumPyOperations
from benchmarks.cpu_backends.on_porism import Porism
from benchmarks.cpu_operations import Operations, as_float64
from benchmarks.cpu_results import FIELDS, Results
from benchmarks.cpu_worker import relative_error
from benchmarks.cpu_workloads import (
    GROWING,
    QUICK,
    WORKLOADS,
    Workload,
    attention,
    convolution,
    dense,
    embedding,
    gpt2_block,
    layer_norm,
    named,
    on_x,
    perceptron,
    product,
    resnet_50,
    rotated,
)
from tests.tiers import quick_every

ROOT = Path(__file__).resolve().parent.parent
LIMITS = {
    "cache": 1e6, "peak f32": 1e12, "peak f64": 5e11,
    "L3 read": 1e11, "L3 copy": 2e11, "L3 triad": 3e11,
    "DRAM read": 1e10, "DRAM copy": 2e10, "DRAM copy nt": 4e10,
    "DRAM triad": 3e10, "DRAM triad nt": 2e10,
}  # fmt: skip


def cell(milliseconds: float, **others: Any) -> dict[str, Any]:
    return {
        "seconds": milliseconds / 1000,
        "right": True,
        "samples": 9,
        "clean": 9,
        "error": 1e-7,
        **others,
    }


@pytest.fixture
def results() -> Results:
    found = Results(2)
    found.limits = [LIMITS]
    found.add("mm_512", {"porism": cell(1), "numpy": cell(2), "torch": cell(4)}, "one")
    found.add("mm_1024", {"porism": cell(30), "numpy": cell(10), "jax.jit": cell(15)}, "one")
    found.add("add_4096", {"porism": cell(12), "numpy": cell(8)}, "one")
    return found


# -- a run -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_quick_run(tmp_path: Path) -> None:
    figures, table = tmp_path / "figures.json", tmp_path / "figures.csv"
    command = [sys.executable, "-m", "benchmarks.cpu", "--quick", "--threads", "1"]
    environment = {"PYTHONPATH": str(ROOT / "src"), "PORISM_CACHE": "0"}
    done = subprocess.run(
        [*command, "--json", str(figures), "--csv", str(table)],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    kept = json.loads(figures.read_text(encoding="utf-8"))
    assert list(kept["cells"]) == list(QUICK)
    for workload, cells in kept["cells"].items():
        assert list(cells) == ["porism", "numpy"]
        for found in cells.values():
            assert found["right"]
            assert 0 < found["least"] <= found["seconds"]
            assert found["error"] < named(workload).tolerance
    assert set(kept["limits"][0]) == set(LIMITS)
    assert min(kept["limits"][0].values()) > 0
    rows = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
    assert [(row["workload"], row["backend"]) for row in rows] == [
        (workload, backend) for workload in QUICK for backend in ("porism", "numpy")
    ]
    assert all(float(row["ms"]) > 0 and float(row["share"]) > 0 for row in rows)
    assert "multiply-adds: " in done.stdout


SMALL: dict[str, Workload] = {
    "chain": on_x(WORKLOADS["ew_chain_16M"].program, (100,), 100),
    "sum": on_x(WORKLOADS["sum_64M"].program, (100,), 1, tolerance=1e-4),
    "column sums": on_x(WORKLOADS["colsum_4096"].program, (9, 7), 7),
    "cumsum": on_x(WORKLOADS["cumsum_4096"].program, (9, 7), 63),
    "argmax": on_x(WORKLOADS["argmax_4096"].program, (9, 7), 9, tolerance=0),
    "transpose": on_x(WORKLOADS["transpose_4096"].program, (9, 7), 63),
    "max pool": on_x(WORKLOADS["maxpool3x3s2"].program, (1, 2, 9, 8), 40),
    "x.T @ x": on_x(WORKLOADS["xtx_2048x512"].program, (9, 7), 49),
    "layer norm": layer_norm(5, 16),
    "rotated": rotated(5, 32, 8),
    "embedding": embedding(10, 8, 20),
    "dense": dense(16),
    "strided": convolution(2, 4, 8, 6, 3, stride=2),
    "grouped": convolution(2, 4, 8, 8, 3, groups=2),
    "depthwise": convolution(2, 4, 8, 4, 3, groups=4),
    "attention": attention(2, 8),
    "perceptron": perceptron(2),
}


@pytest.mark.parametrize("name", quick_every(3, SMALL))
def test_our_programs_agree_with_the_reference(name: str) -> None:
    workload = SMALL[name]
    arrays = workload.inputs(name)
    exact = workload.program(NumPyOperations(), **as_float64(arrays))
    call, read = Porism(1).prepare(workload.program, arrays, workload.constants(arrays))
    assert relative_error(read(call()), np.asarray(exact, np.float64)) <= workload.tolerance


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks/cpu_backends").glob("on_*.py")))
def test_every_backend_has_all_operations(path: Path) -> None:
    """Read from the source: the libraries need not be here."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    (operations,) = (node for node in classes if node.name.endswith("Operations"))
    defined = {node.name for node in operations.body if isinstance(node, ast.FunctionDef)}
    for node in operations.body:
        if isinstance(node, ast.Assign):
            defined |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    wanted = {name for name in vars(Operations) if not name.startswith("_")}
    assert wanted <= defined
    assert f"{path.stem}:" in " ".join(cpu_backends.MODULES.values())


# -- costs and limits ------------------------------------------------------------------------------


def test_costs() -> None:
    assert product(2, 3, 4, 5).flops == 2 * 2 * 3 * 4 * 5
    assert product(2, 3, 4, 5).read == 4 * 2 * (3 * 4 + 4 * 5)
    assert convolution(1, 4, 8, 6, 3, stride=2, groups=2).flops == 2 * 6 * 16 * 2 * 9
    assert round(resnet_50(1).flops / 1e9, 1) == 8.2
    assert gpt2_block(128).read == 4 * (12 * 768**2 + 128 * 768)


def test_the_roofline_is_the_longer_of_computing_and_moving() -> None:
    def limit(flops: float, read: float, written: float) -> tuple[float, str]:
        workload = Workload(lambda o: None, lambda rng: {}, flops, read, written)
        found = cpu_limits.roofline(workload, LIMITS)
        return found.seconds, found.bound

    assert limit(1e12, 1, 1) == (1, "compute")
    assert limit(1, 4e5, 0) == (4e5 / 1e11, "L3 read")
    assert limit(1, 2e5, 2e5) == (4e5 / 2e11, "L3 copy")
    assert limit(1, 1e9, 1e9) == (2e9 / 4e10, "DRAM copy")  # stores past the cache are better
    assert limit(1, 2e9, 1e9) == (3e9 / 3e10, "DRAM triad")


def test_limits_of_several_runs_are_medians() -> None:
    runs = [dict.fromkeys(LIMITS, value) for value in (1.0, 9.0, 2.0)]
    assert set(cpu_limits.together(runs).values()) == {2.0}


# -- results ---------------------------------------------------------------------------------------


def test_who_is_behind_worst_first(results: Results) -> None:
    assert results.behind() == [(3.0, "mm_1024", "numpy"), (1.5, "add_4096", "numpy")]


def test_a_wrong_peer_is_not_the_best(results: Results) -> None:
    results.cells["mm_1024"]["numpy"]["right"] = False
    assert results.best_peer("mm_1024") == ("jax.jit", 0.015)
    assert "10.0 21%×" in cpu_table.lines(results)[2]


def test_files_are_added_to(results: Results, tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    results.write(path)
    again = Results.read(path, 2)
    again.add("mm_512", {"numpy": cell(3)}, "two")
    again.write(path)
    kept = Results.read(path, 2)
    assert kept.cells["mm_512"]["numpy"]["seconds"] == 0.003
    assert kept.cells["mm_512"]["torch"]["seconds"] == 0.004
    row = dict(zip(cpu_table.columns(kept), cpu_table.lines(kept)[1], strict=True))
    assert row["numpy"].endswith("†")
    assert not row["torch"].endswith("†")
    with pytest.raises(SystemExit, match="has figures of 2 threads, and this run has 4"):
        Results.read(path, 4)


def test_csv_has_a_row_for_each_cell_also_for_failures(results: Results, tmp_path: Path) -> None:
    results.add("mm_512", {"onnxruntime": {"failed": "why"}}, "one")
    results.write_csv(tmp_path / "table.csv")
    text = (tmp_path / "table.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    assert tuple(rows[0]) == FIELDS
    assert len(rows) == 9
    assert [row["failed"] for row in rows if row["backend"] == "onnxruntime"] == ["why"]
    assert "mm_512, onnxruntime: why" in results.faults(["mm_512"])


def test_a_page_gets_its_tables(results: Results, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- table -->\nold\n<!-- end of table -->\nafter\n")
    for _ in range(2):
        cpu_table.write_page(results, page)
        text = page.read_text(encoding="utf-8")
        assert text.startswith("before\n<!-- table -->\n\n")
        assert text.endswith("\n<!-- end of table -->\nafter\n")
        assert "| mm_512 |" in text
        assert "old" not in text
        assert text.count("| workload |") == 1


def test_names_are_chosen_by_commas_and_stars() -> None:
    assert cpu.names("b,a*", ["a1", "a2", "b"], "thing") == ["b", "a1", "a2"]
    with pytest.raises(SystemExit, match="there is no thing 'c'; there are: a, b"):
        cpu.names("c", ["a", "b"], "thing")


# -- sampling and growth ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("samples", "enough"),
    [
        ([], False),
        ([(0.01, 0.0)] * 8, False),
        ([(0.01, 0.0)] * 9, True),
        ([(0.01, 0.5)] * 9, False),  # disturbed
        ([(0.01, 0.5)] * 24, True),  # without hope
        ([(0.5, 0.0)] * 2, False),
        ([(0.5, 0.0)] * 3, True),  # slow
    ],
)
def test_when_samples_are_enough(samples: list[tuple[float, float]], enough: bool) -> None:
    assert cpu_sampling.enough({"all": samples, "count": 1}) is enough


def test_cliffs_are_far_below_a_neighbour() -> None:
    assert cpu_growth.cliffs({1: 0.5, 2: 0.6, 3: 0.3, 4: 0.4, 5: 0.9}) == [3, 4]
    assert cpu_growth.cliffs({64: 0.7, 128: 1.0}) == []


def test_sizes_that_fail_are_shown() -> None:
    results = Results(2)
    results.limits = [LIMITS]
    results.add("matmul/64", {"porism": {"failed": "why"}, "numpy": cell(1)}, "one")
    results.add("matmul/80", {"porism": cell(1)}, "one")
    assert [line[:2] for line in cpu_growth.size_lines(results, "matmul")] == [
        ["64", "failed"],
        ["80", "1.000"],
    ]
    assert "matmul/64, porism: why" in results.faults(cpu_growth.names([]))
    assert "| 64 | failed |" in cpu_growth.markdown(results)


def test_growing_workloads_are_found_by_name() -> None:
    assert named("matmul/96").flops == 2 * 96**3
    assert cpu_growth.names(["perceptron"])[0] == "perceptron/1"
    assert all(sorted(sizes) == list(sizes) for sizes in GROWING.values())
