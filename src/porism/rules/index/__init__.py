"""Index arithmetic: a normal form for integers, theorems about quotients, masks as facts."""

from porism.rules.index.normalize import simplify

__all__ = ["simplify"]
