"""Actions by hand: what is shown, that it computes the same, and what is refused."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.errors import ActionError, PorismError
from porism.base.settings import settings
from porism.engine.tune.kernel_trial import CompiledTrial
from tests.tensor.oracle import refuses

PAGE = Path(__file__).parents[2] / "docs" / "actions.md"


def product() -> Any:
    a, b = (porism.asarray(np.ones(s, np.float32)) for s in ((6, 16), (16, 24)))
    (kernel,) = porism.kernels(a @ b)
    return kernel


def softmax() -> Any:
    (kernel,) = porism.kernels(porism.asarray(np.ones((64, 100), np.float32)).softmax(-1))
    return kernel


def test_the_examples_run() -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    result = doctest.testfile(str(PAGE), module_relative=False, optionflags=flags)
    assert result.attempted > 8
    assert result.failed == 0


def test_the_loops_after_the_actions_are_shown() -> None:
    actions = [porism.Upcast("r1", 8), porism.Thread("r0")]
    changed = porism.opt(product(), actions)
    assert changed.text.splitlines()[:3] == [
        "for r0 < 6:  # thread",
        "    for r1_0 < 3:",
        "        for r1_1 < 8:  # upcast",
    ]
    assert str(changed).startswith("Upcast('r1', 8)\nThread('r0')\n")


def test_nothing_else_is_done() -> None:
    kernel = product()
    assert porism.opt(kernel, []).text == kernel.text


@pytest.mark.parametrize(
    "actions",
    [
        [],
        [porism.Upcast("r1", 8), porism.Unroll("r2", 4), porism.Thread("r0")],
        [porism.PadTo("r0", 4), porism.Upcast("r0", 4), porism.Swap("r0_0", "r0_1")],
        [porism.PadTo("r2", 5), porism.Unroll("r2", 5, top=True), porism.NoLocals()],
    ],
    ids=len,
)
def test_what_is_changed_computes_the_same(actions: Any) -> None:
    changed = porism.opt(product(), actions)
    assert changed.check() < 1e-6
    assert changed.check(seed=1) < 1e-6
    assert changed.time(runs=3) > 0


def test_local_memory_is_shown_and_computed_with() -> None:
    changed = porism.opt(softmax(), [porism.Upcast("r1", 4), porism.Upcast("r3", 4)])
    assert "local0: 100 f32" in changed.text
    assert "AFTER" not in changed.text
    assert changed.check() < 1e-6


def test_copies_of_iterations_side_by_side_may_not_be_large() -> None:
    """They lie on the stack of a thread, and what does not fit would be no error of Python's."""
    a, b = (porism.asarray(np.ones(s, np.float32)) for s in ((64, 20_000), (20_000, 64)))
    (kernel,) = porism.kernels(a @ b)
    changed = porism.opt(kernel, [porism.Pack(1, ("r2",)), porism.Upcast("r0", 64)])
    with pytest.raises(ActionError, match="the local buffers of a kernel take 5120000 bytes"):
        changed.time(runs=1)


def test_whole_numbers_are_exact() -> None:
    x = porism.asarray(np.arange(24, dtype=np.int32))
    (kernel,) = porism.kernels(x * x)
    assert porism.opt(kernel, [porism.Upcast("r0", 8)]).check() == 0.0


def test_symbolic_sizes_are_as_large_as_they_can_be() -> None:
    n = porism.Variable("n", 1, 12).bind(5)
    (kernel,) = porism.kernels(porism.sum(porism.asarray(np.ones((12, 8), np.float32))[:n], axis=0))
    changed = porism.opt(kernel, [porism.Upcast("r0", 8)])
    assert changed.check() < 1e-6


def test_more_actions_on_what_was_changed() -> None:
    once = porism.opt(product(), [porism.Upcast("r1", 8)])
    twice = porism.opt(once, [porism.Thread("r0")])
    assert twice.actions == (porism.Upcast("r1", 8), porism.Thread("r0"))
    assert twice.text == porism.opt(product(), twice.actions).text


def test_what_the_heuristic_does_is_shown() -> None:
    kernel = product()
    with settings.override(backend="reference"):
        assert "# upcast" in kernel.scheduled
    assert "output0[" in kernel.scheduled
    assert "input0[" in kernel.scheduled


def test_a_wrong_result_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    run = CompiledTrial.run

    def wrong(self: CompiledTrial, data: Any, variables: Any) -> float:
        seconds = run(self, data, variables)
        data[0][7] += 1
        return seconds

    monkeypatch.setattr(CompiledTrial, "run", wrong)
    with pytest.raises(PorismError, match="computes something else") as caught:
        porism.opt(product(), [porism.Upcast("r1", 8)]).check()
    assert caught.value.where is not None
    assert caught.value.where.startswith("element 7 is")


REFUSED: list[tuple[list[Any], str]] = [
    ([porism.Upcast("r7", 4)], "there is no loop r7"),
    ([porism.Upcast("r0", 4)], "the extent of r0 is 6"),
    ([porism.Unroll("r0", 2)], "r0 is a loop of the kind loop"),
    ([porism.Upcast("r1", 8), porism.Upcast("r1", 2)], "there is no loop r1"),
    ([porism.Local("r0", 2)], "has no blocks of threads"),
    ([porism.Group("r2", 2)], "has no blocks of threads"),
    ([porism.TC("r0", "r1", "r2")], "has no blocks of threads"),
    (["upcast"], "'upcast' is no action"),
]


@pytest.mark.parametrize(("actions", "what"), REFUSED, ids=lambda case: str(case))
def test_what_is_not_legal_is_refused_at_the_line_of_the_user(
    actions: list[Any], what: str
) -> None:
    kernel = product()
    with refuses(ActionError, what):
        porism.opt(kernel, actions)


def test_what_is_no_kernel_is_refused() -> None:
    with refuses(ActionError, "a Tensor has no loops"):
        porism.opt(porism.ones(2), [])


def test_no_runs_are_refused() -> None:
    changed = porism.opt(product(), [])
    with refuses(ActionError, "0 runs are to be timed"):
        changed.time(runs=0)
