"""Jitted functions: they give what the plain function gives, call after call, and so does state."""

from __future__ import annotations

import asyncio
import doctest
import functools
import math
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import porism
from porism.base.errors import PorismError
from porism.base.settings import settings
from porism.engine import memory
from porism.engine.storage import NoValue, array_of
from porism.ir import sweep
from porism.tensor.jit import Jitted

PAGE = Path(__file__).parents[2] / "docs" / "jit.md"


def ones(*shape: int) -> Any:
    return porism.ones(shape).realize()


def memory_of(tensor: Any) -> Any:
    return array_of(tensor.realize().node)


def test_the_page_runs() -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    result = doctest.testfile(str(PAGE), module_relative=False, optionflags=flags)
    assert result.attempted > 10
    assert result.failed == 0


# -- one trace for each signature ------------------------------------------------------------------


def test_a_signature_is_traced_once() -> None:
    calls = 0

    @porism.jit
    def double(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return x * 2

    for k in range(5):
        assert double(porism.asarray([1.0 * k, 2.0])).tolist() == [2.0 * k, 4.0]
    assert calls == double.traces == double.signatures == 1


def test_other_shapes_and_types_are_traced_again() -> None:
    @porism.jit
    def twice(x: Any) -> Any:
        return x + x

    for shape in [(2,), (3,), (2, 1), (), (0,), (2,)]:
        assert np.array_equal(twice(ones(*shape)).numpy(), np.full(shape, 2.0))
    assert twice.traces == 5
    assert twice(porism.asarray([1, 2])).tolist() == [2, 4]
    assert twice(porism.asarray([1, 2], dtype="int8")).dtype is porism.int8
    assert twice.traces == 7


def test_values_of_python_count_by_value_and_type() -> None:
    @porism.jit
    def scaled(x: Any, by: Any) -> Any:
        return x * by if not isinstance(by, str) else x

    x = porism.asarray([1, -2])
    assert scaled(x, 1).dtype is porism.int64
    assert scaled(x, 1.0).dtype is porism.float32
    assert scaled(x, True).dtype is porism.int64
    assert scaled(x, 3).tolist() == [3, -6]
    assert scaled(x, "by").tolist() == [1, -2]
    assert scaled.traces == 5
    zero = porism.asarray([1.0])
    assert math.copysign(1, scaled(zero, 0.0).item()) == 1
    assert math.copysign(1, scaled(zero, -0.0).item()) == -1
    assert math.copysign(1, scaled(zero, np.float32(0)).item()) == 1
    assert math.copysign(1, scaled(zero, np.float32(-0.0)).item()) == -1
    before = scaled.traces
    assert math.isnan(scaled(zero, math.nan).item()) and math.isnan(scaled(zero, math.nan).item())
    assert scaled.traces == before + 1


def test_defaults_and_keywords() -> None:
    @porism.jit
    def line(x: Any, by: float = 2.0, *, plus: Any = None) -> Any:
        return x * by + (0 if plus is None else plus)

    x = ones(2)
    assert line(x).tolist() == [2, 2]
    assert line(x, 3.0).tolist() == line(x, by=3.0).tolist() == [3, 3]
    assert line(x, plus=x).tolist() == [3, 3]
    assert line(x, plus=x * 5).tolist() == [7, 7]
    assert line(plus=x, x=x).tolist() == [3, 3]


def test_a_default_that_is_a_tensor_is_seen_as_it_is_now() -> None:
    bias = porism.zeros(2)

    @porism.jit
    def shifted(x: Any, plus: Any = bias) -> Any:
        return x + plus

    assert shifted(ones(2)).tolist() == [1, 1]
    bias.assign([3.0, 4.0])
    assert shifted(ones(2)).tolist() == [4, 5]
    assert shifted.traces == 1


def test_old_signatures_go() -> None:
    @porism.jit(signatures=3)
    def same(x: Any) -> Any:
        return x + 0

    for size in (1, 2, 3, 4, 1):
        assert same(ones(size)).shape == (size,)
    assert same.signatures == 3 and same.traces == 5
    same(ones(4))
    assert same.traces == 5
    same.clear()
    assert same.signatures == 0
    same(ones(4))
    assert same.traces == 6


def test_the_setting_limits_signatures() -> None:
    same = porism.jit(lambda x: x + 0)
    with settings.override(jit_signatures=2):
        for size in range(1, 6):
            same(ones(size))
    assert same.signatures == 2


def test_many_signatures() -> None:
    @porism.jit
    def total(x: Any) -> Any:
        return x.sum()

    for size in range(1, 71):
        assert total(ones(size)).item() == size
    assert total.signatures == 64
    assert [total(ones(size)).item() for size in (70, 69, 1)] == [70, 69, 1]


def test_a_new_trace_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    weight = porism.ones(2)

    @porism.jit
    def apply(x: Any, options: Any) -> Any:
        return x * weight * options["by"]

    with settings.override(debug=1):
        apply(ones(2), {"by": 2})
        assert "tracing" in (first := capsys.readouterr().err) and "first time" in first
        apply(ones(2), {"by": 2})
        assert capsys.readouterr().err == ""
        apply(ones(2), {"by": 3})
        assert "options['by'] was 2 and is 3" in capsys.readouterr().err
        apply(ones(1, 2), {"by": 3})
        told = capsys.readouterr().err
        assert "x was a tensor of float32 (2,) and is a tensor of float32 (1, 2)" in told
        weight.node = ones(1).node
        apply(ones(2), {"by": 2})
        assert "a tensor that it uses was float32 (2,) and is float32 (1,)" in (
            capsys.readouterr().err
        )
    apply(ones(3), {"by": 2})
    assert capsys.readouterr().err == ""


# -- results stay what they were (tinygrad #7020, #16618, #13364) ----------------------------------


def test_results_do_not_alias() -> None:
    @porism.jit
    def step(x: Any) -> tuple[Any, Any]:
        return x + 1, x * 2

    kept = [step(porism.asarray([float(k)])) for k in range(5)]
    assert [(a.item(), b.item()) for a, b in kept] == [(k + 1, 2 * k) for k in range(5)]
    arrays = [memory_of(t) for pair in kept for t in pair]
    assert not any(
        np.shares_memory(a, b) for k, a in enumerate(arrays) for b in arrays[:k]
    )


def test_results_that_are_arguments_or_the_same_have_memory_of_their_own() -> None:
    @porism.jit
    def through(x: Any) -> Any:
        y = x + 1
        return x, y, y, (x,)

    x = ones(3)
    a, b, c, (d,) = through(x)
    arrays = [memory_of(t) for t in (x, a, b, c, d)]
    assert not any(
        np.shares_memory(one, other) for k, one in enumerate(arrays) for other in arrays[:k]
    )
    assert [t.tolist() for t in (a, b, c, d)] == [[1] * 3, [2] * 3, [2] * 3, [1] * 3]
    a[0] = 7
    assert x.tolist() == [1, 1, 1] and d.tolist() == [1, 1, 1]


def test_a_result_fed_back() -> None:
    @porism.jit
    def step(x: Any) -> Any:
        return x * 2 + 1

    x, kept = ones(2), []
    for _ in range(5):
        x = step(x)
        kept.append(x)
    assert [t.tolist()[0] for t in kept] == [3, 7, 15, 31, 63]


def test_results_of_no_computation() -> None:
    @porism.jit
    def constants(x: Any) -> dict[str, Any]:
        return {"none": None, "text": "a", "number": 3, "ones": porism.ones(2), "x": x}

    for k in range(3):
        found = constants(porism.asarray([k]))
        assert (found["none"], found["text"], found["number"]) == (None, "a", 3)
        assert found["ones"].tolist() == [1, 1] and found["x"].tolist() == [k]


def test_arrays_and_lists_inside_are_constants() -> None:
    @porism.jit
    def shifted(x: Any) -> Any:
        table = porism.asarray([10.0, 20.0])
        assert table.tolist() == [10, 20]  # this one is known
        return x + table + np.array([1.0, 2.0], "float32")

    assert shifted(ones(2)).tolist() == [12, 23]
    assert shifted(ones(2) * 0).tolist() == [11, 22]


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
    assert cache.tolist() == [4, 5, 6, 3] and total.item() == 21


def test_an_argument_that_is_assigned() -> None:
    @porism.jit
    def increase(x: Any) -> None:
        x.assign(x + 1)

    a, b = ones(2), porism.zeros(2)
    for _ in range(3):
        increase(a)
    increase(b)
    assert a.tolist() == [4, 4] and b.tolist() == [1, 1]


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
    with pytest.raises(PorismError, match="keeps a tensor that it made, as 'count'"):
        a.step(ones(1))  # `+=` on an attribute is a new tensor
    assert a.count.tolist() == [0]
    assert Counter.plain(ones(1)).tolist() == [2] and a.of_class(ones(1)).tolist() == [8]
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
    with pytest.raises(PorismError, match="also uses it from outside"):
        both(weight)
    assert both(ones(2)).tolist() == [1, 1]
    with pytest.raises(PorismError, match="also uses it from outside"):
        both(weight)
    assert weight.tolist() == [2, 2]


def test_one_tensor_for_two_arguments() -> None:
    @porism.jit
    def f(a: Any, b: Any) -> Any:
        a.assign(a + 1)
        return b * 1

    x, y = porism.zeros(1), porism.zeros(1)
    assert f(x, y).item() == 0 and f(x, x).item() == 2
    assert f(x, y).item() == 0 and (x.item(), y.item()) == (3, 0)


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


# -- structures ------------------------------------------------------------------------------------


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass
class Layer:
    weight: Any
    bias: Any
    name: str = "layer"
    parts: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Frozen:
    value: Any
    scale: float = 2.0

    def __post_init__(self) -> None:
        assert isinstance(self.scale, float)


def test_structures_in_and_out() -> None:
    @porism.jit
    def f(given: dict[str, Any]) -> Any:
        layer, pair, frozen = given["layer"], given["pair"], given["frozen"]
        out = layer.weight * pair.first + layer.bias + layer.parts[0]
        return Layer(out, pair, layer.name), Pair(out * 2, [out]), Frozen(frozen.value * 2), given

    def arguments(by: float) -> dict[str, Any]:
        x = porism.asarray([by, 1.0])
        return OrderedDict(
            layer=Layer(x, x + 1, parts=[x]), pair=Pair(x, None), frozen=Frozen(x)
        )

    for k in range(3):
        layer, pair, frozen, back = f(arguments(float(k)))
        expected = [k * k + k + 1 + k, 4]
        assert isinstance(layer, Layer) and layer.weight.tolist() == expected
        assert isinstance(layer.bias, Pair) and layer.bias.second is None
        assert isinstance(pair, Pair) and pair.first.tolist() == [2 * v for v in expected]
        assert pair.second[0].tolist() == expected
        assert isinstance(frozen, Frozen) and frozen.value.tolist() == [2 * k, 2]
        assert isinstance(back, OrderedDict) and back["layer"].name == "layer"
    assert f.traces == 1
    changed = arguments(1.0)
    changed["layer"].name = "other"
    assert f(changed)[0].name == "other"
    assert f.traces == 2


def test_results_are_new_structures() -> None:
    @porism.jit
    def f(x: Any) -> Any:
        return [x, {"x": x}]

    first, second = f(ones(1)), f(ones(1))
    first.append(1)
    assert first is not second and len(second) == 2 and first[1] is not second[1]


def test_arrays_of_numpy_are_inputs() -> None:
    @porism.jit
    def f(x: Any, y: Any) -> Any:
        return x + y

    a = np.arange(3.0, dtype="float32")
    assert f(a, ones(3)).tolist() == [1, 2, 3]
    a += 1
    assert f(a, ones(3)).tolist() == [2, 3, 4]
    assert f(a[::-1], ones(3)).tolist() == [4, 3, 2]
    assert f.traces == 1
    b = f(a, ones(3))
    a += 1
    assert b.tolist() == [2, 3, 4]
    same = porism.jit(lambda x: x)(a)
    a += 1
    assert same.tolist() == [2, 3, 4]


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: x.numpy(),
        lambda x: x.item(),
        lambda x: x.tolist(),
        lambda x: bool(x),
        lambda x: int(x),
        lambda x: float(x),
        lambda x: np.asarray(x),
        lambda x: (x * 2 + 1).item(),
        lambda x: 1 if x > 0 else 2,
        lambda x: porism.asarray([x, x]),
    ],
)
def test_values_are_not_asked_for(ask: Any) -> None:
    @porism.jit
    def f(x: Any) -> Any:
        ask(x)
        return x

    with pytest.raises(NoValue) as caught:
        f(porism.asarray([1.0]))
    assert "inside of a jitted function" in caught.value.what
    assert caught.value.where is not None and "test_jit.py" in caught.value.where
    assert "traced once" in str(caught.value.why) and "porism.where" in str(caught.value.fix)


def test_the_value_of_state_is_not_asked_for() -> None:
    weight = porism.ones(1)

    @porism.jit
    def f(x: Any) -> Any:
        return x * weight.item()

    with pytest.raises(NoValue, match="inside of a jitted function"):
        f(ones(1))
    assert weight.item() == 1


def test_realize_inside_is_left_to_the_call() -> None:
    @porism.jit
    def f(x: Any) -> Any:
        y = (x + 1).realize()
        porism.realize(y)
        return y * 2

    assert f(ones(1)).item() == f(ones(1)).item() == 4


def test_a_tensor_kept_from_inside() -> None:
    kept: list[Any] = []
    hidden = functools.partial(lambda to, x: to.append(x))

    @porism.jit
    def f(x: Any) -> Any:
        kept.append(x + 1)
        return x

    with pytest.raises(PorismError, match="keeps a tensor that it made"):
        f(ones(1))

    class Hidden:
        __slots__ = ("value",)

    place: Any = Hidden()

    @porism.jit
    def g(x: Any) -> Any:
        place.value = x + 1
        return x

    assert g(ones(1)).item() == 1
    with pytest.raises(NoValue, match="kept from inside of a jitted function"):
        place.value.numpy()
    with pytest.raises(NoValue, match="kept from inside of a jitted function"):
        (place.value * 2).item()
    with pytest.raises(NoValue, match="kept from inside of a jitted function"):
        g(place.value)
    assert hidden is not None


def test_containers_among_the_arguments_are_not_changed() -> None:
    @porism.jit
    def f(state: dict[str, Any]) -> Any:
        state["x"] = state["x"] + 1
        return state["x"]

    state = {"x": ones(1)}
    with pytest.raises(PorismError, match="changes a dict, a list or an object that it was given"):
        f(state)
    assert state["x"].item() == 1

    @porism.jit
    def g(items: list[Any]) -> Any:
        items.append(items[0])
        return items[0]

    with pytest.raises(PorismError, match="changes a dict"):
        g([ones(1)])

    @porism.jit
    def h(x: Any) -> Any:
        x[0] = 1.0
        return x + 1

    with pytest.raises(PorismError, match="assigns to an array of NumPy's"):
        h(np.zeros(2, "float32"))


def test_generators_are_refused() -> None:
    def numbers(x: Any) -> Iterator[Any]:
        yield x

    async def later(x: Any) -> Any:
        return x

    with pytest.raises(PorismError, match="which is a generator"):
        porism.jit(numbers)
    with pytest.raises(PorismError, match="which is a coroutine"):
        porism.jit(later)
    with pytest.raises(PorismError, match="jit of a int"):
        porism.jit(3)
    with pytest.raises(PorismError, match="gives a generator"):
        porism.jit(lambda x: (x for _ in range(3)))(ones(1))
    with pytest.raises(PorismError, match="gives a ndarray"):
        porism.jit(lambda x: np.zeros(3))(ones(1))
    with pytest.raises(PorismError, match="a set as an argument"):
        porism.jit(lambda x: 1)({1})
    with pytest.raises(PorismError, match="at least one"):
        porism.jit(signatures=0)
    assert asyncio.run(later(3)) == 3 and next(numbers(3)) == 3


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
    assert model.weight is weight and model.parts["a"] is part
    assert weight.tolist() == [1, 1] and x.tolist() == [1, 1] and step.signatures == 0
    assert porism.rand(1).item() == expected
    porism.seed(0)
    fail = False
    assert step(x).tolist() == [2, 2]
    assert weight.tolist() == [2, 2] and x.tolist() == [2, 2]
    assert (x + 1).tolist() == [3, 3]  # nothing is traced any more


def test_wrong_arguments_are_the_functions_error() -> None:
    f = porism.jit(lambda x: x)
    with pytest.raises(TypeError, match="argument"):
        f()
    with pytest.raises(TypeError, match="argument"):
        f(1, 2, z=3)


# -- functions in functions ------------------------------------------------------------------------


def test_nested_functions_are_one_program() -> None:
    count = porism.zeros(1)

    @porism.jit
    def inner(x: Any) -> Any:
        count.assign(count + 1)
        return x * 2

    @porism.jit
    def outer(x: Any) -> Any:
        return inner(inner(x)) + count

    assert [outer(ones(1)).item() for _ in range(3)] == [6, 8, 10]
    assert count.item() == 6 and inner.traces == 0
    assert inner(ones(1)).item() == 2 and count.item() == 7


def test_recursion() -> None:
    @porism.jit
    def power(x: Any, n: int) -> Any:
        return x if n == 1 else x * power(x, n - 1)

    assert [power(ones(1) * 2, n).item() for n in (1, 5, 3, 5)] == [2, 32, 8, 32]
    assert power.traces == 3


def test_a_jitted_function_keeps_its_name() -> None:
    @porism.jit
    def documented(x: Any) -> Any:
        """What it does."""
        return x

    assert documented.__name__ == "documented"
    assert documented.__doc__ == "What it does."
    assert "documented" in repr(documented)


# -- threads ---------------------------------------------------------------------------------------


def in_threads(count: int, work: Any) -> None:
    errors: list[BaseException] = []

    def guarded(k: int) -> None:
        try:
            work(k)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


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

    seen: list[float] = []
    x = ones(1)

    def work(_: int) -> None:
        seen.extend(step(x).item() for _ in range(50))

    in_threads(4, work)
    assert count.item() == 200 and sorted(seen) == list(range(1, 201))


def test_a_trace_is_not_seen_by_other_threads() -> None:
    weight = porism.ones(1)
    inside, looked = threading.Event(), threading.Event()
    found: list[Any] = []

    @porism.jit
    def f(x: Any) -> Any:
        weight.assign(weight + x)
        inside.set()
        assert looked.wait(10)
        return weight

    def look() -> None:
        assert inside.wait(10)
        found.append((weight.item(), (weight + 1).tolist()))
        looked.set()

    thread = threading.Thread(target=look)
    thread.start()
    assert f(ones(1)).item() == 2
    thread.join()
    assert found == [(1, [2])]


@pytest.mark.parametrize("backend", ["llvm", "reference"])
def test_backends(backend: str) -> None:
    count = porism.zeros(1)

    @porism.jit
    def step(x: Any) -> Any:
        count.assign(count + x.sum())
        return x * count

    with settings.override(backend=backend):
        assert [step(ones(2)).tolist() for _ in range(3)] == [[2, 2], [4, 4], [6, 6]]


# -- memory ----------------------------------------------------------------------------------------


def test_memory_is_used_again() -> None:
    memory.clear()
    before = porism.memory()
    array, address = memory.new_array(1000, np.dtype("float32"))
    assert address == memory.address_of(array) and address % memory.ALIGNMENT == 0
    assert porism.memory().in_use == before.in_use + memory.room_size(4000)
    del array
    after = porism.memory()
    assert after.in_use == before.in_use and after.pooled >= 4000
    again, second = memory.new_array(1000, np.dtype("float32"))
    assert second == address and again.size == 1000


def test_memory_that_somebody_sees_is_not_used_again() -> None:
    array, address = memory.new_array(64, np.dtype("float32"))
    array[:] = 3
    view = array.reshape(8, 8)[2:4].view(np.int32).T
    del array
    others = [memory.new_array(64, np.dtype("float32")) for _ in range(20)]
    assert all(where != address for _, where in others)
    for other, _ in others:
        other[:] = 5
    assert (view.view() == np.float32(3).view(np.int32)).all()


def test_arrays_for_users_do_not_dangle() -> None:
    @porism.jit
    def f(x: Any) -> Any:
        return x + 1

    kept = f(ones(100)).numpy()
    capsules = np.from_dlpack(f(ones(100)))
    for k in range(50):
        f(porism.full(100, float(k))).realize()
    assert (kept == 2).all() and (capsules == 2).all()


def test_results_give_their_memory_back() -> None:
    @porism.jit
    def f(x: Any) -> Any:
        return x * 2

    x = ones(1 << 16)
    f(x)
    sweep.sweep()
    before = porism.memory().in_use
    for _ in range(100):
        y = f(x)
    assert porism.memory().in_use - before <= memory.room_size(4 << 16)
    del y
    assert porism.memory().in_use == before


def test_the_pool_has_a_limit() -> None:
    memory.clear()
    with settings.override(pool_megabytes=2):
        arrays = [memory.new_array(1 << 20, np.dtype("uint8")) for _ in range(6)]
        peak = porism.memory()
        assert peak.peak >= 6 << 20 and peak.limit == 2 << 20
        del arrays
        assert 0 < porism.memory().pooled <= 2 << 20
    memory.clear()
    assert porism.memory().pooled == 0
    assert "in use" in str(porism.memory())


def test_rooms_are_large_enough_and_not_much_larger() -> None:
    for size in [0, 1, 127, 128, 129, 1000, 4096, 4097, 10**6, 10**9 + 1]:
        room = memory.room_size(size)
        assert size <= room <= max(size * 1.25, size + memory.ALIGNMENT)
        assert room % memory.ALIGNMENT == 0


def test_too_much_memory_is_a_readable_error() -> None:
    with pytest.raises(memory.OutOfMemory) as caught:
        memory.take(1 << 62)
    assert isinstance(caught.value, MemoryError)
    assert "there is no memory for" in str(caught.value) and "fix" in str(caught.value)
    assert memory.new_array(3, np.dtype("int8"))[0].size == 3


def test_the_pool_in_threads() -> None:
    def work(k: int) -> None:
        held = []
        for j in range(300):
            array, _ = memory.new_array(1 + (j * 37 + k) % 200, np.dtype("int32"))
            array[:] = k
            held.append(array)
            if len(held) > 20:
                gone = held.pop(j % 20)
                assert (gone == k).all()
        assert all((one == k).all() for one in held)

    in_threads(4, work)


def test_realize_of_several() -> None:
    x = porism.arange(4)
    tensors = {"a": x + 1, "b": [x * 2, (x.sum(), 3)]}
    porism.realize(tensors, x)
    assert all("realized" in repr(t) for t in (x, tensors["a"], tensors["b"][0]))
    assert tensors["a"].tolist() == [1, 2, 3, 4]
    porism.realize()
