"""Weight files: `porism.save` and `porism.load`, which choose a format by the name of the file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from porism.base.errors import PorismError
from porism.frontends.weights.safetensors_files import (
    bad_file,
    read_safetensors,
    write_safetensors,
)
from porism.frontends.weights.torch_checkpoints import read_torch
from porism.ir.facts.semantics import Array
from porism.tensor import namespace
from porism.tensor.conversion import as_tensor, from_array
from porism.tensor.tensor import Tensor
from porism.tensor.user_line import users_line

SEPARATOR: Final = "/"
"""What joins the keys of nested dicts to the name of a tensor in a file."""

METADATA: Final = "porism"
"""The name in a file's metadata of the numbers and texts that were saved beside tensors."""

INDEX: Final = ".index.json"
"""How the name of a file ends that says which file each tensor is in."""


namespace.load()  # the tensors that are returned have all their methods


def save(state: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write tensors to a safetensors file; a file of that name is replaced when all is written.

    `state` is a dict of tensors, as `module.state_dict()` returns; it may be nested, and hold
    numbers and texts besides: `{"model": …, "optimizer": …, "epoch": 3}`.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "weights.safetensors"
    >>> porism.save({"net": {"w": porism.ones(2)}, "epoch": 3}, path)
    >>> state = porism.load(path)
    >>> state["net"]["w"].tolist(), state["epoch"]
    ([1.0, 1.0], 3)
    """
    if not isinstance(state, Mapping):
        raise PorismError(
            f"porism.save of a {type(state).__name__}",
            where=users_line(),
            why="it writes a dict of tensors",
            fix="porism.save(model.state_dict(), path)",
        )
    arrays: dict[str, Array] = {}
    others: dict[str, Any] = {}
    _flatten(state, "", arrays, others)
    metadata = (
        {METADATA: json.dumps(others)} if others or any(SEPARATOR in n for n in arrays) else {}
    )
    write_safetensors(Path(path), arrays, metadata)


def _flatten(
    state: Mapping[str, Any], prefix: str, arrays: dict[str, Array], others: dict[str, Any]
) -> None:
    """Sort the values of a nested dict into tensors and plain values, by their joined keys."""
    for key, value in state.items():
        name = f"{prefix}{key}"
        if not isinstance(key, str) or SEPARATOR in key:
            raise PorismError(
                f"a key {key!r} of what is saved",
                where=users_line(),
                why=f"keys are texts without {SEPARATOR!r}",
                fix="rename it",
            )
        if isinstance(value, Mapping):
            _flatten(value, name + SEPARATOR, arrays, others)
        elif isinstance(value, (bool, int, float, str, list)) or value is None:
            others[name] = value
        else:
            arrays[name] = as_tensor(value).numpy()


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the tensors of a file by name; those of safetensors files are mapped in memory.

    The end of the name chooses the format: `.safetensors`; `.index.json` for tensors in several
    files, and a folder that has one; `.npz`; `.pt`, `.pth` and `.bin` of PyTorch, whose pickles are
    interpreted and never run.
    """
    file = Path(path)
    if file.is_dir():
        candidates = list(file.glob(f"*{INDEX}")) or list(file.glob("*.safetensors"))
        if len(candidates) != 1:
            why = f"the folder has {len(candidates)} files of weights, and one is read"
            raise bad_file(file, why)
        file = candidates[0]
    if not file.exists():
        raise bad_file(file, "there is no such file")
    if file.name.endswith(INDEX):
        return _load_index(file)
    if file.suffix == ".npz":
        return _load_npz(file)
    if file.suffix in (".pt", ".pth", ".bin"):
        return _tensors(read_torch(file))  # type: ignore[no-any-return]
    if file.suffix == ".safetensors":
        return _load_safetensors(file)
    raise bad_file(
        file, "its name ends in none of .safetensors, .index.json, .npz, .pt, .pth, .bin"
    )


def _load_safetensors(file: Path) -> dict[str, Any]:
    """Return the tensors of a safetensors file, and the plain values saved with them."""
    arrays, metadata = read_safetensors(file)
    tensors: dict[str, Any] = {name: from_array(array) for name, array in arrays.items()}
    if METADATA not in metadata:
        return tensors
    nested: dict[str, Any] = {}
    for name, value in [*tensors.items(), *json.loads(metadata[METADATA]).items()]:
        *folders, last = name.split(SEPARATOR)
        inner = nested
        for folder in folders:
            inner = inner.setdefault(folder, {})
        inner[last] = value
    return nested


def _load_index(file: Path) -> dict[str, Tensor]:
    """Return the tensors that an index file lists, from the files beside it."""
    try:
        where: dict[str, str] = json.loads(file.read_text())["weight_map"]
        names = {name: str(shard) for name, shard in where.items()}
    except (ValueError, KeyError, AttributeError, TypeError):
        raise bad_file(file, "it is no index: it has no weight_map in JSON") from None
    opened: dict[str, dict[str, Any]] = {}
    for shard in sorted(set(names.values())):
        beside = file.parent / shard
        if Path(shard).name != shard or not beside.exists():
            raise bad_file(file, f"it refers to {shard!r}, which is no file beside it")
        opened[shard] = _load_safetensors(beside)
    missing = [name for name, shard in names.items() if name not in opened[shard]]
    if missing:
        raise bad_file(file, f"{missing[0]} is not in {names[missing[0]]}")
    return {name: opened[shard][name] for name, shard in names.items()}


def _load_npz(file: Path) -> dict[str, Tensor]:
    """Return the tensors of an archive of NumPy."""
    try:
        with np.load(file, allow_pickle=False) as archive:
            return {name: as_tensor(archive[name]) for name in archive.files}
    except (ValueError, OSError, EOFError) as error:
        raise bad_file(file, f"it is no archive of arrays: {error}") from None


def _tensors(value: Any) -> Any:
    """Return nested dicts and lists with arrays as tensors."""
    if isinstance(value, dict):
        return {key: _tensors(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_tensors(item) for item in value]
    return as_tensor(value) if isinstance(value, np.ndarray) else value
