"""Completions: what an editor offers for `porism.` and for tensors, as jedi finds it.

    pip install jedi; python tools/completions.py

Prints what is missing and what is too much; the exit status is 1 if there is any of it. jedi is no
dependency of the project: any environment with jedi and NumPy will do.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "src"))

import jedi  # type: ignore[import-not-found] # noqa: E402

import porism  # noqa: E402
from porism.tensor import namespace  # noqa: E402

SNIPPETS: Final = {
    "porism.": "import porism\nporism.",
    "tensor": "import porism\nx = porism.zeros(2)\nx.",
    "result of an operator": "import porism\nx = porism.zeros(2) + 1\nx.",
    "result of a method": "import porism\nx = porism.zeros(2).softmax().sum()\nx.",
    "argument": "from porism import Tensor\ndef f(x: Tensor):\n    x.",
    "dtype": "import porism\nporism.float32.",
}
"""Code at whose end an editor is asked."""

SIGNATURES: Final = ("porism.softmax(", "porism.zeros(2).sum(", "porism.from_dlpack(")


def main() -> int:
    """Ask for completions, and compare them with the namespace."""
    namespace.load()
    methods = {name for name in dir(porism.Tensor) if not name.startswith("_")}
    types = {"name", "kind", "itemsize", "numpy"}
    public = {name for name in namespace.NAMES if not name.startswith("_")}
    expected = {"porism.": public, "dtype": types}
    project = jedi.Project(ROOT, added_sys_path=[str(ROOT / "src")])
    faults = 0
    for what, code in SNIPPETS.items():
        start = time.perf_counter()
        found = {
            c.name
            for c in jedi.Script(code, project=project).complete()
            if not c.name.startswith("_")
        }
        missing = sorted(expected.get(what, methods) - found)
        faults += len(missing)
        seconds = time.perf_counter() - start
        print(
            f"{what}: {len(found)} names in {seconds:.1f} s; missing {len(missing)} {missing[:9]}"
        )
    for code in SIGNATURES:
        script = jedi.Script(f"import porism\n{code}", project=project)
        shown = [signature.to_string() for signature in script.get_signatures()]
        faults += not shown
        print(f"{code} {shown}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
