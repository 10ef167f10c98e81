"""A tour: two nets beside NumPy, and below them kernels, nodes, rules, proofs. See `./dev demo`."""

from __future__ import annotations

import importlib.util
import itertools
import math
import statistics
import textwrap
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console

import porism
from porism.base.dtypes import Space, Theory, f32, index
from porism.base.errors import EvaluationError
from porism.base.settings import settings
from porism.evaluate import Memory, run_kernel
from porism.ir import ops
from porism.ir.node import UOp, raw
from porism.ir.text.expression import show
from porism.rewrite.graph_rewrite import normalize
from porism.rewrite.rewrite_trace import Trace
from porism.rewrite.rule import RuleSet, rule
from porism.rewrite.terms import c0, c1, x
from porism.rules.rule_sets import ALGEBRA

console = Console(highlight=False)


def title(text: str) -> None:
    console.print(f"\n[bold cyan]{text}[/]")


# -- two nets, each written once and run twice: by Porism, and by NumPy ----------------------------


class Arrays:
    """The functions that the nets use, by NumPy."""

    @staticmethod
    def take(x: Any, indices: Any, axis: int) -> Any:
        return np.take(x, indices, axis)

    @staticmethod
    def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
        off = x - x.mean(-1, keepdims=True)
        return off / np.sqrt((off * off).mean(-1, keepdims=True) + 1e-5) * weight + bias

    @staticmethod
    def gelu(x: Any, approximate: str) -> Any:
        return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    @staticmethod
    def scaled_dot_product_attention(q: Any, k: Any, v: Any, causal: bool) -> Any:
        scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
        scores = np.where(np.tri(q.shape[-2], dtype=bool), scores, -np.inf)
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True) @ v

    @staticmethod
    def conv2d(x: Any, weight: Any, bias: Any, padding: int) -> Any:
        padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, weight.shape[2:], axis=(2, 3))
        sums = np.einsum("nchwij,ocij->nohw", windows, weight, optimize=True)
        return sums + bias[:, None, None]

    @staticmethod
    def max_pool2d(x: Any, size: int) -> Any:
        n, c, h, w = x.shape
        return x.reshape(n, c, h // size, size, w // size, size).max((3, 5))

    @staticmethod
    def relu(x: Any) -> Any:
        return np.maximum(x, 0)


Weights = dict[str, Any]
WORDS, TOKENS, WIDTH, HEADS, LAYERS = 1000, 128, 256, 8, 4
CHANNELS = (3, 32, 64, 128)


def transformer(lib: Any, w: Weights, ids: Any) -> Any:
    """A small GPT: what comes after each of some words."""
    x = lib.take(w["words"], ids, axis=0) + w["places"]
    for k in range(LAYERS):
        y = lib.layer_norm(x, w[f"{k}.norm"], w[f"{k}.norm bias"]) @ w[f"{k}.qkv"]
        heads = y.reshape(TOKENS, 3, HEADS, -1).transpose(1, 2, 0, 3)
        seen = lib.scaled_dot_product_attention(heads[0], heads[1], heads[2], causal=True)
        x = x + seen.transpose(1, 0, 2).reshape(TOKENS, WIDTH) @ w[f"{k}.out"]
        y = lib.layer_norm(x, w[f"{k}.norm"], w[f"{k}.norm bias"]) @ w[f"{k}.up"]
        x = x + lib.gelu(y, approximate="tanh") @ w[f"{k}.down"]
    return x @ w["words"].T


def convolution_net(lib: Any, w: Weights, image: Any) -> Any:
    """Three convolutions with a residual one each, pooled, and a score for each of ten classes."""
    x = image
    for k in range(len(CHANNELS) - 1):
        x = lib.relu(lib.conv2d(x, w[f"{k}.first"], w[f"{k}.bias"], padding=1))
        x = lib.relu(x + lib.conv2d(x, w[f"{k}.second"], w[f"{k}.bias"], padding=1))
        x = lib.max_pool2d(x, 2)
    return x.mean((2, 3)) @ w["scores"]


def transformer_weights(random: Callable[..., Any]) -> Weights:
    w = {"words": random(WORDS, WIDTH), "places": random(TOKENS, WIDTH)}
    for k in range(LAYERS):
        w[f"{k}.norm"], w[f"{k}.norm bias"] = 1 + random(WIDTH), random(WIDTH)
        w[f"{k}.qkv"], w[f"{k}.out"] = random(WIDTH, 3 * WIDTH), random(WIDTH, WIDTH)
        w[f"{k}.up"], w[f"{k}.down"] = random(WIDTH, 4 * WIDTH), random(4 * WIDTH, WIDTH)
    return w


def convolution_weights(random: Callable[..., Any]) -> Weights:
    w = {"scores": random(CHANNELS[-1], 10)}
    for k, (inner, outer) in enumerate(itertools.pairwise(CHANNELS)):
        w[f"{k}.first"], w[f"{k}.second"] = random(outer, inner, 3, 3), random(outer, outer, 3, 3)
        w[f"{k}.bias"] = random(outer)
    return w


def nets() -> None:
    title("1. A transformer and a convolution net, in machine code")
    generator = np.random.default_rng(0)

    def random(*shape: int) -> Any:
        return (0.05 * generator.standard_normal(shape)).astype(np.float32)

    ids = generator.integers(0, WORDS, TOKENS)
    compare("transformer", transformer, transformer_weights(random), ids)
    image = 20 * random(1, 3, 96, 96)
    compare("convolution net", convolution_net, convolution_weights(random), image)


def compare(name: str, net: Callable[..., Any], weights: Weights, data: Any) -> None:
    """Compile a net, run it, and see whether NumPy gets the same."""
    jitted = porism.jit(lambda w, x: net(porism, w, x))
    tensors = {key: porism.asarray(array) for key, array in weights.items()}
    given = porism.asarray(data)
    with settings.override(cache=False):  # as on a machine that has never seen it
        compiled, result = timed(lambda: jitted(tensors, given).numpy())
    runs = [timed(lambda: jitted(tensors, given))[0] for _ in range(20)]
    with porism.profile(show=False) as seen:
        jitted(tensors, given)
    slow, expected = timed(lambda: net(Arrays, weights, data))
    error = float(np.abs(result - expected).max() / np.abs(expected).max())
    assert error < 1e-4, f"the {name} is off by {error}"

    count = sum(array.size for array in weights.values()) / 1e6
    flops = sum(row.work.flops for row in seen.rows)
    kernels = sum(row.runs for row in seen.rows)
    seconds = statistics.median(runs)
    console.print(f"\n[bold]{name}[/], {count:.1f} million random weights, {flops / 1e9:.2f} GFLOP")
    console.print(
        f"  compiled         {compiled:.2f} s, {kernels} kernels, {len(seen.rows)} different"
    )
    console.print(f"  a call           {1e3 * seconds:.2f} ms, {flops / seconds / 1e9:.0f} GFLOP/s")
    console.print(f"  NumPy            {1e3 * slow:.2f} ms; the results are {error:.0e} apart")
    console.print("  its slowest kernels")
    for row in seen.rows[:3]:
        times = f"{row.share:4.0%}  {row.gflops:4.0f} GFLOP/s  {row.gigabytes:4.0f} GB/s"
        console.print(f"    {times}  {row.runs} x {row.name}", markup=False)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def tensors() -> None:
    title("2. Tensors become a few kernels")
    x = porism.asarray(np.ones((64, 100), np.float32))
    (kernel,) = porism.kernels(x.softmax())
    console.print("softmax is one, as a careful person would write it:")
    console.print(textwrap.indent(kernel.text, "  "), markup=False)
    console.print("porism.explain(x, source=True) shows what it becomes; the end of its assembly:")
    lines = [line.strip() for line in kernel.source("assembly").splitlines()]
    vectors = [line.replace("\t", " ") for line in lines if line.startswith("v") and "%" in line]
    console.print(textwrap.indent("\n".join(vectors[-4:]), "  "), markup=False)


# -- below the tensors -----------------------------------------------------------------------------


def nodes() -> None:
    title("3. One node type")
    i, j = UOp.range(4, 0), UOp.range(8, 1)
    address = i * 32 + j * 4 + 1
    console.print(f"address              {show(address)}")
    console.print(f"between              {address.vmin} and {address.vmax}")
    console.print("modulo {}             {}".format(*address.residue))
    console.print(f"equal is identical   {address is 1 + (j * 4 + i * 32)}")


def rules() -> None:
    title("4. Rules that fire when a node is made")
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
    title("5. Rules are theorems")
    if importlib.util.find_spec("z3") is None:
        console.print("the solver is not installed; ./dev test installs it")
        return
    from porism.prove.rule_proof import prove

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
    title("6. Every graph can be run, and is checked as it runs")
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
    title("7. Speed of the rewriting itself")
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
    nets()
    tensors()
    nodes()
    rules()
    proofs()
    meaning()
    speed()
    console.print(f"\n[dim]{time.perf_counter() - start:.1f} s in all[/]")


if __name__ == "__main__":
    main()
