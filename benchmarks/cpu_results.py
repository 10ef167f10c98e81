"""Results: what the processor benchmark has found, in a file that later runs add to."""

from __future__ import annotations

import csv
import json
import platform
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import cpu_backends, cpu_limits, cpu_workloads
from benchmarks.cpu_limits import Limits, Roofline
from benchmarks.cpu_sampling import Cell, Cells

OURS = ("porism", "porism beam")
FIELDS = (
    "workload",
    "backend",
    "ms",
    "share",
    "error",
    "right",
    "clean",
    "ready_ms",
    "run",
    "failed",
)


class Results:
    """Cells by workload and backend, the limits, and what was measured on what machine."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.machine = machine()
        self.versions: dict[str, str] = {}
        self.missing: dict[str, str] = {}
        self.limits: list[Limits] = []
        self.cells: dict[str, Cells] = {}
        self.layers: list[dict[str, float]] = []

    @classmethod
    def read(cls, path: Path, threads: int | None = None) -> Results:
        """What is in a file, or nothing yet; of so many threads, if that matters."""
        result = cls(threads or 0)
        if path.exists():
            kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if threads not in (None, kept["threads"]):
                raise SystemExit(
                    f"{path} has figures of {kept['threads']} threads, and this run has {threads}: "
                    "name another file, or pass --threads"
                )
            vars(result).update(kept)
        return result

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(vars(self), indent=1) + "\n", encoding="utf-8")

    def add(self, workload: str, cells: Cells, run: str) -> None:
        """Cells of a run; they replace older ones of the same backends."""
        for cell in cells.values():
            cell["run"] = run
        self.cells.setdefault(workload, {}).update(cells)

    @property
    def backends(self) -> list[str]:
        """Those that have a figure, in the order of the table."""
        result = {name for cells in self.cells.values() for name in cells}
        return [name for name in cpu_backends.MODULES if name in result]

    def in_order(self) -> list[str]:
        """The workloads of the table that were measured; those that grow are not among them."""
        known = [*cpu_workloads.QUICK, *cpu_workloads.WORKLOADS]
        return [name for name in known if name in self.cells]

    def roofline(self, workload: str) -> Roofline | None:
        if not self.limits:
            return None
        limits = cpu_limits.together(self.limits)
        return cpu_limits.roofline(cpu_workloads.named(workload), limits)

    def share(self, workload: str, cell: Cell) -> float | None:
        """How much of what the machine can do a backend does."""
        limit = self.roofline(workload)
        return limit.seconds / cell["seconds"] if limit and "seconds" in cell else None

    def best_peer(self, workload: str) -> tuple[str, float] | None:
        """The fastest that is not ours and right."""
        cells = self.cells[workload]
        times = {
            name: cell["seconds"]
            for name, cell in cells.items()
            if name not in OURS and "seconds" in cell and cell["right"]
        }
        return min(times.items(), key=lambda item: item[1]) if times else None

    def behind(self) -> list[tuple[float, str, str]]:
        """Workloads where a peer is ahead: how many times, the workload, the peer; worst first."""
        result = []
        for workload in self.in_order():
            ours, best = self.cells[workload].get("porism", {}), self.best_peer(workload)
            if best and "seconds" in ours and ours["seconds"] > best[1]:
                result.append((ours["seconds"] / best[1], workload, best[0]))
        return sorted(result, reverse=True)

    def faults(self, workloads: Iterable[str]) -> list[str]:
        """What was not measured of some workloads, and why; and results that are wrong."""
        result = [f"{name} is not measured: {why}" for name, why in self.missing.items()]
        for workload in workloads:
            for backend, cell in self.cells.get(workload, {}).items():
                if "failed" in cell:
                    result.append(f"{workload}, {backend}: {cell['failed'].splitlines()[0]}")
                elif not cell["right"]:
                    result.append(f"{workload}, {backend}: the error is {cell['error']:.1e}")
        return result

    def rows(self) -> Iterator[dict[str, Any]]:
        """One for each cell, for a table of plain values."""
        for workload in self.in_order():
            for backend in self.backends:
                cell = self.cells[workload].get(backend)
                if cell is not None:
                    yield {
                        "workload": workload,
                        "backend": backend,
                        "ms": cell["seconds"] * 1000 if "seconds" in cell else None,
                        "share": self.share(workload, cell),
                        "ready_ms": cell["ready"] * 1000 if "ready" in cell else None,
                        **{key: cell.get(key) for key in FIELDS if key in cell},
                    }

    def write_csv(self, path: Path) -> None:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, FIELDS)
            writer.writeheader()
            writer.writerows(self.rows())


def machine() -> dict[str, Any]:
    """What the system says about the processor."""
    result: dict[str, Any] = {"system": platform.system(), "python": platform.python_version()}
    path = Path("/proc/cpuinfo")
    if path.exists():
        lines = path.read_text(encoding="utf-8").splitlines()
        pairs = [line.partition(":") for line in lines if ":" in line]
        named = {key.strip(): value.strip() for key, _, value in reversed(pairs)}
        result["processor"] = named.get("model name", platform.machine())
        flags = named.get("flags", "").split()
        result["vectors"] = next((f for f in ("avx512f", "avx2", "sse2") if f in flags), "")
    return result
