"""Compile, one program in a process of its own: `compile_worker COMPILER NAME`.

Prints a JSON object: for each step, and for all of them, the seconds of the processor (with those
of processes it has started) and of the clock. A first, tiny program loads what is loaded when it is
first used; its time, and that of importing the compiler, is told apart. Nothing of the program
itself is run.

With `fill` and `warm` for the compiler, ours uses the folder of kept kernels that the settings
name: once to fill it, and once to be ready again. Then there is no tiny program before, so that
nothing of what a new process has to do is left out.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

Seconds = tuple[float, float]
"""Of the processor and of the clock."""


def now() -> Seconds:
    used = os.times()
    children = used.children_user + used.children_system
    return time.process_time() + children, time.perf_counter()


def in_thread() -> Seconds:
    """The same of this thread alone: for steps that run concurrently."""
    return time.thread_time(), time.perf_counter()


class Watch:
    """How long each step has taken."""

    def __init__(self) -> None:
        self.steps: dict[str, Seconds] = {}
        self.now = now

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        begin = self.now()
        try:
            yield
        finally:
            end, before = self.now(), self.steps.get(name, (0.0, 0.0))
            self.steps[name] = (before[0] + end[0] - begin[0], before[1] + end[1] - begin[1])

    def around(self, owner: Any, name: str, step: str) -> None:
        """Have the calls of a function count as a step."""
        function = getattr(owner, name)

        def timed(*args: Any, **named: Any) -> Any:
            with self.step(step):
                return function(*args, **named)

        setattr(owner, name, timed)

    def count(self, amount: Seconds, out_of: str, into: str) -> None:
        """Count some of the seconds of a step as another's."""
        for step, sign in ((out_of, -1), (into, 1)):
            before = self.steps.get(step, (0.0, 0.0))
            self.steps[step] = (before[0] + sign * amount[0], before[1] + sign * amount[1])


class Compiler(Protocol):
    """What can be timed."""

    def first(self) -> None:
        """A tiny program, compiled."""

    def program(self, name: str) -> Callable[[Watch], dict[str, Any]]:
        """Its inputs made, how to compile a program, in steps; says what came of it."""


class Ours:
    """Porism as it is used, up to a program in machine code that only lacks its data."""

    def __init__(self) -> None:
        from benchmarks import models
        from porism.backends.backend_table import BACKENDS
        from porism.engine.cache import kernel_cache
        from porism.engine.run import backend_runners, realize

        self.models, self.realize, self.cache = models, realize, kernel_cache
        self.runners, self.backend = backend_runners, BACKENDS["llvm"]

    def first(self) -> None:
        self._compiled((self.models.data(5, 7) + 1).sum())

    def program(self, name: str) -> Callable[[Watch], dict[str, Any]]:
        build = self.models.COMPILED[name]()

        def compiled(watch: Watch) -> dict[str, Any]:
            before = self.cache.counts.compiled
            self._look(watch)
            with watch.step("build"):
                tensor = build()
            schedule = self._compiled(tensor)
            return {
                "kernels": len(schedule.steps),
                "compiled": self.cache.counts.compiled - before,
                "shape": list(tensor.shape),
            }

        return compiled

    def _compiled(self, tensor: Any) -> Any:
        schedule = self.realize.schedule_of(self.realize.request([tensor.node]).graph)
        self.runners.program_of(schedule, self.backend)
        return schedule

    def _look(self, watch: Watch) -> None:
        from porism import pipeline
        from porism.backends.llvm import compile_queue, llvm_library, object_linking

        watch.now = in_thread
        watch.around(pipeline, "schedule_graph", "schedule")
        watch.around(pipeline, "lower_kernel", "lower")
        watch.around(llvm_library, "module_text", "render")
        watch.around(compile_queue, "object_code", "compile")
        watch.around(object_linking, "link_objects", "compile")


class Tinygrad:
    """tinygrad with its renderer for clang; without clang, up to the text that it would compile.

    The device is not opened, for that needs clang too. Kernels are compiled one by one: its pool of
    processes costs more than it saves here. The collector is off, as in its `realize`.
    """

    def __init__(self) -> None:
        from tinygrad.codegen import to_program  # type: ignore[import-not-found]
        from tinygrad.helpers import Target  # type: ignore[import-not-found]
        from tinygrad.renderer.cstyle import ClangRenderer  # type: ignore[import-not-found]

        from benchmarks import tinygrad_models

        self.models, self.to_program = tinygrad_models, to_program
        arch = {"amd64": "x86_64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
        self.renderer = ClangRenderer(Target("CPU", "CLANG", f"{arch},native"))
        self.has_compiler = shutil.which(os.environ.get("CC", "clang")) is not None
        if not self.has_compiler:
            self.renderer.compiler.compile = lambda source: b""
        gc.disable()

    def first(self) -> None:
        self._lowered((self.models.data(5, 7) + 1).sum().schedule_linear())

    def program(self, name: str) -> Callable[[Watch], dict[str, Any]]:
        build = self.models.COMPILED[name]()

        def compiled(watch: Watch) -> dict[str, Any]:
            watch.around(self.renderer.compiler, "compile", "compile")
            with watch.step("build"):
                tensor = build()
            with watch.step("schedule"):
                linear = tensor.schedule_linear()
            with watch.step("lower"):
                self._lowered(linear)
            watch.count(watch.steps["compile"], "lower", "inside")
            if not self.has_compiler:
                del watch.steps["compile"]
            return {"kernels": len(linear.src), "shape": list(tensor.shape)}

        return compiled

    def _lowered(self, linear: Any) -> None:
        for call in linear.src:
            self.to_program(call.src[0], self.renderer)


class Jax:
    """jax.jit in its three steps."""

    def __init__(self) -> None:
        import jax  # type: ignore[import-not-found, unused-ignore]

        from benchmarks import jax_models

        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_enable_compilation_cache", False)
        self.jax, self.models = jax, jax_models

    def first(self) -> None:
        struct = self.jax.ShapeDtypeStruct((5, 7), self.jax.numpy.float32)
        self.jax.jit(lambda x: (x + 1).sum()).trace(struct).lower().compile()

    def program(self, name: str) -> Callable[[Watch], dict[str, Any]]:
        made = self.models.program(name)

        def compiled(watch: Watch) -> dict[str, Any]:
            with watch.step("build"):
                traced = self.jax.jit(made.function).trace(made.arrays)
            with watch.step("lower"):
                lowered = traced.lower()
            with watch.step("compile"):
                lowered.compile()
            return {"shape": list(traced.out_info.shape)}

        return compiled


COMPILERS: dict[str, Callable[[], Compiler]] = {
    "porism": Ours,
    "fill": Ours,
    "warm": Ours,
    "tinygrad": Tinygrad,
    "jax": Jax,
}


def main() -> None:
    name, program = sys.argv[1:]
    kept = name in ("fill", "warm")
    watch, outside = Watch(), Watch()
    with outside.step("import"):
        compiler = COMPILERS[name]()
    if not kept:
        with outside.step("first"):
            compiler.first()
    compiled = compiler.program(program)
    with outside.step("total"):
        result = compiled(watch)
    watch.steps.pop("inside", None)
    print(json.dumps({**result, "steps": watch.steps, **outside.steps}))


if __name__ == "__main__":
    main()
