"""What is loaded when: the first use loads what it needs, and tensors still have every method."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import porism
from porism.tensor import namespace
from tests.tiers import quick_if


def in_new_process(code: str, *arguments: str) -> str:
    """What a program prints."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_operators_and_properties_are_there_at_the_first_use() -> None:
    code = """if True:
        import porism
        from importlib import import_module
        from porism.tensor import namespace
        def special():
            attributes = vars(type(porism.ones(2))).items()
            return {n for n, v in attributes if n.startswith("__") or isinstance(v, property)}
        first = special()
        for module in namespace.MODULES:
            import_module(f"porism.tensor.{module}")
        print(len(first) > 40, sorted(special() - first))
    """
    assert in_new_process(code) == "True []"


def test_all_methods_are_in_the_modules_that_load_imports() -> None:
    code = """if True:
        from importlib import import_module
        from porism.tensor import namespace
        from porism.tensor.tensor import Tensor
        namespace.load()
        known = set(vars(Tensor))
        for module in namespace.MODULES:
            import_module(f"porism.tensor.{module}")
        print(len(known) > 150, sorted(set(vars(Tensor)) - known))
    """
    assert in_new_process(code) == "True []"


@pytest.mark.parametrize(
    "name",
    quick_if(lambda name: name == "conv2d", ["softmax", "conv2d", "sort", "tolist", "scatter_add"]),
)
def test_a_method_is_loaded_when_it_is_used(name: str) -> None:
    code = """if True:
        import sys, porism
        print(callable(getattr(porism.ones((2, 2)), sys.argv[1])))
    """
    assert in_new_process(code, name) == "True"


def test_what_is_no_method_is_refused() -> None:
    x = porism.ones(2)
    assert not hasattr(x, "sofmax")
    assert not hasattr(x, "__array_interface__")
    with pytest.raises(AttributeError, match="did you mean softmax"):
        x.sofmax  # noqa: B018
    assert {"softmax", "numpy", "sort", "conv2d"} <= set(dir(x))


def test_a_computation_from_disk_loads_no_compiler(tmp_path: Path) -> None:
    code = """if True:
        import sys, porism
        from porism.base.settings import settings
        with settings.override(cache=True, cache_dir=sys.argv[1], verify=0):
            assert (porism.asarray([1.0, 2.0]) * 3 + 1).tolist() == [4.0, 7.0]
        parts = ("pipeline", "lower", "optimize.strategy", "rules.index", "evaluate")
        print([part for part in parts if f"porism.{part}" in sys.modules])
    """
    folder = str(tmp_path / "cache")
    assert "pipeline" in in_new_process(code, folder)
    assert in_new_process(code, folder) == "[]"


def test_every_method_is_found_by_its_own_name_first() -> None:
    """`float` is a method of tensors and a name of a type: the first use must find the method."""
    namespace.load()
    methods = {name for name in dir(porism.Tensor) if not name.startswith("_")}
    assert {name for name in methods if namespace.method_name(name) != name} == set()
    code = "import porism; print(porism.arange(3).float().tolist())"
    assert in_new_process(code) == "[0.0, 1.0, 2.0]"
