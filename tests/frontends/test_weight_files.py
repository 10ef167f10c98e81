"""Files of weights: what is saved comes back, and damaged files are refused."""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

import porism
from porism import nn
from porism.base.errors import PorismError

TYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 bfloat16"


@pytest.mark.parametrize("dtype", [*TYPES.split(), "float8_e4m3fn", "float8_e5m2"])
def test_tensors_of_every_type_come_back(tmp_path: Path, dtype: str) -> None:
    path = tmp_path / "w.safetensors"
    state = {
        "matrix": porism.arange(6).reshape(2, 3).astype(dtype),
        "scalar": porism.full((), 1).astype(dtype),
        "empty": porism.zeros(0, 4).astype(dtype),
        "transposed": porism.arange(6).reshape(2, 3).T.astype(dtype),
    }
    porism.save(state, path)
    loaded = porism.load(path)
    assert list(loaded) == sorted(state, key=list(loaded).index)
    for name, tensor in state.items():
        assert loaded[name].dtype is tensor.dtype
        assert np.array_equal(loaded[name].numpy(), tensor.numpy())


def test_a_flat_file_is_what_the_package_writes(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    arrays = {"a": np.arange(3.0), "b": np.ones((2, 2), ml_dtypes.bfloat16)}
    safetensors.numpy.save_file(arrays, path)
    loaded = porism.load(path)
    assert loaded["a"].tolist() == [0.0, 1.0, 2.0]
    porism.save(loaded, tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()


def test_nested_state_comes_back_with_its_numbers(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    path = tmp_path / "checkpoint.safetensors"
    porism.save({"model": net.state_dict(), "epoch": 7, "best": 0.5, "name": "x", "no": None}, path)
    state = porism.load(path)
    assert (state["epoch"], state["best"], state["name"], state["no"]) == (7, 0.5, "x", None)
    other = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    other.load_state_dict(state["model"])
    assert np.array_equal(other[0].weight.numpy(), net[0].weight.numpy())


def test_loading_maps_the_file_and_reads_nothing(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    porism.save({"a": porism.zeros(1 << 20)}, path)
    before = porism.memory()
    tensor = porism.load(path)["a"]
    assert porism.memory().in_use == before.in_use, "no memory of ours is used"
    assert (tensor + 1).sum().item() == 1 << 20


def test_an_assignment_to_a_mapped_tensor_leaves_the_file(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    porism.save({"a": porism.zeros(4)}, path)
    tensor = porism.load(path)["a"]
    tensor[1] = 5.0
    assert tensor.tolist() == [0.0, 5.0, 0.0, 0.0]
    assert porism.load(path)["a"].tolist() == [0.0] * 4


def test_an_index_gathers_tensors_of_several_files(tmp_path: Path) -> None:
    porism.save({"a": porism.ones(1)}, tmp_path / "m-1.safetensors")
    porism.save({"b": porism.zeros(2)}, tmp_path / "m-2.safetensors")
    index = tmp_path / "m.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}}))
    for path in (index, tmp_path):
        loaded = porism.load(path)
        assert {name: t.tolist() for name, t in loaded.items()} == {"a": [1.0], "b": [0.0, 0.0]}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{}", "no weight_map"),
        ("[1]", "no weight_map"),
        ("nonsense", "no weight_map"),
        ('{"weight_map": {"a": "../outside.safetensors"}}', "no file beside it"),
        ('{"weight_map": {"a": "missing.safetensors"}}', "no file beside it"),
        ('{"weight_map": {"b": "m.safetensors"}}', "b is not in m.safetensors"),
    ],
)
def test_a_bad_index_is_refused(tmp_path: Path, content: str, words: str) -> None:
    porism.save({"a": porism.ones(1)}, tmp_path / "m.safetensors")
    porism.save({"a": porism.ones(1)}, tmp_path.parent / "outside.safetensors")
    index = tmp_path / "m.safetensors.index.json"
    index.write_text(content)
    with pytest.raises(PorismError, match=r"file of weights") as caught:
        porism.load(index)
    assert words in str(caught.value.why)


def test_archives_of_numpy(tmp_path: Path) -> None:
    path = tmp_path / "w.npz"
    np.savez(path, a=np.arange(3), b=np.ones((2, 2), "f4"))
    assert porism.load(path)["a"].tolist() == [0, 1, 2]
    np.savez(path, a=np.array([{}], object))
    with pytest.raises(PorismError, match="file of weights"):
        porism.load(path)


# -- damaged files ---------------------------------------------------------------------------------


def test_a_damaged_file_is_refused_wherever_it_is_cut_or_changed(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    porism.save({"a": porism.arange(8), "b": porism.ones(2, 2)}, path)
    whole = path.read_bytes()
    rng = np.random.default_rng(1)
    for length in range(0, len(whole), 3):
        path.write_bytes(whole[:length])
        with pytest.raises(PorismError, match="file of weights"):
            porism.load(path)
    for _ in range(300):
        changed = bytearray(whole)
        for place in rng.integers(0, len(whole) - 96, 2):
            changed[place] = rng.integers(256)
        path.write_bytes(bytes(changed))
        try:
            porism.load(path)
        except PorismError:
            continue


def test_what_cannot_be_saved_or_found_is_told(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    with pytest.raises(PorismError, match=r"porism.save of a Tensor"):
        porism.save(porism.ones(2), path)
    with pytest.raises(PorismError, match="a key"):
        porism.save({"a/b": porism.ones(2)}, path)
    with pytest.raises(PorismError, match="file of weights"):
        porism.save({"a": porism.ones(2)}, tmp_path / "nowhere" / "w.safetensors")
    for name in ("missing.safetensors", "w.txt", ""):
        (tmp_path / "w.txt").write_text("x")
        with pytest.raises(PorismError, match="file of weights"):
            porism.load(tmp_path / name)


def test_a_process_that_is_killed_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    porism.save({"a": porism.ones(3)}, path)
    program = f"""
import os, porism, safetensors.numpy
from porism.frontends.weights import safetensors_files as files
files.save_file = lambda *arguments: (safetensors.numpy.save_file(*arguments), os._exit(9))
porism.save({{"a": porism.zeros(1000)}}, {str(path)!r})
"""
    run = subprocess.run([sys.executable, "-c", program], check=False, env=os.environ)
    assert run.returncode == 9
    assert porism.load(path)["a"].tolist() == [1.0] * 3


# -- checkpoints of PyTorch ------------------------------------------------------------------------


class _Call:
    """What a pickle turns into a call of a function by its name, which need not exist here."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.function, self.arguments = function, arguments

    def __reduce__(self) -> Any:
        return self.function, self.arguments


def _function(module: str, name: str) -> Any:
    """Return a function that is pickled under a module's name."""
    made = type(name, (), {"__module__": module, "__qualname__": name})
    sys.modules.setdefault(module, type(sys)(module))
    setattr(sys.modules[module], name, made)
    return made


def _checkpoint(path: Path, value: Any, storages: dict[str, bytes]) -> None:
    """Write an archive as PyTorch does."""
    modules = {name for name in ("torch", "torch._utils") if name not in sys.modules}
    storage = {"f": _function("torch", "FloatStorage"), "q": _function("torch", "LongStorage")}
    rebuild = _function("torch._utils", "_rebuild_tensor_v2")

    class Pickler(pickle.Pickler):
        def persistent_id(self, item: Any) -> Any:
            return (
                ("storage", storage[item[0]], item[1:], "cpu", 0)
                if isinstance(item, str) and (item[:1] in storage and item[1:].isdigit())
                else None
            )

    def tensors(item: Any) -> Any:
        if isinstance(item, tuple) and item[:1] == ("tensor",):
            return _Call(rebuild, *item[1:])
        if isinstance(item, dict):
            return {k: tensors(v) for k, v in item.items()}
        return item

    buffer = io.BytesIO()
    try:
        Pickler(buffer, 2).dump(tensors(value))
    finally:
        for name in modules:
            del sys.modules[name]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", buffer.getvalue())
        for key, content in storages.items():
            archive.writestr(f"archive/data/{key}", content)


def _tensor(storage: str, offset: int, sizes: Any, strides: Any) -> Any:
    return ("tensor", storage, offset, sizes, strides, False, {})


def test_a_checkpoint_of_pytorch_is_read_without_running_it(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    value = {
        "w": _tensor("f0", 0, (2, 3), (1, 2)),
        "nested": {"n": _tensor("q1", 1, (), ()), "lr": 0.5, "e": _tensor("f0", 0, (0, 2), (2, 1))},
    }
    storages = {"0": np.arange(6, dtype="f4").tobytes(), "1": np.array([7, 8]).tobytes()}
    _checkpoint(path, value, storages)
    loaded = porism.load(path)
    assert loaded["w"].tolist() == [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]
    assert loaded["nested"]["n"].item() == 8
    assert loaded["nested"]["lr"] == 0.5
    assert loaded["nested"]["e"].shape == (0, 2)


def test_a_checkpoint_that_runs_code_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    _checkpoint(path, {"w": _Call(os.system, f"touch {tmp_path}/ran")}, {})
    with pytest.raises(PorismError, match="file of weights") as caught:
        porism.load(path)
    assert "a call of posix.system" in str(caught.value.why)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "tensor",
    [
        _tensor("f0", 0, (7,), (1,)),
        _tensor("f0", -1, (2,), (1,)),
        _tensor("f0", 0, (2,), (-1,)),
        _tensor("f0", 0, (1 << 40,), (1,)),
        _tensor("f9", 0, (1,), (1,)),
        _tensor("f0", 0, (2, 2), (1,)),
    ],
)
def test_a_tensor_outside_of_its_storage_is_refused(tmp_path: Path, tensor: Any) -> None:
    path = tmp_path / "model.pt"
    _checkpoint(path, {"w": tensor}, {"0": np.arange(6, dtype="f4").tobytes()})
    with pytest.raises(PorismError, match="file of weights"):
        porism.load(path)


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(b"PK no zip")
    with pytest.raises(PorismError, match="file of weights"):
        porism.load(path)
    _checkpoint(path, {"w": _tensor("f0", 0, (2,), (1,))}, {"0": bytes(8)})
    with zipfile.ZipFile(path) as archive:
        whole = archive.read("archive/data.pkl")
    for length in range(0, len(whole) - 1, 5):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("archive/data.pkl", whole[:length])
            archive.writestr("archive/data/0", bytes(8))
        with pytest.raises(PorismError, match="file of weights"):
            porism.load(path)
