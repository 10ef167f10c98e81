"""The survey, the ablation and the regret: that they run, and what they make of their figures."""

from __future__ import annotations

import argparse
import inspect
import json
import os
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import ablate, regret, survey
from benchmarks.cpu_backends.on_porism import PorismOperations
from benchmarks.cpu_operations import as_float64, as_one, in_pairs
from benchmarks.cpu_results import Results
from benchmarks.cpu_worker import relative_error
from benchmarks.cpu_workloads import named
from benchmarks.features import FEATURES
from benchmarks.survey_programs import QUICK, SURVEY
from porism import pipeline
from tests.test_bench_cpu import cell
from tests.tiers import quick_every
from tools.suite import aarch64

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def results() -> Results:
    found = Results(2)
    found.add("survey/gamma", {"porism": cell(1), "torch": cell(4), "jax.jit": cell(2)}, "one")
    found.add("survey/mish", {"porism": cell(2), "torch": cell(1)}, "one")
    found.add("survey/kron", {"porism": cell(1), "torch": cell(0.1, right=False)}, "one")
    return found


# -- the survey ------------------------------------------------------------------------------------


def test_there_are_as_many_programs_as_the_survey_says() -> None:
    assert len(SURVEY) == 200
    assert set(QUICK) <= set(SURVEY)
    assert named("survey/mish") is SURVEY["mish"]


@pytest.mark.parametrize("name", quick_every(10, SURVEY))
def test_a_program_takes_the_inputs_that_are_drawn_for_it(name: str) -> None:
    workload = SURVEY[name]
    inputs = workload.inputs(name)
    inspect.signature(workload.program).bind(PorismOperations(), **inputs)
    assert "x" in inputs or not workload.weights
    again = workload.inputs(name)
    assert all(np.array_equal(inputs[key], again[key]) for key in inputs)


def test_the_ratio_is_that_of_the_best_right_result(results: Results) -> None:
    assert survey.measured(results) == {"mish": 0.5, "gamma": 2.0}
    assert survey.ratio(results, "kron") is None
    assert survey.line(results, "kron")[2] == "0.100×"
    assert survey.summary(results) == ("2 programs; geometric mean 1.00; 1 below 0.95: mish 0.50")
    assert "| gamma | 1.00 | 4.00 |  | 2.00 | 2.00 |" in survey.markdown(results)


def test_a_survey_is_resumed_with_what_is_left(results: Results) -> None:
    options = argparse.Namespace(quick=False, only="gamma,kron,mi*", resume=True)
    assert survey.chosen(options, results) == ["min_max_scaling"]


def test_results_of_several_arrays_and_of_complex_numbers_are_compared() -> None:
    first, second = np.ones((2, 2)), np.zeros(3)
    assert as_one([first, second]).shape == (7,)
    waves = np.array([1 + 1j, 2j], np.complex64)
    assert relative_error(waves, in_pairs(as_float64({"x": waves})["x"])) == 0
    assert relative_error(waves, in_pairs(waves.real + 0j)) > 0.5


# -- the ablation ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FEATURES)
def test_a_feature_names_functions_and_stages_of_the_compiler(name: str) -> None:
    feature = FEATURES[name]
    assert feature.functions or feature.stages
    for where in feature.functions:
        assert callable(pkgutil.resolve_name(f"porism.{where}"))
    for stages, stage in feature.stages.items():
        assert stage in [each.name for each in getattr(pipeline, stages)]


def test_a_row_has_the_mean_of_what_changes_and_the_extremes() -> None:
    kept = {
        "a": dict.fromkeys(FEATURES, 1.0) | {"Pack": 2.0},
        "survey/b": dict.fromkeys(FEATURES, 1.0) | {"Pack": 0.5, "Peel": 0.0},
    }
    rows = {row[0]: row for row in ablate.lines(kept)}
    assert rows["Pack"] == ["Pack", "2", "1.000", "a 2.00", "b 0.50", "", "1.000"]
    assert rows["Peel"][1:6] == ["0", "", "", "", "b"]
    assert "| Pack | 2 | 1.000 |" in ablate.markdown(kept)


def test_the_same_code_is_not_timed() -> None:
    cells = {
        "porism": cell(1, code="x"),
        "porism without Pack": cell(9, code="x"),
        "porism without Peel": cell(2, code="y"),
        "torch": cell(1),
    }
    changed = ablate.changed_by(cells)
    assert list(changed) == ["porism", "porism without Peel"]
    assert ablate.ratios(changed, ["Pack", "Peel"]) == {"Pack": 1.0, "Peel": 2.0}


@pytest.mark.slow
def test_a_quick_ablation(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    command = ["benchmarks.ablate", "--quick", "--threads", "1", "--features", "Pack,OverlapTail"]
    done = run([*command, "--json", str(figures)])
    assert done.returncode == 0, done.stderr
    kept = json.loads(figures.read_text(encoding="utf-8"))
    assert list(kept) == list(ablate.QUICK)
    assert all(0 < ratio < 100 for row in kept.values() for ratio in row.values())


# -- the regret ------------------------------------------------------------------------------------


def test_the_corpus_follows_from_the_seed() -> None:
    first, again, other = (list(regret.corpus(seed, 1)) for seed in (3, 3, 4))
    assert first == again
    assert len(first) >= len(regret.KINDS)
    assert [kernel for _, kernel in first] != [kernel for _, kernel in other]


def test_rank_correlation() -> None:
    rising = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    assert regret.rank_correlation(rising, [x**3 for x in rising]) == pytest.approx(1)
    assert regret.rank_correlation(rising, [-x for x in rising]) == pytest.approx(-1)
    assert regret.ranks([5.0, 1.0, 5.0]) == [1.5, 0.0, 1.5]
    assert regret.rank_correlation(rising[:5], rising[:5]) is None
    assert regret.rank_correlation([1.0] * 8, rising) is None


def test_the_summary_of_regrets() -> None:
    kept: dict[str, dict[str, Any]] = {
        "a": {"ms": 1.0, "regret": 1.0, "candidates": 9, "correlation": 0.5},
        "b": {"ms": 1.0, "regret": 1.5, "candidates": 3},
        "c": {"error": "why"},
    }
    assert regret.summary(kept).startswith("2 kernels; regret: median 1.250, 95th percentile 1.475")
    assert [row[0] for row in regret.lines(kept)] == ["b", "a", "c"]


@pytest.mark.slow
def test_a_quick_regret(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    done = run(["benchmarks.regret", "--quick", "--json", str(figures)])
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(figures.read_text(encoding="utf-8")).values()
    assert found["regret"] >= 1
    assert found["ms"] > 0


# -- other processors ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(
    any(shutil.which(command) is None for command in aarch64.COMMANDS),
    reason="there is no emulator of AArch64, or no linker for it",
)
@pytest.mark.parametrize("cpu", aarch64.CPUS)
def test_kernels_for_aarch64_compute_what_the_evaluator_says(cpu: str) -> None:
    done = run(["tools.suite.aarch64", "--short", "--cpu", cpu])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 faults" in done.stdout


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": str(ROOT / "src"), "PORISM_CACHE": "0", "PATH": os.defpath}
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, env=environment,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
