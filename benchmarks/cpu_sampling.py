"""Sampling: every workload on every backend, one sample after the other in turn.

So all figures of a workload come from the same seconds of the same machine. A sample that other
processes have disturbed is taken again, for as long as there is hope; the median counts.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from benchmarks import cpu_backends, cpu_workloads, peers
from benchmarks.cpu_backends.on_numpy import NumPyOperations
from benchmarks.cpu_operations import as_float64

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = 9
ENOUGH = 2.0
"""Seconds of samples of one cell, after which there are enough, however few."""
TRIES = 24
"""Samples that are taken until so many are undisturbed."""
SHORTEST = 0.008
"""Seconds of a sample, at least."""
DISTURBED = 0.04
"""Part of its time that an undisturbed sample waits at most."""
PAUSE = 0.004
"""Seconds for the threads of the last backend to fall asleep."""
COUNTS = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PORISM_THREADS", "CPU_COUNT",
)  # fmt: skip
"""Variables that tell a library how many threads it has."""

Cell = dict[str, Any]
Cells = dict[str, Cell]


class Process:
    """A worker, seen from outside."""

    def __init__(self, name: str, threads: int, folder: str, variables: Mapping[str, str]) -> None:
        result = [peers.install(peer) for peer in cpu_backends.PEERS.get(name, ())]
        places = [place for place in result if place is not None]
        environment = {
            **peers.environment(*places, ROOT / "src"),
            **dict.fromkeys(COUNTS, str(threads)),
            "DEV": "CPU",
            "JAX_PLATFORMS": "cpu",
            "PYTHONWARNINGS": "ignore",
            "TMPDIR": folder,
            "PORISM_CACHE_DIR": folder,
            "TORCHINDUCTOR_CACHE_DIR": str(peers.FOLDER / "kernels-of-torch"),
            **variables,
        }
        self.errors = Path(folder) / f"{name}.txt"
        with self.errors.open("w", encoding="utf-8") as errors:
            self.worker = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.cpu_worker", name, str(threads)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                cwd=ROOT,
                text=True,
            )

    def ask(self, **request: Any) -> None:
        with contextlib.suppress(BrokenPipeError):  # the answer will say so
            print(json.dumps(request), file=cast(IO[str], self.worker.stdin), flush=True)

    def answer(self) -> Cell:
        line = cast(IO[str], self.worker.stdout).readline()
        if line:
            result: Cell = json.loads(line)
            return result
        lines = self.errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        status = self.worker.wait()
        return {"failed": f"ended with status {status}: {(lines or ['no message'])[-1][:200]}"}

    def end(self) -> None:
        cast(IO[str], self.worker.stdin).close()
        try:
            self.worker.wait(10)
        except subprocess.TimeoutExpired:
            self.worker.kill()
            self.worker.wait()


class Backends:
    """The workers that have started, and why others have not."""

    def __init__(
        self,
        names: Iterable[str],
        threads: int,
        settings: Mapping[str, Mapping[str, str]],
        exact: str | None = None,
    ) -> None:
        """`exact` names the backend whose results in float64 are right; else that is NumPy."""
        self.exact = exact
        self.folder = tempfile.TemporaryDirectory(prefix="porism-bench-")
        self.versions: dict[str, str] = {}
        self.missing: dict[str, str] = {}
        started = {
            name: Process(name, threads, self._own(name), settings.get(name, {})) for name in names
        }
        self.live: dict[str, Process] = {}
        for name, process in started.items():
            result = process.answer()
            if "failed" in result:
                self.missing[name] = result["failed"]
                process.end()
            else:
                self.versions[name] = result["version"]
                self.live[name] = process

    def _own(self, name: str) -> str:
        place = Path(self.folder.name) / name.replace(" ", "-")
        place.mkdir()
        return str(place)

    def __enter__(self) -> Backends:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.live.values():
            process.end()
        self.folder.cleanup()

    def measure(self, name: str) -> Cells:
        """A workload on all of them."""
        cells = self.prepare(name)
        self.sample(name, cells)
        return cells

    def prepare(self, name: str) -> Cells:
        """Compile a workload on all of them, and compare the results with the reference."""
        path = Path(self.folder.name) / "reference.npy"
        workload = cpu_workloads.named(name)
        self._write_reference(name, path)
        cells = {backend: self._prepared(backend, name, str(path)) for backend in list(self.live)}
        for cell in cells.values():
            if "failed" not in cell:
                cell["right"] = cell["error"] <= workload.tolerance
                cell["count"] = max(1, math.ceil(SHORTEST / max(cell.pop("once"), 1e-7)))
        return cells

    def sample(self, name: str, cells: Cells) -> None:
        """Time a workload that is prepared, and forget it."""
        running = {backend: cell for backend, cell in cells.items() if "failed" not in cell}
        for backend, cell in running.items():
            self._sample(backend, name, cell)  # on a quiet machine now, so that the count is right
            if "failed" not in cell:
                cell["count"] = max(1, math.ceil(SHORTEST / cell["all"].pop()[0]))
        for backend, cell in self._turns(running):
            self._sample(backend, name, cell)
        for cell in running.values():
            self._settle(cell)
        self.forget(name)

    def forget(self, name: str) -> None:
        """Drop a workload on all of them."""
        for process in self.live.values():
            process.ask(drop=name)
            process.answer()

    def _write_reference(self, name: str, path: Path) -> None:
        workload = cpu_workloads.named(name)
        if self.exact is None:
            exact = workload.program(NumPyOperations(), **as_float64(workload.inputs(name)))
            np.save(path, np.asarray(exact, np.float64))
            return
        self.live[self.exact].ask(exact=name, file=str(path))
        result = self.live[self.exact].answer()
        if "failed" in result:
            raise SystemExit(f"{name} has no reference: {result['failed']}")

    def _prepared(self, backend: str, name: str, reference: str) -> Cell:
        process = self.live[backend]
        process.ask(prepare=name, reference=reference)
        result = process.answer()
        if "failed" in result and process.worker.poll() is not None:
            del self.live[backend]
            self.missing[backend] = result["failed"]
        return result

    def _turns(self, cells: Cells) -> Iterator[tuple[str, Cell]]:
        """Who is next, until all have enough; there and back, so that the neighbours change."""
        order = list(cells)
        while waiting := [name for name in order if not enough(cells[name])]:
            for name in waiting:
                yield name, cells[name]
            order.reverse()

    def _sample(self, backend: str, name: str, cell: Cell) -> None:
        time.sleep(PAUSE)
        self.live[backend].ask(sample=name, count=cell["count"])
        result = self.live[backend].answer()
        if "failed" in result:
            cell["failed"] = result["failed"]
        else:
            cell.setdefault("all", []).append((result["seconds"], result["waited"]))

    @staticmethod
    def _settle(cell: Cell) -> None:
        """The median of the undisturbed samples, or of all if there are hardly any."""
        samples = cell.pop("all", [])
        if "failed" in cell:
            return
        clean = [seconds for seconds, waited in samples if waited <= DISTURBED]
        cell["samples"], cell["clean"] = len(samples), len(clean)
        cell["seconds"] = statistics.median(
            clean if len(clean) >= 3 else [seconds for seconds, _ in samples]
        )
        cell["least"] = min(seconds for seconds, _ in samples)


def enough(cell: Cell) -> bool:
    """Whether a cell needs no more samples."""
    samples: list[tuple[float, float]] = cell.get("all", [])
    if "failed" in cell or len(samples) >= TRIES:
        return True
    clean = sum(waited <= DISTURBED for _, waited in samples)
    spent = sum(2 * cell["count"] * seconds for seconds, _ in samples)
    return clean >= SAMPLES or spent > ENOUGH


def threads_here() -> int:
    """As many as there are cores for this process."""
    return len(os.sched_getaffinity(0))
