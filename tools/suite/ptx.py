"""Kernels for NVIDIA's GPUs: printed as PTX, assembled by NVIDIA's assembler, without a GPU.

A corpus of programs, and all rows of the conformance suite, are scheduled, lowered and printed for
sm_80 and sm_90a, and assembled by `ptxas` from the package nvidia-cuda-nvcc, which is installed
without what it depends on. Every kernel has to be assembled; one of the corpus has to have no
spills, and the registers and instructions that `ptx_expected.json` records.

    ./dev suite ptx                 all of it
    ./dev suite ptx --corpus        the corpus alone
    ./dev suite ptx --record        write what the corpus has now to ptx_expected.json
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import numpy as np

import porism
from porism.backends.nvptx.ptx_compiler import PtxModule, ptx_module
from porism.base.gpu_targets import TARGETS
from porism.base.settings import settings
from porism.base.target import Target
from porism.engine.run.buffer_storage import realized_buffer
from porism.engine.run.realize import request
from porism.ir.node import UOp
from porism.pipeline import lower_kernel, schedule_graph
from porism.tensor.tensor import Tensor
from tests.conformance import data
from tests.conformance.table import ROWS
from tests.conformance.test_functions import called

PACKAGE: Final = "nvidia-cuda-nvcc"
ARCHES: Final = ("sm_80", "sm_90a")
EXPECTED: Final = Path(__file__).with_name("ptx_expected.json")
TYPES: Final = {"f": ("float32", "float64", "float16", "bfloat16"), "i": ("int32", "int64"),
                "b": ("bool",)}  # fmt: skip
BATCH: Final = 64
"""Kernels of one module of the conformance suite."""

INSTRUCTIONS: Final = (
    "ld.global.nc.v4", "ld.global", "st.global.v4", "st.global", "ld.shared", "st.shared",
    "bar.sync", "mma.sync", "ex2.approx", "ld.local", "st.local",
)  # fmt: skip
"""The beginnings of what is counted in the text, the longest that fits an instruction."""


def _zeros(*shape: int, dtype: Any = np.float32) -> Tensor:
    return porism.asarray(np.zeros(shape, dtype))


def _half(*shape: int) -> Tensor:
    return _zeros(*shape, dtype=np.float16)


Program = Callable[[], Tensor]
CORPUS: Final[Mapping[str, Program]] = {
    "chain": lambda: (_zeros(1 << 20) * 2 + 1).exp2() * _zeros(1 << 20),
    "ragged sum": lambda: _zeros(1001, 1003) + _zeros(1001, 1003),
    "f16 chain": lambda: _half(1 << 20) * 2 + 1,
    "bf16 chain": lambda: _zeros(1 << 20).astype("bfloat16") * 2 + 1,
    "f64 chain": lambda: _zeros(1 << 18, dtype=np.float64) * 2 + 1,
    "i64 chain": lambda: _zeros(1 << 18, dtype=np.int64) * 2 + 1,
    "row sums": lambda: _zeros(4096, 4096).sum(axis=1),
    "column sums": lambda: _zeros(4096, 4096).sum(axis=0),
    "total": lambda: _zeros(1 << 22).sum(),
    "softmax": lambda: porism.softmax(_zeros(512, 16384), axis=1),
    "layer norm": lambda: porism.layer_norm(_zeros(4096, 1024), axis=-1),
    "transpose": lambda: _zeros(2048, 2048).T + 1,
    "matmul": lambda: _zeros(1024, 1024) @ _zeros(1024, 1024),
    "f16 matmul": lambda: _half(2048, 2048) @ _half(2048, 2048),
    "batched matmul": lambda: _zeros(8, 300, 200) @ _zeros(8, 200, 100),
    "matvec": lambda: _zeros(4096, 4096) @ _zeros(4096),
    "conv": lambda: porism.conv2d(_zeros(8, 64, 56, 56), _zeros(64, 64, 3, 3), padding=1),
    "gather": lambda: porism.take(_zeros(50000, 768), _zeros(2048, dtype=np.int64), axis=0),
    "scatter": lambda: porism.index_add(
        _zeros(1000, 64), 0, _zeros(512, dtype=np.int64), _zeros(512, 64)
    ),
    "argmax": lambda: _zeros(512, 4096).argmax(axis=1),
    "attention": lambda: (
        porism.softmax(_zeros(8, 128, 64) @ _zeros(8, 64, 128), axis=-1) @ _zeros(8, 128, 64)
    ),
}
"""Programs whose kernels are looked at one by one."""


def kernels_of(roots: Sequence[Tensor], target: Target) -> list[UOp]:
    """Return the kernels that compute some tensors on a target."""
    computed = [t.node for t in roots if realized_buffer(t.node) is None]
    if not computed:
        return []
    graph = request(computed).graph
    return [step.kernel for step in schedule_graph(graph, target=target).steps]


# -- the assembler ---------------------------------------------------------------------------------


def assembler() -> Path:
    """Return NVIDIA's assembler; its package is installed if it is not there."""
    for _ in range(2):
        try:
            files = metadata.files(PACKAGE) or []
        except metadata.PackageNotFoundError:
            files = []
        found = [Path(str(f.locate())) for f in files if f.name == "ptxas"]
        if found:
            return found[0]
        command = [sys.executable, "-m", "pip", "install", "-q", "-c", "constraints.txt"]
        subprocess.run([*command, "--no-deps", PACKAGE], check=True)
    raise SystemExit(f"the package {PACKAGE} has no ptxas")


def assembled(program: Path, module: PtxModule, arch: str) -> dict[str, str]:
    """Return what the assembler says of each kernel; under "" its errors."""
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(module.text)
        file.flush()
        command = [str(program), f"-arch={arch}", "-v", "-o", "/dev/null", file.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    parts = re.split(r"Compiling entry function '(\w+)'", said)
    found = dict(zip(parts[1::2], parts[2::2], strict=True))
    return found if done.returncode == 0 else {"": said}


def facts(text: str, said: str) -> dict[str, Any]:
    """Return the registers, spills and instructions of a kernel."""
    numbers = {
        "registers": r"Used (\d+) registers",
        "spills": r"(\d+) bytes spill stores",
    }
    found: dict[str, Any] = {
        name: int(m[1]) if (m := re.search(pattern, said)) else None
        for name, pattern in numbers.items()
    }
    counts: Counter[str] = Counter()
    for line in text.splitlines():
        words = line.split()
        if words and words[0].startswith("@"):
            words = words[1:]
        word = "".join(words[:1])
        counts.update([name for name in INSTRUCTIONS if word.startswith(name)][:1])
    return {**found, "instructions": dict(sorted(counts.items()))}


def _entry_texts(text: str) -> dict[str, str]:
    """Return the text of each kernel of a module."""
    parts = re.split(r"\.visible \.entry (\w+)\(", text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


# -- the two halves --------------------------------------------------------------------------------


def corpus(program: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the facts of every kernel of the corpus, and what is wrong."""
    found: dict[str, Any] = {}
    wrong: list[str] = []
    for arch in ARCHES:
        target = TARGETS[arch]
        for name, make in CORPUS.items():
            with settings.override(check=True):
                lines = [lower_kernel(k, target) for k in kernels_of([make()], target)]
            named = {f"k{n}": code for n, code in enumerate(lines)}
            module = ptx_module(named, target)
            said = assembled(program, module, arch)
            if "" in said:
                wrong.append(f"{arch} {name}: {said['']}")
                continue
            texts = _entry_texts(module.text)
            for kernel in named:
                entry = module.entries[kernel].launch
                key = f"{arch} {name} {kernel}"
                grid, block = entry.sizes()
                own = {"grid": grid, "block": block, "shared": entry.local}
                found[key] = {**own, **facts(texts[kernel], said[kernel])}
                if found[key]["spills"]:
                    wrong.append(f"{key}: {found[key]['spills']} bytes of spills")
    return found, wrong


def _conformance_kernels(target: Target) -> Iterator[tuple[str, UOp]]:
    """Yield the kernels of each row of the conformance suite."""
    for kind, names in TYPES.items():
        rows = [row for found in ROWS.values() for row in found if kind in row.kinds]
        for name in names:
            arrays = data.arrays(name, 3, 20)
            for row in rows:
                for kernel in kernels_of([called(row, arrays)], target):
                    yield f"{row.call} of {name}", kernel


def conformance(program: Path) -> tuple[int, list[str]]:
    """Assemble the kernels of the conformance suite; return how many, and what is wrong."""
    count, wrong = 0, []
    for arch in ARCHES:
        target, seen = TARGETS[arch], set[UOp]()
        named: dict[str, Sequence[UOp]] = {}
        where: dict[str, str] = {}

        def finish(
            arch: str, target: Target, named: dict[str, Sequence[UOp]], where: dict[str, str]
        ) -> None:
            said = assembled(program, ptx_module(named, target), arch)
            if "" in said:
                wrong.append(f"{arch}, one of {', '.join(where.values())}: {said['']}")

        for row, kernel in _conformance_kernels(target):
            if kernel in seen:
                continue
            seen.add(kernel)
            try:
                code = lower_kernel(kernel, target)
            except Exception as error:
                wrong.append(f"{arch} {row}: {type(error).__name__}: {error}")
                continue
            named[f"k{count}"], where[f"k{count}"] = code, row
            count += 1
            if len(named) == BATCH:
                finish(arch, target, named, where)
                named, where = {}, {}
        if named:
            finish(arch, target, named, where)
    return count, wrong


def main() -> int:
    """Run the suite; 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="./dev suite ptx", description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", action="store_true", help="the corpus alone")
    parser.add_argument("--record", action="store_true", help="write ptx_expected.json")
    options = parser.parse_args()
    program = assembler()
    found, wrong = corpus(program)
    found = json.loads(json.dumps(found))
    if options.record:
        EXPECTED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    expected = json.loads(EXPECTED.read_text(encoding="utf-8")) if EXPECTED.exists() else {}
    for key in sorted({*expected, *found}):
        if expected.get(key) != found.get(key):
            wrong.append(f"{key}: {found.get(key)}, expected {expected.get(key)}; --record?")
    print(f"corpus: {len(found)} kernels")
    if not options.corpus:
        count, more = conformance(program)
        wrong += more
        print(f"conformance: {count} kernels")
    for line in wrong:
        print(f"wrong: {line[:2000]}", file=sys.stderr)
    print(f"{len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
