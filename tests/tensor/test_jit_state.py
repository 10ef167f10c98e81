"""Jitted functions with state: it is updated at every call, and by nothing else."""

from __future__ import annotations

import collections
import functools
import os
import signal
import threading
import types
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.errors import PorismError
from porism.base.settings import settings
from porism.engine.run.buffer_storage import array_of
from porism.tensor.jit.jit import Jitted
from tests.patience import PATIENCE
from tests.tensor.threads import in_threads


def ones(*shape: int) -> Any:
    return porism.ones(shape).realize()


def memory_of(tensor: Any) -> Any:
    return array_of(tensor.realize().node)


# -- state -----------------------------------------------------------------------------------------


def test_state_updates_on_replay() -> None:
    count = porism.zeros(2)

    @porism.jit
    def step(x: Any) -> Any:
        count.assign(count + x)
        return count * 10

    kept = [step(ones(2)) for _ in range(5)]
    assert [t.tolist()[0] for t in kept] == [10, 20, 30, 40, 50]
    assert count.tolist() == [5, 5]
    assert step.traces == 1
    count.assign([100.0, 200.0])
    assert step(ones(2)).tolist() == [1010, 2010]
    assert step.traces == 1


def test_state_by_item_and_by_sum() -> None:
    cache = porism.zeros(4)
    total = porism.zeros(())

    @porism.jit
    def put(x: Any, at: int) -> Any:
        nonlocal total
        cache[at] = x
        total.assign(total + x)
        return cache.sum()

    assert [put(porism.asarray(float(k)), k % 4).item() for k in range(1, 7)] == [
        1, 3, 6, 10, 14, 18,
    ]  # fmt: skip
    assert cache.tolist() == [4, 5, 6, 3]
    assert total.item() == 21


def test_an_argument_that_is_assigned() -> None:
    @porism.jit
    def increase(x: Any) -> None:
        x.assign(x + 1)

    a, b = ones(2), porism.zeros(2)
    for _ in range(3):
        increase(a)
    increase(b)
    assert a.tolist() == [4, 4]
    assert b.tolist() == [1, 1]


def test_state_that_is_swapped() -> None:
    a, b = porism.asarray([1.0]), porism.asarray([2.0])

    @porism.jit
    def swap() -> None:
        old = a + 0
        a.assign(b)
        b.assign(old)

    for k in range(4):
        swap()
        assert (a.item(), b.item()) == ((2, 1), (1, 2))[k % 2]
    assert not np.shares_memory(memory_of(a), memory_of(b))


def test_state_that_another_function_changes() -> None:
    state = porism.zeros(1)

    @porism.jit
    def forth() -> Any:
        state.assign(state + 1)
        return state

    @porism.jit
    def double() -> Any:
        state.assign(state * 2)
        return state

    assert [f().item() for f in (forth, double, forth, double, double)] == [1, 2, 3, 6, 12]


def test_a_graph_that_was_not_computed_is_an_input() -> None:
    weight = porism.arange(3.0) * 2

    @porism.jit
    def f(x: Any) -> Any:
        return x + weight

    assert f(porism.arange(3.0) + 1).tolist() == [1, 4, 7]
    assert f(ones(3) - 1).tolist() == [0, 2, 4]
    assert f.traces == 1


def test_a_name_that_is_another_tensor_later() -> None:
    class Layer:
        def __init__(self) -> None:
            self.parts = [porism.ones(2)]
            self.weight = porism.ones(2)

        @porism.jit
        def forward(self, x: Any) -> Any:
            return x * self.weight + self.parts[0]

    layer = Layer()
    assert layer.forward(ones(2)).tolist() == [2, 2]
    layer.weight = porism.asarray([5.0, 6.0])
    assert layer.forward(ones(2)).tolist() == [6, 7]
    layer.parts[0] = porism.zeros(2)
    assert layer.forward(ones(2)).tolist() == [5, 6]
    weight = ones(2)

    @porism.jit
    def closed(x: Any) -> Any:
        return x + weight

    assert closed(ones(2)).tolist() == [2, 2]
    weight = ones(2) * 3
    assert closed(ones(2)).tolist() == [4, 4]


class Slots:
    """Keeps its tensor in a slot."""

    __slots__ = ("weight",)

    def __init__(self) -> None:
        self.weight = porism.ones(2)


class OfAll:
    """Has a tensor for all of its objects."""

    weight = porism.ones(2)

    def times(self, x: Any) -> Any:
        return x * self.weight

    @staticmethod
    def shifted(x: Any) -> Any:
        return x * shift


shift = porism.ones(2)


def module_of(text: str, **names: Any) -> Any:
    module = types.ModuleType("models")
    vars(module).update(names)
    exec(text, vars(module))
    return module


def in_a_slot() -> tuple[Any, Any]:
    holder = Slots()
    return (lambda x: x * holder.weight), holder


def in_a_class() -> tuple[Any, Any]:
    return (lambda x: x * OfAll.weight), OfAll


def in_the_class_of_an_object() -> tuple[Any, Any]:
    return OfAll().times, OfAll


def of_a_class_and_then_of_an_object() -> tuple[Any, Any]:
    holder = OfAll()
    return holder.times, holder


def in_the_module_of_another_function() -> tuple[Any, Any]:
    models = module_of("def times(x): return x * weight", weight=porism.ones(2))
    return (lambda x: models.times(x)), models


def in_an_object_of_a_module() -> tuple[Any, Any]:
    models = module_of("", holder=Slots())
    user = module_of("def times(x): return x * models.holder.weight", models=models)
    return user.times, models.holder


@pytest.mark.parametrize(
    "case",
    [in_a_slot, in_a_class, in_the_class_of_an_object, of_a_class_and_then_of_an_object,
     in_the_module_of_another_function, in_an_object_of_a_module],
)  # fmt: skip
def test_a_name_elsewhere_that_is_another_tensor_later(
    case: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, holder = case()
    jitted = porism.jit(function)
    assert jitted(ones(2)).tolist() == [1, 1]
    monkeypatch.setattr(holder, "weight", porism.asarray([5.0, 6.0]))
    assert jitted(ones(2)).tolist() == [5, 6]
    assert jitted.traces == 2


def test_a_tensor_that_a_method_names(monkeypatch: pytest.MonkeyPatch) -> None:
    jitted = porism.jit(lambda x: OfAll().shifted(x))
    assert jitted(ones(2)).tolist() == [1, 1]
    monkeypatch.setitem(globals(), "shift", porism.asarray([5.0, 6.0]))
    assert jitted(ones(2)).tolist() == [5, 6]


def test_a_tensor_in_a_deque() -> None:
    recent = collections.deque([porism.ones(2)])
    jitted = porism.jit(lambda x: x * recent[0])
    assert jitted(ones(2)).tolist() == [1, 1]
    recent[0] = porism.asarray([5.0, 6.0])
    assert jitted(ones(2)).tolist() == [5, 6]


def test_what_is_kept_in_other_places_is_refused() -> None:
    holder = Slots()

    @porism.jit
    def keeps(x: Any) -> Any:
        holder.weight = holder.weight + x
        return holder.weight

    with pytest.raises(PorismError, match="keeps a tensor that it created, as 'weight'"):
        keeps(ones(2))
    assert holder.weight.tolist() == [1, 1]


def test_a_tensor_from_outside_that_is_only_given() -> None:
    """It is not used in the function, and is read again at every call."""
    weight, parts = porism.ones(2), [porism.zeros(2)]

    @porism.jit
    def both(x: Any) -> Any:
        return weight, parts[0], x

    given = both(ones(2))
    weight[0] = 5
    assert [t.tolist() for t in both(ones(2))] == [[5, 1], [0, 0], [1, 1]]
    parts[0] = weight
    assert [t.tolist() for t in both(ones(2))] == [[5, 1], [5, 1], [1, 1]]
    assert [t.tolist() for t in given] == [[1, 1], [0, 0], [1, 1]]


def test_tensors_in_other_places() -> None:
    weight = ones(3)
    total, table = weight.sum, {None: ones(1)}
    shifted = functools.partial(lambda w, x: w + x, ones(1) * 5)

    @porism.jit
    def f(x: Any) -> Any:
        return x + total() + table[None] + shifted(x)

    assert f(ones(1)).tolist() == [1 + 3 + 1 + 6]
    weight.assign(weight * 2)
    table[None] = ones(1) * 10
    assert f(ones(1)).tolist() == [1 + 6 + 10 + 6]
    assert f.traces == 2


def test_methods_are_bound_to_their_objects() -> None:
    class Counter:
        def __init__(self, start: float) -> None:
            self.count = porism.asarray([start])

        @porism.jit
        def step(self, by: Any) -> Any:
            self.count += by
            return self.count

        @staticmethod
        @porism.jit
        def plain(x: Any) -> Any:
            return x + 1

        @classmethod
        @porism.jit
        def of_class(cls, x: Any) -> Any:
            return x + len(cls.__name__)

    a, b = Counter(0), Counter(10)
    with pytest.raises(PorismError, match="keeps a tensor that it created, as 'count'"):
        a.step(ones(1))  # `+=` on an attribute is a new tensor
    assert a.count.tolist() == [0]
    assert Counter.plain(ones(1)).tolist() == [2]
    assert a.of_class(ones(1)).tolist() == [8]
    assert b.count.tolist() == [10]
    assert isinstance(Counter.step, Jitted)


def test_state_of_objects() -> None:
    class Counter:
        def __init__(self, start: float) -> None:
            self.count = porism.asarray([start])

        @porism.jit
        def step(self, by: Any) -> Any:
            self.count.assign(self.count + by)
            return self.count

    a, b = Counter(0.0), Counter(10.0)
    assert [a.step(ones(1)).item() for _ in range(3)] == [1, 2, 3]
    assert b.step(ones(1)).item() == 11
    assert a.step(ones(1)).item() == 4
    assert (a.count.item(), b.count.item()) == (4, 11)


def test_an_argument_that_is_closed_over_too() -> None:
    weight = porism.ones(2)

    @porism.jit
    def both(x: Any) -> Any:
        weight.assign(weight + x)
        return x

    @porism.jit
    def reads(x: Any) -> Any:
        return weight + x

    assert reads(weight).tolist() == [2, 2]
    with pytest.raises(PorismError, match="also captures it"):
        both(weight)
    assert both(ones(2)).tolist() == [1, 1]
    with pytest.raises(PorismError, match="also captures it"):
        both(weight)
    assert weight.tolist() == [2, 2]


def test_one_tensor_for_two_arguments() -> None:
    @porism.jit
    def f(a: Any, b: Any) -> Any:
        a.assign(a + 1)
        return b * 1

    x, y = porism.zeros(1), porism.zeros(1)
    assert f(x, y).item() == 0
    assert f(x, x).item() == 2
    assert f(x, y).item() == 0
    assert (x.item(), y.item()) == (3, 0)


# -- symbolic sizes (tinygrad #5360) ---------------------------------------------------------------


def test_symbolic_sizes_on_replay() -> None:
    n = porism.Variable("n", 1, 8)
    data = porism.arange(8.0).realize()

    @porism.jit
    def f(x: Any) -> Any:
        return x * 2, x.sum(), x.shape[0]

    for k in (1, 2, 3, 4, 8, 1):
        doubled, total, size = f(data[: n.bind(k)])
        assert doubled.numpy().tolist() == [2.0 * j for j in range(k)]
        assert total.item() == sum(range(k))
        assert size is n.bind(k)
        assert doubled.shape == (n.bind(k),)
        assert (doubled + data[: n.bind(k)]).sum().item() == 3 * sum(range(k))
    assert f.traces == 1


def test_a_bound_variable_as_an_argument() -> None:
    at = porism.Variable("at", 0, 7)
    cache = porism.zeros(8)

    @porism.jit
    def put(x: Any, place: Any) -> Any:
        cache[place : place + 1] = x
        return cache[: place + 1].sum()

    sums = [put(porism.asarray([float(k + 1)]), at.bind(k)).item() for k in range(8)]
    assert sums == [1, 3, 6, 10, 15, 21, 28, 36]
    assert cache.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert put.traces == 1


def test_symbolic_state() -> None:
    n = porism.Variable("n", 1, 4)
    data = porism.arange(4.0).realize()
    state = data[: n.bind(2)]

    @porism.jit
    def f() -> Any:
        return state + 1

    assert f().numpy().tolist() == [1, 2]
    state.node = data[: n.bind(3)].node
    assert f().numpy().tolist() == [1, 2, 3]
    assert f.traces == 1


def test_two_values_for_one_variable() -> None:
    n = porism.Variable("n", 1, 4)
    data = porism.arange(4.0).realize()
    add = porism.jit(lambda a, b: a.sum() + b.sum())
    assert add(data[: n.bind(2)], data[: n.bind(2)]).item() == 2
    with pytest.raises(PorismError, match="bound to 2 and to 3"):
        add(data[: n.bind(2)], data[: n.bind(3)])


def test_other_bounds_are_another_signature() -> None:
    data = porism.arange(8.0).realize()
    total = porism.jit(lambda x: x.sum())
    for high in (4, 8):
        assert total(data[: porism.Variable("n", 1, high).bind(3)]).item() == 3
    assert total.traces == 2


# -- random numbers --------------------------------------------------------------------------------


def test_random_numbers_go_on() -> None:
    @porism.jit
    def draw() -> Any:
        return porism.rand(2), porism.randn(3), porism.rand(1)

    porism.seed(5)
    jitted = [t.tolist() for _ in range(3) for t in draw()]
    porism.seed(5)
    plain = [t.tolist() for _ in range(3) for t in draw.function()]
    porism.seed(0)
    assert jitted == plain
    assert len({tuple(one) for one in jitted}) == 9


def test_random_numbers_that_nobody_uses_count() -> None:
    @porism.jit
    def draw() -> Any:
        porism.rand(5)
        return porism.rand(1)

    @porism.jit
    def none() -> int:
        porism.rand(3)
        return 1

    porism.seed(5)
    jitted = [draw().item(), none(), draw().item()]
    porism.seed(5)
    plain = [draw.function().item(), none.function(), draw.function().item()]
    porism.seed(0)
    assert jitted == plain


def test_a_seed_inside_is_refused() -> None:
    @porism.jit
    def seeded() -> Any:
        porism.seed(3)
        return porism.rand(1)

    with pytest.raises(PorismError, match="seed inside of a jitted function"):
        seeded()


# -- exceptions ------------------------------------------------------------------------------------


def test_an_exception_leaves_everything_as_it_was() -> None:
    class Model:
        def __init__(self) -> None:
            self.weight = porism.ones(2)
            self.parts = {"a": porism.zeros(2)}

    model = Model()
    weight, part = model.weight, model.parts["a"]
    fail = True

    @porism.jit
    def step(x: Any) -> Any:
        porism.rand(2)
        model.weight.assign(model.weight + x)
        x.assign(x * 2)
        if fail:
            model.parts["a"] = x + 1
            model.weight = x + 1
            raise KeyError("no")
        return model.weight + model.parts["a"]

    porism.seed(3)
    expected = porism.rand(1).item()
    porism.seed(3)
    x = ones(2)
    with pytest.raises(KeyError):
        step(x)
    assert model.weight is weight
    assert model.parts["a"] is part
    assert weight.tolist() == [1, 1]
    assert x.tolist() == [1, 1]
    assert step.signatures == 0
    assert porism.rand(1).item() == expected
    porism.seed(0)
    fail = False
    assert step(x).tolist() == [2, 2]
    assert weight.tolist() == [2, 2]
    assert x.tolist() == [2, 2]
    assert (x + 1).tolist() == [3, 3]  # nothing is traced any more


def test_wrong_arguments_are_the_functions_error() -> None:
    f = porism.jit(lambda x: x)
    with pytest.raises(TypeError, match="argument"):
        f()
    with pytest.raises(TypeError, match="argument"):
        f(1, 2, z=3)


# -- threads ---------------------------------------------------------------------------------------


def test_threads_share_a_function() -> None:
    @porism.jit
    def f(x: Any) -> Any:
        return (x * 2 + 1).sum()

    def work(k: int) -> None:
        for j in range(50):
            size = (k + j) % 3 + 1
            assert f(porism.full(size, float(k))).item() == size * (2 * k + 1)

    in_threads(6, work)
    assert f.signatures == 3


def test_no_update_is_lost() -> None:
    count = porism.zeros(1)

    @porism.jit
    def step(x: Any) -> Any:
        count.assign(count + x)
        return count

    observed: list[float] = []
    x = ones(1)

    def work(_: int) -> None:
        observed.extend(step(x).item() for _ in range(50))

    in_threads(4, work)
    assert count.item() == 200
    assert sorted(observed) == list(range(1, 201))


def test_a_trace_is_not_seen_by_other_threads() -> None:
    weight = porism.ones(1)
    inside, looked = threading.Event(), threading.Event()
    result: list[Any] = []

    @porism.jit
    def f(x: Any) -> Any:
        weight.assign(weight + x)
        inside.set()
        assert looked.wait(PATIENCE)
        return weight

    def look() -> None:
        assert inside.wait(PATIENCE)
        result.append((weight.item(), (weight + 1).tolist()))
        looked.set()

    thread = threading.Thread(target=look)
    thread.start()
    assert f(ones(1)).item() == 2
    thread.join()
    assert result == [(1, [2])]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_process_goes_on() -> None:
    count = porism.zeros(1)

    @porism.jit
    def step(x: Any) -> Any:
        count.assign(count + x.sum())
        return count

    x = ones(1000)
    assert step(x).item() == 1000
    child = os.fork()
    if child == 0:
        result = [step(x).item(), (x + 1).sum().item()]
        os._exit(0 if result == [2000, 2000] else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert step(x).item() == 2000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_does_not_wait_for_threads_that_it_lacks() -> None:
    """One thread is inside of the function, another in the middle of an update, at the fork."""
    total = porism.zeros(1)
    inside, go_on = threading.Event(), threading.Event()

    @porism.jit
    def step(x: Any) -> Any:
        if x.shape == (3,):
            inside.set()
            assert go_on.wait(PATIENCE)
        total.assign(total + x.sum())
        return total

    assert step(ones(2)).item() == 2
    tracing = threading.Thread(target=lambda: step(ones(3)))
    tracing.start()
    assert inside.wait(PATIENCE)
    updating = threading.Event()

    def hold() -> None:
        with step.state_lock:
            updating.set()
            assert go_on.wait(PATIENCE)

    holding = threading.Thread(target=hold)
    holding.start()
    assert updating.wait(PATIENCE)
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # rather than hang
        result = [step(ones(2)).item(), step(ones(5)).item()]
        os._exit(0 if result == [4, 9] else 1)
    ended = os.waitpid(child, 0)[1]
    go_on.set()
    tracing.join()
    holding.join()
    assert ended == 0
    assert step(ones(2)).item() == 7


@pytest.mark.parametrize("backend", ["llvm", "reference"])
def test_backends(backend: str) -> None:
    count = porism.zeros(1)

    @porism.jit
    def step(x: Any) -> Any:
        count.assign(count + x.sum())
        return x * count

    with settings.override(backend=backend):
        assert [step(ones(2)).tolist() for _ in range(3)] == [[2, 2], [4, 4], [6, 6]]
