"""A model that an earlier process compiled starts from disk, and only where it is the same."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import porism
from porism import pipeline
from porism.backends.backend_table import BACKENDS, Backend
from porism.base import source_digest
from porism.base.file_store import Store
from porism.base.settings import settings
from porism.engine.cache import kernel_cache
from porism.engine.run import program, realize
from porism.engine.tune import tuning_cache
from porism.frontends.onnx.graph_builder import GraphBuilder
from tests.frontends.onnx_models import proto
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
ROWS, INNER, COLUMNS = 8, 256, 1024
X = np.random.default_rng(1).standard_normal((ROWS, INNER)).astype(np.float32)
TEXT = """g (float[N, 256] x) => (float[N, 1024] y, int64[2] sizes) {
    doubled = Add(w, w)
    product = MatMul(x, doubled)
    y = Add(product, b)
    sizes = Shape(product)
}"""


def weights(seed: int = 0) -> tuple[Any, Any]:
    generator = np.random.default_rng(seed)
    w = generator.standard_normal((INNER, COLUMNS)).astype(np.float32)
    return w, generator.standard_normal(COLUMNS).astype(np.float32)


def model_file(seed: int = 0) -> bytes:
    """A product with weights that are folded and packed, and an output that is no tensor."""
    message = proto(TEXT)
    for name, array in zip("wb", weights(seed), strict=True):
        message.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    content: bytes = message.SerializeToString()
    return content


class Work:
    """How often a graph was built from a file, and kernels were scheduled."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.built = self.scheduled = 0
        build, schedule = GraphBuilder.run_nodes, pipeline.schedule_graph

        def counted_build(*args: Any) -> Any:
            self.built += 1
            return build(*args)

        def counted_schedule(*args: Any, **options: Any) -> Any:
            self.scheduled += 1
            return schedule(*args, **options)

        monkeypatch.setattr(GraphBuilder, "run_nodes", counted_build)
        monkeypatch.setattr(pipeline, "schedule_graph", counted_schedule)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache for this test alone; the sources count as unchanged, even if someone edits them."""
    monkeypatch.setattr(source_digest, "digest", lambda: "the sources of this test")
    monkeypatch.setattr(source_digest, "tracing_digest", lambda: "and of tensors")
    tuning_cache.forget_in_memory()
    with settings.override(cache=True, cache_dir=str(tmp_path / "cache")):
        yield tmp_path / "cache"
    forget()


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    return Work(monkeypatch)


def forget() -> None:
    """Drop what a new process does not have."""
    kernel_cache.forget_modules()
    program._functions.clear()
    realize._schedules.clear()
    realize._release_unused()


def start(seed: int = 0, x: Any = X) -> None:
    """Load and call the model as a new process does, and compare with NumPy."""
    forget()
    model = porism.onnx.load(model_file(seed))
    w, b = weights(seed)
    for value in (x, x + 1):  # the second call takes the fast path
        found = model({"x": value})
        expected = value @ (2 * w) + b
        np.testing.assert_allclose(found["y"].numpy(), expected, rtol=1e-4, atol=1e-3)
        assert found["sizes"].numpy().tolist() == [len(x), COLUMNS]


def files(folder: Path, *kinds: str) -> list[Path]:
    return sorted(p for kind in kinds or ("*",) for p in folder.glob(f"{kind}/*") if p.is_file())


def test_the_next_start_builds_nothing(work: Work, folder: Path) -> None:
    start()
    before = (work.built, work.scheduled)
    assert before[0] == 1
    start()
    start()
    assert (work.built, work.scheduled) == before
    start(x=X[:3])  # other shapes are another program
    assert work.built == 2
    assert len(files(folder, "constants")) == 2


def test_packed_and_folded_constants_come_from_disk(folder: Path) -> None:
    start()
    (path,) = files(folder, "constants")
    size = 4 * INNER * COLUMNS
    assert size <= path.stat().st_size < 2 * size, "the packed weights, not the others as well"


def test_other_weights_are_another_entry(work: Work, folder: Path) -> None:
    start(seed=0)
    start(seed=1)
    start(seed=0)
    start(seed=1)
    assert work.built == 2
    assert len(files(folder, "constants")) == 2


def test_another_environment_is_another_entry(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    start()
    with settings.override(kernel_nodes=599):
        start()
    with settings.override(constants_megabytes=0):
        start()
    assert work.built == 3
    monkeypatch.setattr(source_digest, "tracing_digest", lambda: "other sources")
    start()
    monkeypatch.setattr(source_digest, "digest", lambda: "other sources")
    start()
    monkeypatch.setattr(onnx, "__version__", "1.0")
    start()
    assert work.built == 6
    monkeypatch.setattr(source_digest, "tracing_digest", lambda: None)
    start()
    start()
    assert work.built == 8, "while sources are edited nothing is kept"


def test_another_target_is_another_entry(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    start()
    import dataclasses

    llvm = BACKENDS["llvm"]
    narrow = dataclasses.replace(llvm.target(), vector_bits=(128,))
    backend: Backend = dataclasses.replace(llvm, target=lambda: narrow)
    monkeypatch.setitem(BACKENDS, "llvm", backend)
    start()
    assert work.built == 2


def test_what_is_checked_or_tuned_is_built(work: Work) -> None:
    start()
    with settings.override(verify=1):
        start()
    seen: list[Any] = []
    with porism.engine.profile.program_observer.observing(lambda graph, _: seen.append(graph)):
        start()
    assert work.built == 3
    assert seen, "an observer is told of the graph"


KINDS = ("constants", "programs", "schedules", "kernels", "modules")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_a_damaged_entry_is_made_again(work: Work, folder: Path, kind: str, damage: str) -> None:
    start()
    for path in files(folder, kind):
        sound = path.read_bytes()
        if damage == "cut":
            path.write_bytes(sound[: len(sound) // 2])
        elif damage == "flip":
            path.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
        else:
            path.unlink()
    start()
    built = work.built
    start()
    assert work.built == built, "it was written again"


def test_flipped_bits_are_noticed(folder: Path) -> None:
    start()
    kept = Store(folder, 1 << 30)
    choices = random.Random(5)
    paths = files(folder, "constants", "programs")
    for _ in range(100):
        path = choices.choice(paths)
        sound = path.read_bytes()
        damaged = bytearray(sound)
        damaged[choices.randrange(len(sound))] ^= 1 << choices.randrange(8)
        path.write_bytes(damaged)
        assert kept.get(path.parent.name, path.name) is None
        path.write_bytes(sound)
    start()


@pytest.mark.parametrize(
    "change",
    [
        {"schedule": "0" * 40}, {"schedule": 7}, {"arrays": [["<f4", 1 << 40]]}, {"arrays": []},
        {"arrays": [["O", 1]]}, {"inputs": [1, 2, 3]}, {"values": [["what", [], 0, -1, False]]},
        {"constants": []}, {"note": 3}, {"result": "y"},
    ],
)  # fmt: skip
def test_an_entry_of_another_form_is_not_used(
    work: Work, folder: Path, change: dict[str, Any]
) -> None:
    start()
    kept = Store(folder, 1 << 30)
    for path in files(folder, "programs"):
        content = kept.get("programs", path.name)
        assert content is not None
        table = json.loads(content)
        if "schedule" in table:
            kept.put("programs", path.name, json.dumps(table | change).encode())
    start()
    assert work.built == 2


def test_constants_of_another_model_are_not_used(work: Work, folder: Path) -> None:
    """An entry is bound to its name: the content of another one has the wrong digest there."""
    start(seed=0)
    (first,) = files(folder, "constants")
    start(seed=1)
    (second,) = {*files(folder, "constants")} - {first}
    first.write_bytes(second.read_bytes())
    start(seed=0)
    assert work.built == 3


def test_too_many_constants_are_not_stored(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with settings.override(cache_mb=1):  # a quarter of it has the weights
        monkeypatch.setattr("porism.tensor.jit.stored_replay.MAX_CONSTANT_SHARE", 100)
        start()
        assert not files(folder, "constants")
        start()


def test_threads_that_start_at_once_are_all_right(work: Work) -> None:
    failures: list[BaseException] = []

    def started() -> None:
        try:
            with settings.override(cache=True, cache_dir=folder_name):
                model = porism.onnx.load(model_file())
                w, b = weights()
                found = model({"x": X})["y"].numpy()
                np.testing.assert_allclose(found, X @ (2 * w) + b, rtol=1e-4, atol=1e-3)
        except BaseException as error:
            failures.append(error)

    folder_name = settings.cache_dir
    for _ in range(3):
        forget()
        threads = [threading.Thread(target=started) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
    assert not failures
    assert work.built <= 4, "the later starts found what the first ones wrote"


@pytest.mark.slow
def test_processes_that_start_at_once_are_all_right(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(model_file())
    environment = {**os.environ, "PORISM_CACHE": "1", "PORISM_CACHE_DIR": str(folder)}
    command = [sys.executable, "-m", "tests.frontends.start_worker", str(path)]
    told = []
    for _ in range(2):
        started = [
            subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
            for _ in range(3)
        ]
        told += [json.loads(p.communicate(timeout=PATIENCE)[0]) for p in started]
    assert len({row["digest"] for row in told}) == 1
    assert [row["compiler"] for row in told[3:]] == [False] * 3, "a warm start loads no compiler"
    assert not any(row["compiled"] for row in told[3:])
