"""Model file: the bytes of a model, its external data, and what the file says about itself.

A model comes from anywhere. Its external data are read from files in the model's own folder only,
and a part that is missing or longer than its file is an error.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from porism.frontends.onnx.imported_graph import MOST_BYTES, Function, Graph, Reader
from porism.frontends.onnx.loop_invariants import move_invariants_out
from porism.frontends.onnx.model_errors import ModelError

NEWEST_IR: Final = 15
"""The newest version of the file format that is known; a newer one is read all the same."""


@dataclass(slots=True, eq=False)
class ModelFile:
    """What a file holds: the graph, its functions, and the version of each set of operators."""

    name: str
    graph: Graph
    opsets: dict[str, int]
    functions: dict[tuple[str, str], Function]
    reader: Reader
    producer: str
    size: int
    digest: str | None
    """The digest of the file and of its external data; None if there was no file."""


def import_onnx() -> Any:
    """Return the package onnx, which reads the format; an error that says how to install it."""
    try:
        import onnx
    except ImportError as error:
        raise ModelError(
            "ONNX models need the package onnx",
            why=f"it reads their format, and cannot be imported: {error}",
            fix="pip install 'porism[onnx]'",
        ) from None
    return onnx


def read(source: Any) -> ModelFile:
    """Return the contents of a model: a path, the bytes of a file, or a ModelProto."""
    onnx = import_onnx()
    name, folder, data, proto = _parse(source, onnx)
    state = hashlib.blake2b(data or b"", digest_size=20)

    def external_data(tensor: Any) -> bytes:
        found = _external_data(tensor, folder, name)
        state.update(f"{len(found)}\n".encode())
        state.update(found)
        return found

    reader = Reader(name, external_data)
    if not proto.HasField("graph"):
        raise reader.error("the file holds no graph", "it is no ONNX model, or it is damaged")
    opsets = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in proto.opset_import}
    if proto.graph.node and not opsets:
        opsets = {"": 1}
    functions = {}
    for function in proto.functions:
        functions[(function.domain, function.name)] = reader.function(function)
    graph = reader.graph(proto.graph)
    move_invariants_out(graph)
    reader.graphs = None
    producer = f"{proto.producer_name} {proto.producer_version}".strip()
    size = proto.ByteSize() if data is None else len(data)
    digest = None if data is None else state.hexdigest()
    return ModelFile(name, graph, opsets, functions, reader, producer, size, digest)


def _parse(source: Any, onnx: Any) -> tuple[str, Path | None, bytes | None, Any]:
    """Return the name, the folder, the bytes and the message of a model."""
    if isinstance(source, onnx.ModelProto):
        return source.graph.name or "model", None, None, source
    folder: Path | None = None
    if isinstance(source, (bytes, bytearray, memoryview)):
        name, data = "model", bytes(source)
    elif isinstance(source, (str, os.PathLike)):
        path = Path(source)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ModelError(
                f"cannot read {str(path)!r}",
                why=error.strerror or str(error),
                fix="give the path of an .onnx file",
            ) from None
        name, folder = path.name, path.parent
    else:
        raise ModelError(
            f"a model given as {type(source).__name__}",
            why="a model is the path of a file, or the bytes of one",
            fix="pass a path or bytes to porism.onnx.load",
        )
    try:
        return name, folder, data, onnx.ModelProto.FromString(data)
    except Exception as error:  # the decoder has error classes of its own
        raise ModelError(
            f"{name} is no ONNX model",
            where=name,
            why=f"its {len(data)} bytes cannot be decoded: {error}",
            fix="check that the file is complete, and an .onnx file",
        ) from None


def _external_data(tensor: Any, folder: Path | None, model: str) -> bytes:
    """Return the bytes of a tensor that is stored in another file of the model's folder."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")

    def refused(why: str, fix: str) -> ModelError:
        what = f"the tensor {tensor.name!r} is in another file, {location!r}"
        return ModelError(what, where=model, why=why, fix=fix)

    if folder is None:
        raise refused("the model was given as bytes", "pass the path of the model")
    root = folder.resolve()
    if not location or "\0" in location:
        raise refused("it names no file", "get a valid model file")
    path = (root / location).resolve()
    if not path.is_relative_to(root) or not path.is_file():
        raise refused(
            "a model may only read files in its own folder, and there is none of this name",
            "put the file into the folder of the model",
        )
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", -1))
    except ValueError:
        raise refused("its offset or length is no number", "get a valid model file") from None
    size = path.stat().st_size
    length = size - offset if length < 0 else length
    if offset < 0 or length < 0 or offset + length > size or length > MOST_BYTES:
        raise refused(
            f"bytes {offset} to {offset + length} are not in the file of {size} bytes",
            "check that the file is complete",
        )
    with path.open("rb") as file:
        file.seek(offset)
        data: bytes = file.read(length)
    return data
