"""The fuzzer of programs: it knows the whole namespace, and finds, shrinks and prints a fault."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pytest

import porism
from fuzz.program import oracle, workers
from fuzz.program.generate import evaluated, program
from fuzz.program.run import Finding, check, narrowed, symbol_of
from fuzz.program.shrink import script
from fuzz.program.steps import Call, Input, Ref, lines
from fuzz.program.table import EXCLUDED, EXCLUDED_MODULES, METHODS_EXCLUDED, ROWS
from fuzz.program.workers import made
from porism.tensor import namespace

ROOT = Path(__file__).parent.parent
SEED = 1
"""The same programs in each run, so that a failure is about the change."""
BLOCKS = 12
SIZE = 50
"""Blocks of programs: a minute on one core for all."""
OTHERS = {"getitem", "setitem", "assign"}
"""Rows that are no functions of the namespace."""


def test_every_public_function_is_drawn() -> None:
    """A new function needs a row, or a reason for having none."""
    public = {
        name
        for module, names in namespace.MODULES.items()
        if module not in EXCLUDED_MODULES
        for name in names.split()
    }
    assert not public - ROWS.keys() - EXCLUDED.keys(), "functions without a row"
    assert not (ROWS.keys() | EXCLUDED.keys()) - public - OTHERS, "rows of nothing"
    assert not ROWS.keys() & EXCLUDED.keys()
    assert not EXCLUDED_MODULES.keys() - namespace.MODULES.keys()
    assert oracle.FUNCTIONS.keys() == ROWS.keys(), "a row needs an oracle"


def test_every_public_method_is_drawn() -> None:
    """What tensors have and the namespace has not needs a row or a reason, too."""
    methods = {name for name in dir(porism.Tensor) if not name.startswith("_")}
    others = methods - namespace.NAMES
    assert others == (OTHERS & methods) | METHODS_EXCLUDED.keys()


@pytest.mark.slow
def test_every_row_can_be_drawn() -> None:
    """A row whose calls are always refused would test nothing."""
    drawn: Counter[str] = Counter()
    for number in range(3000):
        found = program(Random(f"{SEED}/{number}"))
        drawn.update(step.name for step in found.steps if isinstance(step, Call))
        if drawn.keys() == ROWS.keys():
            return
    raise AssertionError(f"never drawn: {sorted(ROWS.keys() - drawn.keys())}")


@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_program_is_wrong(block: int) -> None:
    for number in range(block * SIZE, (block + 1) * SIZE):
        found, how = made(SEED, number)
        finding = check(found, how)
        assert finding is None, script(found, how, finding)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["fake_device", "devices"])
def test_no_program_is_wrong_on_other_devices(way: str) -> None:
    """What assumes memory of the host ends the process, or mixes up the memory of two devices."""
    for number in range(SIZE):
        found, how = made(SEED, number, way)
        finding = check(found, how)
        assert finding is None, script(found, how, finding)


@pytest.mark.slow
def test_a_fault_of_the_compiler_is_found_and_shrunk() -> None:
    """The report ends with what was found and the count, and its script shows the fault."""
    options = ["--seed", str(SEED), "--count", "200", "--jobs", "1"]
    command = [sys.executable, "-m", "tests.faulty_fuzz", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    count = done.stdout.strip().split("\n")[-1]
    assert re.match(r"programs: 200 programs \(--seed 1\) in \d+ s, \d+ findings in ", count)
    assert re.search(r"^\d+ × wrong in .*max", done.stdout, re.MULTILINE), done.stdout
    reports = re.split(r"^-- |^\d+ × ", done.stdout, flags=re.MULTILINE)
    first = next(report for report in reports if report.startswith("wrong in"))
    assert len(re.findall(r"^t\d+ = ", first, re.MULTILINE)) <= 2, first
    exec(first[first.index("import numpy") :], {})  # the script runs as it stands


def test_a_script_gives_what_the_oracle_says(capsys: pytest.CaptureFixture[str]) -> None:
    """The text of a program is the program: executed, it has the same result."""
    compared = 0
    for number in range(40):
        found = program(Random(f"{SEED}/{number}"))
        if symbol_of(found.steps) is not None:  # some of these functions are refused
            continue
        text = "\n".join(["import numpy as np", "import porism", *lines(found.steps)])
        values: dict[str, object] = {}
        exec(text, values)
        value = found.known[-1]
        tensor = values[text.rsplit("\n", 1)[1].split(" = ")[0].split("[")[0]]
        assert isinstance(tensor, porism.Tensor)
        if value.exact and found.results == (len(found.steps) - 1,):
            np.testing.assert_array_equal(tensor.numpy().astype(value.array.dtype), value.array)
            compared += 1
    assert compared > 5


def test_double_precision_is_kept() -> None:
    """A value of f32 between values of f64 is a finding, also where the numbers happen to agree."""
    x = porism.asarray([1.5], dtype="float64")
    found = evaluated([Input("float64", (1,), 3, -4, 4), Call("abs", (Ref(0),), {})], (1,))
    assert narrowed(found, [x + 1]) is None
    assert narrowed(found, [porism.angle(x)]) is None
    finding = narrowed(found, [x.astype("float32").astype("float64")])
    assert finding is not None
    assert finding.kind == "narrowed"


@pytest.mark.slow
def test_a_fault_of_the_generator_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs after it are run all the same."""

    def sometimes(seed: int, number: int, way: str | None = None) -> object:
        if number == 3:
            raise ValueError("operands could not be broadcast together")
        return made(seed, number, way)

    monkeypatch.setattr(workers, "made", sometimes)
    found = workers.search(workers.Run(SEED, 0, 6, time.monotonic() + 120), jobs=1)
    assert found.count == 6
    assert [case.kind for case in found.all.values()] == ["no program: ValueError"]


@pytest.mark.slow
def test_a_crash_of_a_worker_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program that was run is named, and the programs after it are run all the same."""

    def sometimes(found: object, how: object) -> Finding | None:
        steps = getattr(found, "steps", ())
        shapes = [step.shape for step in steps if isinstance(step, Input)]
        if any(len(shape) == 4 for shape in shapes):
            os.kill(os.getpid(), signal.SIGKILL)
        return None

    monkeypatch.setattr(workers, "check", sometimes)
    monkeypatch.setattr(workers, "SHRINK", 2.0)
    found = workers.search(workers.Run(SEED, 0, 60, time.monotonic() + 120), jobs=2)
    assert found.count == 60
    assert found.all
    assert {case.kind for case in found.all.values()} == {"crash"}
