"""Leaf state: what a tensor that requires a gradient has besides its value.

A *leaf* is a tensor that gradients are taken with respect to. Reading it gives its value as that of
a variable of the graph, so `backward` finds it; with gradients disabled, its value alone.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary, ref

from porism.gradient.stated_pullbacks import Variable, is_recording, stopped
from porism.ir.node import UOp

if TYPE_CHECKING:
    from porism.tensor.tensor import Tensor

disabled: Final[ContextVar[bool]] = ContextVar("gradients_disabled", default=False)
"""Whether what is computed in this thread or task has no gradients."""


leaf_tensors: Final[WeakValueDictionary[int, Tensor]] = WeakValueDictionary()
"""The tensors that require a gradient, by the number of their variable."""


class Leaf:
    """The variable of a tensor, and its gradient so far."""

    __slots__ = ("_marked", "grad", "variable")

    def __init__(self) -> None:
        self.variable = Variable()
        self.grad: Tensor | None = None
        self._marked: ref[UOp] | None = None
        """The latest node that was read; weak, so that it does not keep an old value alive."""

    def read(self, value: UOp) -> UOp:
        """Return the value as that of the variable, unless gradients are disabled."""
        if disabled.get():
            return value
        marked = None if self._marked is None else self._marked()
        if marked is None or marked.src[0] is not value:
            marked = self.variable.mark(value)
            self._marked = ref(marked)
        return marked


def make_leaf(tensor: Tensor) -> None:
    """Let gradients be taken with respect to a tensor."""
    tensor._leaf = leaf = Leaf()
    leaf_tensors[leaf.variable.number] = tensor


def read_without_gradient(value: UOp) -> UOp:
    """Return the value of a tensor that is no leaf, as it is read where gradients are disabled."""
    return stopped(value) if is_recording() and disabled.get() else value
