"""Jitted functions: when they are traced, what goes in and out, and what is refused."""

from __future__ import annotations

import asyncio
import copy
import doctest
import functools
import gc
import math
import pickle
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
from porism.engine.run import backend_runners, program, realize
from porism.engine.run.buffer_storage import NoValue, array_of
from porism.ir import node_collector

PAGE = Path(__file__).parents[2] / "docs" / "jit.md"


def ones(*shape: int) -> Any:
    return porism.ones(shape).realize()


def memory_of(tensor: Any) -> Any:
    return array_of(tensor.realize().node)


def test_the_page_runs() -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    with settings.override(verify=0):  # under verification no weights are pre-packed
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
    assert math.isnan(scaled(zero, math.nan).item())
    assert math.isnan(scaled(zero, math.nan).item())
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
    assert same.signatures == 3
    assert same.traces == 5
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
        assert "tracing" in (first := capsys.readouterr().err)
        assert "first time" in first
        apply(ones(2), {"by": 2})
        assert "tracing" not in capsys.readouterr().err
        apply(ones(2), {"by": 3})
        assert "apply again: options['by'] was 2 and is 3" in capsys.readouterr().err
        apply(ones(1, 2), {"by": 3})
        message = capsys.readouterr().err
        assert "x was a tensor of float32 (2,) and is a tensor of float32 (1, 2)" in message
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
    assert not any(np.shares_memory(a, b) for k, a in enumerate(arrays) for b in arrays[:k])


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
    assert x.tolist() == [1, 1, 1]
    assert d.tolist() == [1, 1, 1]


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
        actual = constants(porism.asarray([k]))
        assert (actual["none"], actual["text"], actual["number"]) == (None, "a", 3)
        assert actual["ones"].tolist() == [1, 1]
        assert actual["x"].tolist() == [k]


def test_arrays_and_lists_inside_are_constants() -> None:
    @porism.jit
    def shifted(x: Any) -> Any:
        table = porism.asarray([10.0, 20.0])
        assert table.tolist() == [10, 20]  # this one is known
        return x + table + np.array([1.0, 2.0], "float32")

    assert shifted(ones(2)).tolist() == [12, 23]
    assert shifted(ones(2) * 0).tolist() == [11, 22]


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
        return OrderedDict(layer=Layer(x, x + 1, parts=[x]), pair=Pair(x, None), frozen=Frozen(x))

    for k in range(3):
        layer, pair, frozen, back = f(arguments(float(k)))
        expected = [k * k + k + 1 + k, 4]
        assert isinstance(layer, Layer)
        assert layer.weight.tolist() == expected
        assert isinstance(layer.bias, Pair)
        assert layer.bias.second is None
        assert isinstance(pair, Pair)
        assert pair.first.tolist() == [2 * v for v in expected]
        assert pair.second[0].tolist() == expected
        assert isinstance(frozen, Frozen)
        assert frozen.value.tolist() == [2 * k, 2]
        assert isinstance(back, OrderedDict)
        assert back["layer"].name == "layer"
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
    assert first is not second
    assert len(second) == 2
    assert first[1] is not second[1]


def test_arguments_that_are_not_computed_are_computed_and_kept() -> None:
    @porism.jit
    def f(parts: list[Any]) -> Any:
        return parts[0] + parts[1]

    parts = [porism.arange(3.0) * k for k in (2, 3)]
    assert f(parts).tolist() == [0, 5, 10]
    assert not any("lazy" in repr(part) for part in parts)


def test_a_class_of_tensors() -> None:
    class Parameter(porism.Tensor):
        pass

    f = porism.jit(lambda x: x + 1)
    for k in range(3):
        assert f(Parameter(porism.full(2, float(k)).node)).tolist() == [k + 1, k + 1]
    assert f.traces == 1


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
    assert caught.value.where is not None
    assert "test_jit.py" in caught.value.where
    assert "traced once" in str(caught.value.why)
    assert "porism.where" in str(caught.value.fix)


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

    with pytest.raises(PorismError, match="keeps a tensor that it created"):
        f(ones(1))

    place: set[Any] = set()  # whose elements have no places that could be named

    @porism.jit
    def g(x: Any) -> Any:
        place.add(x + 1)
        return x

    assert g(ones(1)).item() == 1
    (value,) = place
    with pytest.raises(NoValue, match="kept from inside of a jitted function"):
        value.numpy()
    with pytest.raises(NoValue, match="kept from inside of a jitted function"):
        (value * 2).item()
    with pytest.raises(NoValue, match="kept from inside of a jitted function"):
        g(value)
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
    with pytest.raises(PorismError, match="returns a generator"):
        porism.jit(lambda x: (x for _ in range(3)))(ones(1))
    with pytest.raises(PorismError, match="returns a ndarray"):
        porism.jit(lambda x: np.zeros(3))(ones(1))
    with pytest.raises(PorismError, match="a set as an argument"):
        porism.jit(lambda x: 1)({1})
    with pytest.raises(PorismError, match="at least one"):
        porism.jit(signatures=0)
    assert asyncio.run(later(3)) == 3
    assert next(numbers(3)) == 3


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
    assert count.item() == 6
    assert inner.traces == 0
    assert inner(ones(1)).item() == 2
    assert count.item() == 7


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


# -- pickles and copies ----------------------------------------------------------------------------


@porism.jit
def doubled(x: Any) -> Any:
    return x * 2


class Model:
    """Has a jitted method, and one that is jitted for each object."""

    def __init__(self) -> None:
        self.weight = porism.ones(2)
        self.step = porism.jit(self.forward)

    def forward(self, x: Any) -> Any:
        return x * self.weight

    @porism.jit
    @staticmethod
    def plain(x: Any) -> Any:
        return x + 1


def test_a_jitted_function_is_pickled_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    assert copy.deepcopy({"f": doubled})["f"] is doubled


@pytest.mark.parametrize("again", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_objects_with_jitted_functions_are_copied(again: Any) -> None:
    model = Model()
    assert model.step(ones(2)).tolist() == [1, 1]
    other = again(model)
    other.weight.assign(porism.asarray([5.0, 6.0]))
    assert other.step(ones(2)).tolist() == [5, 6]
    assert model.step(ones(2)).tolist() == [1, 1]


def test_a_static_method_may_be_inside() -> None:
    assert Model().plain(ones(2)).tolist() == Model.plain(ones(2)).tolist() == [2, 2]


# -- results that are numbers ----------------------------------------------------------------------

NUMBERS = [
    lambda v: (porism.zeros(()), porism.zeros((1,))),
    lambda v: (porism.zeros(()), porism.zeros(()).reshape(1, 1), porism.zeros(())),
    lambda v: (porism.zeros((), dtype=v.dtype), porism.zeros((), dtype=v.dtype) + v),
    lambda v: (v - v, porism.stack([v - v, v])),
    lambda v: (porism.ones(()), v + 1, v),
]


@pytest.mark.parametrize("shape", [(), (1,), (3,)])
@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
@pytest.mark.parametrize("function", NUMBERS)
def test_a_result_that_is_a_number_and_a_part_of_others(
    function: Any, dtype: str, shape: tuple[int, ...]
) -> None:
    """It is stored, and what else is made of it does not wait for that."""
    v = porism.asarray(np.full(shape, 3, dtype))
    jitted = porism.jit(function)
    for _ in range(2):
        for actual, expected in zip(jitted(v), function(v), strict=True):
            assert actual.dtype is expected.dtype
            np.testing.assert_array_equal(actual.numpy(), expected.numpy())


# -- memory ----------------------------------------------------------------------------------------


def _called_with_shapes(first: int, last: int) -> Any:
    """A jitted function that was called once with each of so many rows."""
    jitted = porism.jit(lambda x: (x * 2 + 1).sum(1))
    for rows in range(first, last):
        jitted(np.ones((rows, 5), np.float32)).numpy()
    return jitted


@pytest.mark.slow
@pytest.mark.parametrize("how", ["clear", "del"])
def test_what_a_function_has_compiled_is_given_back(how: str) -> None:
    """Nodes, schedules, programs and machine code; a collection after it is let go of is enough."""

    def given_back(first: int, last: int) -> None:
        jitted = _called_with_shapes(first, last)
        if how == "clear":
            jitted.clear()
        del jitted
        gc.collect()

    given_back(2, 10)
    gc.collect()  # what was recent before, too
    tables: list[Any] = [backend_runners._programs, realize._schedules, program._functions]
    before, nodes = [len(table) for table in tables], node_collector.live_nodes()
    given_back(100, 140)
    assert [len(table) for table in tables] == before
    assert node_collector.live_nodes() - nodes < 40 * 5  # sizes have nodes of their own


@pytest.mark.usefixtures("frozen_heap")
def test_what_a_function_uses_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A collection takes nothing from those who use it: neither a function nor a loop of calls."""
    jitted = _called_with_shapes(2, 5)
    eager = [ones(rows, 7) for rows in (3, 4)]
    for x in eager:
        (x * 3).numpy()
    created: list[Any] = []
    build = program.Program.__init__

    def counted(self: Any, *arguments: Any) -> None:
        created.append(self)
        build(self, *arguments)

    monkeypatch.setattr(program.Program, "__init__", counted)
    for _ in range(3):
        gc.collect()
        for rows in range(2, 5):
            actual = jitted(np.ones((rows, 5), np.float32))
            assert actual.tolist() == [15.0] * rows
        for x in eager:
            (x * 3).numpy()
    assert not created
