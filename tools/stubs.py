"""Stubs: what type checkers and editors are told of `porism` and of the methods of tensors.

    ./dev stubs            write the two files below
    ./dev stubs --check    say whether they are in step

Names of `porism` are found at their first use, and methods of tensors are registered by the modules
of functions, so neither can be read from a source file. `porism/__init__.pyi` has the public
functions, classes and types; `tensor/annotations/tensor_methods.pyi` has the base class of
`Tensor`, with a method for each function that is registered. Both follow from the namespace and the
functions' own signatures. A parameter that a function declares as `Any`, since it converts it, gets
the type that `PARAMETERS` has for its name.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import inspect
import re
import sys
import textwrap
import typing
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import porism
from porism.optimize.actions.action_registry import ACTIONS
from porism.tensor import namespace
from porism.tensor.tensor import Tensor

SOURCE: Final = Path(porism.__file__).parent
PACKAGE: Final = SOURCE / "__init__.pyi"
METHODS: Final = SOURCE / "tensor" / "annotations" / "tensor_methods.pyi"
COMMAND: Final = "./dev stubs"

INHERITED: Final = frozenset(
    """
    __class__ __delattr__ __dir__ __doc__ __getattr__ __getattribute__ __getstate__ __hash__
    __init__ __init_subclass__ __module__ __new__ __reduce_ex__ __repr__ __setattr__ __sizeof__
    __slots__ __str__ __subclasshook__ __weakref__
    """.split()  # noqa: SIM905 - shorter than a list
)
"""What the class itself or `object` says of a tensor."""

OVERRIDDEN: Final = {"__eq__": "object", "__ne__": "object"}
"""Operators whose operand has another type in `object`."""

_SIZES = "int | Sequence[int]"
PARAMETERS: Final[dict[str, str]] = {
    **dict.fromkeys(
        """
        x x1 x2 weight bias index target src fill_value start stop step end condition min max value
        query key mask sorter weights pos_weight running_mean running_var indices obj data repeats
        tensors source other mean variance gradient tensor1 tensor2 mat1 mat2 boundaries bins xp fp
        q y default prepend append
        """.split(),  # noqa: SIM905 - shorter than a list
        "ArrayLike",
    ),
    **dict.fromkeys(("dtype", "type", "from_", "to"), "DTypeLike"),
    **dict.fromkeys(("shape", "sizes"), "ShapeLike"),
    **dict.fromkeys(("axis", "axes", "destination", "moveaxis.source"), "AxesLike"),
    **dict.fromkeys(("kernel_size", "stride", "padding", "dilation"), _SIZES),
    **dict.fromkeys(("shift", "split_size_or_sections", "repetitions"), _SIZES),
    **dict.fromkeys(("concat.arrays", "stack.arrays"), "Sequence[ArrayLike] | ArrayLike"),
    "arrays": "ArrayLike",
    "polyval.p": "ArrayLike",
    "indices_or_sections": _SIZES,
    "interpolate.size": _SIZES,
    "scale_factor": "float | Sequence[float]",
    "output_size": "int | Sequence[int | None]",
    "pad_width": "int | Sequence[int] | Sequence[Sequence[int]]",
    "tensordot.axes": "int | tuple[Sequence[int], Sequence[int]] | Sequence[Sequence[int]]",
    "device": "str",
    "from_dlpack.x": "DLPackLike",
    "getitem.key": "Any",
    "setitem.key": "Any",
    "realize.tensors": "Any",
    "finfo.type": "DTypeLike | ArrayLike",
    "iinfo.type": "DTypeLike | ArrayLike",
    "can_cast.from_": "DTypeLike | ArrayLike",
    "isdtype.kind": "DTypeLike | tuple[DTypeLike, ...]",
    "arrays_and_dtypes": "ArrayLike | DTypeLike",
}
"""The types of parameters that are declared as `Any`, by name, or by function and name."""

REIMPORTED: Final = (*namespace.WITHOUT_METHODS, "autodiff.")
"""Folders whose functions take functions: they are imported, with the types that they declare."""

_TYPES: Final = "porism.tensor.annotations.argument_types"

Imports = dict[str, str]
"""The statement that imports a name."""


def main() -> int:
    """Write the stubs, or check them."""
    written = pages()
    stale = [
        path for path, text in written.items() if not path.exists() or path.read_text() != text
    ]
    for path in stale:
        if "--check" in sys.argv:
            print(f"{path} is not in step with the functions: run {COMMAND}")
        else:
            path.write_text(written[path])
            print(f"wrote {path}")
    return 1 if stale and "--check" in sys.argv else 0


def pages() -> dict[Path, str]:
    """Return the text of each stub."""
    return {PACKAGE: package_stub(), METHODS: methods_stub()}


# -- the package -----------------------------------------------------------------------------------


def package_stub() -> str:
    """Return the stub of `porism`."""
    imports: Imports = {"Final": "from typing import Final"}
    synonyms = dict(sorted(_synonyms()))
    shadowed = frozenset((*namespace.NAMES, *namespace.SYNONYMS))
    functions = {name: function for name, function in _functions() if _is_plain(name, function)}
    others = [name for name in namespace.MODULE_OF if name not in functions]
    bodies = [_function(name, functions[name], imports, shadowed) for name in sorted(functions)]
    classes = [f"from {module} import {name} as {name}" for name, module in _classes(others)]
    for name in others:
        imports.pop(name, None)
    lines = [
        *_header("The public names of `porism`."),
        "import builtins",
        *sorted(set(imports.values())),
        "",
        *(f"from {path} import {name} as {name}" for path, name in _subpackages()),
        *sorted(classes),
        "",
        "__version__: Final[str]",
        "__all__: Final[list[str]]",
        *(f"{name}: Final[builtins.{_kind(v)}]" for name, v in namespace.CONSTANTS.items() if v),
        "newaxis: Final[None]",
        *(f"{name}: Final[dtype]" for name in sorted(_type_names())),
        "",
        *bodies,
        "",
        *(f"{name} = {ours}" for name, ours in synonyms.items()),
    ]
    return "\n".join(lines) + "\n"


def _subpackages() -> Iterator[tuple[str, str]]:
    """Yield the packages that hold the public subpackages, and their names."""
    for name, path in vars(porism)["SUBPACKAGES"].items():
        yield path.removesuffix(f".{name}"), name


def _functions() -> Iterator[tuple[str, Any]]:
    """Yield the public functions and classes that work on tensors."""
    for name, module in namespace.MODULE_OF.items():
        yield name, getattr(import_module(f"porism.tensor.{module}"), name)


def _is_plain(name: str, function: Any) -> bool:
    """Whether the stub of a function is made of its signature."""
    if not inspect.isfunction(function) or typing.get_overloads(function):
        return False
    is_context = function.__code__.co_filename == contextlib.__file__
    return not is_context and not namespace.MODULE_OF[name].startswith(REIMPORTED)


def _classes(names: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the names that are imported, with their modules."""
    yield from vars(porism)["FUNCTIONS"].items()
    for name, action in ACTIONS.items():
        yield name, action.__module__
    for name in names:
        yield name, f"porism.tensor.{namespace.MODULE_OF[name]}"


def _kind(value: Any) -> str:
    return type(value).__name__


def _type_names() -> set[str]:
    """Return the names of types, also those of other libraries."""
    synonyms = {name for name, ours in namespace.SYNONYMS.items() if ours in namespace.DTYPES}
    return {*namespace.DTYPES, *synonyms}


def _synonyms() -> Iterator[tuple[str, str]]:
    """Yield the names of functions in other libraries, with ours."""
    for name, ours in namespace.SYNONYMS.items():
        if ours in namespace.MODULE_OF:
            yield name, ours


# -- methods of tensors ----------------------------------------------------------------------------


def methods_stub() -> str:
    """Return the stub of the base class of `Tensor`, with the methods that modules register."""
    for module in (*namespace.MODULES, *namespace.WITH_OPERATORS):
        import_module(f"porism.tensor.{module}")
    own = _class_body_names()
    members = {
        name: member
        for name, member in sorted(vars(Tensor).items())
        if (isinstance(member, property) or inspect.isroutine(member))
        and not (name in own or name in INHERITED or _is_private(name))
    }
    for name, ours in sorted(namespace.SYNONYMS.items()):
        if ours in members and name not in members and name not in own:
            members[name] = members[ours]
    imports: Imports = {"Tensor": "from porism.tensor.tensor import Tensor"}
    shadowed = frozenset(members) | own
    bodies = [_member(name, member, imports, shadowed) for name, member in members.items()]
    lines = [
        *_header("The methods of tensors that modules of functions register."),
        "import builtins",
        *sorted(set(imports.values())),
        "",
        "class TensorMethods:",
        *(textwrap.indent(body, "    ") for body in bodies),
    ]
    return "\n".join(lines) + "\n"


def _class_body_names() -> frozenset[str]:
    """Return the names that the class `Tensor` defines in its source."""
    (tree,) = (
        node
        for node in ast.parse(inspect.getsource(sys.modules[Tensor.__module__])).body
        if isinstance(node, ast.ClassDef) and node.name == "Tensor"
    )
    functions = (node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return frozenset(functions)


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("_")


def _member(name: str, member: Any, imports: Imports, shadowed: frozenset[str]) -> str:
    """Return the stub of a method or a property."""
    if isinstance(member, property):
        assert member.fget is not None
        result = _annotation(member.fget, "return", imports, shadowed)
        text = f"@property\n{_method(name, member.fget, imports, shadowed)}"
        if member.fset is not None:
            text += f"\n@{name}.setter\ndef {name}(self, value: {result}) -> None: ..."
        return text
    return _method(name, member, imports, shadowed)


def _method(name: str, member: Any, imports: Imports, shadowed: frozenset[str]) -> str:
    """Return the stub of a method that is made of a function."""
    function: Any = inspect.unwrap(member)
    if function.__name__ == "<lambda>":  # the reflected form of an operator
        imports["ArrayLike"] = f"from {_TYPES} import ArrayLike"
        return f"def {name}(self, other: ArrayLike, /) -> Tensor: ..."
    return _function(name, function, imports, shadowed, is_method=True)


def _function(
    name: str, member: Any, imports: Imports, shadowed: frozenset[str], *, is_method: bool = False
) -> str:
    """Return the stub of a function; the first parameter of a method is the tensor."""
    function: Any = inspect.unwrap(member)
    parameters = list(inspect.signature(function).parameters.values())
    parts: list[str] = []
    for k, parameter in enumerate(parameters):
        if k and parameters[k - 1].kind is parameter.POSITIONAL_ONLY is not parameter.kind:
            parts.append("/")
        if parameter.kind is parameter.KEYWORD_ONLY and not _has_star(parts):
            parts.append("*")
        if is_method and k == 0:
            parts.append("self")
        else:
            parts.append(_parameter(name, function, parameter, imports, shadowed))
    if parameters and parameters[-1].kind is inspect.Parameter.POSITIONAL_ONLY:
        parts.append("/")
    result = "Tensor" if name in OVERRIDDEN else _annotation(function, "return", imports, shadowed)
    ignored = "  # type: ignore[override]" if name in OVERRIDDEN else ""
    head = f"def {name}({', '.join(parts)}) -> {result}:"
    summary = (inspect.getdoc(function) or "").splitlines()
    if name.startswith("_") or not summary:
        return f"{head} ...{ignored}"
    return f'{head}{ignored}\n    """{summary[0]}"""'


def _has_star(parts: list[str]) -> bool:
    return any(part.startswith("*") and not part.startswith("**") for part in parts)


def _parameter(
    name: str,
    function: Callable[..., Any],
    parameter: inspect.Parameter,
    imports: Imports,
    shadowed: frozenset[str],
) -> str:
    """Return a parameter with its type and default."""
    stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "")
    kind = OVERRIDDEN.get(name) or _annotation(function, parameter.name, imports, shadowed)
    if kind == "Any":
        kind = _type_of_parameter(function.__name__, parameter, imports, shadowed)
    text = f"{stars}{parameter.name}: {kind}"
    if parameter.default is parameter.empty:
        return text
    simple = parameter.default is None or type(parameter.default) in (bool, int, str)
    return f"{text} = {parameter.default!r}" if simple else f"{text} = ..."


def _type_of_parameter(
    function: str, parameter: inspect.Parameter, imports: Imports, shadowed: frozenset[str]
) -> str:
    """Return the type of a parameter that is declared as `Any`."""
    found = PARAMETERS.get(f"{function}.{parameter.name}", PARAMETERS.get(parameter.name, "Any"))
    for name in ("ArrayLike", "DTypeLike", "ShapeLike", "AxesLike", "DLPackLike"):
        if name in found.split(" | ") or f"[{name}" in found:
            found = _renamed(found, name, _imported(name, f"from {_TYPES} import {name}", imports))
    if "Sequence" in found:
        imports["Sequence"] = "from collections.abc import Sequence"
    for name in ("int", "str", "float", "tuple"):
        found = _renamed(found, name, f"builtins.{name}") if name in shadowed else found
    optional = parameter.default is None and found not in ("Any", "AxesLike")
    return f"{found} | None" if optional else found


def _renamed(text: str, name: str, other: str) -> str:
    """Return a type with another name for a part of it."""
    return text if name == other else re.sub(rf"\b{name}\b", other, text)


# -- annotations -----------------------------------------------------------------------------------


def _annotation(
    function: Callable[..., Any], name: str, imports: Imports, shadowed: frozenset[str]
) -> str:
    """Return an annotation of a function as text, and note the imports that it needs."""
    text = str(function.__annotations__[name])
    tree = ast.parse(text, mode="eval")
    known = _names_of_module(function.__module__)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Name):
            continue
        if node.id in known:
            node.id = _imported(node.id, known[node.id], imports)
        else:
            assert hasattr(builtins, node.id), f"{node.id} in {function.__module__} is unknown"
            if node.id in shadowed:
                node.id = f"builtins.{node.id}"
    return ast.unparse(tree)


def _imported(name: str, statement: str, imports: Imports) -> str:
    """Note the import of a name; return the name that it gets, another one if it is taken."""
    if imports.setdefault(name, statement) == statement:
        return name
    module = statement.split()[1].rpartition(".")[2]
    other = f"{name}_of_{module}"
    imports[other] = f"{statement} as {other}"
    return other


@cache
def _names_of_module(module: str) -> Imports:
    """Return the statement that imports each name of a module into another one."""
    tree = ast.parse(inspect.getsource(import_module(module)))
    names: Imports = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            for item in node.names:
                own = item.asname or item.name
                renamed = f" as {own}" if item.asname else ""
                names[own] = f"from {node.module} import {item.name}{renamed}"
        elif isinstance(node, ast.Import):
            for item in node.names:
                if item.asname:
                    names[item.asname] = f"import {item.name} as {item.asname}"
    for node in tree.body:
        own = ""
        if isinstance(node, ast.ClassDef):
            own = node.name
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            own = node.targets[0].id
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            own = node.target.id
        if own and own not in names:
            names[own] = f"from {module} import {own}"
    return names


def _header(summary: str) -> list[str]:
    return [f'"""{summary} Generated by `{COMMAND}`: do not edit."""', ""]


if __name__ == "__main__":
    sys.exit(main())
