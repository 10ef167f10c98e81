"""The reference: every public function with its signature and its docstring, by topic."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import porism
from porism.tensor import namespace

TITLES: Final = {
    "": "Tensors and types", "api": "Array functions", "elementwise": "More elementwise functions",
    "network": "Neural networks", "movement": "Shapes, indices, sorting", "inspect": "Inspection",
    "autodiff": "Gradients", "jit": "Compiled functions", "statistics": "Statistics",
    "matrices": "Matrices", "search": "Search and sets", "standard": "Array API", "complex":
    "Complex numbers", "index": "Index arithmetic",
}  # fmt: skip


def topics() -> dict[str, list[str]]:
    """Return the public functions by the folder of their module.

    >>> "softmax" in topics()["network"]
    True
    """
    found: dict[str, list[str]] = {}
    for module, names in namespace.MODULES.items():
        folder = module.rpartition(".")[0]
        found.setdefault(folder, []).extend(n for n in names.split() if not n.startswith("_"))
    found.setdefault("inspect", []).append("view")
    found["index"] = ["simplify"]
    return {folder: sorted(names) for folder, names in found.items() if names}


def write(folder: Path) -> list[str]:
    """Write a page for each topic and an index; return their names."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = []
    lines = ["# Reference", "", "Every public function, from its docstring; each example is run."]
    for topic, names in topics().items():
        title = TITLES.get(topic, topic.replace("_", " ").capitalize() or "Tensors and types")
        file = f"{topic.replace('.', '_') or 'tensors'}_functions.md"
        (folder / file).write_text(page(title, names), encoding="utf-8")
        pages.append(file)
        lines += ["", f"## {title}", "", " · ".join(f"[{n}]({file}#{n.lower()})" for n in names)]
    (folder / "index.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return ["index.md", *pages]


def page(title: str, names: Iterable[str]) -> str:
    """Return the page of some functions in Markdown."""
    return "\n".join([f"# {title}", "", *(entry(name, public(name)) for name in names)])


def public(name: str) -> Any:
    """Return a public function; a package may have its name, too."""
    return namespace.find(name) if name in namespace.NAMES else getattr(porism, name)


def entry(name: str, value: Any) -> str:
    """Return the signature, the text and the examples of a function."""
    try:
        signature = str(inspect.signature(value)).replace("'", "")
    except (TypeError, ValueError):
        signature = ""
    head = [f"## {name} {{ #{name.lower()} }}", "", "```python", f"porism.{name}{signature}", "```"]
    return "\n".join([*head, "", docstring(inspect.getdoc(value) or ""), ""])


def docstring(text: str) -> str:
    """Return a docstring as Markdown, with its examples in fences.

    >>> docstring("Add.\\n\\n>>> 1 + 1\\n2").split("\\n")
    ['Add.', '', '```pycon', '>>> 1 + 1', '2', '```']
    """
    lines: list[str] = []
    inside = False
    for line in text.split("\n"):
        if line.startswith(">>> ") and not inside:
            lines += ["```pycon"]
            inside = True
        elif inside and not line.strip():
            lines += ["```"]
            inside = False
        lines.append(line)
    return "\n".join([*lines, *(["```"] if inside else [])])
