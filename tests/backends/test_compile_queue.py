"""Compile queue: modules compiled in two threads; and shuffles are fenced."""

from __future__ import annotations

import re
import threading

import llvmlite.binding as llvm
import numpy as np
import pytest

import porism
from porism.backends.llvm import compile_queue, llvm_library, object_linking
from porism.backends.llvm.compile_queue import CompileQueue
from porism.backends.llvm.host_target import host_target
from porism.backends.llvm.llvm_compiler import COMPILER_THREADS, object_code, target_machine
from porism.backends.llvm.llvm_library import module_text
from porism.engine.run import realize
from porism.ir.node import UOp
from porism.pipeline import lower_kernel
from tests.patience import PATIENCE


def text(number: int, size: int = 1) -> str:
    """A module with one function."""
    lines = [f"  %x{k + 1} = mul i64 %x{k}, {2 * k + number}" for k in range(size)]
    body = "\n".join([*lines, f"  ret i64 %x{size}"])
    return f"define i64 @f{number}(i64 %x0) {{\n{body}\n}}\n"


def test_object_codes_are_in_the_order_of_the_modules() -> None:
    texts = [text(number, 200 if number % 3 == 0 else 1) for number in range(12)]
    with CompileQueue() as queue:
        for number, one in enumerate(texts):
            (queue.add_and_start if number % 4 else queue.add)(one)
        made = queue.object_codes()
    assert made == [object_code(one) for one in texts]


def test_an_error_in_either_thread_is_raised() -> None:
    for number in (0, 5):
        with CompileQueue() as queue:
            for place in range(6):
                queue.add_and_start("no module" if place == number else text(place))
            with pytest.raises(RuntimeError, match="does not take this"):
                queue.object_codes()


def test_no_thread_is_left_when_lowering_fails() -> None:
    def fails() -> None:
        with CompileQueue() as queue:
            for number in range(5):
                queue.add_and_start(text(number))
            raise ZeroDivisionError

    before = threading.active_count()
    with pytest.raises(ZeroDivisionError):
        fails()
    assert threading.active_count() == before


def test_without_a_second_thread_the_caller_compiles_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refused)
    with CompileQueue() as queue:
        queue.add_and_start(text(1))
        queue.add_and_start(text(2))
        assert queue.object_codes() == [object_code(text(1)), object_code(text(2))]


def test_two_modules_are_compiled_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2, timeout=PATIENCE)

    def together(one: str, state: int) -> bytes:
        both.wait()
        return object_code(one, state)

    monkeypatch.setattr(compile_queue, "object_code", together)
    with CompileQueue() as queue:
        queue.add_and_start(text(1))
        queue.add_and_start(text(2))
        made = queue.object_codes()
    monkeypatch.undo()
    assert made == [object_code(text(1)), object_code(text(2))]


def test_the_last_of_several_threads_restores_llvm_settings() -> None:
    loop = module_text(
        {"kernel": _instructions(porism.asarray(np.zeros((256, 256), np.float32)) + 1)}
    )
    before = target_machine().emit_assembly(llvm.parse_assembly(loop))
    expected = object_code(loop)
    actual: list[bytes] = []

    def several(state: int) -> None:
        actual.extend(object_code(loop, state) for _ in range(20))

    threads = [threading.Thread(target=several, args=(state,)) for state in range(COMPILER_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(actual) == {expected}
    assert target_machine().emit_assembly(llvm.parse_assembly(loop)) == before


def _instructions(tensor: porism.Tensor) -> list[UOp]:
    (step,) = realize.schedule_of(realize.request([tensor.node]).graph).steps
    return lower_kernel(step.kernel, host_target())


def test_consecutive_shuffles_are_fenced() -> None:
    """Without fences LLVM combines trees of shuffles, a third of the time of a matrix product."""
    if max(host_target().vector_bits, default=0) < 256:
        pytest.skip("tiles are transposed in wide vectors")
    x = np.arange(512 * 512, dtype=np.float32).reshape(512, 512)
    tensor = porism.asarray(x).T + 0.5
    written = module_text({"kernel": _instructions(tensor)})
    exchanged = set(re.findall(r"(%x\d+) = shufflevector .* %x\d+, .* %x\d+,", written))
    used = re.findall(r"= shufflevector <.*?> (%x\d+), <.*?> (%x\d+),", written)
    assert "@llvm.arithmetic.fence" in written
    assert not exchanged & {name for pair in used for name in pair}
    np.testing.assert_array_equal(tensor.numpy(), x.T + 0.5)


def test_one_kernel_is_compiled_without_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []

    def add_and_start(self: CompileQueue, one: str) -> None:
        started.append(one)
        self.add(one)

    monkeypatch.setattr(CompileQueue, "add_and_start", add_and_start)
    monkeypatch.setattr(llvm_library, "BATCH_INSTRUCTIONS", 1)
    x = porism.asarray(np.zeros(64, np.float32))
    kernels = [
        ("a", _instructions(x + 1)),
        ("b", _instructions(x + 2)),
        ("c", _instructions(x + 3)),
    ]
    assert len(object_linking.split_objects(llvm_library.build(kernels[:1], 1))) == 1
    assert not started
    assert len(object_linking.split_objects(llvm_library.build(kernels, 3))) == 3
    assert len(started) == 2
