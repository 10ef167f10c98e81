"""Keywords: the public form of a function, which takes keywords of other libraries too.

A keyword that means the same is renamed. Arguments that a function does not take raise an error
that shows those it takes, or says what to write instead. A call with our own keywords costs no more
than one more frame.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

from porism.base.errors import PorismError, TypeMismatch
from porism.tensor.habits.foreign_keywords import INSTEAD, NEUTRAL
from porism.tensor.habits.synonyms import (
    AMBIGUOUS,
    DIVIDES_BY_LESS,
    FIRST,
    FOREIGN,
    KEYWORDS,
    OF_FUNCTION,
)
from porism.tensor.promotion import type_error

Options = dict[str, Any]
Function = TypeVar("Function", bound=Callable[..., Any])

PACKAGES: Final = {"porism.tensor.fourier.": "porism.fft", "porism.tensor.linalg.": "porism.linalg"}
"""The public package of functions that are not in `porism` itself, by their modules."""

_public: Final[dict[Callable[..., Any], Callable[..., Any]]] = {}


def public(function: Function) -> Function:
    """Return a function that takes keywords of other libraries too, and explains wrong calls."""
    found = _public.get(function)
    if found is not None:
        return found  # type: ignore[return-value]

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if options and not FOREIGN.isdisjoint(options):
            args, options = rename(function, args, options)
        try:
            return function(*args, **options)
        except TypeError as error:
            if isinstance(error, PorismError) or _takes(function, args, options):
                raise
            return _without_neutral(function, args, options, error)

    call.__module__ = _package(function)
    _public[function] = call
    return call  # type: ignore[return-value]


def _package(function: Callable[..., Any]) -> str:
    """Return the package in which users find a function."""
    module = str(function.__module__)
    return next((p for begin, p in PACKAGES.items() if module.startswith(begin)), "porism")


def _takes(function: Callable[..., Any], args: tuple[Any, ...], options: Options) -> bool:
    """Whether a function takes these arguments."""
    try:
        inspect.signature(function).bind(*args, **options)
    except TypeError:
        return False
    return True


def parameters(function: Callable[..., Any]) -> tuple[tuple[str, ...], str | None]:
    """Return the names of the parameters of a function, and of the one with a star."""
    code = inspect.unwrap(function).__code__
    count = code.co_argcount + code.co_kwonlyargcount
    starred = code.co_varnames[count] if code.co_flags & inspect.CO_VARARGS else None
    return code.co_varnames[:count], starred


def rename(
    function: Callable[..., Any], args: tuple[Any, ...], options: Options
) -> tuple[tuple[Any, ...], Options]:
    """Return the arguments of a call with the keywords that the function has."""
    names, starred = parameters(function)
    renamed: Options = {}
    for key, value in options.items():
        ours = key if key in names else _ours(function, key, names, starred, not args)
        if ours == starred and ours is not None:
            args = (*args, *value) if isinstance(value, (tuple, list)) else (*args, value)
            continue
        if ours != key:
            _refuse_ambiguous(function, key, options)
        if ours in renamed or (ours != key and ours in options):
            raise type_error(
                f"{function.__name__}() with both {key!r} and {ours!r}",
                "they are two names of one argument",
                f"pass {ours} alone",
            )
        renamed[ours] = value
    return args, renamed


def _ours(
    function: Callable[..., Any],
    key: str,
    names: tuple[str, ...],
    starred: str | None,
    first_is_free: bool,
) -> str:
    """Return our name of a keyword; the keyword itself if there is none."""
    own = OF_FUNCTION.get(function.__name__, {}).get(key)
    if own is not None:
        return own
    if key == starred:
        return key
    for candidate in KEYWORDS.get(key, ()):
        if candidate in names or candidate == starred:
            return candidate
    return names[0] if key in FIRST and first_is_free and names else key


def _refuse_ambiguous(function: Callable[..., Any], key: str, options: Options) -> None:
    """Raise an error for a keyword with which other libraries return something else."""
    name = function.__name__
    reason = AMBIGUOUS.get((name, key))
    if key == "dim" and name in DIVIDES_BY_LESS and not {*options} & _CORRECTIONS:
        reason = (
            f"PyTorch's {name} divides by n - 1, and NumPy's and ours by n",
            f"write x.{name}(axis=…, correction=1) for n - 1, and correction=0 for n",
        )
    if reason is not None:
        raise type_error(f"{name}() with the keyword {key!r}", *reason)


_CORRECTIONS: Final = frozenset({"correction", "ddof", "unbiased"})


def _without_neutral(
    function: Callable[..., Any], args: tuple[Any, ...], options: Options, error: TypeError
) -> Any:
    """Call again without keywords that change nothing, or raise what is wrong with the call."""
    names, _ = parameters(function)
    kept = {key: v for key, v in options.items() if key in names or not _is_neutral(key, v)}
    if len(kept) == len(options):
        raise _wrong_call(function, options, error) from None
    return public(function)(*args, **kept)


def _is_neutral(key: str, value: Any) -> bool:
    """Whether a keyword of another library has a value with which it changes nothing here."""
    return any(type(value) is type(same) and bool(value == same) for same in NEUTRAL.get(key, ()))


def _wrong_call(function: Callable[..., Any], options: Options, error: TypeError) -> TypeMismatch:
    """Return the error for arguments that a function does not take."""
    name = function.__name__
    names, _ = parameters(function)
    unknown = next((key for key in options if key not in names), None)
    shown = f"{_package(function)}.{name}{signature_text(function)}"
    advice = INSTEAD.get((name, unknown or ""), INSTEAD.get(("", unknown or "")))
    what = f"a wrong call of {name}: {error}"
    if advice is None:
        return type_error(what, "those are not its arguments", f"write {shown}")
    return type_error(what, f"its arguments are {shown}", advice)


def signature_text(function: Callable[..., Any]) -> str:
    """Return the parameters of a function with their defaults, without types.

    >>> signature_text(lambda x, axis=None, *, keepdims=False: x)
    '(x, axis=None, *, keepdims=False)'
    """
    plain = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in inspect.signature(function).parameters.values()
    ]
    return str(inspect.Signature(plain))
