"""The stubs for type checkers and editors are in step with the functions."""

from __future__ import annotations

import builtins

import porism
from porism.tensor import namespace
from porism.tensor.tensor import Tensor
from tools import stubs


def test_the_stubs_are_in_step() -> None:
    for path, text in (
        (stubs.PACKAGE, stubs.package_stub()),
        (stubs.METHODS, stubs.methods_stub()),
    ):
        assert path.read_text() == text, (
            f"{path.name} does not have the functions, methods or signatures that there are now: "
            f"run `{stubs.COMMAND}`, and commit what it writes"
        )


def test_every_public_name_is_in_the_stub() -> None:
    text = stubs.PACKAGE.read_text()
    for name in (*namespace.NAMES, *namespace.SYNONYMS):
        spellings = (f"def {name}(", f" as {name}\n", f"\n{name}: ", f"\n{name} = ")
        assert any(spelling in text for spelling in spellings), name


def test_every_method_is_in_the_stub() -> None:
    namespace.load()
    text = stubs.METHODS.read_text()
    own = set(vars(Tensor))
    for name in sorted(own - stubs._class_body_names()):
        if not name.startswith("_"):
            assert f"    def {name}(self" in text, name


def test_the_directory_is_clean() -> None:
    names = set(dir(porism))
    public = {*namespace.NAMES, *vars(porism)["FUNCTIONS"], *vars(porism)["SUBPACKAGES"]}
    assert public <= names
    assert all(name.startswith("__") for name in names - public)
    assert porism.__array_namespace_info__().capabilities()
    for internal in ("annotations", "Any", "Final", "import_module", "FUNCTIONS", "base"):
        assert internal not in names


def test_a_star_imports_public_names() -> None:
    scope: dict[str, object] = {}
    exec("from porism import *", scope)
    names = scope.keys() - {"__builtins__"}
    assert {"Tensor", "asarray", "float32", "softmax", "jit", "pi", "simplify", "nn"} <= names
    assert not {name for name in names if hasattr(builtins, name) or name.startswith("_")}
    assert sorted(names) == porism.__all__
