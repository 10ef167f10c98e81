"""Modules that LLVM compiles in two threads, and exchanges of lanes as it is given them."""

from __future__ import annotations

import re
import threading

import llvmlite.binding as llvm
import numpy as np
import pytest

import porism
from porism.backends.llvm import compile_queue, llvm_library
from porism.backends.llvm.compile_queue import Lots
from porism.backends.llvm.host_target import host
from porism.backends.llvm.llvm_compiler import SEATS, machine, object_code
from porism.backends.llvm.llvm_library import module
from porism.engine.run import realize
from porism.ir.node import UOp
from porism.pipeline import lower_kernel
from tests.patience import PATIENCE


def text(number: int, size: int = 1) -> str:
    """A module with one function."""
    lines = [f"  %x{k + 1} = mul i64 %x{k}, {2 * k + number}" for k in range(size)]
    body = "\n".join([*lines, f"  ret i64 %x{size}"])
    return f"define i64 @f{number}(i64 %x0) {{\n{body}\n}}\n"


def test_what_is_made_has_the_order_of_what_was_given() -> None:
    texts = [text(number, 200 if number % 3 == 0 else 1) for number in range(12)]
    with Lots() as found:
        for number, one in enumerate(texts):
            (found.begin if number % 4 else found.add)(one)
        made = found.made()
    assert made == [object_code(one) for one in texts]


def test_a_fault_in_either_thread_is_raised() -> None:
    for number in (0, 5):
        with Lots() as found:
            for place in range(6):
                found.begin("no module" if place == number else text(place))
            with pytest.raises(RuntimeError, match="does not take this"):
                found.made()


def test_no_thread_is_left_when_lowering_fails() -> None:
    def fails() -> None:
        with Lots() as found:
            for number in range(5):
                found.begin(text(number))
            raise ZeroDivisionError

    before = threading.active_count()
    with pytest.raises(ZeroDivisionError):
        fails()
    assert threading.active_count() == before


def test_without_a_thread_all_is_compiled_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refused)
    with Lots() as found:
        found.begin(text(1))
        found.begin(text(2))
        assert found.made() == [object_code(text(1)), object_code(text(2))]


def test_two_modules_are_compiled_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2, timeout=PATIENCE)

    def together(one: str, seat: int) -> bytes:
        both.wait()
        return object_code(one, seat)

    monkeypatch.setattr(compile_queue, "object_code", together)
    with Lots() as found:
        found.begin(text(1))
        found.begin(text(2))
        made = found.made()
    monkeypatch.undo()
    assert made == [object_code(text(1)), object_code(text(2))]


def test_settings_of_llvm_are_given_back_by_the_last_of_several_threads() -> None:
    loop = module({"kernel": _lines(porism.asarray(np.zeros((256, 256), np.float32)) + 1)})
    before = machine().emit_assembly(llvm.parse_assembly(loop))
    expected = object_code(loop)
    found: list[bytes] = []

    def several(seat: int) -> None:
        found.extend(object_code(loop, seat) for _ in range(20))

    threads = [threading.Thread(target=several, args=(seat,)) for seat in range(SEATS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found) == {expected}
    assert machine().emit_assembly(llvm.parse_assembly(loop)) == before


def _lines(tensor: porism.Tensor) -> list[UOp]:
    (step,) = realize.schedule_of(realize.request([tensor.node]).graph).steps
    return lower_kernel(step.kernel, host())


def test_exchanges_of_lanes_that_follow_each_other_are_looked_at_one_by_one() -> None:
    """As one tree they would take LLVM a third of the time of a product."""
    if max(host().vector_bits, default=0) < 256:
        pytest.skip("tiles are transposed in wide vectors")
    x = np.arange(512 * 512, dtype=np.float32).reshape(512, 512)
    tensor = porism.asarray(x).T + 0.5
    written = module({"kernel": _lines(tensor)})
    exchanged = set(re.findall(r"(%x\d+) = shufflevector .* %x\d+, .* %x\d+,", written))
    used = re.findall(r"= shufflevector <.*?> (%x\d+), <.*?> (%x\d+),", written)
    assert "@llvm.arithmetic.fence" in written
    assert not exchanged & {name for pair in used for name in pair}
    np.testing.assert_array_equal(tensor.numpy(), x.T + 0.5)


def test_one_kernel_is_compiled_without_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []

    def begin(self: Lots, one: str) -> None:
        begun.append(one)
        self.add(one)

    monkeypatch.setattr(Lots, "begin", begin)
    monkeypatch.setattr(llvm_library, "LOT", 1)
    x = porism.asarray(np.zeros(64, np.float32))
    kernels = [("a", _lines(x + 1)), ("b", _lines(x + 2)), ("c", _lines(x + 3))]
    assert len(llvm_library.unpacked(llvm_library.build(kernels[:1], 1))) == 1
    assert not begun
    assert len(llvm_library.unpacked(llvm_library.build(kernels, 3))) == 3
    assert len(begun) == 2
