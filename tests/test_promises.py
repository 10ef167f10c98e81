"""Promises: what users of tensor compilers suffer from, and what Porism does instead.

One test for each promise, through the public functions. Nothing is timed: where a promise is about
speed, the work is counted.
"""

from __future__ import annotations

import functools
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

import numpy as np
import pytest

import porism
from porism.backends.backend_table import BACKENDS
from porism.base.errors import PorismError
from porism.base.settings import TABLE, settings
from porism.catalogue import rule_listing as catalogue
from porism.engine.cache import kernel_cache
from porism.engine.run import array_allocator, program
from porism.engine.run.realize import request
from porism.engine.tune import tuning, tuning_cache
from porism.engine.tune.worker_pool import WorkerPool
from porism.ir import ops
from porism.ir.facts.semantics import Array
from porism.ir.traversal import toposort
from porism.pipeline import lower_kernel, schedule_graph

ROOT: Final = Path(__file__).parents[1]
DYING: Final = "tests.engine.dying_worker"


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def iterations(tensor: Any) -> int:
    """How often the innermost bodies of the kernels of a tensor are run."""
    return sum(iterations_of(kernel) for kernel in porism.kernels(tensor))


def iterations_of(kernel: Any) -> int:
    nests = {frozenset(n.ranges) for n in toposort(kernel.node) if n.op is not ops.SINK}
    return sum(math.prod(int(r.vmax) + 1 for r in nest) for nest in nests)


def fresh_process(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Python code in a process of its own."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PORISM_", "CC"))}
    return subprocess.run(
        [sys.executable, "-c", code],
        env=kept | {"PORISM_CACHE": "0", "PYTHONPATH": str(ROOT / "src")} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


# -- compiling -------------------------------------------------------------------------------------


def calls(blocks: int) -> int:
    """The functions that are called to compile a network of so many equal blocks."""
    x, w = porism.asarray(floats(8, 16)), porism.asarray(floats(16, 16))
    x = x * blocks  # so that no two of these networks have a part in common
    for _ in range(blocks):
        x = porism.layer_norm(porism.relu(x @ w) + x, axis=-1)
    graph = request([x.node]).graph
    count = 0

    def see(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    target = BACKENDS["llvm"].target()
    with settings.override(check=False):
        sys.setprofile(see)
        try:
            for kernel in {step.kernel for step in schedule_graph(graph, cached=False).steps}:
                lower_kernel(kernel, target)
        finally:
            sys.setprofile(None)
    return count


def test_compiling_is_linear_in_the_size_of_the_graph() -> None:
    """Compile in a tenth of the time; linear in the size of the graph."""
    calls(2)
    few, many = calls(8), calls(32)
    assert many <= 4.3 * few


def test_a_deep_graph_is_no_problem() -> None:
    """Rewriting ends, and does not depend on the depth of Python's stack."""
    x = porism.asarray(np.ones(3, np.float32))
    for k in range(3 * sys.getrecursionlimit()):
        x = x + 1 if k % 2 else x * 1.0
    assert x.tolist() == [1 + 3 * sys.getrecursionlimit() // 2] * 3


def test_stacking_a_thousand_tensors() -> None:
    """A thousand small tensors are stacked in under a second.

    What counts is that each element is copied a few times, by kernels that are few and alike.
    """
    parts = [porism.asarray(np.full(4, k, np.float32)) for k in range(1000)]
    stacked = porism.stack(parts)
    found = porism.kernels(stacked)
    assert len(found) <= 80
    assert len({kernel.node for kernel in found}) <= 25
    assert sum(kernel.bytes_written for kernel in found) <= 3 * 1000 * 4 * 4
    np.testing.assert_array_equal(stacked.numpy(), np.repeat(np.arange(1000), 4).reshape(1000, 4))


def test_ten_thousand_inputs() -> None:
    """A graph with ten thousand inputs is computed in seconds: kernels and memory stay linear."""
    with settings.override(check=False):
        few, many = (
            porism.concat([porism.asarray(np.array([k], np.int32)) for k in range(count)])
            for count in (1000, 10_000)
        )
        assert len(porism.kernels(many)) <= 11 * len(porism.kernels(few))
        np.testing.assert_array_equal(many.numpy(), np.arange(10_000))


def test_every_rule_is_proved() -> None:
    """Each rule and lemma is proved as it stands now: for all inputs, at every width."""
    stated = [row for row in catalogue.rows() if row["kind"] in ("rule", "lemma")]
    assert {row["established"] for row in stated} == {"proved"}


@pytest.mark.parametrize("count", [111, 1000])
def test_indices_are_folded_right(count: int) -> None:
    """Every rule is proved: divisions of indices are what integers say."""
    x = porism.arange(count)
    for size in (2, 5, 55, 110):
        found = ((x // size) * 3 + (x + size) // size - x % size).numpy()
        n = np.arange(count)
        np.testing.assert_array_equal(found, (n // size) * 3 + (n + size) // size - n % size)
    rows = porism.arange(110 * 3).reshape(110, 3).transpose(0, 1).reshape(55, 6)[::-1]
    expected = np.arange(110 * 3).reshape(110, 3).T.reshape(55, 6)[::-1]
    np.testing.assert_array_equal(rows.numpy(), expected)


BUSY: Final[dict[str, Callable[[], Any]]] = {
    "product": lambda: porism.asarray(floats(256, 256)) @ porism.asarray(floats(256, 256)),
    "convolution": lambda: porism.conv2d(
        porism.asarray(floats(1, 32, 30, 30)), porism.asarray(floats(64, 32, 3, 3)), padding=1
    ),
    "elements": lambda: porism.exp(porism.asarray(floats(1024, 1024))) + 1,
    "rows": lambda: porism.asarray(floats(1024, 1024)).softmax(-1),
    "total": lambda: porism.asarray(floats(1024, 1024)).sum(),
}


def _has_lanes(listing: str) -> bool:
    return "# upcast" in listing or "# unroll" in listing


@pytest.mark.parametrize("name", BUSY)
def test_all_cores_are_used(name: str) -> None:
    """All cores, in vectors: nearly all of the work is shared among as many threads as there are.

    That the threads are there, and are run, is another matter: see the next test.
    """
    kernels = porism.kernels(BUSY[name]())
    work = [iterations_of(kernel) for kernel in kernels]
    shared = [k for k in kernels if "# thread" in k.scheduled and _has_lanes(k.scheduled)]
    assert sum(iterations_of(kernel) for kernel in shared) >= 0.9 * sum(work)


def test_threads_are_as_many_as_cores() -> None:
    """By default; and what they share among them is done once."""
    with settings.override(threads=0):
        assert len(program.thread_pool().threads) + 1 == (os.cpu_count() or 1)
    for threads in (1, 2, 3):
        with settings.override(threads=threads):
            assert len(program.thread_pool().threads) + 1 == threads
            x = porism.asarray(np.ones((300, 301), np.float32))
            assert (x @ x.T + 1).sum().item() == 300 * 300 * 302


# -- searching -------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no alarms")
def test_a_search_ends_though_its_workers_die(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every worker dies at its first job: the search ends, and the heuristic's kernel is used.

    That the best so far is kept, if some candidates crash or hang, is tested in test_tuning.py.
    """
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(tuning, "WorkerPool", functools.partial(WorkerPool, command=DYING))
    monkeypatch.setattr(tuning, "_considered", set())
    tuning_cache.forget_in_memory()
    data = floats(24, 32), floats(32, 48, seed=1)
    with settings.override(cache=False, check=False, beam_seconds=4):
        a, b = map(porism.asarray, data)
        result = (a @ b).realize(beam=4)
        report = tuning.reports[-1]
        np.testing.assert_allclose(result.numpy(), data[0] @ data[1], rtol=1e-4, atol=1e-5)
    tuning_cache.forget_in_memory()
    assert "crashed" in report.error


# -- jitted functions ------------------------------------------------------------------------------


def test_results_of_jitted_calls_stay_what_they_were() -> None:
    """Results of a jitted call never alias each other, the arguments or the next call's."""

    @porism.jit
    def double(x: Any) -> Any:
        return x * 2, x + 0

    x = porism.asarray(np.ones(64, np.float32))
    kept = [double(x * k) for k in range(5)]
    arrays = [result.numpy() for pair in kept for result in pair]
    assert [float(a[0]) for a in arrays] == [0, 0, 2, 1, 4, 2, 6, 3, 8, 4]
    assert all(not np.shares_memory(a, b) for i, a in enumerate(arrays) for b in arrays[i + 1 :])
    assert double.traces == 1


def test_results_of_jitted_calls_are_not_their_arguments() -> None:
    """A result that equals an argument has memory of its own: neither changes with the other."""

    @porism.jit
    def same(x: Any) -> Any:
        return x, x + 0, x.reshape(2, 2)

    for k in range(4):
        x = porism.asarray(np.full(4, k, np.float32)).realize()
        results = same(x)
        x.assign(x + 100).realize()
        assert [result.reshape(4).tolist() for result in results] == [[k] * 4] * 3
        results[1].assign(results[1] - 100).realize()
        assert x.tolist() == [k + 100] * 4


def test_state_is_updated_on_every_call() -> None:
    """Assignments happen on every call, also on those that replay."""
    total, count = porism.zeros(3), porism.zeros(1)

    @porism.jit
    def step(x: Any) -> Any:
        total.assign(total + x)
        count[0] = count[0] + 1
        return total * 1

    seen = [step(porism.ones(3) * k).tolist()[0] for k in range(1, 6)]
    assert seen == [1, 3, 6, 10, 15]
    assert total.tolist() == [15] * 3
    assert count.tolist() == [5]
    assert step.traces == 1


def test_symbolic_sizes_are_right_on_replay() -> None:
    """The size of this call counts, not that of the first; nothing is compiled again."""
    data = floats(8, 3)
    x, size = porism.asarray(data), porism.Variable("n", 1, 8)

    @porism.jit
    def means(n: Any) -> Any:
        part = x[:n]
        return part * 2, part.sum(0)

    for n in (1, 2, 3, 8, 4):
        compiled = kernel_cache.counts.compiled
        doubled, total = means(size.bind(n))
        assert n == 1 or kernel_cache.counts.compiled == compiled
        assert doubled.numpy().shape == (n, 3)
        np.testing.assert_array_equal(doubled.numpy(), data[:n] * 2)
        np.testing.assert_allclose(total.numpy(), data[:n].sum(0), rtol=1e-5)
    assert means.traces == 1


def test_a_symbolic_shape_prints_as_a_shape() -> None:
    """A shape prints as a shape, with the names of what is not a number."""
    n = porism.Variable("n", 1, 8).bind(3)
    part = porism.ones(8, 2)[:n]
    assert repr(part.shape) == str(part.shape) == "(n=3, 2)"
    assert repr(part) == "Tensor(lazy, shape=(n=3, 2), dtype=float32)"
    assert repr(part.reshape(part.shape[0] * 2).shape) == "(n * 2,)"


# -- fusion and explanations -----------------------------------------------------------------------


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def _normal(x: Array) -> Array:
    return np.asarray((x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5))


FUSED: Final[dict[str, tuple[Callable[[Any], Any], Callable[[Array], Array]]]] = {
    "softmax": (lambda x: x.softmax(-1), _softmax),
    "layer_norm": (lambda x: porism.layer_norm(x, axis=-1), _normal),
    "log_softmax": (lambda x: x.log_softmax(-1), lambda x: np.log(_softmax(x))),
    "rms_norm": (
        lambda x: porism.rms_norm(x, axis=-1),
        lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5),
    ),
}


@pytest.mark.parametrize("name", FUSED)
def test_softmax_and_norms_are_one_kernel(name: str) -> None:
    """One kernel, right, and explained."""
    function, oracle = FUSED[name]
    data = floats(64, 300)
    result = function(porism.asarray(data))
    (kernel,) = porism.kernels(result)
    assert kernel.why == "it is an output"
    assert (kernel.bytes_read, kernel.bytes_written) == (data.nbytes, data.nbytes)
    np.testing.assert_allclose(
        result.numpy(), oracle(data.astype(np.float64)), rtol=1e-4, atol=1e-5
    )


def test_explain_gives_reasons_and_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    """`explain` says why each kernel is there, what it waits for, and how much memory it moves."""
    x, w = porism.asarray(floats(64, 64)), porism.asarray(floats(64, 64))
    hidden = porism.gelu(x @ w)
    porism.explain(hidden @ w + hidden.sum())
    said = capsys.readouterr().out
    assert "it is an output" in said
    assert "costs" in said or "times" in said
    assert "16.0 KiB written" in said
    assert "runs after kernel 0" in said
    assert "temporary buffers take" in said


# -- access by indices -----------------------------------------------------------------------------

TABLE_ROWS: Final = 50_000
READS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "a row": lambda table, _: table[7],
    "a slice": lambda table, _: table[100:103],
    "rows": lambda table, at: table[at],
    "take": lambda table, at: porism.take(table, at, axis=0),
    "index_select": lambda table, at: porism.index_select(table, 0, at),
    "elements": lambda table, at: table[at, 2],
    "gather": lambda table, at: porism.gather(table, 0, at.reshape(3, 1)),
    "sum of an embedding": lambda table, at: table[at].sum(0),
}


@pytest.mark.parametrize("name", READS)
def test_reading_by_index_costs_what_it_touches(name: str) -> None:
    """Gathers and embeddings touch what they need: there is no loop over the table."""
    data = floats(TABLE_ROWS, 8)
    at = np.array([1, 49_999, 7])
    result = READS[name](porism.asarray(data), porism.asarray(at))
    assert iterations(result) <= 200
    expected = {
        "a row": data[7],
        "a slice": data[100:103],
        "elements": data[at, 2],
        "gather": data[at, 0].reshape(3, 1),
        "sum of an embedding": data[at].sum(0),
    }.get(name, data[at])
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)


def test_an_assigned_slice_is_one_pass() -> None:
    """`x[key] = value` goes over x once."""
    x = porism.asarray(np.zeros((TABLE_ROWS, 8), np.float32))
    x[5:9] = 1.0
    assert iterations(x) <= 2 * TABLE_ROWS * 8
    assert x[5:9].sum().item() == 32
    assert x.sum().item() == 32


def test_assigning_by_indices_costs_what_it_touches() -> None:
    """`x[indices] = values` costs the size of x and that of the values, not their product."""
    x = porism.asarray(np.zeros((TABLE_ROWS, 8), np.float32))
    values = floats(1000, 8)
    x[porism.arange(1000) * 3] = porism.asarray(values)
    assert iterations(x) <= 10 * (TABLE_ROWS + 1000) * 8
    expected = np.zeros((TABLE_ROWS, 8), np.float32)
    expected[np.arange(1000) * 3] = values
    np.testing.assert_array_equal(x.numpy(), expected)


SUMMED: Final[dict[str, Callable[[Any, Any, Any], Any]]] = {
    "index_add": lambda table, at, values: porism.index_add(table, 0, at, values),
    "scatter_add": lambda table, at, values: porism.scatter_add(
        table, 0, porism.broadcast_to(at.reshape(-1, 1), values.shape), values
    ),
    "bincount": lambda table, at, values: table[:, 0] * 0 + porism.bincount(at, length=TABLE_ROWS),
}


@pytest.mark.parametrize("name", SUMMED)
def test_adding_by_indices_costs_what_it_touches(name: str) -> None:
    """The same where values are added up, also if several go to one element."""
    data, values = floats(TABLE_ROWS, 8), floats(1000, 8, seed=1)
    at = np.arange(1000) * 7 % 300
    result = SUMMED[name](*map(porism.asarray, (data, at, values)))
    assert iterations(result) <= 10 * (TABLE_ROWS + 1000) * 8
    expected = data.astype(np.float64)
    np.add.at(expected, at, values)
    counts = np.bincount(at, minlength=TABLE_ROWS)
    wanted = counts if name == "bincount" else expected
    np.testing.assert_allclose(result.numpy(), wanted, rtol=1e-4, atol=1e-5)


# -- memory ----------------------------------------------------------------------------------------


def test_the_planner_reports_its_peak(capsys: pytest.CaptureFixture[str]) -> None:
    """A chain of large values needs two places, and the peak is said beforehand."""
    x = porism.asarray(floats(256, 256))
    for _ in range(4):
        x = porism.sort(x + x.transpose(0, 1), axis=0)
    arena = schedule_graph(request([x.node]).graph).arena
    largest = 256 * 256 * 4
    assert arena.sum > 12 * largest
    assert 0 < arena.peak <= 3 * largest
    porism.explain(x)
    said = capsys.readouterr().out.splitlines()[-1]
    assert said.startswith(f"temporary buffers take {arena.peak / 2**10:.1f} KiB of memory, ")
    assert said.endswith("without reuse")


def test_the_pool_has_a_limit_and_nothing_leaks() -> None:
    """Memory goes back when tensors do; what is kept for the next ones has a limit."""
    x = porism.asarray(floats(1024, 1024))
    begin, each = array_allocator.memory_usage().in_use, 1024 * 1024 * 4
    with settings.override(pool_megabytes=16):
        for _ in range(200):
            x = (x * 0.5 + 1).realize()
            assert array_allocator.memory_usage().in_use - begin <= 2 * each
            assert (
                array_allocator.memory_usage().pooled
                <= array_allocator.memory_usage().limit
                == 16 << 20
            )
    assert "MB in use" in str(porism.memory())


# -- what is needed, and what is said --------------------------------------------------------------


def test_no_compiler_is_needed(tmp_path: Path) -> None:
    """pip is enough: without any command in PATH, tensors compute in machine code."""
    code = (
        "import porism; from porism.engine.run.program import _functions;"
        "print((porism.arange(6).reshape(2, 3) * 2).sum(1).tolist(), bool(_functions))"
    )
    done = fresh_process(code, PATH=str(tmp_path))
    assert (done.stdout, done.stderr) == ("[6, 24] True\n", "")


def test_a_missing_compiler_is_a_readable_error(tmp_path: Path) -> None:
    """Who asks for C without a compiler is told so, and what to do."""
    code = (
        "import porism\n"
        "from porism.base.errors import PorismError\n"
        "try:\n    porism.arange(3).tolist()\n"
        "except PorismError as error:\n    print(error)"
    )
    done = fresh_process(code, PATH=str(tmp_path), PORISM_BACKEND="c")
    assert done.returncode == 0
    assert done.stdout.startswith("there is no C compiler that works\n")
    assert "gcc was not found" in done.stdout
    assert "PORISM_BACKEND=llvm, which needs none" in done.stdout


MISTAKES: Final[dict[str, Callable[[], Any]]] = {
    "shapes": lambda: porism.ones(2, 3) + porism.ones(4),
    "matrices": lambda: porism.ones(2, 3) @ porism.ones(4, 5),
    "axis": lambda: porism.ones(2, 3).sum(axis=5),
    "reshape": lambda: porism.ones(2, 3).reshape(7),
    "type": lambda: porism.sum(porism.ones(2).astype("no such type")),
    "types": lambda: porism.bitwise_and(porism.ones(2), porism.ones(2)),
    "index": lambda: porism.ones(2)[5],
    "too many indices": lambda: porism.ones(2)[0, 0],
    "empty": lambda: porism.max(porism.zeros(0)),
    "concat": lambda: porism.concat([porism.ones(2, 3), porism.ones(2, 4)]),
    "truth": lambda: bool(porism.ones(2)),
    "ragged": lambda: porism.asarray([[1, 2], [3]]),
    "variable": lambda: porism.Variable("n", 1, 4).bind(9),
    "action": lambda: porism.opt(porism.kernels(porism.ones(4) + 1)[0], [porism.Upcast("r7", 2)]),
    "einsum": lambda: porism.einsum("ij,jk->il", porism.ones(2, 2), porism.ones(2, 2)),
    "conv": lambda: porism.conv2d(porism.ones(1, 3, 8, 8), porism.ones(4, 2, 3, 3)),
    "assignment": lambda: porism.ones(3).assign(porism.ones(4)),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_at_the_line_of_the_user(name: str) -> None:
    """What happened, where in the user's program, why it is not allowed, how to mend it."""
    with pytest.raises(PorismError) as caught:
        MISTAKES[name]()
    error = caught.value
    code = MISTAKES[name].__code__
    assert error.where is not None
    assert error.where.splitlines()[0] == f"{code.co_filename}, line {code.co_firstlineno}"
    assert error.why
    assert error.fix
    for inside in ("UOp", "RANGE", "0x", "src="):
        assert inside not in str(error)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_nan_is_seen_by_max_and_relu(dtype: str) -> None:
    """NumPy's semantics: NaN is never dropped, in vectors, at their ends and in reductions."""
    for size in (1, 3, 8, 17, 64, 1000):
        data = np.linspace(-2, 2, size).astype(np.float32)
        data[size // 2] = np.nan
        x = porism.asarray(data).astype(dtype)
        where = np.isnan(data).tolist()
        for result in (porism.relu(x), porism.maximum(x, 0.0), porism.minimum(0.0, x), x.clip(-1)):
            assert porism.isnan(result).tolist() == where
        for result in (x.max(), x.min(), porism.max(porism.stack([x, x]), axis=1)):
            assert porism.isnan(result).all().item()


def test_settings_are_documented_and_changes_are_told() -> None:
    """The page of settings is made from the code, and there is a changelog."""
    page = fresh_process("from porism.cli import main; main(['settings', '--page'])").stdout
    assert page == (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").count("\n- ") > 3


WARM: Final = """
import porism
from porism.base import source_digest
source_digest.digest = lambda: "the sources of this test"
from porism.engine.cache import kernel_cache
counts = kernel_cache.counts
print(porism.ones(3, 4).softmax().sum().item(), counts.found, counts.compiled)
"""

INFO: Final = "from porism.cli import main; main(['cache', 'info'])"


def test_a_warm_start_is_the_default(tmp_path: Path) -> None:
    """A second process finds what the first has compiled, without any setting."""
    first, second = (
        fresh_process(WARM, PORISM_CACHE="1", PORISM_CACHE_DIR=str(tmp_path)).stdout.split()
        for _ in range(2)
    )
    assert first[0] == second[0]
    assert (first[1], second[2]) == ("0", "0")
    assert first[2] == second[1] != "0"
    assert {setting.name: setting.default for setting in TABLE}["cache"] is True
    said = fresh_process(INFO, PORISM_CACHE="1", PORISM_CACHE_DIR=str(tmp_path)).stdout
    assert f"{second[1]} kernels found and {first[2]} compiled" in said
