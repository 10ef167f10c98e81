"""Errors name the user's line, whichever way leads to the mistake."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import porism
from porism.base.errors import PorismError, ShapeError, TypeMismatch
from tests.tensor.oracle import refuses


def line() -> int:
    """Return the line number of the caller."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_the_line_is_exact() -> None:
    x, y = porism.ones(2, 3), porism.ones(4)
    with refuses(ShapeError, "the shapes (2, 3) and (4,) do not go together") as caught:
        here = line()
        x + y
    assert caught.value.where == f"{__file__}, line {here + 1}"


def test_the_line_of_a_function_of_the_user() -> None:
    def step(x: Any) -> Any:
        return x.reshape(7)

    with refuses(ShapeError, "cannot reshape (2, 3) to (7,)") as caught:
        step(porism.ones(2, 3))
    expected = inspect.getsourcelines(step)[1] + 1
    assert caught.value.where == f"{__file__}, line {expected}"


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "operator": lambda x, y: x * y,
    "reflected": lambda x, y: [1.0, 2.0] * y,
    "function": lambda x, y: porism.multiply(x, y),
    "method": lambda x, y: x.multiply(y),
    "comparison": lambda x, y: x < y,
    "where": lambda x, y: porism.where(x > 0, x, y),
    "logic": lambda x, y: porism.logical_and(x, y),
    "floats": lambda x, y: porism.atan2(x, y),
    "clip": lambda x, y: x.clip(y),
    "lerp": lambda x, y: porism.lerp(x, y, 0.5),
    "broadcast_arrays": lambda x, y: porism.broadcast_arrays(x, y),
}


@pytest.mark.parametrize("way", WAYS)
def test_shapes_that_do_not_go_together(way: str) -> None:
    x, y = porism.ones(2), porism.ones(3)
    with refuses(ShapeError, "the shapes (2,) and (3,) do not go together") as caught:
        WAYS[way](x, y)
    assert caught.value.why == (
        "in axis -1 (counted from the end) the sizes 2 and 3 are different, and neither is 1"
    )


def test_objects_that_are_not_operands() -> None:
    x = porism.ones(2)
    for bad in (None, "text", object(), {1: 2}):
        with refuses(TypeMismatch, "as a tensor"):
            x + bad
        with refuses(TypeMismatch, "as a tensor"):
            _ = x < bad
    with refuses(TypeMismatch, "gelu with approximate='erf'"):
        x.gelu(approximate="erf")


def test_a_method_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="expp"):
        porism.ones(2).expp()


def test_nothing_is_computed_before_the_error() -> None:
    """A mistake is reported when the graph is built, not when the values are computed."""
    x = porism.ones(2, 3) / 0
    with pytest.raises(PorismError):
        x @ porism.ones(2, 3)


ARGUMENTS: dict[str, tuple[Callable[[], Any], str]] = {
    "arange of nothing": (lambda: porism.arange(None), "stop of arange is None"),
    "arange without end": (lambda: porism.arange(float("inf")), "stop of arange is inf"),
    "concat of nothing": (lambda: porism.concat(None), "concat of None"),
    "stack of a number": (lambda: porism.stack(3), "stack of 3"),
    "var": (lambda: porism.ones(3).var(correction=None), "correction of var is None"),
    "std": (lambda: porism.ones(3).std(correction="1"), "correction of std is '1'"),
    "uniform": (lambda: porism.uniform((3,)), "low is (3,)"),
    "normal": (lambda: porism.normal(0.0, None), "std is None"),
    "batch_statistics": (
        lambda: porism.batch_statistics(porism.ones(2, 3), None, porism.ones(3)),
        "batch_statistics without running_mean",
    ),
}


@pytest.mark.parametrize("call", ARGUMENTS)
def test_arguments_of_another_kind(call: str) -> None:
    run, what = ARGUMENTS[call]
    with refuses(ShapeError, what) as caught:
        run()
    assert caught.value.where is not None
    assert caught.value.where.startswith(__file__)


# -- Python's classes of errors --------------------------------------------------------------------


def test_errors_are_of_pythons_classes_too() -> None:
    with pytest.raises(ValueError, match="do not go together"):
        porism.ones(2) + porism.ones(3)
    with pytest.raises(TypeError, match="is no type of tensors"):
        porism.ones(2).astype("float31")


# -- values without numbers ------------------------------------------------------------------------

NO_NUMBERS: list[tuple[Callable[[], Any], type[PorismError], str]] = [
    (lambda: porism.ones(2) + None, TypeMismatch, "None as a tensor, or in one"),
    (lambda: porism.asarray([1, None]), TypeMismatch, "None as a tensor, or in one"),
    (lambda: porism.asarray([2**64]), TypeMismatch, "an int of 65 bits in a tensor"),
    (lambda: porism.asarray([[1, 2], [3, -(2**70)]]), TypeMismatch, "an int of 71 bits"),
    (lambda: porism.asarray([-1, 2**63]), TypeMismatch, "some are negative and some have 64 bits"),
    (lambda: porism.asarray({"a": 1}), TypeMismatch, "a dict as a tensor, or in one"),
    (lambda: porism.ones(2).astype(None), TypeMismatch, "None is no type of tensors"),
    (lambda: porism.ones(2) + 10**400, TypeMismatch, "an int of 1329 bits does not fit into"),
    (lambda: porism.ones(2, dtype="float16") * -(10**5), TypeMismatch, "does not fit into float16"),
    (lambda: porism.full((2,), [1, 2]), ShapeError, "full with a value of shape (2,)"),
    (lambda: porism.full((2,), None), TypeMismatch, "None as a tensor, or in one"),
    (lambda: porism.concat(porism.ones(2), porism.ones(2)), ShapeError, "concat with a Tensor as"),
    (lambda: porism.stack([1, 2], [3, 4]), ShapeError, "stack with a list as the axis"),
]


@pytest.mark.parametrize(("mistake", "error", "what"), NO_NUMBERS)
def test_values_that_are_not_numbers(
    mistake: Callable[[], Any], error: type[PorismError], what: str
) -> None:
    with refuses(error, what):
        mistake()


# -- assignments without an effect -----------------------------------------------------------------


def test_an_assignment_to_a_part_of_a_part() -> None:
    x = porism.zeros((2, 2))
    with refuses(PorismError, "that nothing refers to"):
        x[0][1] = 99
    with refuses(PorismError, "that nothing refers to"):
        x[0][1] += 1
    with refuses(PorismError, "that nothing refers to"):
        porism.jit(_changes_a_part_of_a_part)(x)
    assert x.tolist() == [[0, 0], [0, 0]]


def _changes_a_part_of_a_part(x: Any) -> Any:
    x[0][1] = 99
    return x


def test_assignments_that_have_an_effect() -> None:
    """Through a variable, a list, an attribute, the result of a function; traced and not."""

    class Model:
        def __init__(self, weights: Any) -> None:
            self.weights = weights

    def changed(x: Any) -> Any:
        x = porism.zeros((2, 2)) + x
        row = x[0]
        row[1] = 5
        x[1] = row
        parts = [x]
        parts[0][0, 0] = 7
        model = Model(x)
        model.weights[0, 1] += 2
        (lambda: x)()[1, 0] = 3
        return x

    for function in (changed, porism.jit(changed)):
        assert function(porism.zeros((2, 2))).tolist() == [[7, 2], [3, 5]]
