"""Jit: a function on tensors, traced once for each kind of arguments, and then only replayed.

The first call runs the function on placeholders, which stand for the data; what it does becomes one
program. A call with arguments of the same shapes and types fills in the addresses of the data, and
runs that. Tensors that the function uses from outside are inputs too: their values are those of the
moment, and what the function assigns to them is assigned at every call.
"""

from __future__ import annotations

import functools
import inspect
import math
import os
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

import numpy as np

from porism.base.settings import settings
from porism.engine.run.buffer_storage import new_placeholder
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.tensor.jit import captured_tensors
from porism.tensor.jit.fast_path import MISSED, Short, short_of
from porism.tensor.jit.nested_values import Signature, leaves, rebuilt, told
from porism.tensor.jit.replay import Replay, both_inside_and_out, compute
from porism.tensor.jit.trace_to_replay import replay
from porism.tensor.jit.tracing import Trace, current
from porism.tensor.promotion import refuse
from porism.tensor.shapes import as_int
from porism.tensor.tensor import Tensor

if TYPE_CHECKING:
    from porism.engine.tune.background_tuning import Background

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@overload
def jit(
    function: Callable[Parameters, Result],
    *,
    signatures: int | None = None,
    beam: int | None = None,
    budget: float | None = None,
    fast_math: bool | None = None,
) -> Jitted[Parameters, Result]: ...
@overload
def jit(
    *,
    signatures: int | None = None,
    beam: int | None = None,
    budget: float | None = None,
    fast_math: bool | None = None,
) -> Callable[[Callable[Parameters, Result]], Jitted[Parameters, Result]]: ...
def jit(
    function: Any = None,
    *,
    signatures: int | None = None,
    beam: int | None = None,
    budget: float | None = None,
    fast_math: bool | None = None,
) -> Any:
    """A function that is traced once for each signature, and then replayed.

    `signatures` is how many kinds of arguments are kept, the oldest go; by default what the setting
    `jit_signatures` says. With `beam` its kernels are tuned when it is traced, as the setting of
    that name says; with `budget` it runs at once, is tuned in the background for so many seconds,
    and goes on with the better kernels. `fast_math` says whether rules may change float results in
    it (docs/fast_math.md); by default the setting of that name does.

    >>> import porism
    >>> @porism.jit
    ... def scaled(x, by=2.0):
    ...     return x * by
    >>> scaled(porism.arange(3.0)).tolist(), scaled(porism.ones(2), by=3.0).tolist()
    ([0.0, 2.0, 4.0], [3.0, 3.0])
    """
    most = None if signatures is None else as_int(signatures, "signatures")
    if most is not None and most < 1:
        raise refuse(f"jit with signatures={most}", "at least one is kept", "pass 1 or more")
    width = None if beam is None else as_int(beam, "beam")
    if width is not None and width < 0:
        raise refuse(f"jit with beam={width}", "so many are kept", "pass 0 for none, or more")
    if budget is not None and not 0 < budget < math.inf:
        raise refuse(f"jit with budget={budget}", "it is a time", "pass seconds, more than 0")
    if fast_math not in (None, False, True):
        raise refuse(f"jit with fast_math={fast_math!r}", "it is a switch", "pass True or False")
    if function is None:
        return lambda later: Jitted(later, most, width, budget, fast_math)
    return Jitted(function, most, width, budget, fast_math)


class Jitted(Generic[Parameters, Result]):
    """A function with the programs that its traces have become."""

    __name__: str
    __wrapped__: Callable[Parameters, Result]

    def __init__(
        self,
        function: Callable[Parameters, Result],
        most: int | None = None,
        beam: int | None = None,
        budget: float | None = None,
        fast_math: bool | None = None,
    ) -> None:
        _check(function)
        functools.update_wrapper(self, function)
        self.function = function
        self.most = most
        self.beam = beam
        self.budget = budget
        self.fast_math = fast_math
        self.traces = 0
        """How often the function was traced."""
        self._replays: dict[tuple[Any, ...], Replay] = {}
        self._short: Short | None = None
        """The short way for calls like the last one."""
        self._told: dict[str, str] = {}
        self._tunings: list[Background] = []
        self.state: Any
        """Held by calls that update state."""
        self.renew_locks()
        _all.add(self)

    def renew_locks(self) -> None:
        """Take locks that nobody holds: at the beginning, and in a forked child."""
        self._lock = threading.RLock()
        self.state = threading.RLock()
        for each in self._replays.values():
            each.lock = self.state

    def __repr__(self) -> str:
        return f"<jitted {_name(self.function)}, {len(self._replays)} signatures>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """As a method, it is bound to its object as functions are."""
        if instance is None or isinstance(self.function, staticmethod):
            return self
        return types.MethodType(self, instance)

    def __reduce__(self) -> str | tuple[Any, ...]:
        """It is pickled and copied as functions are, by its name, or else with what it wraps."""
        name = str(getattr(self, "__qualname__", ""))
        found: Any = sys.modules.get(self.__module__)
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is self:
            return name
        return Jitted, (self.function, self.most, self.beam, self.budget, self.fast_math)

    @property
    def signatures(self) -> int:
        """How many kinds of arguments are kept."""
        return len(self._replays)

    @property
    def programs(self) -> list[Replay]:
        """What its traces have become, the oldest first."""
        return list(self._replays.values())

    def clear(self) -> None:
        """Forget all traces."""
        with self._lock:
            self._short = None
            self._replays.clear()

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        short = self._short
        if short is not None:
            result = short.call(args, kwargs)
            if result is not MISSED:
                return result  # type: ignore[no-any-return]
        if current.get() is not None:
            return self.function(*args, **kwargs)  # it becomes a part of what is traced
        signature = Signature()
        for value in args:
            signature.add(value)
        if kwargs:
            signature.parts.append(tuple(kwargs))
            for value in kwargs.values():
                signature.add(value)
        if len(signature.tensors) > 1:
            signature.alike()
        signature.parts.append(settings.backend)
        if self.fast_math is None:
            signature.parts.append(settings.fast_math)
        key = tuple(signature.parts)
        found = self._replays.get(key)
        why = None if found is None else found.outdated(signature.variables)
        if found is None or why is not None:
            found = self._new(key, signature, args, kwargs, why)
            found.outdated(signature.variables)
        self._short = None if found.short is None else found.short.open()
        if signature.lazy:
            compute(signature.tensors)
        return found.run(signature.tensors, signature.variables)  # type: ignore[no-any-return]

    def _new(
        self, key: tuple[Any, ...], signature: Signature, args: Any, kwargs: Any, why: str | None
    ) -> Replay:
        """Trace, unless another thread did so meanwhile."""
        with self._lock:
            found = self._replays.get(key)
            if found is not None and found.outdated(signature.variables) is None:
                return found
            known = self._describe(args, kwargs)
            if settings.debug >= 1:
                reason = why or _reason(self._told, known)
                again = " again" if self.traces else ""
                print(f"porism: tracing {_name(self.function)}{again}: {reason}", file=sys.stderr)
            own = {"beam": self.beam, "fast_math": self.fast_math}
            with settings.override(**{name: v for name, v in own.items() if v is not None}):
                found = _traced(self, signature, args, kwargs)
            found.short = short_of(found, signature, args, kwargs)
            if self.budget is not None:
                self._tune(found, self.budget)
            self.traces += 1
            self._told = known
            self._replays.pop(key, None)
            most = settings.jit_signatures if self.most is None else self.most
            while len(self._replays) >= most:
                del self._replays[next(iter(self._replays))]
            self._replays[key] = found
            return found

    def _tune(self, found: Replay, budget: float) -> None:
        self._tunings = [each for each in self._tunings if not each.wait(0)]
        started = found.tune(budget)
        if started is not None:
            self._tunings.append(started)

    def wait_tuned(self, timeout: float | None = None) -> bool:
        """Wait until what is tuned in the background is in use; whether that is so."""
        return all(each.wait(timeout) for each in list(self._tunings))

    def _describe(self, args: Any, kwargs: Any) -> dict[str, str]:
        """The arguments for people, by path."""
        try:
            named = inspect.signature(self.function).bind(*args, **kwargs).arguments
        except (TypeError, ValueError):  # the call will say what is wrong
            named = {**{f"argument {k}": value for k, value in enumerate(args)}, **kwargs}
        return {
            path: told(leaf) for name, value in named.items() for path, leaf in leaves(value, name)
        }


_all: weakref.WeakSet[Jitted[Any, Any]] = weakref.WeakSet()


def _after_fork() -> None:
    # Threads that held the locks are not in this process. A fork does not wait for them: one may be
    # inside of a user's function, which may take long, or wait for the fork itself.
    for each in list(_all):
        each.renew_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", None) or repr(function))


def _check(function: Any) -> None:
    if not callable(function):
        raise refuse(
            f"jit of a {type(function).__name__}",
            "a function is wanted",
            "use @porism.jit on a function, or porism.jit(function)",
        )
    kinds = {
        "a generator": inspect.isgeneratorfunction,
        "a coroutine": inspect.iscoroutinefunction,
        "an asynchronous generator": inspect.isasyncgenfunction,
    }
    for kind, is_kind in kinds.items():
        if is_kind(function):
            raise refuse(
                f"jit of {_name(function)}, which is {kind}",
                "it stops in the middle, and a replay runs from the arguments to the results",
                "return a list or a stacked tensor, or jit the function that makes one step",
            )


def _reason(before: dict[str, str], now: dict[str, str]) -> str:
    """Why there is no trace for these arguments."""
    if not before:
        return "it is called for the first time"
    for path, text in now.items():
        if path not in before:
            return f"{path} is new, {text}"
        if before[path] != text:
            return f"{path} was {before[path]} and is {text}"
    gone = [path for path in before if path not in now]
    return f"{gone[0]} is gone" if gone else "the arguments were passed in another way"


# -- tracing ---------------------------------------------------------------------------------------


def _traced(jitted: Any, signature: Signature, args: Any, kwargs: Any) -> Replay:
    """Run a function on placeholders."""
    function = jitted.function
    trace = Trace()
    wrappers: list[Tensor] = []
    placeholders: list[UOp] = []
    by_tensor: dict[int, Tensor] = {}
    for tensor in signature.tensors:
        node = tensor._node
        if id(tensor) not in by_tensor:
            by_tensor[id(tensor)] = Tensor(new_placeholder(node.dtype, shape(node)))
        wrappers.append(by_tensor[id(tensor)])
        placeholders.append(wrappers[-1]._node)
    trace.made.update((id(tensor), tensor) for tensor in wrappers)
    following = iter(wrappers)
    given = rebuilt((args, kwargs), lambda leaf: next(following) if _is_tensor(leaf) else leaf)
    leaves_before = [leaf for _, leaf in leaves(given)]
    others = [leaf for leaf in leaves_before if not isinstance(leaf, Tensor)]
    with _restored(function, others):
        token = current.set(trace)
        try:
            result = function(*given[0], **given[1])
            _check_untouched(leaves_before, given)
            _check_arrays(args, kwargs, wrappers, placeholders)
            for _, leaf in leaves(result):
                if isinstance(leaf, Tensor):
                    trace.read(leaf)  # one from outside may be given as it is, and used nowhere
            return replay(
                wrappers,
                placeholders,
                list(trace.outside.values()),
                list(trace.supplies.values()),
                result,
                _places(function, others, trace, signature),
                jitted.state,
            )
        finally:
            current.reset(token)


def _is_tensor(leaf: Any) -> bool:
    return isinstance(leaf, (Tensor, np.ndarray))


@contextmanager
def _restored(function: Any, others: list[Any]) -> Iterator[None]:
    """Put tensors back where they were, if something goes wrong."""
    before = list(captured_tensors.places(function, others))
    try:
        yield
    except BaseException:
        for place, tensor in before:
            if not captured_tensors.holds(place, tensor):
                captured_tensors.put(place, tensor)
        raise


def _places(
    function: Any, others: list[Any], trace: Trace, signature: Signature
) -> list[tuple[captured_tensors.Place, Tensor]]:
    """Where the tensors from outside are; those that were made inside must not be there."""
    found = []
    for place, tensor in captured_tensors.places(function, others):
        if id(tensor) in trace.made:
            name = "a variable" if place[1] is None else repr(place[1])
            raise refuse(
                f"a jitted function keeps a tensor that it made, as {name}",
                "what it keeps in Python is kept once, when it is traced, and not at every call",
                "return the tensor, or give its value to one that is there, with x.assign(...)",
            )
        if id(tensor) in trace.outside:
            found.append((place, tensor))
    changed = any(one.now is not one.before for one in trace.outside.values())
    if changed and any(id(tensor) in trace.outside for tensor in signature.tensors):
        raise both_inside_and_out()
    return found


def _check_untouched(before: list[Any], given: Any) -> None:
    """Containers among the arguments hold what they held."""
    after = [leaf for _, leaf in leaves(given)]
    if len(after) != len(before) or any(a is not b for a, b in zip(after, before, strict=True)):
        raise refuse(
            "a jitted function changes a dict, a list or an object that it was given",
            "that would happen once, when it is traced, and not at every call",
            "return the new one; a tensor gets another value with x.assign(...) or x[...] = …",
        )


def _check_arrays(args: Any, kwargs: Any, wrappers: list[Tensor], placeholders: list[UOp]) -> None:
    """NumPy's arrays among the arguments are tensors inside, and are not written to."""
    given = [leaf for _, leaf in leaves((args, kwargs)) if _is_tensor(leaf)]
    for leaf, tensor, before in zip(given, wrappers, placeholders, strict=True):
        if isinstance(leaf, np.ndarray) and tensor._node is not before:
            raise refuse(
                "a jitted function assigns to an array of NumPy's that it was given",
                "inside, the array is a tensor",
                "return the new value, or pass a tensor",
            )
