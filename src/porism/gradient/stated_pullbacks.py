"""Stated pullbacks: how a value is differentiated, said where the value is made.

A PULLBACK node is its first source, and says how that is differentiated: by the pullback whose name
is in its argument, with respect to its other sources. It is erased before a graph is compiled.

    ("variable", n)     an identity of its own: what gradients are taken with respect to
    ("stop",)           the derivative is 0
    ("equal",)          the derivative is that of its other source, which has the same value
    (name, …)           the pullback registered under the name, with parameters
    ("closure", n, k)   output k of a function whose pullback is a Python function

Names are only stated while something is differentiated: elsewhere graphs have no PULLBACK nodes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakValueDictionary

from porism.base.weak_tables import WeakKeys
from porism.ir import ops, tensor_nodes
from porism.ir.node import UOp

VARIABLE: Final = "variable"
STOP: Final = "stop"
EQUAL: Final = "equal"
CLOSURE: Final = "closure"

Pull = Callable[..., Sequence[UOp | None]]
"""Takes the cotangent, the value, the inputs as a tuple, and the parameters; returns the cotangent
of each input, None for 0."""


@dataclass(frozen=True)
class StatedPullback:
    """The pullback of a function that is differentiated as a whole."""

    name: str
    pull: Pull
    statement: str
    """The pullback as a formula, for people."""
    convention: str = ""


STATED: Final[dict[str, StatedPullback]] = {}
"""The pullbacks of whole functions, by name; modules that make such values register them."""


def pullback(name: str, statement: str, convention: str = "") -> Callable[[Pull], Pull]:
    """Register the decorated function as the pullback of a name."""

    def register(pull: Pull) -> Pull:
        assert name not in STATED, f"there are two pullbacks {name}"
        STATED[name] = StatedPullback(name, pull, statement, convention)
        return pull

    return register


# -- what is differentiated ------------------------------------------------------------------------


class Variable:
    """Something that gradients are taken with respect to; while one is alive, names are stated."""

    __slots__ = ("__weakref__", "number")

    def __init__(self) -> None:
        global _has_been_used
        _has_been_used = True
        self.number = next(_numbers)
        live_variables.add(self.number)

    def __del__(self) -> None:
        live_variables.discard(self.number)

    def mark(self, value: UOp) -> UOp:
        """Return a value as that of the variable."""
        return ops.PULLBACK(value, arg=(VARIABLE, self.number))


_numbers: Final = itertools.count()
live_variables: Final[set[int]] = set()
"""The numbers of the variables that are alive."""
_has_been_used = False
"""Whether there was a variable, and so PULLBACK nodes."""


def is_recording() -> bool:
    """Return whether there is a variable, so that derivatives may be asked for."""
    return bool(live_variables)


def is_variable(node: UOp) -> bool:
    """Return whether a node is the value of a variable."""
    return node.op is ops.PULLBACK and bool(node.arg[0] == VARIABLE)


def differentiable_sources(node: UOp) -> tuple[UOp, ...]:
    """Return what the derivative of a node is passed on to: sources of a float type."""
    if node.op is ops.PULLBACK:
        if node.arg[0] == STOP:
            return ()
        sources = node.src if node.arg[0] == VARIABLE else node.src[1:]
    elif node.op in _PASSES_NOTHING:
        return ()
    else:
        sources = node.src
    return tuple([s for s in sources if s.dtype.is_float])


_PASSES_NOTHING: Final = frozenset({ops.TRUNC, ops.FLOOR, ops.CEIL, ops.ROUND, ops.BITCAST})


def depends_on_variable(root: UOp) -> bool:
    """Return whether a value has a derivative with respect to some variable."""
    known = _dependent.get(root)
    if known is not None:
        return known
    stack = [root]
    while stack:
        node = stack[-1]
        if _dependent.get(node) is not None:
            stack.pop()
            continue
        if is_variable(node):
            _dependent[node] = True
            stack.pop()
            continue
        sources = differentiable_sources(node)
        waiting = [s for s in sources if _dependent.get(s) is None]
        if waiting:
            stack += waiting
            continue
        _dependent[node] = any(_dependent.get(s) for s in sources)
        stack.pop()
    return bool(_dependent.get(root))


_dependent: Final[WeakKeys[UOp, bool]] = WeakKeys()


# -- making PULLBACK nodes -------------------------------------------------------------------------


def stated(name: str, value: UOp, *inputs: UOp, parameters: tuple[Any, ...] = ()) -> UOp:
    """Return a value whose pullback with respect to inputs is that of a name."""
    if not live_variables or not value.dtype.is_float or value.op is ops.CONST or value in inputs:
        return value
    return ops.PULLBACK(value, *inputs, arg=(name, *parameters))


def differentiated_as(value: UOp, alternative: Callable[[], UOp]) -> UOp:
    """Return a value that is differentiated as another expression of the same value is.

    The other expression is only built if derivatives may be asked for.
    """
    if not live_variables or not value.dtype.is_float:
        return value
    other = alternative()
    return value if other is value else ops.PULLBACK(value, other, arg=(EQUAL,))


def stopped(value: UOp) -> UOp:
    """Return a value whose derivative is 0."""
    if not live_variables or not depends_on_variable(value):
        return value
    return ops.PULLBACK(value, arg=(STOP,))


class Closure:
    """The pullback of one call of a function, as a Python function of its cotangents."""

    __slots__ = ("__weakref__", "number", "outputs", "pull")

    def __init__(self, outputs: int, pull: Callable[..., Sequence[UOp | None]]) -> None:
        self.number = next(_numbers)
        self.outputs = outputs
        self.pull = pull
        """Takes a list with the cotangent of each output, None for 0."""
        _closures[self.number] = self


_closures: Final[WeakValueDictionary[int, Closure]] = WeakValueDictionary()
_held: Final[WeakKeys[UOp, Closure]] = WeakKeys()
"""The closures of nodes, which live as long as the nodes."""


def closed_over(values: Sequence[UOp], inputs: Sequence[UOp], pull: Pull) -> list[UOp]:
    """Return the outputs of a function whose pullback is a Python function.

    It takes a list with the cotangent of each output, None for 0, and returns one for each input.
    """
    if not live_variables:
        return list(values)
    closure = Closure(len(values), pull)
    nodes = []
    for k, value in enumerate(values):
        node = ops.PULLBACK(value, *inputs, arg=(CLOSURE, closure.number, k))
        _held[node] = closure
        nodes.append(node)
    return nodes


def closure_of(node: UOp) -> Closure:
    """Return the Python pullback of a node."""
    return _closures[node.arg[1]]


# -- erasing them ----------------------------------------------------------------------------------


def erase_pullbacks(roots: Sequence[UOp], is_known: Callable[[UOp], bool]) -> list[UOp]:
    """Return nodes without the PULLBACK nodes below them; what is known is left as it is.

    Before   PULLBACK[("relu",)](max(x, 0), x) + 1
    After    max(x, 0) + 1
    """
    erased: dict[UOp, UOp] = {}
    for root in roots:
        stack = [root]
        while stack:
            node = stack[-1]
            if node in erased:
                stack.pop()
                continue
            if is_known(node):
                erased[node] = node
                continue
            sources = node.src[:1] if node.op is ops.PULLBACK else node.src
            waiting = [s for s in sources if s not in erased]
            if waiting:
                stack += waiting
                continue
            if node.op is ops.PULLBACK:
                erased[node] = erased[node.src[0]]
            else:
                erased[node] = _rebuilt(node, tuple([erased[s] for s in node.src]))
            stack.pop()
    return [erased[root] for root in roots]


def _rebuilt(node: UOp, sources: tuple[UOp, ...]) -> UOp:
    """Return a node on other sources, as it would have been built on them.

    A reshape of a reshape is one, and so are permutations: so the graph is the same as without
    recording, and so are its kernels.
    """
    if sources == node.src:
        return node
    if node.op is ops.PERMUTE:
        return tensor_nodes.permute(sources[0], node.arg)
    if node.op is ops.RESHAPE:
        return tensor_nodes.reshape(sources[0], sources[1:])
    return node.replace(sources)


def stated_value(node: UOp) -> UOp:
    """Return the value that PULLBACK nodes are about; another node as it is."""
    while node.op is ops.PULLBACK:
        node = node.src[0]
    return node


def has_pullbacks() -> bool:
    """Return whether there may be PULLBACK nodes in some graph."""
    return _has_been_used
