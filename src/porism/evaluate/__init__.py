"""The reference evaluator: the semantics of every op, at every level, on NumPy.

Rules, passes and backends are tested against it, so it is written for correctness and clarity, not
for speed. There are two ways to evaluate; `evaluate` takes the one that fits the graph:

- `graph_evaluator`: tensor graphs, and graphs with ranges, for all iterations at once. Each value
  is one array with an axis for every range it depends on.
- `threads.thread_machine`: kernels step by step, with loops, registers, local memory, IFs, barriers
  and threads, and lists of instructions. `threads.kernel_steps` linearizes a kernel graph first.

    evaluate(root, inputs, variables)       a list of arrays
        root is a value: one array, with an axis for each range that is open, then the dims, then
            the lanes of a vector
        root is a SINK: an array for each of its sources that is a value, then what its effects
            have left in each buffer they write: PARAMs by number, then BUFFERs
        the arrays given are not modified; a buffer that is only written need not be given
    inspect(root, inputs, variables)        a Value: data, which of it is `valid`, is `undefined`
    run_kernel(sink, buffers, variables)    step by step; PARAM n is buffers[n], modified in place
    run_arrays(sink, buffers, variables)    the same for all iterations at once
    run_list(nodes, buffers, variables)     step by step, in the order of the list

`inputs` maps nodes, PARAM numbers or BUFFER ids to arrays or numbers; a RANGE, SPECIAL or VARIABLE
node that is given there has that one value. `variables` maps names to ints. A buffer is an array,
all of it written, or a `Memory`, which knows what was written: `Memory.empty(f32, 16)`.

>>> import numpy as np
>>> from porism.base.dtypes import f32, index
>>> from porism.ir import ops
>>> from porism.ir.node import UOp
>>> i, k = UOp.range(2, 0), UOp.range(3, 1)
>>> x = UOp(ops.PARAM, f32.pointer(size=6), (), 1)
>>> total = x.index(i * 3 + k).reduce(ops.ADD, k)
>>> evaluate(total, {1: np.arange(6, dtype=np.float32)})
[array([ 3., 12.], dtype=float32)]
>>> out = UOp(ops.PARAM, f32.pointer(size=2), (), 0)
>>> kernel = UOp(ops.SINK, None, (out.index(i).store(total).end(i),))
>>> buffers = [Memory.empty(f32, 2), np.arange(6, dtype=np.float32)]
>>> run_kernel(kernel, buffers)
>>> buffers[0].data, buffers[0].written
(array([ 3., 12.], dtype=float32), array([ True,  True]))

Choices that semantics.md leaves open:

- A reduction starts from its identity and takes the iterations in order, so the sum of negative
  zeros is 0.0, as in NumPy. Over no ranges at all it is the value itself.
- INVALID and undefined elements go through arithmetic; `false & x` and `true | x` do not depend on
  x. An INDEX or a division that fails does so only where its value is used: what a WHERE does not
  choose, or a closed gate keeps away, never fails. A LOAD or STORE is executed: it fails at once.
- Lanes, unrolled axes and iterations of parallel ranges have no order among each other, so two that
  write one element are an error. In loops the last one wins; they nest as their END or REDUCE
  names them, the outermost first.

A program that has no meaning raises an `EvaluationError` that names the node.

>>> evaluate(x.index(i + 5), {1: np.arange(6, dtype=np.float32)})
Traceback (most recent call last):
    ...
porism.base.errors.EvaluationError: element 6 of 6 is accessed
  where: INDEX: p1[r0 + 5]
    at r0 = 1
  why: an index is at least 0 and below 6, the number of elements
  fix: close the gate, or make the index INVALID, where it is outside
"""

from porism.evaluate.evaluation import evaluate, inspect, run_arrays, run_kernel, run_list
from porism.evaluate.threads.tracked_memory import Memory
from porism.evaluate.varying_value import Value

__all__ = [
    "Memory",
    "Value",
    "evaluate",
    "inspect",
    "run_arrays",
    "run_kernel",
    "run_list",
]
