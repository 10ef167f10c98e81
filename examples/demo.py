"""A tour: tensors, and below them nodes, rules, proofs, meaning, speed. See `./dev demo`."""

from __future__ import annotations

import importlib.util
import time

import numpy as np
from rich.console import Console

import porism
from porism.base.dtypes import Space, Theory, f32, index
from porism.base.errors import EvaluationError
from porism.evaluate import Memory, run_kernel
from porism.ir import ops
from porism.ir.expression import show
from porism.ir.node import UOp, raw
from porism.rewrite.graph import normalize
from porism.rewrite.rule import RuleSet, rule
from porism.rewrite.terms import c0, c1, x
from porism.rewrite.trace import Trace
from porism.rules.algebra import ALGEBRA

console = Console(highlight=False)


def title(text: str) -> None:
    console.print(f"\n[bold cyan]{text}[/]")


def tensors() -> None:
    title("1. Tensors become a few kernels, and run as machine code")
    generator = np.random.default_rng(0)
    left, right = (generator.standard_normal((512, 512)).astype(np.float32) for _ in range(2))
    a, b = porism.asarray(left), porism.asarray(right)
    result = (a @ b + 1).relu().softmax()
    found = porism.kernels(result)
    start = time.perf_counter()
    values = result.numpy()
    seconds = time.perf_counter() - start
    hidden = np.maximum(left @ right + 1, 0)
    expected = np.exp(hidden - hidden.max(axis=1, keepdims=True))
    expected /= expected.sum(axis=1, keepdims=True)
    console.print(f"{len(found)} kernels for softmax(relu(a @ b + 1)); the second:")
    for line in found[1].text.splitlines():
        console.print(f"  {line}", markup=False, highlight=False)
    error = float(np.abs(values - expected).max())
    console.print(f"compiled and run in {seconds:.2f} s; at most {error:.0e} from NumPy's result")

    @porism.jit
    def step(one: porism.Tensor, other: porism.Tensor) -> porism.Tensor:
        return (one @ other + 1).relu().softmax()

    step(a, b)
    start = time.perf_counter()
    step(a, b)
    console.print(f"called again through porism.jit: {1e3 * (time.perf_counter() - start):.2f} ms")


def nodes() -> None:
    title("2. One node type")
    i, j = UOp.range(4, 0), UOp.range(8, 1)
    address = i * 32 + j * 4 + 1
    console.print(f"address              {show(address)}")
    console.print(f"between              {address.vmin} and {address.vmax}")
    console.print("modulo {}             {}".format(*address.residue))
    console.print(f"equal is identical   {address is 1 + (j * 4 + i * 32)}")


def rules() -> None:
    title("3. Rules that fire when a node is made")
    row, column = UOp.range(4, 0), UOp.range(8, 1)

    def exactly(op: ops.Op, a: UOp, b: UOp | int) -> UOp:
        return raw(op, None, (a, a.lift(b)), None)

    flat = exactly(ops.ADD, exactly(ops.MUL, row, 8), column)
    back = exactly(
        ops.ADD,
        exactly(ops.MUL, exactly(ops.IDIV, flat, 8), 8),
        exactly(ops.MOD, flat, 8),
    )
    trace = Trace("demo")
    console.print(f"a flat index taken apart and put together:\n  {show(back)}")
    result = normalize(back, trace)
    for step in trace.steps:
        console.print(f"  [dim]{step.rule:>12}[/]  {show(step.before)}  ->  {show(step.after)}")
    console.print(f"is {show(result)}")


def proofs() -> None:
    title("4. Rules are theorems")
    if importlib.util.find_spec("z3") is None:
        console.print("the solver is not installed; ./dev test installs it")
        return
    from porism.prove.rule import prove

    good = rule("right", (x // c0) // c1, x // (c0 * c1), when=(c1 > 0) & c0.ne(0))
    wrong = rule("wrong", (x // c0) // c1, x // (c0 * c1), when=c1.ne(0) & c0.ne(0))
    for claim in RuleSet("claims", theory=Theory.INTEGERS, rules=(good, wrong)):
        console.print(prove(claim).explain(), markup=False)


def block_sum(threads: int, *, with_barrier: bool) -> UOp:
    """A kernel for a GPU: each block sums a row in local memory, half of its threads at a time."""

    def const(value: float) -> UOp:
        return UOp.const(f32, value)

    def at(place: UOp, *where: UOp) -> UOp:
        return place.index(*where, dtype=place.dtype)

    block = ops.SPECIAL(UOp.const(index, 2), arg="block0")
    thread = ops.SPECIAL(UOp.const(index, threads), arg="thread0")
    source = ops.PARAM(dtype=f32.pointer(size=2 * threads), arg=1)
    target = ops.PARAM(dtype=f32.pointer(size=2), arg=0)
    shared = ops.DEFINE_LOCAL(dtype=f32.pointer(Space.LOCAL, threads), arg=0)

    def waited(effect: UOp) -> UOp:
        return shared.after(ops.BARRIER(effect) if with_barrier else effect)

    here = waited(at(shared, thread).store(at(source, block * threads + thread).load()))
    step = threads // 2
    while step:
        busy = thread < step
        other = at(here, thread + step, busy).load(const(0.0))
        here = waited(at(here, thread, busy).store(at(here, thread).load() + other))
        step //= 2
    first = at(target, block, thread.eq(0))
    return ops.SINK(first.store(at(here, UOp.const(index, 0)).load()))


def meaning() -> None:
    title("5. Every graph can be run, and is checked as it runs")
    values = np.arange(16, dtype=np.float32)
    buffers = [Memory.empty(f32, 2), values]
    run_kernel(block_sum(8, with_barrier=True), buffers)
    assert isinstance(buffers[0], Memory)
    expected = values.reshape(2, 8).sum(axis=1)
    console.print(f"a GPU kernel on 2 blocks of 8 threads: {buffers[0].data}, NumPy: {expected}")
    try:
        run_kernel(block_sum(8, with_barrier=False), [Memory.empty(f32, 2), values])
    except EvaluationError as error:
        console.print("without its barriers:")
        for line in str(error).splitlines():
            console.print(f"  {line}", markup=False)


def speed() -> None:
    title("6. Speed")
    names = [UOp.variable(f"i{n}", 0, 31) for n in range(64)]
    count = 100_000
    start = time.perf_counter()
    total = names[0]
    for n in range(count // 4):
        part = names[n % 64] * (n % 97 + 2) + n
        total = total + part // 8 * 8 + part % 8
    seconds = time.perf_counter() - start
    console.print(f"{count:,} operations built and rewritten in {seconds:.2f} s")
    console.print(f"their sum is at most {total.vmax:,}")
    console.print(f"{len(ALGEBRA)} rules at work; ./dev bench engine compares with a peer")


def main() -> None:
    start = time.perf_counter()
    tensors()
    nodes()
    rules()
    proofs()
    meaning()
    speed()
    console.print(f"\n[dim]{time.perf_counter() - start:.1f} s in all[/]")


if __name__ == "__main__":
    main()
