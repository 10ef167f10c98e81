"""Failures and interruptions: said clearly or not felt at all, and the next call is right."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import porism
from porism import Tensor
from porism.backends.llvm import llvm_library
from porism.base.errors import PorismError
from porism.engine.run import array_allocator
from porism.ir import ops
from porism.ir.facts.semantics import Array
from tests.patience import PATIENCE

ROOT: Final = Path(__file__).parents[2]

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
alarms = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no alarms here")


def program(number: int) -> tuple[Any, Array]:
    """A program of several kernels that no other number has, and its value."""
    data = np.arange(40 * 30, dtype=np.float64).reshape(40, 30) % 7
    x = porism.asarray(data)
    y = (x * (number + 2)) @ x.transpose(0, 1) + number
    expected = (data * (number + 2)) @ data.T + number
    return porism.softmax(y / 1000).sum(1) * y.max(1), expected.max(1)


def check(number: int) -> None:
    found, expected = program(number)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


def process(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Code in a process of its own, which must end."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PORISM_")}
    return subprocess.run(
        [sys.executable, "-c", code],
        env=kept | {"PORISM_CACHE": "0", "PYTHONPATH": str(ROOT / "src")} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


# -- too large -------------------------------------------------------------------------------------


@pytest.mark.parametrize("build", ["one result", "something between", "by jit"])
def test_a_tensor_for_which_there_is_no_memory(build: str) -> None:
    before = array_allocator.memory_usage().in_use
    huge = porism.arange(1 << 46).reshape(1 << 23, 1 << 23)
    builds: dict[str, Callable[[], Any]] = {
        "one result": lambda: huge * 3,
        "something between": lambda: Tensor(ops.CONTIGUOUS((huge * 3).node)).sum(),
        "by jit": lambda: porism.jit(lambda x: huge + x)(porism.ones(1)),
    }
    with pytest.raises(array_allocator.OutOfMemory) as caught:
        builds[build]().realize()
    assert isinstance(caught.value, PorismError)
    assert "there is no memory for" in str(caught.value)
    assert caught.value.fix
    del caught
    assert array_allocator.memory_usage().in_use <= before + (1 << 20)
    check(1)


def test_more_elements_than_a_machine_counts() -> None:
    with pytest.raises(PorismError) as caught:
        (porism.arange(1 << 40).reshape(1 << 40, 1) * porism.arange(1 << 40)).realize()
    assert caught.value.why
    assert caught.value.fix
    check(1)


def test_a_kernel_with_more_than_a_kernel_holds() -> None:
    """It is cut: what is compiled stays small."""
    x = porism.asarray(np.arange(64, dtype=np.float64))
    y, expected = x, x.numpy().copy()
    for k in range(2000):
        y = porism.where(y > k, y - k, y + x)
        expected = np.where(expected > k, expected - k, expected + np.arange(64))
    np.testing.assert_array_equal(y.numpy(), expected)


# -- interruptions ---------------------------------------------------------------------------------


class Interrupted(BaseException):
    """As KeyboardInterrupt, but nobody else's."""


@contextlib.contextmanager
def interrupted(seconds: float) -> Iterator[None]:
    """Python code that is interrupted after some time, as by Ctrl-C, if it is not over before."""

    def stop(*_: Any) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        with contextlib.suppress(Interrupted):
            try:
                yield
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@alarms
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in the collector
def test_interrupted_at_any_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is scheduled, lowered, compiled by LLVM or run: the second call is right."""
    monkeypatch.setattr(
        llvm_library, "BATCH_INSTRUCTIONS", 1
    )  # LLVM in its thread from the first kernel on
    chance = random.Random(5)
    for number in range(100, 140):
        with interrupted(0.001 + 0.15 * chance.random()):
            program(number)[0].realize()
        check(number)


@alarms
def test_interrupted_while_it_runs() -> None:
    x = porism.asarray(np.ones((300, 300)))

    @porism.jit
    def function(x: Any) -> Any:
        return x @ x + 1

    expected = x.numpy() @ x.numpy() + 1
    np.testing.assert_array_equal(function(x).numpy(), expected)
    chance = random.Random(6)
    for _ in range(30):
        with interrupted(0.001 + 0.01 * chance.random()):
            while True:
                function(x)
        np.testing.assert_array_equal(function(x).numpy(), expected)


@alarms
def test_an_interrupted_assignment_has_happened_or_not() -> None:
    count = porism.zeros(1, dtype="int64")

    @porism.jit
    def step() -> Any:
        count.assign(count + 1)
        return count * 1

    seen = step().item()
    chance = random.Random(7)
    for _ in range(30):
        with interrupted(0.0005 + 0.005 * chance.random()):
            while True:
                step()
        later = count.item()
        assert later >= seen
        assert step().item() == later + 1
        seen = later + 1


CTRL_C: Final = """
import os, signal, threading, porism
signal.signal(signal.SIGINT, signal.default_int_handler)  # which jobs in the background ignore
porism.arange(1).item()  # all is imported
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    k = 0
    while True:
        k += 1
        (porism.arange(1000) * k + k).sum().item()
except KeyboardInterrupt:
    print((porism.arange(4) * 7).tolist())
"""


def test_ctrl_c() -> None:
    done = process(CTRL_C)
    assert (done.stdout, done.stderr, done.returncode) == ("[0, 7, 14, 21]\n", "", 0)


# -- the end of the interpreter --------------------------------------------------------------------

USED: Final = """
import threading, time, sys, porism
x = porism.ones(256, 256)
f = porism.jit(lambda x: (x @ x).sum())
f(x).item()
"""
ENDS: Final = {
    "threads wait": "",
    "another thread computes": """
def work():
    while True: f(x)
threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
""",
    "another thread compiles": """
def work():
    k = 0
    while True:
        k += 1
        (x * k + k).sum().item()
threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
""",
    "another thread compiles beside a thread of LLVM": """
from porism.backends.llvm import llvm_library
llvm_library.BATCH_INSTRUCTIONS = 1
def work():
    k = 0
    while True:
        k += 1
        ((x * k + k).sum() + (x @ x + k).sum()).item()
threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
""",
    "something is left to do": """
import atexit
atexit.register(lambda: print(f(x).item(), (x + 2).sum().item()))
""",
    "an exception": "raise SystemExit(0)",
    "tensors in circles": """
class Holder: pass
a = Holder(); a.me, a.x = a, (x + 1).realize()
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ENDS)
def test_the_interpreter_ends(name: str) -> None:
    done = process(USED + ENDS[name], PORISM_THREADS="4")
    assert (done.stderr, done.returncode) == ("", 0)
    said = "16777216.0 196608.0\n" if name == "something is left to do" else ""
    assert done.stdout == said


# -- several processes and threads -----------------------------------------------------------------

FORKED: Final = """
import os, sys, threading, porism

def program(number):
    x = porism.arange(300 * 300).reshape(300, 300) % 5
    return ((x * number) @ x + number).sum().item()

expected = {k: program(k) for k in (1, 2)}
before = program(3)
stop = False
def work():
    k = 10
    while not stop:
        k += 1
        program(k)
others = [threading.Thread(target=work) for _ in range(int(sys.argv[1]))]
for other in others: other.start()
children = []
for k in range(6):
    child = os.fork()
    if child == 0:
        import signal
        signal.alarm(60)  # rather than hang
        same = program(1) == expected[1] and program(2) == expected[2]
        new = program(1000 + k) == program(1000 + k)
        os._exit(0 if same and new else 1)
    children.append(child)
found = [os.waitpid(child, 0)[1] for child in children]
stop = True
for other in others: other.join()
print(found, program(3) == before)
"""


@forks
@pytest.mark.parametrize("others", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_children_compute(others: int) -> None:
    """Also those that were made while other threads of the parent compiled and computed."""
    code = f"import sys\nsys.argv = ['', '{others}']\n" + FORKED
    done = process(code, PORISM_THREADS="3", PYTHONWARNINGS="ignore")
    assert (done.stdout, done.stderr) == (f"{[0] * 6} True\n", "")


HOLDING = """
import os, signal, sys, threading, time
from importlib import import_module

lock = getattr(import_module(sys.argv[1]), sys.argv[2])
held = threading.Event()

def hold():
    with lock:
        held.set()
        time.sleep(0.2)

threading.Thread(target=hold).start()
held.wait()
child = os.fork()
if child == 0:
    signal.alarm(60)  # rather than hang
    os._exit(0 if lock.acquire(timeout=60) else 1)
print(os.waitpid(child, 0)[1])
"""


@forks
@pytest.mark.parametrize(
    ("module", "lock"),
    [
        ("porism.engine.profile.compile_progress", "_drawing"),
        pytest.param("porism.engine.tune.tuning_cache", "_lock", marks=pytest.mark.slow),
        pytest.param(
            "porism.tensor.inspect.kernel_profile", "_totals_lock", marks=pytest.mark.slow
        ),
    ],
)
def test_no_lock_is_held_in_a_child_for_ever(module: str, lock: str) -> None:
    code = f"import sys\nsys.argv = ['', {module!r}, {lock!r}]\n" + HOLDING
    done = process(code, PYTHONWARNINGS="ignore")
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_threads_compile_and_compute_at_the_same_time() -> None:
    """The same programs and different ones, at once."""
    failures: list[BaseException] = []
    begin = threading.Barrier(6)

    def work(place: int) -> None:
        try:
            begin.wait()
            for k in range(6):
                check(200 + k)
                check(300 + 10 * place + k)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
