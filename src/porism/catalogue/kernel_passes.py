"""Passes that rewrite as rules do: each as a procedure without ops, applied to a whole kernel.

A pass looks at all of a kernel, so no rule states what it does. It is established like a procedure:
the evaluator runs kernels before and after it, on the same inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from porism.base.dtypes import Theory
from porism.ir.node import UOp
from porism.rewrite.rule import Procedure, RuleSet
from porism.schedule.loops.early_movement import MOVEMENT
from porism.schedule.loops.range_transforms import flatten_ends, merge_ranges, split_ranges


def _pass(name: str, function: Callable[[UOp], UOp], doc: str, seeds: str) -> Procedure:
    return Procedure(name, function, (), doc, (Theory.STRUCTURE,), tuple(seeds.split()))


PASSES: Final = RuleSet("passes", rules=(
    _pass("split-ranges", split_ranges,
          "A range that is divided by a divisor of its size becomes several.", "003.split 004.3.1"),
    _pass("merge-ranges", merge_ranges,
          "Neighbouring ranges that are used as one number become one.", "003.merge 004.5.1"),
    _pass("flatten-ends", flatten_ends,
          "An END of an END is one END, of loops that nest as they did.", "003.flatten"),
))  # fmt: skip

PASSES_AND_MOVEMENT: Final = (*PASSES, *MOVEMENT)
"""The passes, and the procedures that push movement ops towards the inputs."""
