"""Actions: the kernels of some tensors tuned by random legal actions."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Final, get_type_hints

import porism
from porism.backends.backend_table import BACKENDS
from porism.base.settings import settings
from porism.base.target import Target
from porism.engine.tune import tuning_cache
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.optimize.actions.action import Action
from porism.optimize.actions.action_registry import ACTIONS
from porism.optimize.actions.gpu.thread_block_actions import ThreadBlockAction
from porism.optimize.actions.loop_substitution import ranges_of
from porism.optimize.strategy import heuristic
from porism.pipeline import unscheduled_kernel

MOST: Final = 6
AMOUNTS: Final = (2, 3, 4, 5, 7, 8, 16)
NUMBERS: Final = {"buffer": (0, 1, 2), "load": (0, 1), "row": (0, 1, 2)}
"""What fields of actions are that are no amounts."""

KINDS: Final = tuple(kind for kind in ACTIONS.values() if not issubclass(kind, ThreadBlockAction))


@functools.cache
def _fields(kind: type[Action]) -> dict[str, Any]:
    types = get_type_hints(kind)
    return {f.name: types[f.name] for f in dataclasses.fields(kind)}  # type: ignore[arg-type]


def random_action(random: Random, names: Sequence[str]) -> Action:
    """An action on loops with these names, legal or not."""
    kind = random.choice(KINDS)
    return kind(**{name: _field(random, name, t, names) for name, t in _fields(kind).items()})


def _field(random: Random, name: str, type_: Any, names: Sequence[str]) -> Any:
    if type_ is str:
        return random.choice(names)
    if type_ is bool:
        return random.random() < 0.5
    if type_ is int:
        return random.choice(NUMBERS.get(name, AMOUNTS))
    assert type_ == tuple[str, ...], "a new type of field needs a line here"
    return tuple(random.sample(names, random.randint(1, min(len(names), 3))))


def legal_actions(kernel: UOp, target: Target, random: Random) -> list[Action]:
    """Some random actions that are legal one after the other, perhaps after the heuristic's."""
    kernel = unscheduled_kernel(kernel, target)
    done: list[Action] = []
    if random.random() < 0.3:
        done += heuristic.choose_actions(kernel, target)
        for action in done:
            kernel = action.apply(kernel, target)
    for _ in range(random.randint(0, MOST) * 3):
        names = [show(r) for r in ranges_of(kernel)]
        if not names:
            break
        action = random_action(random, names)
        if action.is_legal(kernel, target):
            kernel = action.apply(kernel, target)
            done.append(action)
    return done


@contextlib.contextmanager
def tuned_at_random(tensors: Sequence[Any], random: Random) -> Iterator[None]:
    """Let the kernels of some tensors be compiled with random legal actions inside a block."""
    backend = BACKENDS[settings.backend]
    if settings.backend != "reference":
        for kernel in porism.kernels(*tensors):
            found = legal_actions(kernel.node, backend.target(), random)
            tuning_cache.record(kernel.node, backend, tuple(found), 1.0, 1.0, on_disk=False)
    try:
        yield
    finally:
        tuning_cache.forget_in_memory()
