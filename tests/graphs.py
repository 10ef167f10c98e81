"""Random graphs for tests: hypothesis strategies for expressions and for graphs of every level.

Expressions (a root that is one value; open leaves are variables, ranges and scalar parameters):

    index_expressions()           `index` arithmetic that is always defined
    bool_expressions(of=index)    comparisons of such values and logic on them
    fixed_width_expressions(i8)   wrapping integers; division by zero and wild shifts included
    float_expressions(f32)        IEEE floats; NaN, infinities and signed zeros included
    expressions(dtype)            any of these, also for a vector dtype

Whole graphs (each valid at its level, see `porism.ir.levels`):

    tensor_graphs()               GRAPH: PARAMs with dims, elementwise, movement, REDUCE_AXIS
    ranged_graphs()               RANGED: a BUFFERIZE root, INDEX with gates and INVALID, REDUCE
    kernels()                     KERNEL: a SINK of END(STORE(INDEX(PARAM, index), value), ranges)
    lanes_graphs()                LANES: the same with UNROLL and CONTRACT, or with vectors
    target_kernels()              TARGET: i32 indices, LOAD and STORE on pointers, registers,
                                  wide accesses, threads that share local memory
    linear_kernels()              LINEAR: a target kernel as a list of nodes in order
    any_graphs()                  one of all of these

What they promise: nothing is undefined (no access out of bounds but behind a closed gate or
INVALID, no division of `index` by zero, no read of unwritten memory, no race); sizes are small (a
parameter has at most `MOST_ELEMENTS` elements, or four times as many as an output of lanes; all
loops together run a few thousand times at most); equal draws give equal graphs. PARAMs are inputs,
but for the first ones of a kernel, counted from 0, to which it stores; where an input was drawn
and not used, its number is missing.

To run what was drawn: `leaves(root)` lists the open leaves and parameters, `values(leaf)` draws a
value for one of them, `parameters(root)` lists the PARAMs by number. `numbers(dtype)` draws a value
of a type with its edge cases. `examples(n)` is the settings decorator of the suite: `n` examples,
the same in every run, no deadline.

By default nodes are made exactly as drawn (`make=raw`), so that a test can compare a graph with
what the rules make of it; `make=construct` gives normal forms (in which a loop of one iteration may
have become a constant, so that a kernel may no longer be one of its level).
"""

from __future__ import annotations

import math
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from porism.base import dtypes
from porism.base.dtypes import DType, Scalar
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from tests.expressions import arithmetic_ops, constants, expressions, numbers
from tests.loops import kernels, lanes_graphs, linear_kernels, ranged_graphs, target_kernels
from tests.tensors import MOST_ELEMENTS, VALUE_TYPES, tensor_graphs

__all__ = [
    "MOST_ELEMENTS",
    "VALUE_TYPES",
    "any_graphs",
    "arithmetic_ops",
    "bool_expressions",
    "constants",
    "examples",
    "expressions",
    "fixed_width_expressions",
    "float_expressions",
    "index_expressions",
    "kernels",
    "lanes_graphs",
    "leaves",
    "linear_kernels",
    "numbers",
    "parameters",
    "ranged_graphs",
    "target_kernels",
    "tensor_graphs",
    "values",
]


def examples(count: int) -> settings:
    """So many examples, the same in every run, however slow the machine is."""
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def index_expressions(lanes: int = 1, **options: Any) -> SearchStrategy[UOp]:
    """`index` arithmetic of variables and ranges; options as in `expressions`."""
    return expressions(dtypes.index.vec(lanes), **options)


def bool_expressions(of: DType = dtypes.index, **options: Any) -> SearchStrategy[UOp]:
    """Conditions on values of a type (on parameters, for bool itself)."""
    return expressions(of.mask, of=of, **options)


def fixed_width_expressions(dtype: DType = dtypes.i32, **options: Any) -> SearchStrategy[UOp]:
    """Arithmetic of i8 … u64 on variables; it wraps."""
    return expressions(dtype, **options)


def float_expressions(dtype: DType = dtypes.f32, **options: Any) -> SearchStrategy[UOp]:
    """Arithmetic of floats on scalar parameters."""
    return expressions(dtype, **options)


def leaves(root: UOp) -> list[UOp]:
    """What must be given a value to evaluate an expression, in the order of the graph."""
    open_ranges = set(root.ranges)
    return [
        node
        for node in toposort(root)
        if node.op in (ops.VARIABLE, ops.PARAM, ops.SPECIAL) or node in open_ranges
    ]


def values(leaf: UOp) -> SearchStrategy[Scalar]:
    """Values that a variable, range, thread index or scalar parameter can have."""
    if leaf.op is ops.PARAM:
        return numbers(leaf.dtype)
    low = leaf.vmin if leaf.vmin > -math.inf else min(leaf.vmax, 0) - 1000
    high = leaf.vmax if leaf.vmax < math.inf else max(leaf.vmin, 0) + 1000
    return st.integers(int(low), int(high))


def parameters(root: UOp) -> list[UOp]:
    """The PARAMs of a graph by number."""
    found = [node for node in toposort(root) if node.op is ops.PARAM]
    return sorted(found, key=lambda node: (node.arg, node.key))


def any_graphs(**options: Any) -> SearchStrategy[UOp]:
    """A graph of any level, or an expression of any type."""
    scalars = st.sampled_from([d for d in dtypes.scalars() if d is not dtypes.boolean])
    return st.one_of(
        tensor_graphs(**options),
        ranged_graphs(**options),
        kernels(**options),
        lanes_graphs(**options),
        target_kernels(**options),
        st.builds(DType.vec, scalars, st.sampled_from((1, 2, 4))).flatmap(
            lambda dtype: expressions(dtype, **options)
        ),
    )
