"""The proof record: how each rule was established when it was last proved, and an example of it.

The solver is a development dependency, and the examples of procedures are part of the tests, so
the results of proving are recorded in `established.json`, by `./dev prove --record`. Each entry
holds a digest of the declaration that was proved: a rule that has changed since has another
digest, and counts as not recorded.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Final

from porism.base.dtypes import scalars
from porism.base.errors import PorismError
from porism.ir.text.structural_digest import digest as digest_of
from porism.rewrite.rule import Rewrite, Rule

FILE = Path(__file__).with_name("established.json")

HOW_TO_UPDATE: Final = "run './dev prove --record'"


@dataclass(frozen=True, slots=True)
class Entry:
    """What is recorded of a rule or procedure."""

    digest: str
    """Of the declaration that was proved, as `digest` computes it."""
    established: str
    """Either "proved" or "evaluated"."""
    example: str = ""
    """A graph on which the rule fires and the result, as a line of text."""
    examples: str = ""
    """Of a procedure, a digest of the source text of the examples that it was tried on."""


def entries() -> Mapping[str, Entry]:
    """Return the record by the names of rules; empty if there is no file."""
    return _read(FILE)


@cache
def _read(file: Path) -> Mapping[str, Entry]:
    try:
        rows = json.loads(file.read_text(encoding="utf-8"))
        return {name: Entry(**row) for name, row in rows.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise PorismError(
            "the record of proofs cannot be read",
            where=str(file),
            why=str(error),
            fix=f"remove the file, and {HOW_TO_UPDATE}",
        ) from None


def current_entry(item: Rewrite) -> Entry | None:
    """Return the entry of a rule as it is declared now; None if it is new or has changed."""
    entry = entries().get(item.name)
    return entry if entry is not None and entry.digest == digest(item) else None


def write(record: Mapping[str, Entry]) -> None:
    """Replace the record: a line for each rule, sorted by name, without empty fields."""
    rows = [
        (name, {field: text for field, text in asdict(entry).items() if text})
        for name, entry in sorted(record.items())
    ]
    lines = [f" {json.dumps(name)}: {json.dumps(row, ensure_ascii=False)}" for name, row in rows]
    try:
        FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    except OSError as error:
        raise PorismError(
            "the record of proofs cannot be written",
            where=str(FILE),
            why=error.strerror or str(error),
            fix="record in a checkout of the sources",
        ) from None
    _read.cache_clear()


# -- digests of declarations -----------------------------------------------------------------------


def digest(item: Rewrite) -> str:
    """Return a digest of all that a rule states, the same in every process.

    A rule is proved in all types of its theories, so the names of these types are included. For a
    procedure the source text of its function is included, with all that it uses in the same file;
    where the source is not installed, no recorded digest matches.
    """
    parts = [item.name, *sorted(theory.value for theory in item.theories), item.fast_math]
    if isinstance(item, Rule):
        for term in (item.before, item.after, item.when):
            parts.append("" if term is None else digest_of(term).hex())
        types = [t.name for t in scalars() if t.theory in item.theories]
        parts += [str(item.lemma), str(item.grows), *types]
    else:
        parts += source_texts(item.function.__module__, item.function.__name__)
    return digest_of_texts(parts)


def digest_of_texts(texts: Iterable[str]) -> str:
    """Return a digest of some texts in order, as 24 hexadecimal digits."""
    return hashlib.blake2b("\0".join(texts).encode(), digest_size=12).hexdigest()


@cache
def source_texts(module: str, name: str) -> tuple[str, ...]:
    """Return the text of a top-level definition, and of all it uses in its module, by name."""
    known = top_level_definitions(module)
    texts: dict[str, str] = {}
    pending = [name]
    while pending:
        used = pending.pop()
        if used in known and used not in texts:
            texts[used], names = known[used]
            pending += names
    return tuple(texts[used] for used in sorted(texts))


@cache
def top_level_definitions(module: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Map each name that a module defines at its top level to its text and the names used there."""
    source = importlib.import_module(module).__file__
    if source is None or not Path(source).is_file():
        return {}
    text = Path(source).read_text(encoding="utf-8")
    lines = text.splitlines()
    definitions: dict[str, tuple[str, tuple[str, ...]]] = {}
    for node in ast.parse(text).body:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        body = "\n".join(lines[first - 1 : node.end_lineno])
        names = tuple(n.id for n in ast.walk(node) if isinstance(n, ast.Name))
        for name in _names_defined_by(node):
            definitions[name] = (body, names)
    return definitions


def _names_defined_by(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
    return []
