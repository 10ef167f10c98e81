"""The processor that is compiled for: levels of x86-64, and code that is right on each of them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from porism.backends.llvm import compiled_cpu
from porism.backends.llvm.compiled_cpu import LEVELS, Cpu
from porism.backends.llvm.host_target import host_target
from porism.base.errors import PorismError
from porism.base.settings import settings

PROGRAM = """
import numpy as np, porism
from porism.backends.llvm.host_target import host_target
rng = np.random.default_rng(0)
x = rng.integers(-4, 5, (1, 3, 1, 3)).astype(np.float32)
w = rng.integers(-4, 5, (2, 3, 1, 3)).astype(np.float32)
wanted = np.zeros((1, 2, 7, 7), np.float32)
padded = np.pad(x[0, :, 0], ((0, 0), (3, 3)))
for i in range(7):
    wanted[0, :, 3, i] = np.einsum("cj,ocj->o", padded[:, i : i + 3], w[:, :, 0])
for size in (7, 33, 64):
    a = rng.integers(-4, 5, (size, size)).astype(np.float32)
    assert np.array_equal((porism.asarray(a) @ a).numpy(), a @ a)
    assert np.allclose(porism.softmax(a).numpy().sum(1), 1, atol=1e-5)
half = rng.integers(-8, 9, 50).astype(np.float16)
assert np.array_equal((porism.asarray(half) * 2).numpy(), half * 2)
assert np.array_equal(porism.conv2d(x, w, padding=3).numpy(), wanted)
print(max(host_target().vector_bits), "MULACC" in host_target().ops)
"""
"""The convolution has masked loads that leave a whole register closed."""

FOUND = {"x86-64-v2": "128 False", "x86-64-v3": "256 True", "x86-64-v4": "512 True"}


def runs_here(level: str) -> bool:
    try:
        compiled_cpu._cpu_of_setting(level)
    except PorismError:
        return False
    return True


@pytest.mark.parametrize("level", LEVELS)
def test_programs_are_right_on_every_level(level: str) -> None:
    if not runs_here(level):
        pytest.skip("this processor has no such level")
    environment = {**os.environ, "PORISM_CPU": level, "PORISM_CACHE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == FOUND[level]


def test_a_level_that_the_processor_lacks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(compiled_cpu.LEVELS, "x86-64-v4", frozenset({"sse2", "nonsense"}))
    with pytest.raises(PorismError, match="cannot run code for x86-64-v4") as found:
        compiled_cpu._cpu_of_setting("x86-64-v4")
    assert "nonsense" in str(found.value)


def test_another_machine_is_chosen_before_anything_is_compiled() -> None:
    host_target()
    with pytest.raises(AssertionError, match="for another processor already"):
        compiled_cpu.compile_for(Cpu("generic", frozenset()))


def test_the_target_follows_the_settings() -> None:
    """It is kept between calls, but not beyond the settings it was made for."""
    before = host_target()
    with settings.override(threads=7, machine="miss=33"):
        assert (host_target().cores, host_target().machine.miss) == (7, 33.0)
    assert host_target() is before
