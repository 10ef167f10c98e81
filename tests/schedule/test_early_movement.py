"""Movement ops below INDEX, AFTER and END: what they become, and what is kept."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from porism.base.dtypes import f32, index
from porism.evaluate import evaluate, inspect
from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.ir.ops import Group
from porism.ir.traversal import toposort
from porism.prove.procedure_trials import difference
from porism.rewrite.graph_rewrite import rewrite
from porism.rules.seed_rows import STEPS
from porism.schedule.loops import early_movement as movement_module
from porism.schedule.loops import loop_guards, range_transforms
from porism.schedule.loops.early_movement import MOVEMENT, early_movement
from porism.tensor import primitive as p
from tests.evaluate.programs import at, load, num, pointer, sink, tensor

X = tensor(0, 2, 3, 4)
DATA: dict[Any, Any] = {0: np.arange(24, dtype=np.float32).reshape(2, 3, 4) + 1}


def guarded(condition: UOp, place: UOp) -> UOp:
    return ops.WHERE(condition, place, ops.INVALID(dtype=index))


VIEWS = {
    "permute": p.permute(X, (1, 2, 0)),
    "reshape": p.reshape(X, (4, 6)),
    "flip": p.flip(X, (0, 2)),
    "shrink": p.shrink(X, ((0, 2), (1, 3), (2, 4))),
    "pad": p.pad(X, ((1, 0), (0, 2), (1, 1))),
    "expand": p.expand(p.reshape(p.shrink(X, ((0, 1), (0, 3), (0, 1))), (3, 1)), (3, 5)),
    "several": p.reshape(p.flip(p.pad(p.permute(X, (2, 0, 1)), ((1, 0),) * 3), (1,)), (5, 12)),
    "border": p.pad(p.expand(p.reshape(num(2.0, f32), (1, 1)), (3, 2)), ((1, 0), (0, 2))),
    "one": p.expand(p.reshape(num(2.0, f32), (1, 1)), (3, 2)),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("masks", [False, True])
def test_an_element_of_a_view(name: str, masks: bool) -> None:
    """004.1.1, for all movement ops: also where there is no element."""
    view = VIEWS[name]
    at_loops = [UOp.range(int(d.arg), axis) for axis, d in enumerate(shape(view))]
    indices: list[UOp] = list(at_loops)
    if masks:
        indices[0] = guarded(at_loops[0] < 2, at_loops[0])
    element = UOp(ops.INDEX, None, (view, *indices))
    after = early_movement(element)
    assert not any(n.op.group is Group.MOVEMENT for n in toposort(after))
    assert not difference(element, after, DATA)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_an_order_of_axes_is_inverted(order: tuple[int, ...]) -> None:
    """004.1.1: by (1, 2, 0), element (i, j, k) is (k, i, j), and not (j, k, i)."""
    i, j, k = (UOp.range(n, axis) for axis, n in enumerate((2, 3, 4)))
    loops = (i, j, k)
    element = rewrite(
        UOp(ops.INDEX, None, (p.permute(X, order), *(loops[a] for a in order))), MOVEMENT
    )
    assert element is X.index(i, j, k)
    assert inspect(element, DATA).data.reshape(-1)[-1] == 24


def test_an_after_keeps_all_that_it_waits_for() -> None:
    """004.1.2: no store is forgotten."""
    x = tensor(0, 4)
    stores = [pointer(n, 1).index(num(0)).store(num(1.0, f32)) for n in (1, 2)]
    view = p.reshape(x, (2, 2)).after(*stores)
    after = rewrite(view, MOVEMENT)
    assert after is p.reshape(x.after(*stores), (2, 2))
    assert set(stores) <= set(toposort(after))


def test_an_end_has_no_shape() -> None:
    """004.1.3"""
    r = UOp.range(4, 0)
    end = UOp(ops.END, None, (p.reshape(tensor(0, 4), (2, 2)), r))
    assert rewrite(end, MOVEMENT) is UOp(ops.END, None, (tensor(0, 4), r))


def test_pointers_add_up() -> None:
    """004.1.5, and not 004.1.4: p[i][i] is p[i + i], not p[i]."""
    i = UOp.range(3, 0)
    memory = pointer(1, 8)
    nested = at(at(memory, i), i)
    assert rewrite(nested, MOVEMENT) is at(memory, i * 2)
    kernel = sink(pointer(0, 3).index(i).store(at(at(memory, i), i + 1).load()).end(i))
    after = early_movement(kernel)
    data: dict[Any, Any] = {0: np.zeros(3, np.float32), 1: np.arange(8, dtype=np.float32)}
    np.testing.assert_array_equal(evaluate(after, data)[0], [1, 3, 5])
    assert not difference(kernel, after, data)


def test_masks_of_pointers_add_up() -> None:
    i = UOp.range(5, 0)
    memory = pointer(1, 8)
    inner, outer = at(memory, guarded(i < 3, i)), i > 0
    kernel = sink(pointer(0, 5).index(i).store(load(inner, guarded(outer, i))).end(i))
    after = early_movement(kernel)
    data: dict[Any, Any] = {0: np.zeros(5, np.float32), 1: np.arange(8, dtype=np.float32) + 1}
    np.testing.assert_array_equal(evaluate(after, data)[0], [0, 3, 5, 0, 0])
    assert not difference(kernel, after, data)


def test_an_element_has_no_elements() -> None:
    """An INDEX that is an element is not an INDEX into a row."""
    i = UOp.range(3, 0)
    rows = UOp(ops.PARAM, f32.pointer(size=8), (), 1)
    element = rows.index(i)
    assert rewrite(UOp(ops.INDEX, None, (element,)), MOVEMENT).src[0] is element


def test_nothing_to_do() -> None:
    kernel = sink(pointer(0, 1).index(num(0)).store(num(1.0, f32)))
    assert early_movement(kernel) is kernel


def test_the_steps_that_are_named_exist() -> None:
    """The rows of the seeds that a pass implements name it."""
    rules = {item.name for item in MOVEMENT}
    passes = {
        name.replace("_", "-")
        for module in (range_transforms, loop_guards, movement_module)
        for name in vars(module)
    }
    own = {step for row, step in STEPS.items() if row in ROWS}
    assert own <= rules | passes
    assert {row for item in MOVEMENT for row in item.seeds} <= {*ROWS}


ROWS = {
    *("003.split", "003.merge", "003.flatten", "004.3.1", "004.5.1"),
    *(f"004.1.{n}" for n in range(1, 6)),
}
