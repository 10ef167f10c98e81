"""Jit: a function on tensors, traced once for each signature of its arguments, then replayed.

The first call runs the function on placeholders; the recorded graph is compiled to one program. A
call with arguments of the same shapes and types fills in the addresses of the data and runs the
program. Captured tensors are inputs too: a call reads their present values, and assigns to them
what the function assigns.
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
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar, overload

from porism.base.settings import settings
from porism.gradient.stated_pullbacks import depends_on_variable, is_recording
from porism.ir.node import UOp
from porism.ir.node_collector import quiet_collector
from porism.tensor.autodiff.leaf_state import disabled, make_leaf
from porism.tensor.jit import captured_tensors, stored_replay
from porism.tensor.jit.argument_checks import (
    check_arrays,
    check_untouched,
    is_tensor,
    part_count,
)
from porism.tensor.jit.fast_path import MISSED, FastPath, fast_path_of
from porism.tensor.jit.nested_values import Signature, describe, leaves, map_leaves
from porism.tensor.jit.replay import Replay, captured_argument_error, realize_tensors
from porism.tensor.jit.stored_replay import Content
from porism.tensor.jit.trace_to_replay import make_replay
from porism.tensor.jit.tracing import Trace, TracedGradient, current, placeholder_of
from porism.tensor.promotion import type_error
from porism.tensor.shapes import as_int
from porism.tensor.tensor import Tensor

if TYPE_CHECKING:
    from porism.engine.tune.background_tuning import BackgroundTuning

Parameters = ParamSpec("Parameters")
NO_GRADIENTS: Final = "no gradients"
"""Part of the signature of a call where gradients are disabled."""
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
    """Return a function that is traced once for each signature, and then replayed.

    `signatures` is how many signatures are kept, the oldest are dropped; by default the setting
    `jit_signatures`. With `beam` its kernels are tuned when it is traced, as the setting of
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
        raise type_error(f"jit with signatures={most}", "at least one is kept", "pass 1 or more")
    width = None if beam is None else as_int(beam, "beam")
    if width is not None and width < 0:
        raise type_error(f"jit with beam={width}", "so many are kept", "pass 0 for none, or more")
    if budget is not None and not 0 < budget < math.inf:
        raise type_error(f"jit with budget={budget}", "it is a time", "pass seconds, more than 0")
    if fast_math not in (None, False, True):
        raise type_error(
            f"jit with fast_math={fast_math!r}", "it is a switch", "pass True or False"
        )
    if function is None:
        return lambda later: Jitted(later, most, width, budget, fast_math)
    return Jitted(function, most, width, budget, fast_math)


class Jitted(Generic[Parameters, Result]):
    """A jitted function, with a replay for each signature."""

    __name__: str
    __wrapped__: Callable[Parameters, Result]

    def __init__(
        self,
        function: Callable[Parameters, Result],
        most: int | None = None,
        beam: int | None = None,
        budget: float | None = None,
        fast_math: bool | None = None,
        content: Content | None = None,
    ) -> None:
        _check_function(function)
        functools.update_wrapper(self, function)
        self.function = function
        self.most = most
        self.beam = beam
        self.budget = budget
        self.fast_math = fast_math
        self.content = content
        """What it computes, if that has a key by which replays are found on disk."""
        self.traces = 0
        """How often the function has been traced."""
        self._replays: dict[tuple[Any, ...], Replay] = {}
        self._fast_path: FastPath | None = None
        """The fast path for calls like the last one."""
        self._last_arguments: dict[str, str] = {}
        self._tunings: list[BackgroundTuning] = []
        self.state_lock: Any
        """Held by calls that assign to captured tensors or arguments."""
        self.renew_locks()
        _instances.add(self)

    def renew_locks(self) -> None:
        """Make new locks: at the beginning, and in a forked child, where a lock may be held."""
        self._lock = threading.RLock()
        self.state_lock = threading.RLock()
        for traced in self._replays.values():
            traced.lock = self.state_lock

    def __repr__(self) -> str:
        return f"<jitted {_qualified_name(self.function)}, {len(self._replays)} signatures>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Bind the function to an object when it is used as a method."""
        if instance is None or isinstance(self.function, staticmethod):
            return self
        return types.MethodType(self, instance)

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickle and copy the function by its name, or else with the function that it wraps."""
        name = str(getattr(self, "__qualname__", ""))
        named: Any = sys.modules.get(self.__module__)
        for part in name.split("."):
            named = getattr(named, part, None)
        if named is self:
            return name
        return Jitted, (self.function, self.most, self.beam, self.budget, self.fast_math)

    @property
    def signatures(self) -> int:
        """How many signatures are kept."""
        return len(self._replays)

    @property
    def programs(self) -> list[Replay]:
        """The replays, the oldest first."""
        return list(self._replays.values())

    def clear(self) -> None:
        """Drop all traces."""
        with self._lock:
            self._fast_path = None
            self._replays.clear()

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        fast_path = self._fast_path
        if fast_path is not None:
            result = fast_path.call(args, kwargs)
            if result is not MISSED:
                return result  # type: ignore[no-any-return]
        if current.get() is not None:
            return self.function(*args, **kwargs)  # it becomes part of the outer trace
        signature = self._signature(args, kwargs)
        if signature.lazy and is_recording() and _is_differentiated(signature.tensors):
            return self.function(*args, **kwargs)
        traced = self._find(signature, args, kwargs)
        self._fast_path = None if traced.fast_path is None else traced.fast_path.enable()
        if signature.lazy:
            realize_tensors(signature.tensors)
        return traced.run(signature.tensors, signature.variables)  # type: ignore[no-any-return]

    def replay(self, *args: Any, **kwargs: Any) -> Replay:
        """Return the trace for some arguments, without running it; it is made if there is none."""
        return self._find(self._signature(args, kwargs), args, kwargs)

    def _signature(self, args: Any, kwargs: Any) -> Signature:
        signature = Signature()
        signature.add_call(args, kwargs)
        if disabled.get():
            signature.parts.append(NO_GRADIENTS)
        signature.parts.append(settings.backend)
        if self.fast_math is None:
            signature.parts.append(settings.fast_math)
        return signature

    def _find(self, signature: Signature, args: Any, kwargs: Any) -> Replay:
        """Return the trace of a signature; a new one if there is none, or it no longer applies."""
        key = tuple(signature.parts)
        traced = self._replays.get(key)
        why = None if traced is None else traced.why_outdated(signature.variables)
        if traced is None or why is not None:
            traced = self._retrace(key, signature, args, kwargs, why)
            traced.why_outdated(signature.variables)
        return traced

    def _retrace(
        self, key: tuple[Any, ...], signature: Signature, args: Any, kwargs: Any, why: str | None
    ) -> Replay:
        """Return a new trace, unless another thread has traced the same signature meanwhile."""
        with self._lock:
            traced = self._replays.get(key)
            if traced is not None and traced.why_outdated(signature.variables) is None:
                return traced
            own = {"beam": self.beam, "fast_math": self.fast_math}
            with settings.override(**{name: v for name, v in own.items() if v is not None}):
                traced = self._stored(key) or self._traced(key, signature, args, kwargs, why)
            traced.fast_path = fast_path_of(traced, signature, args, kwargs)
            if self.budget is not None:
                self._tune(traced, self.budget)
            self._replays.pop(key, None)
            most = settings.jit_signatures if self.most is None else self.most
            while len(self._replays) >= most:
                del self._replays[next(iter(self._replays))]
            self._replays[key] = traced
            return traced

    def _stored(self, key: tuple[Any, ...]) -> Replay | None:
        """Return the replay of a signature from disk, if it is there."""
        if self.content is None or self.budget is not None:
            return None
        return stored_replay.load(self.content, key, self.state_lock)

    def _traced(
        self, key: tuple[Any, ...], signature: Signature, args: Any, kwargs: Any, why: str | None
    ) -> Replay:
        """Trace the function, and keep the replay on disk if the function's content has a key."""
        arguments = self._describe(args, kwargs)
        if settings.debug >= 1:
            reason = why or _retrace_reason(self._last_arguments, arguments)
            again = " again" if self.traces else ""
            print(
                f"porism: tracing {_qualified_name(self.function)}{again}: {reason}",
                file=sys.stderr,
            )
        with quiet_collector():
            traced = _trace(self, signature, args, kwargs)
        self.traces += 1
        self._last_arguments = arguments
        if self.content is not None and self.budget is None:
            stored_replay.keep(self.content, key, traced)
        return traced

    def _tune(self, traced: Replay, budget: float) -> None:
        """Start tuning a replay in the background for some seconds."""
        self._tunings = [tuning for tuning in self._tunings if not tuning.wait(0)]
        tuning = traced.tune(budget)
        if tuning is not None:
            self._tunings.append(tuning)

    def wait_tuned(self, timeout: float | None = None) -> bool:
        """Wait until the kernels that are being tuned are in use; return whether they are."""
        return all(tuning.wait(timeout) for tuning in list(self._tunings))

    def _describe(self, args: Any, kwargs: Any) -> dict[str, str]:
        """Return a text for each leaf of the arguments, by path."""
        try:
            named = inspect.signature(self.function).bind(*args, **kwargs).arguments
        except (TypeError, ValueError):  # the call will say what is wrong
            named = {**{f"argument {k}": value for k, value in enumerate(args)}, **kwargs}
        return {
            path: describe(leaf)
            for name, value in named.items()
            for path, leaf in leaves(value, name)
        }


_instances: weakref.WeakSet[Jitted[Any, Any]] = weakref.WeakSet()


def _after_fork() -> None:
    """Renew the locks of all jitted functions in a forked child."""
    # Threads that held the locks are not in this process. A fork does not wait for them: one may be
    # inside of a user's function, which may take long, or wait for the fork itself.
    for jitted in list(_instances):
        jitted.renew_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _qualified_name(function: Any) -> str:
    """Return the name of a function for messages."""
    return str(getattr(function, "__qualname__", None) or repr(function))


def _check_function(function: Any) -> None:
    """Refuse what cannot be traced: values that are not callable, generators, coroutines."""
    if not callable(function):
        raise type_error(
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
            raise type_error(
                f"jit of {_qualified_name(function)}, which is {kind}",
                "it stops in the middle, and a replay runs from the arguments to the results",
                "return a list or a stacked tensor, or jit the function that makes one step",
            )


def _retrace_reason(before: dict[str, str], now: dict[str, str]) -> str:
    """Return why there is no trace for these arguments."""
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


def _trace(jitted: Any, signature: Signature, args: Any, kwargs: Any) -> Replay:
    """Run a function on placeholders, and return the replay of what it did."""
    function = jitted.function
    trace = Trace()
    wrappers: list[Tensor] = []
    placeholders: list[UOp] = []
    by_tensor: dict[int, Tensor] = {}
    for tensor in signature.tensors:
        node = tensor._node
        if id(tensor) not in by_tensor:
            by_tensor[id(tensor)] = Tensor(placeholder_of(node))
            if tensor._leaf is not None:
                make_leaf(by_tensor[id(tensor)])
        wrappers.append(by_tensor[id(tensor)])
        placeholders.append(wrappers[-1]._node)
    trace.created.update((id(tensor), tensor) for tensor in wrappers)
    replacements = iter(wrappers)
    given = map_leaves((args, kwargs), lambda leaf: _replaced(leaf, replacements))
    leaves_before = [leaf for _, leaf in leaves(given)]
    others = [leaf for leaf in leaves_before if not isinstance(leaf, Tensor)]
    with _restored_on_error(function, others):
        token = current.set(trace)
        try:
            result = function(*given[0], **given[1])
            check_untouched(leaves_before, given)
            check_arrays(args, kwargs, wrappers, placeholders)
            for _, leaf in leaves(result):
                if isinstance(leaf, Tensor):
                    trace.read(leaf)  # a captured tensor may be returned and not used otherwise
            return make_replay(
                wrappers,
                placeholders,
                list(trace.captured.values()),
                list(trace.streams.values()),
                _kept_gradients(trace, wrappers),
                result,
                _captured_locations(function, others, trace, signature),
                jitted.state_lock,
            )
        finally:
            current.reset(token)


def _is_differentiated(tensors: list[Tensor]) -> bool:
    """Whether gradients pass through some of the tensors."""
    return any(depends_on_variable(tensor._node) for tensor in tensors)


def _kept_gradients(trace: Trace, wrappers: list[Tensor]) -> list[TracedGradient]:
    """Return the gradients of arguments and captured tensors, not those of created ones."""
    arguments = set(map(id, wrappers))
    return [
        gradient
        for key, gradient in trace.gradients.items()
        if key in arguments or key not in trace.created
    ]


def _replaced(leaf: Any, replacements: Iterator[Tensor]) -> Any:
    """Return what stands for a leaf of the arguments inside of the function."""
    if not is_tensor(leaf):
        return leaf
    if part_count(leaf) == 1:
        return next(replacements)
    from porism.tensor.complex.complex_tensor import ComplexTensor

    return ComplexTensor(next(replacements), next(replacements))


@contextmanager
def _restored_on_error(function: Any, others: list[Any]) -> Iterator[None]:
    """Put captured tensors back into their locations if the block raises an error."""
    before = list(captured_tensors.tensor_locations(function, others))
    try:
        yield
    except BaseException:
        for location, tensor in before:
            if not captured_tensors.holds(location, tensor):
                captured_tensors.restore(location, tensor)
        raise


def _captured_locations(
    function: Any, others: list[Any], trace: Trace, signature: Signature
) -> list[tuple[captured_tensors.Location, Any]]:
    """Return the locations of captured tensors and of modes that the function has read.

    A tensor that the function created in such a location is an error.
    """
    locations: list[tuple[captured_tensors.Location, Any]] = [
        (location, location[0][location[1]]) for location in trace.modes.values()
    ]
    for location, tensor in captured_tensors.tensor_locations(function, others):
        if id(tensor) in trace.created:
            name = "a variable" if location[1] is None else repr(location[1])
            raise type_error(
                f"a jitted function keeps a tensor that it created, as {name}",
                "what it keeps in Python is kept once, when it is traced, and not in every call",
                "return the tensor, or give its value to an existing one, with x.assign(...)",
            )
        if any(id(part) in trace.captured for _, part in leaves(tensor)):
            locations.append((location, tensor))
    assigned = any(c.node is not c.placeholder for c in trace.captured.values())
    if assigned and any(id(tensor) in trace.captured for tensor in signature.tensors):
        raise captured_argument_error()
    return locations
