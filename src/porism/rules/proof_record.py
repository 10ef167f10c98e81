"""The record: how each rule was established when it was last proved, and in how many seconds.

The solver is a development dependency, so what it has shown is kept in `established.json`, written
by `./dev prove --record`. Each entry has a digest of what was proved. A rule that has changed since
has another digest, and counts as not recorded.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from porism.base.dtypes import scalars
from porism.base.errors import PorismError
from porism.ir.text.structural_digest import digest as digest_of
from porism.rewrite.rule import Procedure, Rewrite, Rule
from porism.rules.examples import procedure_examples

FILE = Path(__file__).with_name("established.json")

MEND: Final = "run './dev prove --record'"


@dataclass(frozen=True, slots=True)
class Entry:
    """What is recorded of a rule."""

    digest: str
    established: str
    """Either "proved" or "evaluated"."""
    seconds: float


def entries() -> Mapping[str, Entry]:
    """The record, by the names of rules; empty where there is none."""
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
            "the record of proofs cannot be read", where=str(file), why=str(error), fix=MEND
        ) from None


def recorded(item: Rewrite) -> Entry | None:
    """What is recorded of a rule as it stands; None if it has changed since, or is new."""
    entry = entries().get(item.name)
    return entry if entry is not None and entry.digest == digest(item) else None


def write(found: Mapping[str, Entry]) -> None:
    """Replace the record: a rule a line, in the order of their names."""
    lines = [
        f" {json.dumps(name)}: "
        + json.dumps(
            {"digest": e.digest, "established": e.established, "seconds": round(e.seconds, 3)}
        )
        for name, e in sorted(found.items())
    ]
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


# -- what was proved -------------------------------------------------------------------------------


def digest(item: Rewrite) -> str:
    """A digest of all that a rule states, the same in every process.

    A rule is proved in all types of its theories, so that these are a part of it. Of a procedure it
    is the text of its function, of its examples, and of whatever these use in
    the same file; where that text is not installed, nothing matches the digest.
    """
    parts = [item.name, *sorted(theory.value for theory in item.theories), item.fast_math]
    if isinstance(item, Rule):
        for term in (item.before, item.after, item.when):
            parts.append("" if term is None else digest_of(term).hex())
        types = [t.name for t in scalars() if t.theory in item.theories]
        parts += [str(item.lemma), str(item.grows), *types]
    else:
        parts += _texts_of(item)
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=12).hexdigest()


def _texts_of(item: Procedure) -> Iterable[str]:
    yield from _used(item.function.__module__, item.function.__name__)
    tried_on = procedure_examples.EXAMPLES.get(item.name)
    if tried_on is not None:
        yield from _used(tried_on.__module__, tried_on.__name__)


@cache
def _used(module: str, name: str) -> tuple[str, ...]:
    """The text of a definition at the top of a module, and of all definitions there it uses."""
    known = definitions(module)
    found: dict[str, str] = {}
    waiting = [name]
    while waiting:
        each = waiting.pop()
        if each in known and each not in found:
            found[each], names = known[each]
            waiting += names
    return tuple(found[each] for each in sorted(found))


@cache
def definitions(module: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """The definitions at the top of a module: name -> its text, and the names that occur in it."""
    source = importlib.import_module(module).__file__
    if source is None or not Path(source).is_file():
        return {}
    text = Path(source).read_text(encoding="utf-8")
    lines = text.splitlines()
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for node in ast.parse(text).body:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        body = "\n".join(lines[first - 1 : node.end_lineno])
        names = tuple(n.id for n in ast.walk(node) if isinstance(n, ast.Name))
        for name in _defined(node):
            found[name] = (body, names)
    return found


def _defined(node: ast.stmt) -> list[str]:
    """The names that a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
    return []
