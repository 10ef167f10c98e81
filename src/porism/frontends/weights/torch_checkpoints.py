"""Checkpoints of PyTorch, read without running their pickles.

A `.pt` file is a zip archive: `data.pkl` describes nested dicts and lists of tensors, and
`data/NUMBER` holds the bytes of a storage. A pickle is a program; here a small machine interprets
the instructions that checkpoints of weights consist of, and knows no classes but those of tensors,
storages and ordered dicts. Anything else is refused, as PyTorch's own `weights_only` does.
"""

from __future__ import annotations

import math
import pickletools
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from porism.base import dtypes
from porism.base.dtypes import DType
from porism.base.errors import PorismError
from porism.frontends.weights.safetensors_files import bad_file
from porism.ir.facts.semantics import Array

STORAGES: Final[dict[str, DType]] = {
    "FloatStorage": dtypes.f32,
    "DoubleStorage": dtypes.f64,
    "HalfStorage": dtypes.f16,
    "BFloat16Storage": dtypes.bf16,
    "LongStorage": dtypes.i64,
    "IntStorage": dtypes.i32,
    "ShortStorage": dtypes.i16,
    "CharStorage": dtypes.i8,
    "ByteStorage": dtypes.u8,
    "BoolStorage": dtypes.boolean,
    "Float8_e4m3fnStorage": dtypes.fp8e4m3,
    "Float8_e5m2Storage": dtypes.fp8e5m2,
}
"""The element types of PyTorch's storage classes."""

MOST_INSTRUCTIONS: Final = 50_000_000
"""Instructions of a pickle before it is refused; a checkpoint has some twenty for each tensor."""

_MARK: Final = object()


@dataclass(frozen=True)
class _Storage:
    """A storage of the archive: the name of its entry, and the type of its elements."""

    key: str
    dtype: DType


@dataclass(frozen=True)
class _Global:
    """The name of a class or function that a pickle refers to."""

    name: str


def read_torch(path: Path) -> Any:
    """Return the nested dicts and lists of a checkpoint, with tensors as arrays."""
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError) as error:
        raise bad_file(path, f"it is no checkpoint of PyTorch 1.6 or newer: {error}") from None
    with archive:
        names = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        if len(names) != 1:
            raise bad_file(path, "it has no data.pkl, as checkpoints of PyTorch have")
        reader = _Reader(archive, names[0].removesuffix("data.pkl"), path)
        try:
            return reader.run(archive.read(names[0]))
        except PorismError:
            raise
        except Exception as error:  # whatever a damaged pickle leads to
            raise bad_file(path, f"its data.pkl is damaged: {error!r}") from None


class _Reader:
    """A machine for the pickles of checkpoints: a stack, a memo, and no classes."""

    def __init__(self, archive: zipfile.ZipFile, folder: str, path: Path) -> None:
        self.archive, self.folder, self.path = archive, folder, path
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.arrays: dict[_Storage, Array] = {}
        self.actions: dict[str, Callable[[Any], None]] = {
            "MARK": lambda _: self.stack.append(_MARK),
            "EMPTY_DICT": lambda _: self.stack.append({}),
            "EMPTY_LIST": lambda _: self.stack.append([]),
            "EMPTY_TUPLE": lambda _: self.stack.append(()),
            "NONE": lambda _: self.stack.append(None),
            "NEWTRUE": lambda _: self.stack.append(True),
            "NEWFALSE": lambda _: self.stack.append(False),
            "TUPLE": lambda _: self.stack.append(tuple(self._pop_to_mark())),
            "TUPLE1": lambda _: self._tuple(1),
            "TUPLE2": lambda _: self._tuple(2),
            "TUPLE3": lambda _: self._tuple(3),
            "SETITEM": lambda _: self._set_items([self.stack.pop(-2), self.stack.pop()]),
            "SETITEMS": lambda _: self._set_items(self._pop_to_mark()),
            "APPEND": lambda _: self._append([self.stack.pop()]),
            "APPENDS": lambda _: self._append(self._pop_to_mark()),
            "MEMOIZE": lambda _: self.memo.__setitem__(len(self.memo), self.stack[-1]),
            "BINPERSID": lambda _: self.stack.append(self._storage(self.stack.pop())),
            "GLOBAL": lambda name: self.stack.append(_Global(name.replace(" ", "."))),
            "STACK_GLOBAL": lambda _: self._stack_global(),
            "REDUCE": lambda _: self._call(),
            "BUILD": lambda _: self._build(),
        }

    def run(self, pickle: bytes) -> Any:
        """Return the value that a pickle describes."""
        for count, (opcode, argument, _) in enumerate(pickletools.genops(pickle)):
            name = opcode.name
            if name == "STOP":
                return self.stack.pop()
            if name in ("PROTO", "FRAME"):
                continue
            if name in ("BINPUT", "LONG_BINPUT") and isinstance(argument, int):
                self.memo[argument] = self.stack[-1]
            elif name in ("BINGET", "LONG_BINGET") and isinstance(argument, int):
                self.stack.append(self.memo[argument])
            elif name in self.actions:
                self.actions[name](argument)
            elif isinstance(argument, (int, float, str, bytes)):
                self.stack.append(argument)
            else:
                raise self._refuse(f"the pickle instruction {name}")
            if count > MOST_INSTRUCTIONS:
                raise self._refuse(f"more than {MOST_INSTRUCTIONS} pickle instructions")
        raise bad_file(self.path, "its data.pkl ends too early")

    def _pop_to_mark(self) -> list[Any]:
        """Remove and return what is on the stack above the last mark."""
        items: list[Any] = []
        while (item := self.stack.pop()) is not _MARK:
            items.append(item)
        return items[::-1]

    def _tuple(self, count: int) -> None:
        """Make a tuple of the last items."""
        items = tuple(self.stack[-count:])
        del self.stack[-count:]
        self.stack.append(items)

    def _set_items(self, items: list[Any]) -> None:
        """Put keys and values into the dict on top of the stack."""
        target = self.stack[-1]
        if not isinstance(target, dict):
            raise self._refuse(f"items of a {type(target).__name__}")
        target.update(zip(items[::2], items[1::2], strict=True))

    def _append(self, items: list[Any]) -> None:
        """Put items at the end of the list on top of the stack."""
        target = self.stack[-1]
        if not isinstance(target, list):
            raise self._refuse(f"items of a {type(target).__name__}")
        target.extend(items)

    def _stack_global(self) -> None:
        """Make a name of a module and a name in it."""
        name, module = self.stack.pop(), self.stack.pop()
        self.stack.append(_Global(f"{module}.{name}"))

    def _build(self) -> None:
        """Leave out attributes that an object gets; those of ordered dicts are metadata."""
        self.stack.pop()
        if not isinstance(self.stack[-1], dict):
            raise self._refuse(f"attributes of a {type(self.stack[-1]).__name__}")

    def _call(self) -> None:
        """Make what a call of a known function returns; it is not called."""
        arguments, function = self.stack.pop(), self.stack.pop()
        name = function.name if isinstance(function, _Global) else type(function).__name__
        if name == "collections.OrderedDict" and not arguments:
            self.stack.append({})
        elif name == "torch._utils._rebuild_tensor_v2":
            storage, offset, sizes, strides = arguments[:4]
            self.stack.append(self._tensor(storage, offset, sizes, strides))
        elif name in (
            "torch._utils._rebuild_parameter",
            "torch._utils._rebuild_parameter_with_state",
        ):
            self.stack.append(arguments[0])
        elif name == "torch.Size":
            self.stack.append(tuple(arguments[0]))
        else:
            raise self._refuse(f"a call of {name}")

    def _storage(self, identifier: Any) -> _Storage:
        """Return the storage that ('storage', class, key, device, count) names."""
        kind, class_name, key = identifier[:3]
        name = class_name.name.rpartition(".")[2] if isinstance(class_name, _Global) else ""
        if kind != "storage" or name not in STORAGES:
            raise self._refuse(f"a storage of {name or class_name!r}")
        return _Storage(str(key), STORAGES[name])

    def _tensor(
        self, storage: Any, offset: int, sizes: tuple[int, ...], strides: tuple[int, ...]
    ) -> Array:
        """Return a tensor as an array; refuse one that reaches outside of its storage."""
        if not isinstance(storage, _Storage):
            raise self._refuse("a tensor without a storage")
        flat = self.arrays.get(storage)
        if flat is None:
            content = self.archive.read(f"{self.folder}data/{storage.key}")
            flat = np.frombuffer(content, storage.dtype.numpy)
            self.arrays[storage] = flat
        last = offset + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
        if not math.prod(sizes):
            return np.zeros(sizes, flat.dtype)
        if min((offset, *sizes, *strides)) < 0 or last >= len(flat):
            raise bad_file(self.path, f"a tensor of shape {sizes} reaches outside of its storage")
        steps = [stride * flat.itemsize for stride in strides]
        return np.lib.stride_tricks.as_strided(flat[offset:], sizes, steps, writeable=False)

    def _refuse(self, what: str) -> PorismError:
        """Return the error for a checkpoint that holds more than weights."""
        return bad_file(
            self.path, f"it has {what}, and only dicts, lists, numbers, texts and tensors are read"
        )
