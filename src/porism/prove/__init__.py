"""Proving: that a rewrite rule is true, from its own declaration, for all inputs.

Only this package uses z3, and nothing that compiles imports this package.
"""

from porism.base.errors import PorismError

try:
    import z3  # noqa: F401
except ImportError as error:
    raise PorismError(
        "proving needs the solver z3, which is not installed",
        why="it is a development dependency: the compiler itself runs without it",
        fix="pip install z3-solver, or run './dev prove', which installs it",
    ) from error
