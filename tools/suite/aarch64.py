"""Kernels for AArch64, compiled here by LLVM's cross compiler, and run by QEMU.

Programs of all kinds are scheduled for an AArch64 processor, once with NEON and once with SVE of
256 bits. Each of their kernels is compiled, linked into a program for Linux, run by `qemu-aarch64`,
and compared with the evaluator. That says whether the code is right, not how fast it is.

Needed are `qemu-aarch64` and `aarch64-linux-gnu-gcc`, which links: on Debian and Ubuntu the
packages qemu-user, gcc-aarch64-linux-gnu and libc6-dev-arm64-cross.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import ml_dtypes
import numpy as np

import porism
from porism import Tensor
from porism.backends.kernel_function import KernelFunction, kernel_function
from porism.backends.llvm import compiled_cpu, llvm_library
from porism.backends.llvm.compiled_cpu import Cpu
from porism.backends.llvm.host_target import host_target
from porism.backends.llvm.llvm_compiler import object_code
from porism.engine.run import realize
from porism.engine.tune.kernel_timing import random_buffers
from porism.engine.tune.kernel_trial import largest_difference, tolerance
from porism.evaluate import Memory, run_arrays, run_kernel
from porism.evaluate.evaluation import needs_steps
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.pipeline import lower_kernel

TRIPLE: Final = "aarch64-linux-gnu"
COMMANDS: Final = ("qemu-aarch64", "aarch64-linux-gnu-gcc")
CPUS: Final = {
    "neon": Cpu("neoverse-n1", frozenset(("neon", "fullfp16")), triple=TRIPLE),
    "sve": Cpu(
        "neoverse-v1", frozenset(("neon", "fullfp16", "sve")), triple=TRIPLE, scalable_bits=256
    ),
}
"""Processors with vectors of 128 bits, and of 256; both have 32 of them."""
EMULATED: Final = {"neon": "max", "sve": "max,sve256=on,sve128=on,sve512=off"}
"""What QEMU emulates for each; its largest vectors are those that programs get."""
ALIGNMENT: Final = 64


# Nothing may be computed on the way: the code is not for this machine.


def normal(*shape: int, dtype: str = "float32") -> Tensor:
    values = np.random.default_rng(len(shape)).standard_normal(shape)
    return porism.asarray(values.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype))


def whole(high: int, *shape: int, dtype: str = "int32") -> Tensor:
    values = np.random.default_rng(len(shape)).integers(-high, high, shape)
    return porism.asarray(values.astype(dtype))


def row(high: int, size: int) -> Tensor:
    return porism.asarray(np.random.default_rng(size).integers(0, high, size))


PROGRAMS: Final[Mapping[str, Callable[[], Tensor]]] = {
    "chain": lambda: porism.tanh(normal(1000)) * 2 + porism.exp(normal(1000)),
    "functions": lambda: porism.sin(normal(77)) + porism.log(porism.abs(normal(77)) + 1),
    "errors": lambda: porism.gelu(normal(5, 33)),
    "powers": lambda: porism.abs(normal(100)) ** 1.5,
    "f64": lambda: porism.sqrt(porism.abs(normal(33, dtype="float64"))) + 1,
    "f16": lambda: normal(100, dtype="float16") * 2 + 1,
    "bf16": lambda: normal(100, dtype="bfloat16") * normal(100, dtype="bfloat16"),
    "division": lambda: whole(1000, 99) // 7 + whole(1000, 99) % 13,
    "shifts": lambda: (whole(1000, 64) << 3) ^ (whole(1000, 64) >> 2),
    "bytes": lambda: whole(100, 200, dtype="int8") + whole(100, 200, dtype="int8"),
    "casts": lambda: (normal(100) * 1e3).astype("int32").astype("float64"),
    "rounding": lambda: porism.round(normal(100) * 9) + porism.floor(normal(100)),
    "where": lambda: porism.where(normal(200) > 0, normal(200), porism.abs(normal(200))),
    "sum": lambda: porism.sum(normal(10_000)),
    "row sums": lambda: porism.sum(normal(33, 70), axis=1),
    "column sums": lambda: porism.sum(normal(70, 33), axis=0),
    "largest": lambda: porism.argmax(normal(20, 50), axis=1),
    "softmax": lambda: porism.softmax(normal(17, 65)),
    "layer norm": lambda: porism.layer_norm(normal(16, 96), normal(96), normal(96)),
    "running sum": lambda: porism.cumsum(normal(9, 130), axis=1),
    "transpose": lambda: normal(48, 80).T + 0,
    "concat": lambda: porism.concat([normal(8, 20), normal(8, 33)], axis=1),
    "gather": lambda: porism.take(normal(50, 24), row(50, 30), axis=0),
    "scatter": lambda: porism.index_add(normal(20, 8), 0, row(20, 64), normal(64, 8)),
    "sort": lambda: porism.sort(normal(5, 64)),
    "product 64": lambda: normal(64, 64) @ normal(64, 64),
    "product odd": lambda: normal(37, 51) @ normal(51, 43),
    "product long": lambda: normal(8, 700) @ normal(700, 24),
    "matrix, vector": lambda: normal(100, 257) @ normal(257),
    "vector, matrix": lambda: normal(1, 128) @ normal(128, 300),
    "products": lambda: normal(6, 16, 20) @ normal(6, 20, 24),
    "product f64": lambda: normal(30, 40, dtype="float64") @ normal(40, 50, dtype="float64"),
    "product f16": lambda: normal(32, 32, dtype="float16") @ normal(32, 32, dtype="float16"),
    "product bf16": lambda: normal(32, 48, dtype="bfloat16") @ normal(48, 32, dtype="bfloat16"),
    "product i32": lambda: whole(9, 20, 30) @ whole(9, 30, 40),
    "dense": lambda: porism.relu(normal(20, 64) @ normal(64, 48) + normal(48)),
    "x.T @ x": lambda: normal(64, 40).T @ normal(64, 40),
    "convolution": lambda: porism.conv2d(normal(1, 8, 14, 14), normal(16, 8, 3, 3), padding=1),
    "strided": lambda: porism.conv2d(normal(1, 3, 17, 17), normal(8, 3, 5, 5), stride=2),
    "grouped": lambda: porism.conv2d(normal(1, 8, 9, 9), normal(8, 4, 3, 3), groups=2),
    "depthwise": lambda: porism.conv2d(normal(1, 8, 9, 9), normal(8, 1, 3, 3), groups=8),
    "transposed": lambda: porism.conv_transpose2d(normal(1, 4, 6, 6), normal(4, 8, 4, 4), stride=2),
    "pooling": lambda: porism.max_pool2d(normal(1, 4, 12, 12), 3, stride=2, padding=1),
    "attention": lambda: porism.scaled_dot_product_attention(
        normal(1, 2, 20, 16), normal(1, 2, 20, 16), normal(1, 2, 20, 16), causal=True
    ),
    "fft": lambda: porism.abs(porism.fft.fft(normal(4, 48))),
}
"""Programs whose kernels are compiled and run; every strategy has some."""
SHORT: Final = ("chain", "division", "bf16", "softmax", "sort", "product odd", "convolution")

SOURCE: Final = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
typedef void (*Run)(int64_t *, int64_t, int64_t);
typedef struct { Run run; int64_t iterations, buffers, variables; } Kernel;
#define ALIGN 64
DECLARATIONS
static Kernel kernels[] = { KERNELS };
static int64_t number(void) {
  int64_t value;
  if (fread(&value, 8, 1, stdin) != 1) exit(3);
  return value;
}
int main(void) {
  for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
    Kernel *kernel = &kernels[k];
    int64_t words[256], sizes[256];
    for (int64_t b = 0; b < kernel->buffers; b++) {
      sizes[b] = number();
      char *memory = aligned_alloc(ALIGN, (sizes[b] / ALIGN + 2) * ALIGN);
      if (fread(memory, 1, sizes[b], stdin) != (size_t)sizes[b]) return 4;
      words[b] = (int64_t)memory;
    }
    for (int64_t v = 0; v < kernel->variables; v++) words[kernel->buffers + v] = number();
    int64_t middle = kernel->iterations / 2;
    if (middle) kernel->run(words, middle, kernel->iterations);
    kernel->run(words, 0, middle ? middle : kernel->iterations);
    for (int64_t b = 0; b < kernel->buffers; b++) {
      fwrite((char *)words[b], 1, sizes[b], stdout);
      free((char *)words[b]);
    }
  }
  return 0;
}
"""
"""A program that runs kernels on buffers from its input, and writes them to its output."""


@dataclass(frozen=True)
class Case:
    """A kernel of a program, its data, and what the evaluator leaves in the buffers."""

    program: str
    name: str
    lines: Sequence[UOp]
    function: KernelFunction
    data: dict[int, Array]
    expected: dict[int, Array]


def cases(programs: Sequence[str]) -> list[Case]:
    """The kernels of some programs, each once."""
    result: list[Case] = []
    seen: set[UOp] = set()
    for program in programs:
        schedule = realize.schedule_of(realize.request([PROGRAMS[program]().node]).graph)
        for step in schedule.steps:
            if step.kernel not in seen:
                seen.add(step.kernel)
                result.append(_case(program, f"kernel{len(result)}", step.kernel))
    return result


def _case(program: str, name: str, kernel: UOp) -> Case:
    data = random_buffers(kernel)
    memories = {number: Memory(array.copy()) for number, array in data.items()}
    buffers = [memories.get(k, Memory(np.zeros(0))) for k in range(max(data) + 1)]
    run = run_kernel if needs_steps(toposort(kernel)) else run_arrays
    with np.errstate(all="ignore"):
        run(kernel, buffers, {})
    lines = lower_kernel(kernel, host_target())
    expected = {number: memory.data for number, memory in memories.items()}
    return Case(program, name, lines, kernel_function(lines, 0, None), data, expected)


def built(found: Sequence[Case], folder: Path) -> Path:
    """An executable with all kernels."""
    text = llvm_library.module_text({case.name: case.lines for case in found})
    (folder / "kernels.o").write_bytes(object_code(text))
    names = [case.name for case in found]
    declared = "\n".join(f"void {name}(int64_t *, int64_t, int64_t);" for name in names)
    rows = ", ".join(
        f"{{{case.name}, {_iterations(case.function)}, {len(case.function.buffers)}, 0}}"
        for case in found
    )
    source = SOURCE.replace("DECLARATIONS", declared).replace("KERNELS", rows)
    (folder / "driver.c").write_text(
        source.replace("#define ALIGN 64", f"#define ALIGN {ALIGNMENT}")
    )
    command = [COMMANDS[1], "-O1", "-static", "-o", "run", "driver.c", "kernels.o", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "run"


def _iterations(function: KernelFunction) -> int:
    return 1 if function.parallel is None else int(function.parallel.arg)


def run(found: Sequence[Case], program: Path, cpu: str) -> list[str]:
    """Run all kernels, and return in words how results differ."""
    sent = b"".join(
        np.int64(case.data[number].nbytes).tobytes() + case.data[number].tobytes()
        for case in found
        for number in case.function.buffers
    )
    done = subprocess.run(
        [COMMANDS[0], "-cpu", EMULATED[cpu], str(program)],
        input=sent, capture_output=True, check=False,
    )  # fmt: skip
    if done.returncode:
        return [f"it ended with status {done.returncode}: {done.stderr.decode()[:300]}"]
    faults, offset = [], 0
    for case in found:
        for number in case.function.buffers:
            before = case.data[number]
            after = np.frombuffer(done.stdout, before.dtype, before.size, offset)
            offset += before.nbytes
            error, place = largest_difference(case.expected[number], after)
            if error > tolerance(case.expected[number]):
                values = f"{after[place]} and not {case.expected[number][place]}"
                faults.append(f"{case.program}, {case.name}: element {place} is {values}")
    return faults


def check(cpu: str, programs: Sequence[str]) -> int:
    """Compile and run the kernels of programs for one processor; return the number of faults."""
    compiled_cpu.compile_for(CPUS[cpu])
    with tempfile.TemporaryDirectory(prefix="porism-aarch64-") as folder:
        found = cases(programs)
        faults = run(found, built(found, Path(folder)), cpu)
    for fault in faults:
        print(fault)
    width = host_target().vector_bits[-1]
    print(f"{cpu}, {width} bits: {len(found)} kernels of {len(programs)} programs, "
          f"{len(faults)} faults")  # fmt: skip
    return len(faults)


def parsed(arguments: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(
        prog="./dev suite aarch64",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("--cpu", choices=CPUS, help="one of them only, in this process")
    parser.add_argument("--short", action="store_true", help="a few programs")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parsed(arguments)
    missing = [command for command in COMMANDS if shutil.which(command) is None]
    if missing:
        print(f"there is no {' and no '.join(missing)}; install qemu-user, gcc-aarch64-linux-gnu "
              "and libc6-dev-arm64-cross")  # fmt: skip
        return 2
    if options.cpu:
        return int(check(options.cpu, SHORT if options.short else list(PROGRAMS)) > 0)
    short = ["--short"] if options.short else []
    command = [sys.executable, "-m", "tools.suite.aarch64", *short, "--cpu"]
    return max(subprocess.run([*command, cpu], check=False).returncode for cpu in CPUS)


if __name__ == "__main__":
    sys.exit(main())
