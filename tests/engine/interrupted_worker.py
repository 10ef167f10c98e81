"""A process that is interrupted: again and again while it computes, or once while native code runs.

`graph` and `programs` interrupt themselves at random moments, and say how often an interrupt was
lost and which tables are not whole. `kernel` and `compiler` say that they are ready, and take far
longer than a test waits.
"""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

import porism
from porism.backends.llvm.llvm_compiler import attributes, object_code
from porism.base.settings import settings
from porism.ir import ops
from porism.ir.node import UOp, is_exactly, key_of

TIMES = 80


def raise_interrupt(_signal: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


def graph(number: int) -> None:
    """Many nodes, and collections of them."""
    node = UOp.variable("i", 0, 100 + number % 50)
    for k in range(200):
        node = (node * 3 + k) // 2
    if number % 20 == 0:
        gc.collect()


def programs(number: int) -> None:
    """Programs of several shapes, the results of which are checked."""
    rows, columns = 2 + number % 7, 1 + number % 5
    a = porism.asarray(np.ones((rows, 3)))
    found = ((a * 2.5) @ porism.ones((3, columns), dtype="float64")).sum()
    assert found.item() == 7.5 * rows * columns


def lost(work: Callable[[int], None]) -> int:
    """How many of many interrupts were not seen; work is right after each."""
    signal.signal(signal.SIGALRM, raise_interrupt)
    chosen, number, missing = random.Random(0), 0, 0
    work(0)
    for _ in range(TIMES):
        try:
            signal.setitimer(signal.ITIMER_REAL, chosen.uniform(0.001, 0.02))
            end = time.monotonic() + 60
            while time.monotonic() < end:
                number += 1
                work(number)
            missing += 1
        except KeyboardInterrupt:
            pass
        work(number)
    return missing


def not_interned() -> int:
    """The nodes in use that their own table does not find, and would make twice."""
    waiting = [n for op in ops.table() for n in (*op.nodes.values(), *op.raw.values())]
    seen: set[UOp] = set()
    missing = 0
    while waiting:
        node = waiting.pop()
        if node in seen or node.uses_buffer:
            continue
        seen.add(node)
        waiting += node.src
        key = key_of(node.op, node.dtype, node.src, node.arg)
        first, second = node.op.nodes.get(key), node.op.raw.get(key)
        in_first = first is not None and is_exactly(first, node.op, key)
        missing += node is not (first if in_first else second)
    return missing


def kernel() -> Any:
    """A sum that takes hours."""
    total = porism.sin(porism.arange(10**13) * 0.5).sum()
    say("ready")
    return total.numpy()


def compiler() -> Any:
    """A function that LLVM compiles for minutes."""
    lines = [f"  %b{k} = fdiv double %a{k}, %x\n  %a{k + 1} = fadd double %b{k}, %x" for k in COUNT]
    body = "\n".join(lines)
    text = f"define double @f(double %x, double %a0) {{\n{body}\n  ret double %a{len(COUNT)}\n}}\n"
    (porism.ones(3) + 1).numpy()
    say("ready")
    return object_code(text + attributes())


COUNT = range(300_000)


def say(word: Any) -> None:
    print(json.dumps(word), flush=True)


def main(mode: str, then: str) -> None:
    """Do what is asked for; after an interrupt of native code, go on or not."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    if mode in ("graph", "programs"):
        work = {"graph": graph, "programs": programs}[mode]
        with settings.override(cache=False):
            missing = lost(work)
        say({"lost": missing, "not interned": not_interned()})
        return
    try:
        {"kernel": kernel, "compiler": compiler}[mode]()
    except KeyboardInterrupt:
        if then != "continue":
            raise
        say((porism.ones(3) + 1).tolist())
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
