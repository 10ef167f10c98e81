"""Unknown names: the error for an attribute that `porism` or a tensor does not have."""

from __future__ import annotations

from collections.abc import Iterable

from porism.base.errors import PorismError
from porism.tensor.habits.foreign_names import FUNCTIONS, LINALG, METHODS
from porism.tensor.user_line import users_line


class UnknownName(PorismError, AttributeError):  # noqa: N818 - the name says it all
    """A name that `porism` or a tensor does not have; also an AttributeError, as in Python.

    Its advice is looked for when it is shown: programs ask for attributes to see if they exist.
    """

    def __init__(self, owner: str, missing: str, known: Iterable[str]) -> None:
        super().__init__(f"{owner} has no attribute {missing!r}", where=users_line())
        self.owner = owner
        self.missing = missing
        self.known = tuple(known)

    def __str__(self) -> str:
        if self.why is None:
            self.why, self.fix = advice(self.owner, self.missing, self.known)
        return super().__str__()


def advice(owner: str, missing: str, known: Iterable[str]) -> tuple[str, str]:
    """Return why there is no such name, and what to write.

    >>> advice("a tensor", "add_", ["add"])
    ('a tensor is not changed in place', 'assign the result: x = x.add(…)')
    """
    import difflib

    tables = {"a tensor": (METHODS, FUNCTIONS), "porism.linalg": (LINALG, FUNCTIONS)}.get(
        owner, (FUNCTIONS,)
    )
    written = next((table[missing] for table in tables if missing in table), None)
    if written is not None:
        return "other libraries have it, and Porism does the same in another way", written
    base = missing.removesuffix("_")
    if base != missing and base in known:
        return "a tensor is not changed in place", f"assign the result: x = x.{base}(…)"
    close = difflib.get_close_matches(missing, list(known), 1)
    fix = f"did you mean {close[0]}?" if close else "dir(porism) lists the names that there are"
    return "there is no function, type or method of that name", fix
