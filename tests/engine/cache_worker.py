"""A process that computes one program and tells what it found on disk and what it compiled.

Its sources count as unchanged, so that tests do not fail while someone edits the tree.
"""

from __future__ import annotations

import json
import sys

import numpy as np

import porism
from porism import pipeline
from porism.base import source_digest
from porism.base.target import Target
from porism.engine.cache import kernel_cache
from porism.ir.node import UOp
from porism.pipeline import schedule_graph
from porism.schedule.schedule import Replaced, Schedule


def main(first: int, last: int) -> None:
    code = "the sources of this test"
    source_digest.digest = lambda: code  # type: ignore[assignment]
    scheduled = [0]

    def counted(graph: UOp, target: Target, replaced: Replaced = ()) -> Schedule:
        scheduled[0] += 1
        return schedule_graph(graph, target=target)

    vars(pipeline)["schedule_graph"] = counted
    right = True
    for number in range(first, last):
        rows = number + 4  # so that each is a kernel of its own
        data = np.arange(6 * rows, dtype=np.int32).reshape(rows, 6) - number
        x = porism.asarray(data)
        found = ((x * (number + 2)).sum(1) * 3 - number).numpy()
        right &= np.array_equal(found, (data * (number + 2)).sum(1) * 3 - number)
    told = {
        "right": right,
        "found": kernel_cache.counts.found,
        "compiled": kernel_cache.counts.compiled,
    }
    print(json.dumps({**told, "scheduled": scheduled[0]}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
