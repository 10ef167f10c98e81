"""Verify mode: right programs pass, mostly by proof, and the report says how."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.dtypes import Space, f16, f32
from porism.base.gpu_targets import H200
from porism.base.settings import settings
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.optimize.actions.action import Action, apply_all
from porism.optimize.actions.gpu.tensor_core_action import TC
from porism.tensor.tensor import Tensor
from porism.verification import verify_kernel
from porism.verification.accesses import iteration_conjectures, stage_equivalence
from porism.verification.values.value_comparison import shorten_loops
from porism.verification.verification_report import Check, How, Report
from porism.verification.verify_memory_plan import reads_only_stored_element
from tests.absent_solver import hide_solver
from tests.block_kernels import product_case
from tests.tiers import quick_if

N = porism.Variable("n", 1, 6)


def filled(*dims: int) -> Any:
    """Return a tensor of small integers, as floats."""
    count = int(np.prod(dims))
    return porism.asarray((np.arange(count) % 7).astype(np.float32).reshape(dims))


def repeated_indices(most: int, *dims: int) -> Any:
    """Return indices, several of which are the same."""
    return porism.asarray((np.arange(int(np.prod(dims))) * 5 % most).reshape(dims))


def assigned(rows: int, columns: int, many: int) -> Any:
    x = porism.zeros(rows, columns).realize()
    x[repeated_indices(rows, many)] = filled(many, columns)
    return x


def reduced_in_place() -> Any:
    """Return a gather from a minimum, which is stored over the sum that it is a minimum of."""
    total = filled(16).sum()
    least = porism.min(porism.stack([total, total]), keepdims=True)
    return porism.take_along_axis(least, porism.asarray([0]))


PROGRAMS: dict[str, Callable[[], Any]] = {
    "reduced in place": reduced_in_place,
    "elementwise": lambda: filled(1000, 99) * 2 + 1,
    "matmul": lambda: filled(64, 48) @ filled(48, 80),
    "odd matmul": lambda: filled(100, 37) @ filled(37, 53),
    "matrix times vector": lambda: filled(64, 103) @ filled(103),
    "large matmul": lambda: filled(256, 256) @ filled(256, 256),
    "convolution": lambda: porism.conv2d(filled(1, 8, 20, 20), filled(16, 8, 3, 3), padding=1),
    "strided convolution": lambda: porism.conv2d(
        filled(2, 4, 9, 9), filled(8, 4, 3, 3), padding=1, stride=2
    ),
    "convolution in flat tiles": lambda: porism.conv2d(
        filled(1, 32, 28, 28), filled(40, 32, 3, 3), padding=1, stride=2
    ),
    "convolution of large windows": lambda: porism.conv2d(
        filled(1, 3, 112, 112), filled(16, 3, 7, 7), padding=3, stride=2
    ),
    "matmul and what follows": lambda: porism.tanh(
        filled(160, 256) @ filled(256, 192) + filled(192)
    ),
    "softmax": lambda: filled(64, 100).softmax(),
    "attention": lambda: porism.scaled_dot_product_attention(*[filled(1, 4, 32, 16)] * 3),
    "cumulative sum": lambda: filled(8, 100).cumsum(axis=1),
    "gather": lambda: filled(64, 10)[porism.asarray(np.arange(5))],
    "concat": lambda: porism.concat([filled(3, 4), filled(5, 4), filled(2, 4)]) * 2,
    "pad": lambda: porism.pad(filled(7, 9), ((1, 2), (3, 1))),
    "flip and step": lambda: filled(37, 20).flip(0)[::2, 1:],
    "pool": lambda: porism.max_pool2d(filled(1, 4, 20, 20), 3, stride=2, padding=1),
    "transpose": lambda: filled(64, 48).T + filled(48, 64),
    "argmax": lambda: filled(37, 20).argmax(axis=1),
    "sort": lambda: filled(37).sort(),
    "sort of rows": lambda: filled(16, 64).sort(),  # 21 steps, which read two elements each
    "assigned by indices": lambda: assigned(60, 8, 40),
    "scatter_add": lambda: porism.scatter_add(
        filled(50, 4), 0, repeated_indices(50, 40, 4), filled(40, 4)
    ),
    "scatter_max": lambda: porism.scatter_max(
        filled(4, 50), 1, repeated_indices(50, 4, 40), filled(4, 40)
    ),
    "bincount": lambda: porism.bincount(repeated_indices(40, 100), length=40),
    "weighted bincount": lambda: porism.bincount(repeated_indices(40, 100), filled(100), length=40),
    "index_add": lambda: porism.index_add(
        filled(5, 40, 3), 1, repeated_indices(40, 64), filled(5, 64, 3)
    ),
    "one-hot product": lambda: (
        porism.one_hot(repeated_indices(40, 50), 40).astype("float32").T @ filled(50, 8)
    ),
    "symbolic slice": lambda: filled(6, 4)[: N.bind(3)] * 2,
    "symbolic product": lambda: filled(6, 4)[: N.bind(3)] @ filled(4, 6),
    "large sum": lambda: filled(100_000).sum(),
    "random": lambda: porism.rand(100),
}


def test_a_result_may_overwrite_what_is_read_for_the_same_element_alone() -> None:
    rows, columns = UOp.range(4, 0), UOp.range(8, 1, Axis.REDUCE)
    result, other = (UOp(ops.PARAM, f32.pointer(size=4), (), k) for k in range(2))

    def may_overwrite(value: UOp) -> bool:
        stored = result.index(rows, dtype=f32).store(value).end(rows)
        return reads_only_stored_element(ops.SINK(stored), 1)

    old = other.index(rows, dtype=f32)
    assert may_overwrite((old + columns.cast(f32)).reduce(ops.ADD, columns))
    assert not may_overwrite(other.index(columns % 4, dtype=f32).reduce(ops.ADD, columns))
    assert not may_overwrite(old.reduce(ops.ADD, rows))


def test_loops_that_fill_a_buffer_are_as_long_as_its_reads() -> None:
    fill, read = UOp.range(64, 0), UOp.range(64, 1)
    source, result = (UOp(ops.PARAM, f32.pointer(size=64), (), k) for k in (1, 0))
    kept = UOp(ops.BUFFERIZE, f32, (source.index(fill, dtype=f32), fill), Space.LOCAL)
    value = kept.index(63 - read, dtype=f32) + kept.index(read, dtype=f32)
    kernel = ops.SINK(result.index(read, dtype=f32).store(value).end(read))

    def extents(fits: Callable[[UOp], bool]) -> dict[str, int]:
        short = shorten_loops(kernel, fits)
        return {show(n): int(n.src[0].arg) for n in toposort(short) if n.op is ops.RANGE}

    assert extents(lambda _: True) == {"r0": 64, "r1": 4}  # 63 - r1 is up to 63
    assert extents(lambda shorter: read in toposort(shorter)) == {"r0": 64, "r1": 64}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_right_programs_pass(name: str) -> None:
    report = porism.verify(PROGRAMS[name]())
    assert report.rows
    sure = report.share(How.PROVED) + report.share(How.ALL)
    assert sure >= (0.6 if name == "gather" else 0.95), str(report)
    assert {row.check for row in report.rows} >= {Check.BOUNDS}
    assert not report.note


SCATTERED = ("assigned by indices", "scatter_add", "scatter_max", "bincount", "index_add")


@pytest.mark.parametrize("name", SCATTERED)
def test_stores_at_indices_are_compared_with_the_reduction(name: str) -> None:
    report = porism.verify(PROGRAMS[name]())
    rows = [row for row in report.rows if row.stage == "scatter"]
    assert len(rows) >= 3  # the initial stores, the updates, and the reads
    assert all(row.how is How.PROVED for row in rows), str(report)


@pytest.mark.parametrize("size", quick_if(lambda size: size == 8, [2, 4, 8, 16, 64]))
@pytest.mark.parametrize("step", [2, 3, -1, -2])
def test_unused_lanes_of_strided_loads_are_no_accesses(size: int, step: int) -> None:
    """Strided lanes are extracted from wider loads, of which some lanes are unused."""
    x = porism.asarray(np.arange(size * size, dtype=np.int32).reshape(size, size))
    for y in (x[:, ::step], x[::step].permute_dims((1, 0)), x.permute_dims((1, 0))[:, ::step]):
        report = porism.verify(y)
        assert report.counts[How.OPEN] == 0


def test_constants_need_no_verification() -> None:
    assert porism.verify(porism.asarray([1.0])).rows == ()
    with pytest.raises(porism.base.errors.PorismError, match="a float is not compiled"):
        porism.verify(1.0)  # type: ignore[arg-type]


def test_threads_are_compared() -> None:
    report = porism.verify(filled(512, 512) + 1)
    writes = [row for row in report.rows if row.check is Check.WRITES]
    assert writes
    assert all(row.how is How.PROVED for row in writes)


def test_the_setting_checks_each_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[Report] = []
    real = verify_kernel.verify_graph

    def watched(*arguments: Any) -> Report:
        reports.append(real(*arguments))
        return reports[-1]

    monkeypatch.setattr(verify_kernel, "verify_graph", watched)
    x = filled(5, 7)
    with settings.override(verify=1):
        np.testing.assert_array_equal((x * 3 + 0.5).numpy(), x.numpy() * 3 + 0.5)

        @porism.jit
        def f(a: Tensor) -> Any:
            return (a * 5 + 0.25).sum(axis=0)

        for _ in range(3):
            np.testing.assert_allclose(f(x).numpy(), (x.numpy() * 5 + 0.25).sum(0))
    assert len(reports) == 2  # the same graph once
    assert all(report.rows for report in reports)


def test_debug_prints_the_summary(capsys: pytest.CaptureFixture[str]) -> None:
    with settings.override(verify=1, debug=1):
        (filled(3, 11) * 7).realize()
    assert "porism: verified 1 kernel: " in capsys.readouterr().err


# -- after actions ---------------------------------------------------------------------------------

ACTIONS: dict[str, list[Action]] = {
    "nothing": [],
    "vectorized and parallel": [
        porism.Upcast("r1", 16),
        porism.Upcast("r0", 4),
        porism.Thread("r0_0"),
    ],
    "strided lanes": [porism.Upcast("r1", 4, top=True), porism.Unroll("r2", 4, top=True)],
    "padded": [porism.PadTo("r0", 8), porism.Upcast("r0", 8)],
    "swapped": [porism.Swap("r0", "r1"), porism.Upcast("r1", 8)],
    "split twice": [porism.Upcast("r1", 16), porism.Upcast("r1_0", 2)],
    "packed": [porism.Upcast("r1", 16), porism.Pack(2, ("r2", "r1_1"))],
    "merged": [porism.Merge("r0", "r1"), porism.Upcast("r3", 16)],
    "overlapping tails": [
        porism.OverlapTail("r0", 5),
        porism.OverlapTail("r1", 24),
        porism.Upcast("r1_1", 24),
        porism.Upcast("r0_1", 5),
        porism.Move("r1_0", "r0_0"),
        porism.Pack(2, ("r2", "r1_1_1")),
    ],
    "peeled": [porism.Peel("r2", 5), porism.Unroll("r2_0", 5), porism.Thread("r0")],
    "blocked": [porism.Block("r2", 8, "r1"), porism.Upcast("r1", 16)],
    "blocked with a remainder": [porism.Block("r2", 5, "r1"), porism.Upcast("r1", 16)],
    "blocked outermost": [porism.Move("r1", "r0"), porism.Block("r2", 7, "r1")],
    "packed and padded": [porism.PadTo("r0", 8), porism.Pack(1, ("r0", "r2"))],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ACTIONS)
def test_kernels_after_actions(name: str) -> None:
    (kernel,) = porism.kernels(filled(12, 32) @ filled(32, 64))
    report = porism.opt(kernel, ACTIONS[name]).verify()
    assert report.share(How.PROVED) + report.share(How.ALL) >= 0.95, str(report)


def test_a_tile_with_an_epilogue() -> None:
    """An epilogue has loops of its own, by which it reads the sums of the tile."""
    (kernel,) = porism.kernels(porism.exp(filled(13, 32) @ filled(32, 64)) * filled(64))
    tile = [porism.OverlapTail("r0", 4), porism.Upcast("r0_1", 4), porism.Upcast("r1", 32)]
    scheduled = porism.opt(kernel, [*tile, porism.Epilogue(16), porism.Thread("r0_0")])
    assert scheduled.check() < 1e-6
    report = scheduled.verify()
    assert report.share(How.PROVED) + report.share(How.ALL) >= 0.95, str(report)


def test_a_tile_with_a_transposed_epilogue() -> None:
    """The local buffer is transposed; the loops of the epilogue are padded and vectorized."""
    (kernel,) = porism.kernels(porism.exp(filled(16, 32) @ filled(32, 63)) * filled(63))
    tile = [porism.Upcast("r0", 16), porism.Upcast("r1", 7), porism.Epilogue(1, transposed=True)]
    last = [porism.PadTo("r4", 8), porism.Upcast("r4", 8), porism.Upcast("r3", 8)]
    scheduled = porism.opt(kernel, [*tile, *last, porism.Thread("r1_0")])
    assert scheduled.check() < 1e-5
    report = scheduled.verify()
    assert report.share(How.PROVED) + report.share(How.ALL) >= 0.95, str(report)


def test_only_fragments_of_tensor_cores_are_not_compared() -> None:
    case = product_case(32, 8, 16, f16, f32)
    actions = [TC("r0", "r1", "r2"), porism.Local("r0_0", 2)]
    scheduled = apply_all(case.kernel, actions, H200)
    report = verify_kernel.verify_actions(case.kernel, scheduled, H200, {})
    not_compared = [row for row in report.rows if row.detail == stage_equivalence.FRAGMENTS]
    assert {row.stage for row in not_compared} == {"tensor cores"}
    assert all(row.text.startswith(("p1[", "p2[")) for row in not_compared)
    assert {row.check for row in report.rows} == {Check.INDEX, Check.BOUNDS, Check.WRITES}


@pytest.mark.parametrize(
    ("sizes", "more"),
    [
        ((16, 8, 16), []),
        ((16, 16, 16), []),
        ((32, 24, 32), []),
        ((16, 32, 16), [porism.Local("r1_0", 2)]),
        ((32, 16, 48), [porism.Local("r0_0", 2), porism.Local("r1_0", 2)]),
    ],
)
def test_loops_of_tensor_core_tiles_are_compared(
    sizes: tuple[int, int, int], more: list[Action]
) -> None:
    case = product_case(*sizes, f16, f32)
    scheduled = apply_all(case.kernel, [TC("r0", "r1", "r2"), *more], H200)
    report = verify_kernel.verify_actions(case.kernel, scheduled, H200, {})
    action_rows = [
        row for row in report.rows if row.stage == "actions" and row.check is Check.INDEX
    ]
    assert {row.text.split("[")[0] for row in action_rows} == {"p0", "p1", "p2"}
    assert all(row.how is not How.OPEN for row in action_rows), str(report)


# -- without a solver ------------------------------------------------------------------------------


def test_without_a_solver_the_report_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    hide_solver(monkeypatch)
    assert iteration_conjectures.solver() is None
    x = porism.conv2d(filled(1, 3, 11, 13), filled(4, 3, 3, 3), padding=1)
    report = porism.verify(x)
    assert "pip install z3-solver" in report.note
    assert report.note in report.summary
    assert report.counts[How.ALL] + report.counts[How.SAMPLED] > 0
    assert report.share(How.PROVED) > 0.5  # by sums


def test_the_report_lists_checks_that_are_not_proved() -> None:
    report = porism.verify(filled(30, 5)[porism.asarray(np.arange(7))] * 3)
    text = str(report)
    for row in report.rows:
        assert (row.detail in text) or row.how is How.PROVED
    kinds = {How.PROVED: "proved", How.ALL: "checked for all ", How.SAMPLED: "sampled"}
    for row in report.rows:
        assert row.detail.startswith(kinds[row.how])


@pytest.mark.parametrize("level", [1, 2])
def test_indices_beyond_32_bits_are_proved(level: int) -> None:
    """A 32-bit range substituted into the 64-bit index before the stage would overflow."""
    huge = porism.arange(1 << 34).reshape(1 << 17, 1 << 17)
    with settings.override(verify=level):
        report = porism.verify(huge * 3)
    assert {row.how for row in report.rows} == {How.PROVED}


def test_kernels_that_run_earlier_are_compared_with_their_own_part() -> None:
    """The order of steps is that of memory; each is compared with what it computes."""
    x = filled(2, 7)
    kept = x.pad(((4, 1), (4, 1)), mode="edge").clip(0.5, 9.0)
    later = porism.stack([x.tan() @ filled(7, 16)] * 2, axis=1).maximum(filled(2, 2, 16))[1]
    with settings.override(verify=2, cache=False):
        porism.realize(kept.sum(1), later, -kept.sqrt())


def test_outputs_that_are_launched_together_are_compared() -> None:
    """Their kernels run in another order than that in which they were split."""
    x = filled(4, 6)
    product = porism.matmul(x, filled(6, 3))
    report = porism.verify(x + 1, product, x * 2, product.max(), level=2)
    assert report.rows


def test_outputs_without_elements_are_launched_with_others() -> None:
    """Only the simplified kernel of such an output says that it computes each element by itself."""
    x = filled(5, 3)
    y = porism.convolve(filled(4), filled(5), mode="same")
    twice = porism.concat([x, x], axis=1)
    assert porism.verify(twice, y[-2:3:2], porism.sum(y), level=2).rows
