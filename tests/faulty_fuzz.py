"""The fuzzer of programs with a fault in the compiler, in a process that has compiled nothing yet.

The largest of some elements is at least 1, as if an accumulator began with it.
"""

from __future__ import annotations

import sys

from fuzz import programs
from porism.base.dtypes import DType, Scalar
from porism.ir import ops
from porism.ir.facts.reduction_identity import identity
from porism.ir.ops import Op
from porism.lower import linearize


def _with_one(op: Op, dtype: DType) -> Scalar | None:
    return identity(op, dtype) if op is not ops.MAX else 1


if __name__ == "__main__":
    linearize.identity = _with_one  # type: ignore[attr-defined]
    sys.exit(programs.main())
