"""The architecture as data, and a checker that reads a source tree and lists what breaks it."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PACKAGE: Final = "porism"

LAYERS: Final = (
    ("__main__",),
    ("cli",),
    ("__init__",),  # the face of the package: what `import porism` gives
    ("onnx", "torch"),  # modules that users import by name
    ("nn", "optim", "frontends", "linalg", "fft", "simplifier", "doctor"),
    ("tensor",),
    ("viewer",),
    ("engine",),
    ("verification",),
    ("catalogue",),
    ("pipeline",),
    ("gradient", "schedule", "optimize", "lower", "backends", "prove"),
    ("rules",),
    ("rewrite", "evaluate"),
    ("ir",),
    ("base",),
)
"""From the top down. A layer imports only those below it; those in one row not each other."""

RANK: Final = {layer: rank for rank, row in enumerate(LAYERS) for layer in row}

ONLY_FOR: Final = {"viewer": ("cli", "simplifier", "tensor")}
"""Layers that only some of those above may import."""

LAZY: Final = ("prove",)
"""Layers that others import inside functions only, so that the compiler runs without them."""

ONLY_IN: Final = dict.fromkeys(("onnx", "torch", "functorch"), "frontends") | {
    "z3": "prove",
    "cuda": "engine",
}
"""Packages from outside that one layer alone imports."""

MOST_LINES: Final = 500
MOST_MODULES: Final = 16
"""Modules of a folder, without those of its subfolders."""
WIDEST_LINE: Final = 100

LONG_FILES: Final[Mapping[str, str]] = {
    "porism/ir/node.py": "the node type, and how nodes are interned"
}
"""Files with more lines that are still one concept: path in the package, and why."""

NAMED_FOR_NOTHING: Final = re.compile(
    r"(utils?|helpers?|common|misc|stuff|things|tools?|lib|shared|various|temp|tmp)"
    r"|(pm|do|new|old)_.*|.*2"
)


@dataclass(frozen=True)
class Import:
    """One import statement, of a module of the package or of one from outside."""

    name: str
    line: int
    lazy: bool
    """Whether it is inside a function."""
    typing: bool
    """Whether only the type checker sees it."""


@dataclass(frozen=True)
class Module:
    """A source file."""

    name: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def layer(self) -> str:
        return layer_of(self.name)


def layer_of(name: str) -> str:
    """The layer of a module of the package.

    >>> layer_of("porism.ir.node"), layer_of("porism")
    ('ir', '__init__')
    """
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def modules(source: Path) -> dict[str, Module]:
    """Every module below `source`, the folder that holds the package, by its name."""
    found = {}
    for path in sorted((source / PACKAGE).rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text(encoding="utf-8")
        found[name] = Module(name, path.relative_to(source), text, ast.parse(text))
    return found


def imports(module: Module, known: Iterable[str]) -> Iterator[Import]:
    """What a module imports, wherever in the file it does so."""
    known = frozenset(known)
    todo: list[tuple[ast.AST, bool, bool]] = [(module.tree, False, False)]
    while todo:
        node, lazy, typing = todo.pop()
        for name in _imported(node, module, known):
            yield Import(name, node.lineno if hasattr(node, "lineno") else 0, lazy, typing)
        lazy = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        guarded = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for part, value in ast.iter_fields(node):
            children = value if isinstance(value, list) else [value]
            inside = typing or (guarded and part == "body")
            todo.extend((child, lazy, inside) for child in children if isinstance(child, ast.AST))


def _imported(node: ast.AST, module: Module, known: frozenset[str]) -> list[str]:
    """The modules that one syntax node imports by itself."""
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=base, names=names, level=level):
            if level:
                is_package = module.path.name == "__init__.py"
                parts = module.name.split(".")
                parents = parts[: len(parts) - level + is_package]
                base = ".".join([*parents, *([base] if base else [])])
            base = base or ""
            full = [f"{base}.{alias.name}" for alias in names]
            return sorted({name if name in known else base for name in full})
        case ast.Call(
            func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__"),
            args=[ast.Constant(value=str(name)), *_],
        ):
            return [name]
    return []


def faults(source: Path, dependencies: Iterable[str]) -> list[str]:
    """Everything in the tree that breaks the architecture, as `path:line: what`."""
    tree = modules(source)
    outside = frozenset(dependencies)
    found: list[str] = []
    graph: dict[str, list[str]] = {}
    for module in tree.values():
        found += _file_faults(module)
        used = list(imports(module, tree))
        for each in used:
            fault = _import_fault(module, each, outside)
            if fault:
                found.append(f"{module.path}:{each.line}: {module.name} {fault}")
        # Circles matter while modules load: not for the type checker, not once a function runs.
        graph[module.name] = [
            each.name for each in used if each.name in tree and not each.typing and not each.lazy
        ]
    for cycle in cycles(graph):
        found.append(f"{tree[cycle[0]].path}:1: imports in a circle: " + " -> ".join(cycle))
    return found + _folder_faults([module.path for module in tree.values()])


def _folder_faults(paths: Iterable[Path]) -> list[str]:
    """Folders with too many modules, and modules of one name in several folders."""
    homes: dict[str, list[Path]] = {}
    folders: dict[Path, int] = {}
    for path in paths:
        if path.name != "__init__.py":
            homes.setdefault(path.name, []).append(path)
            folders[path.parent] = folders.get(path.parent, 0) + 1
    found = [
        f"{folder}: has {count} modules, over {MOST_MODULES}; is it one concept?"
        for folder, count in folders.items()
        if count > MOST_MODULES
    ]
    return found + [
        f"{same[1]}:1: has the name of {same[0]}" for same in homes.values() if len(same) > 1
    ]


def _import_fault(module: Module, used: Import, outside: frozenset[str]) -> str | None:
    top = used.name.partition(".")[0]
    if top != PACKAGE:
        if top in ONLY_IN and module.layer != ONLY_IN[top]:
            return f"imports {top}, which only {ONLY_IN[top]} may"
        if top in ONLY_IN or top in outside or top in sys.stdlib_module_names:
            return None
        return f"imports {top}, which is no dependency of the compiler"
    above, below = module.layer, layer_of(used.name)
    if above not in RANK:
        return None  # said once, for the file
    if below not in RANK:
        return f"imports {used.name}, which is in no layer"
    if above == below:
        return None
    if RANK[below] < RANK[above]:
        return f"imports {used.name} from the layer {below} above it"
    if RANK[below] == RANK[above]:
        return f"imports {used.name} from the layer {below} beside it"
    if above not in ONLY_FOR.get(below, (above,)):
        return f"imports {used.name}, which only {', '.join(ONLY_FOR[below])} may"
    if below in LAZY and not (used.lazy or used.typing):
        return f"imports {used.name} at its top level, not inside a function"
    return None


def _file_faults(module: Module) -> list[str]:
    found = []
    lines = module.text.splitlines()
    path = module.path
    if module.layer not in RANK:
        found.append(f"{path}:1: is in no layer; add {module.layer} to the layers")
    for part in path.with_suffix("").parts[1:]:
        if NAMED_FOR_NOTHING.fullmatch(part):
            found.append(f"{path}:1: the name {part} says nothing; name the concept")
    if not (ast.get_docstring(module.tree) or "").strip():
        found.append(f"{path}:1: has no docstring; open with the concept that lives here")
    if len(lines) > MOST_LINES and path.as_posix() not in LONG_FILES:
        found.append(f"{path}:1: has {len(lines)} lines, over {MOST_LINES}; is it one concept?")
    found += [
        f"{path}:{number}: has {len(line)} columns, over {WIDEST_LINE}"
        for number, line in enumerate(lines, 1)
        if len(line) > WIDEST_LINE
    ]
    return found


def cycles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """One closed path for each knot of the graph, found by a depth-first walk.

    >>> cycles({"a": ["b"], "b": ["c"], "c": ["b"]})
    [['b', 'c', 'b']]
    """
    found = []
    done: set[str] = set()
    for start in graph:
        if start in done:
            continue
        path = [start]
        todo = [(start, iter(graph[start]))]
        while todo:
            name, rest = todo[-1]
            following = next(rest, None)
            if following is None:
                todo.pop()
                path.pop()
                done.add(name)
            elif following in path:
                found.append([*path[path.index(following) :], following])
            elif following not in done:
                todo.append((following, iter(graph[following])))
                path.append(following)
    return found
