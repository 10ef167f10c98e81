"""Tracked memory: a flat array with a mask of the elements that were written."""

from __future__ import annotations

import numpy as np

from porism.base.dtypes import DType, Space
from porism.base.errors import EvaluationError
from porism.evaluate.faults import Fault, failure
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp


def lane_of(dtype: DType) -> DType:
    """Return the scalar type of a value, a vector or what a pointer points to."""
    return dtype.element.element


class Memory:
    """A flat array and, if some of it is unwritten, a mask of what was written.

    >>> from porism.base.dtypes import f32
    >>> cells = Memory.empty(f32, 3)
    >>> cells.data.dtype, cells.written.tolist()
    (dtype('float32'), [False, False, False])
    """

    __slots__ = ("data", "dims", "space", "written")

    def __init__(
        self,
        data: Array,
        written: Array | None = None,
        dims: tuple[int, ...] | None = None,
        space: Space = Space.GLOBAL,
    ) -> None:
        self.data = data
        self.written = written  # None where everything was
        self.dims = dims  # of a tensor, which is indexed by one number a dimension
        self.space = space  # who sees it: every thread, those of a block, or one

    @staticmethod
    def empty(dtype: DType, size: int, space: Space = Space.GLOBAL) -> Memory:
        """Return memory of `size` elements, none of them written yet."""
        count = size * dtype.count
        data = np.zeros(count, lane_of(dtype).numpy)
        return Memory(data, np.zeros(count, np.bool_), space=space)

    @staticmethod
    def of(array: Array) -> Memory:
        """Return the memory of an array, to be modified in place; all of it counts as written."""
        if not array.flags.c_contiguous:
            raise EvaluationError(
                "an array that is not contiguous was given as a buffer",
                why="a buffer is addressed as one row of elements and is modified in place",
                fix="pass numpy.ascontiguousarray(array) and copy the result back",
            )
        return Memory(array.reshape(-1))

    def part(self, size: int, dims: tuple[int, ...] | None = None) -> Memory:
        """Return the first `size` scalars, sharing the data."""
        if size == len(self.data) and dims == self.dims:
            return self
        written = None if self.written is None else self.written[:size]
        return Memory(self.data[:size], written, dims, self.space)

    def viewed(self, dtype: DType, node: UOp) -> Array:
        """Return the data as scalars of another type of the same size."""
        wanted = lane_of(dtype).numpy
        if self.data.dtype in (wanted, object):  # Python ints are `index`
            return self.data
        if self.data.dtype.itemsize != wanted.itemsize:
            raise failure(
                Fault(
                    node,
                    f"{self.data.dtype} memory is accessed as {dtype.element}",
                    "memory is modelled in elements, so both types must have the same size",
                    "access it in its own type and BITCAST the value",
                )
            )
        return self.data.view(wanted)

    @property
    def origin(self) -> int:
        """The address of the data in bytes, by which overlapping memories are recognised."""
        return int(self.data.__array_interface__["data"][0])
