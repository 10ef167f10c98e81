"""Mutants: a function with one expression replaced, as code that takes the place of its own."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

from tools.mutate.conditions import Change

PROBE: Final = "__mutated__"
"""The name by which a mutant calls a function with the old and the new expression."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A function, and the expression of it that is replaced."""

    function: FunctionType
    name: str
    """The module without `porism.`, the function, and what becomes of which expression."""
    change: Change
    original: CodeType
    """The code of the function as it is written."""

    def code(self) -> CodeType:
        """The code of the function with the new expression."""
        return _compiled(self.function, self.change)


def mutants_of(
    function: FunctionType, kinds: Iterable[Callable[[ast.FunctionDef], Iterator[Change]]]
) -> Iterator[Mutant]:
    """The mutants of a function; two that read alike are told apart by a number."""
    tree = _definition(function)
    place = f"{function.__module__.removeprefix('porism.')}.{function.__qualname__}"
    seen: dict[str, int] = {}
    for kind in kinds:
        for change in kind(tree):
            old, new = ast.unparse(change.old), ast.unparse(change.new)
            if old == new:
                continue
            name = f"{place}: {old} -> {new}"
            seen[name] = seen.get(name, 0) + 1
            number = f" #{seen[name]}" if seen[name] > 1 else ""
            yield Mutant(function, name + number, change, function.__code__)


@cache
def _tree(file: str) -> ast.Module:
    return ast.parse(Path(file).read_text(encoding="utf-8"))


def _file(function: FunctionType) -> str:
    return inspect.getfile(function)


def _definition(function: FunctionType) -> ast.FunctionDef:
    """The definition of a function in its file."""
    first = function.__code__.co_firstlineno
    for node in ast.walk(_tree(_file(function))):
        if isinstance(node, ast.FunctionDef) and node.name == function.__name__:
            lines = [node.lineno, *(d.lineno for d in node.decorator_list)]
            if min(lines) == first:
                return node
    raise LookupError(f"no definition of {function.__qualname__} in {_file(function)}")


def _compiled(function: FunctionType, change: Change) -> CodeType:
    tree = _tree(_file(function))
    parent, field, place = _holder(_definition(function), change.old)
    _set(parent, field, place, _probed(change))
    try:
        ast.fix_missing_locations(tree)
        whole = compile(tree, _file(function), "exec", dont_inherit=True)
    finally:
        _set(parent, field, place, change.old)
    return next(c for c in _codes(whole) if _is_same(c, function.__code__))


def _probed(change: Change) -> ast.expr:
    """A call of the probe with both expressions, unevaluated."""
    nothing = ast.arguments([], [], None, [], [], None, [])
    both: list[ast.expr] = [ast.Lambda(nothing, change.old), ast.Lambda(nothing, change.new)]
    called = ast.Call(ast.Name(PROBE, ast.Load()), both, [])
    return ast.copy_location(called, change.old)


def _holder(root: ast.AST, wanted: ast.expr) -> tuple[ast.AST, str, int | None]:
    for node in ast.walk(root):
        for field, value in ast.iter_fields(node):
            if value is wanted:
                return node, field, None
            if isinstance(value, list):
                for place, each in enumerate(value):
                    if each is wanted:
                        return node, field, place
    raise LookupError(ast.unparse(wanted))


def _set(node: ast.AST, field: str, place: int | None, value: ast.expr) -> None:
    if place is None:
        setattr(node, field, value)
    else:
        getattr(node, field)[place] = value


def _codes(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes(each)


def _is_same(a: CodeType, b: CodeType) -> bool:
    return a.co_qualname == b.co_qualname and a.co_firstlineno == b.co_firstlineno


# -- which functions -------------------------------------------------------------------------------


def reached(start: Iterable[FunctionType], within: Callable[[str], bool]) -> list[FunctionType]:
    """The functions that some functions may call, by the names in them, in modules `within`."""
    found: dict[FunctionType, None] = {}
    waiting = list(start)
    while waiting:
        function = waiting.pop(0)
        home = sys.modules[function.__module__].__file__
        generated = function.__code__.co_filename != home  # by a dataclass, say
        if function in found or generated or function.__name__ == "<lambda>":
            continue
        if not within(function.__module__):
            continue
        found[function] = None
        for name in _names(function.__code__):
            if name in function.__globals__:
                waiting += functions_in(function.__globals__[name], within)
    return list(found)


def _names(code: CodeType) -> list[str]:
    nested = [name for each in _codes(code) for name in each.co_names]
    return list(dict.fromkeys([*code.co_names, *nested]))


def functions_in(value: Any, within: Callable[[str], bool]) -> list[FunctionType]:
    """The functions that a value is or holds: of a class its methods, of a table its entries."""
    if isinstance(value, ModuleType):
        return []
    plain = inspect.unwrap(value) if callable(value) else value
    if isinstance(plain, FunctionType):
        return [plain]
    if isinstance(plain, type):
        if not within(plain.__module__):
            return []
        members = [
            m.fget if isinstance(m, property) else getattr(m, "__func__", m)
            for m in vars(plain).values()
        ]
        return [m for m in members if isinstance(m, FunctionType) and within(m.__module__)]
    if isinstance(getattr(plain, "function", None), FunctionType):  # a procedure
        return [plain.function]
    if isinstance(plain, tuple | list):
        return [f for each in plain for f in functions_in(each, within)]
    if isinstance(plain, dict):
        return [f for each in plain.values() for f in functions_in(each, within)]
    return []
