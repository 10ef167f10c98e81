"""Alternative plans: all legal, of several kinds, and measured before neighbours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

import porism
from porism.base.errors import ActionError
from porism.base.gpu_targets import H200
from porism.base.target import GENERIC_CPU, Target
from porism.ir.node import UOp
from porism.optimize.actions.action import Actions, apply_all
from porism.optimize.actions.loops.upcast_unroll import Upcast
from porism.optimize.analysis.buffer_loads import unpacked_load
from porism.optimize.search.alternative_plans import alternatives
from porism.optimize.search.beam_search import Measurement, beam_search
from porism.optimize.strategy import heuristic
from porism.pipeline import unscheduled_kernel

CPU = GENERIC_CPU


def unscheduled(name: str, target: Target = CPU) -> UOp:
    x, y = (porism.asarray(np.ones((96, 96), np.float32)) for _ in range(2))
    image = porism.asarray(np.ones((2, 8, 14, 14), np.float32))
    weight = porism.asarray(np.ones((32, 8, 3, 3), np.float32))
    tensor = {
        "product": lambda: x @ y,
        "convolution": lambda: porism.conv2d(image, weight, padding=1),
        "softmax": lambda: porism.softmax(x),
        "sum": lambda: x.sum(0),
        "map": lambda: x * 2 + y,
    }[name]()
    (kernel,) = porism.kernels(tensor)
    return unscheduled_kernel(kernel.node, target)


@pytest.mark.parametrize("name", ["product", "convolution", "softmax", "sum", "map"])
def test_every_plan_is_legal_and_yields_the_kernel_of_its_actions(name: str) -> None:
    kernel = unscheduled(name)
    start = heuristic.choose_actions(kernel, CPU)
    plans = list(alternatives(kernel, CPU, start))
    assert len({after for _, after in plans}) > 2
    for actions, after in plans:
        assert apply_all(kernel, actions, CPU) is after
    assert [actions for actions, _ in alternatives(kernel, CPU, start)] == [a for a, _ in plans]


def test_plans_have_register_tiles_of_many_sizes() -> None:
    kernel = unscheduled("product")
    plans = [
        actions for actions, _ in alternatives(kernel, CPU, heuristic.choose_actions(kernel, CPU))
    ]
    sizes = {tuple(a.amount for a in actions if isinstance(a, Upcast)) for actions in plans}
    assert len(sizes) > 8


def test_there_are_no_alternatives_for_a_gpu() -> None:
    assert not list(alternatives(unscheduled("product", H200), H200, ()))


def test_plans_are_measured_before_neighbours_and_neighbours_of_plans_follow() -> None:
    kernel = unscheduled("product")
    start = heuristic.choose_actions(kernel, CPU)
    plans = list(alternatives(kernel, CPU, start))
    best = next(a for a, after in plans[5:] if after is not apply_all(kernel, start, CPU))
    order: list[Actions] = []

    def measure(candidates: Sequence[Actions], bar: float) -> Iterator[tuple[int, Measurement]]:
        for number, actions in enumerate(candidates):
            order.append(actions)
            matching = sum(a == b for a, b in zip(actions, best, strict=False))
            yield number, Measurement(0.5 if matching == len(best) else 1.0)

    result = beam_search(
        kernel, CPU, start, 1.0, measure,
        width=2, go_on=lambda result: result.measured < 120, plans=plans,
    )  # fmt: skip
    known = {actions for actions, _ in plans}
    first = next(n for n, actions in enumerate(order) if actions not in known)
    assert result.seconds == 0.5
    assert all(actions in known for actions in order[:first])
    assert first > 5
    assert any(actions[: len(best)] == best for actions in order[first:])


def test_a_buffer_of_which_nothing_is_left_to_pack_is_named() -> None:
    kernel = unscheduled("product")
    loops = kernel.src[0].src[1:]
    number, load = unpacked_load(kernel, 1, loops[0])
    assert number == 0
    assert loops[0] in load.ranges
    with pytest.raises(ActionError, match="no load of buffer 1 is left that depends on r1"):
        unpacked_load(kernel, 1, loops[1])
