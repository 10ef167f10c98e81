"""The house keeps its own rules; and a house that breaks them is told so."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.architecture.layers import LAYERS, LONG_FILES, faults, modules
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"


def dependencies(extra: str | None = None) -> list[str]:
    """What the compiler itself depends on, or what an extra adds, by import name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    rows = project["dependencies"] if extra is None else project["optional-dependencies"][extra]
    names = [re.match(r"[\w.-]+", row) for row in rows]
    return [name[0].replace("-", "_") for name in names if name]


@pytest.mark.slow
def test_the_tree_keeps_the_architecture() -> None:
    found = faults(SOURCE, dependencies())
    assert not found, "\n".join(found)


def test_files_over_the_limit_still_exist() -> None:
    assert all((SOURCE / path).is_file() for path in LONG_FILES)


def test_layers_are_named_once() -> None:
    names = [name for row in LAYERS for name in row]
    assert len(names) == len(set(names))


@pytest.mark.slow
def test_the_compiler_imports_without_the_development_extras() -> None:
    forbidden = {"z3", "hypothesis", "pytest", "torch", "tinygrad", *dependencies("dev")}
    names = [
        name
        for name, module in modules(SOURCE).items()
        if module.layer not in ("prove", "__main__")
        and not name.startswith("porism.frontends.torch.")  # imported when torch asks for it
    ]
    program = f"""
import importlib, importlib.abc, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {forbidden!r}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
for name in {names!r}:
    importlib.import_module(name)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr


DOCSTRING = '"""A concept."""\n'


def grow(source: Path, files: dict[str, str], *, docstring: str = DOCSTRING) -> Path:
    """Write a package with these files, each of them opening with a docstring."""
    for name, text in {"__init__.py": "", **files}.items():
        path = source / "porism" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(docstring + text, encoding="utf-8")
    return source


def test_a_sound_tree_has_no_faults(tmp_path: Path) -> None:
    grow(
        tmp_path,
        {
            "cli.py": "def prove() -> None:\n    import porism.prove.rule_proof\n",
            "prove/rule_proof.py": "import z3\nfrom porism.ir import node\n",
            "ir/__init__.py": "",
            "ir/node.py": "import numpy as np\nfrom porism.base.errors import PorismError\n",
            "ir/ops.py": "from typing import TYPE_CHECKING\n"
            "from porism.ir import node\n"
            "if TYPE_CHECKING:\n    from porism.ir import traversal\n",
            "ir/text/serialization.py": "import porism.ir.ops\n",
            "ir/traversal.py": "import porism.ir.text.outline\n",
            "ir/text/outline.py": "def show() -> None:\n    from porism.ir import traversal\n",
            "base/errors.py": "import sys\n",
        },
    )
    assert faults(tmp_path, ["numpy"]) == []


BROKEN = {
    "upward": (
        {
            "ir/node.py": "from porism.rules.algebra.divmod import X\n",
            "rules/algebra/divmod.py": "X = 1\n",
        },
        "porism.ir.node imports porism.rules.algebra.divmod from the layer rules above it",
    ),
    "upward, inside a function": (
        {"base/a.py": "def f() -> None:\n    from porism.ir import b\n", "ir/b.py": ""},
        "porism.base.a imports porism.ir.b from the layer ir above it",
    ),
    "upward, by name": (
        {"base/a.py": "import importlib\nimportlib.import_module('porism.ir.b')\n", "ir/b.py": ""},
        "porism.base.a imports porism.ir.b from the layer ir above it",
    ),
    "upward, relative": (
        {"base/a.py": "from ..ir import b\n", "ir/b.py": ""},
        "porism.base.a imports porism.ir.b from the layer ir above it",
    ),
    "upward, for types alone": (
        {
            "base/a.py": "from typing import TYPE_CHECKING\n"
            "if TYPE_CHECKING:\n    import porism.ir.b\n",
            "ir/b.py": "",
        },
        "porism.base.a imports porism.ir.b from the layer ir above it",
    ),
    "upward, to the face": (
        {"base/a.py": "from porism import __version__\n"},
        "porism.base.a imports porism from the layer __init__ above it",
    ),
    "sideways": (
        {"schedule/a.py": "import porism.lower.b\n", "lower/b.py": ""},
        "porism.schedule.a imports porism.lower.b from the layer lower beside it",
    ),
    "no layer": (
        {"wizardry/a.py": ""},
        "is in no layer; add wizardry to the layers",
    ),
    "to no layer": (
        {"ir/a.py": "import porism.wizardry\n"},
        "porism.ir.a imports porism.wizardry, which is in no layer",
    ),
    "viewer": (
        {"__init__.py": "from porism.viewer import page\n", "viewer/page.py": ""},
        "porism imports porism.viewer.page, which only cli, simplifier, tensor may",
    ),
    "eager prove": (
        {"pipeline.py": "from porism.prove import rule_proof\n", "prove/rule_proof.py": ""},
        "porism.pipeline imports porism.prove.rule_proof at its top level, not inside a function",
    ),
    "cycle": (
        {"ir/a.py": "import porism.ir.b\n", "ir/b.py": "from porism.ir import a\n"},
        "imports in a circle: porism.ir.a -> porism.ir.b -> porism.ir.a",
    ),
    "cycle through the package": (
        {"ir/__init__.py": "from porism.ir.a import X\n", "ir/a.py": "from porism.ir import Y\n"},
        "imports in a circle: porism.ir -> porism.ir.a -> porism.ir",
    ),
    "solver": (
        {"rules/a.py": "def f() -> None:\n    import z3\n"},
        "porism.rules.a imports z3, which only prove may",
    ),
    "test library": (
        {"prove/a.py": "import hypothesis.strategies as st\n"},
        "porism.prove.a imports hypothesis, which is no dependency of the compiler",
    ),
    "other compiler": (
        {"ir/a.py": "from tinygrad import Tensor\n"},
        "porism.ir.a imports tinygrad, which is no dependency of the compiler",
    ),
    "utils": ({"ir/utils.py": ""}, "the name utils says nothing"),
    "helpers": ({"ir/helpers/a.py": ""}, "the name helpers says nothing"),
    "second try": ({"ir/node2.py": ""}, "the name node2 says nothing"),
    "prefix": ({"rules/pm_divmod.py": ""}, "the name pm_divmod says nothing"),
    "crowded folder": (
        {f"ir/{c}.py": "" for c in "abcdefghijklmnopq"},
        "ir: has 17 modules, over 16",
    ),
    "one name twice": (
        {"ir/a.py": "", "base/a.py": ""},
        "porism/ir/a.py:1: has the name of porism",
    ),
    "long": ({"ir/a.py": "x = 1\n" * 500}, "has 501 lines, over 500"),
    "wide": ({"ir/a.py": "x = " + "1" * 97 + "\n"}, "a.py:2: has 101 columns, over 100"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_tree_is_told_so(tmp_path: Path, case: str) -> None:
    files, message = BROKEN[case]
    found = faults(grow(tmp_path, files), ["numpy"])
    assert len(found) == 1
    assert message in found[0]


def test_a_module_without_a_docstring_is_told_so(tmp_path: Path) -> None:
    found = faults(grow(tmp_path, {}, docstring=""), [])
    assert found == [
        "porism/__init__.py:1: has no docstring; open with the concept that lives here"
    ]
