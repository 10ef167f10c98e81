"""Tensor origins: the line of the user's program, and the modules, that made each tensor.

Nodes of a tensor graph are rewritten on their way to kernels: buffers become parameters, constants
are computed ahead, PULLBACK nodes are replaced by their first sources. So a node is found again by
its structure down to the leaves, or if there is no such node by its structure near the root; equal
structures are matched in order.
"""

from __future__ import annotations

import linecache
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final
from weakref import WeakKeyDictionary

from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import toposort

OTHERS: Final = (
    str(Path(__file__).resolve().parents[1]),
    *dict.fromkeys(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib")),
    "<frozen",
)
"""The files of Porism, of Python and of installed packages begin with one of these."""

LEAVES: Final = frozenset({ops.PARAM, ops.BUFFER, ops.CONST})
NEAR: Final = 4
"""Levels of a graph that a structure near the root has."""
MAX_NODES: Final = 200_000
"""Nodes that are recorded; those of a longer program have no origin."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a tensor was made."""

    file: str
    line: int
    function: str
    """The user's function."""
    path: tuple[str, ...]
    """The modules whose `forward` was running, the outermost first; without modules the functions
    that led to the line, with their lines."""

    @property
    def text(self) -> str:
        """The line of the source text."""
        return linecache.getline(self.file, self.line).strip()


class Origins:
    """The origins of nodes, recorded as tensors are made.

    Nodes are not kept alive: a value that is computed again must not be found in memory.
    """

    def __init__(self) -> None:
        self.deep = _Structures(None)
        self.near = _Structures(NEAR)
        self.by_deep: dict[int, list[Origin]] = {}
        self.by_near: dict[int, list[Origin]] = {}
        self.recorded = 0
        self._names: dict[tuple[int, int], str] = {}
        self._alive: list[object] = []  # modules, whose identities are keys

    def record(self, node: UOp) -> None:
        """Note where a node is made."""
        if node.op in LEAVES or self.recorded >= MAX_NODES:
            return
        origin = self.here()
        if origin is not None:
            self.recorded += 1
            for index, key in ((self.by_deep, self.deep(node)), (self.by_near, self.near(node))):
                known = index.setdefault(key, [])
                if origin not in known:
                    known.append(origin)

    def here(self) -> Origin | None:
        """Return the line and the modules of the program that are running."""
        frame: FrameType | None = sys._getframe(2)
        user: FrameType | None = None
        modules: list[Any] = []
        calls: list[str] = []
        while frame is not None:
            if not frame.f_code.co_filename.startswith(OTHERS):
                user = user or frame
                calls.append(f"{frame.f_code.co_name}:{frame.f_lineno}")
            if frame.f_code.co_name == "forward" and "self" in frame.f_code.co_varnames:
                module = frame.f_locals.get("self")
                if module is not None:
                    modules.append(module)
            frame = frame.f_back
        if user is None:
            return None
        path = tuple(self._path(modules[::-1]) if modules else calls[-2:0:-1])
        return Origin(user.f_code.co_filename, user.f_lineno, user.f_code.co_name, path)

    def _path(self, modules: Iterable[Any]) -> Iterable[str]:
        """Return the name of each module in the one around it."""
        parent: Any = None
        for module in modules:
            key = (id(parent), id(module))
            if key not in self._names:
                self._names[key] = _name_in(parent, module)
                self._alive += [parent, module]
            yield self._names[key]
            parent = module

    def of_graph(self, graph: UOp) -> Mapping[UOp, Origin]:
        """Return the origins of the nodes of a graph that was made of the recorded ones."""
        recorded = [(self.deep, self.by_deep), (self.near, self.by_near)]
        taken = [dict.fromkeys(index, 0) for _, index in recorded]
        found: dict[UOp, Origin] = {}
        for node in toposort(graph):
            if node.op in LEAVES:
                continue
            for (structures, index), used in zip(recorded, taken, strict=True):
                key = structures(node)
                origins = index.get(key)
                if origins:
                    found[node] = origins[min(used[key], len(origins) - 1)]
                    used[key] += 1
                    break
        for node in reversed(toposort(graph)):  # what an operation is made of has its origin
            if node in found:
                for source in node.src:
                    if source.op not in LEAVES:
                        found.setdefault(source, found[node])
        return found


def _name_in(parent: Any, module: Any) -> str:
    """Return the attribute of a module that holds another, or the name of its class."""
    for name, value in vars(parent).items() if hasattr(parent, "__dict__") else ():
        if value is module:
            return str(name)
        if isinstance(value, list | tuple) and any(item is module for item in value):
            return f"{name}[{next(k for k, item in enumerate(value) if item is module)}]"
    return type(module).__name__


class _Structures:
    """Hashes of nodes by op, argument, type and sources; all leaves of one type are alike."""

    def __init__(self, depth: int | None) -> None:
        self.depth = depth
        self.known: WeakKeyDictionary[UOp, dict[int, int]] = WeakKeyDictionary()

    def __call__(self, node: UOp) -> int:
        if self.depth is not None:
            return self._near(node, self.depth)
        for each in toposort(node, within=lambda n: n not in self.known):
            if each not in self.known:
                below = [self.known[s][0] for s in each.src]
                is_first = each.op is ops.PULLBACK  # which is the value of its first source
                self.known[each] = {0: below[0] if is_first else self._hash(each, below)}
        return self.known[node][0]

    def _near(self, node: UOp, depth: int) -> int:
        while node.op is ops.PULLBACK:
            node = node.src[0]
        known = self.known.setdefault(node, {})
        if depth not in known:
            sources = [self._near(s, depth - 1) for s in node.src] if depth else []
            known[depth] = self._hash(node, sources)
        return known[depth]

    def _hash(self, node: UOp, sources: list[int]) -> int:
        if node.op in LEAVES:
            return hash(("leaf", node.dtype.name))
        return hash((node.op.name, node.dtype.name, str(node.arg), *sources))
