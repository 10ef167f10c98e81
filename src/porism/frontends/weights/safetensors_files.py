"""Safetensors files: tensors in one file, memory-mapped when they are read.

A file is a length, a header in JSON and the bytes of all tensors. The `safetensors` package checks
the header when a file is opened; the bytes are then mapped, so that opening a large file reads
nothing, and a tensor reads what is used of it.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import safetensors
from safetensors.numpy import save_file

from porism.base import dtypes
from porism.base.dtypes import DType
from porism.base.errors import PorismError
from porism.ir.facts.semantics import Array
from porism.tensor.user_line import users_line

DTYPES: Final[dict[str, DType]] = {
    "BOOL": dtypes.boolean,
    "I8": dtypes.i8,
    "I16": dtypes.i16,
    "I32": dtypes.i32,
    "I64": dtypes.i64,
    "U8": dtypes.u8,
    "U16": dtypes.u16,
    "U32": dtypes.u32,
    "U64": dtypes.u64,
    "F16": dtypes.f16,
    "BF16": dtypes.bf16,
    "F32": dtypes.f32,
    "F64": dtypes.f64,
    "F8_E4M3": dtypes.fp8e4m3,
    "F8_E5M2": dtypes.fp8e5m2,
}
"""The types of tensors, by their names in a header."""


def read_safetensors(path: Path) -> tuple[dict[str, Array], dict[str, str]]:
    """Return the arrays of a file by name, as read-only memory maps, and its metadata."""
    try:
        with safetensors.safe_open(path, framework="np") as checked:
            metadata: dict[str, str] = checked.metadata() or {}
    except safetensors.SafetensorError as error:
        raise bad_file(path, f"it is no whole safetensors file: {error}") from None
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header: dict[str, Any] = json.loads(file.read(length))
    header.pop("__metadata__", None)
    content: Any = np.memmap(path, np.uint8, "r", offset=8 + length) if header else None
    arrays: dict[str, Array] = {}
    for name, entry in header.items():
        dtype = DTYPES.get(entry["dtype"])
        if dtype is None:
            known = ", ".join(DTYPES)
            raise bad_file(path, f"{name} is of type {entry['dtype']}, and tensors have {known}")
        begin, end = entry["data_offsets"]
        if begin == end:
            arrays[name] = np.zeros(entry["shape"], dtype.numpy)
        else:
            arrays[name] = content[begin:end].view(dtype.numpy).reshape(entry["shape"])
    return arrays, metadata


def write_safetensors(path: Path, arrays: Mapping[str, Array], metadata: dict[str, str]) -> None:
    """Write arrays to a file that appears whole or not at all.

    They are written to a file beside it, which then takes its name; so a process that is killed
    leaves the old file.
    """
    dense = {name: np.ascontiguousarray(a).reshape(a.shape) for name, a in arrays.items()}
    try:
        handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise bad_file(path, f"nothing can be written there: {error.strerror}") from None
    os.close(handle)
    try:
        save_file(dense, draft, metadata or None)
        with open(draft, "rb") as written:
            os.fsync(written.fileno())
        os.replace(draft, path)
    finally:
        if os.path.exists(draft):
            os.unlink(draft)


def bad_file(path: Path, why: str) -> PorismError:
    """Return the error for a file of weights that cannot be used."""
    return PorismError(
        f"the file of weights {path}",
        where=users_line(),
        why=why,
        fix="check that the path is right, and that the file was written to its end",
    )
