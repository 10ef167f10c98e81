"""State that a jitted function assigns is overwritten in place where nothing else refers to it."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import porism
from porism import Tensor
from porism.base.interrupts import deferred_interrupts
from porism.base.settings import settings
from porism.engine.run.buffer_storage import buffer_for_array, is_unshared
from porism.engine.run.realize import request
from porism.pipeline import schedule_graph
from porism.schedule.schedule import Replaced, Schedule
from porism.tensor.jit import replay
from porism.verification.verify_memory_plan import check_memory_plan


def address(x: Tensor) -> int:
    return int(x._node.held[1])


def counter(x: Tensor) -> Callable[[Any], Any]:
    @porism.jit
    def step(y: Any) -> Any:
        x.assign(x * 2 + y)
        return (x * 3).sum()

    return step


def test_a_state_stays_where_it_is() -> None:
    x = Tensor(np.arange(6, dtype="f").reshape(2, 3))
    step, y = counter(x), porism.ones((2, 3)).realize()
    expected = np.arange(6, dtype="f").reshape(2, 3)
    before = address(x)
    for _ in range(4):
        total = step(y)
        expected = expected * 2 + 1
        np.testing.assert_array_equal(np.array(x), expected)
        assert total.item() == expected.sum() * 3
        assert address(x) == before


def test_what_others_refer_to_is_kept() -> None:
    x = Tensor(np.arange(4, dtype="f"))
    step, y = counter(x), porism.ones(4).realize()
    step(y)
    view, old = x.numpy(), x.numpy().copy()
    step(y)
    np.testing.assert_array_equal(view, old)
    lazy, old = x + 1, x.numpy().copy()
    step(y)
    np.testing.assert_array_equal(lazy.numpy(), old + 1)
    other, old = x.detach(), x.numpy().copy()
    step(y)
    np.testing.assert_array_equal(other.numpy(), old)
    part, old = x[1:3], x.numpy().copy()
    step(y)
    np.testing.assert_array_equal(part.numpy(), old[1:3])
    exported, old = np.from_dlpack(x), x.numpy().copy()
    step(y)
    np.testing.assert_array_equal(exported, old)
    kept, old = [x._node], x.numpy().copy()
    step(y)
    np.testing.assert_array_equal(Tensor(kept[0]).numpy(), old)


def test_memory_of_others_is_not_written() -> None:
    array = np.arange(4, dtype="f")
    x = porism.from_dlpack(array)
    counter(x)(porism.ones(4).realize())
    np.testing.assert_array_equal(array, np.arange(4, dtype="f"))


def test_another_function_sees_the_new_values() -> None:
    x = Tensor(np.ones((4, 4), "f"))
    step, y = counter(x), porism.ones((4, 4)).realize()
    product = porism.jit(lambda z: z @ x)
    for _ in range(3):
        step(y)
        np.testing.assert_allclose(product(y).numpy(), np.ones((4, 4)) @ x.numpy())


def test_states_that_read_each_other_are_right() -> None:
    a, b = Tensor(np.array([1.0, 2.0], "f")), Tensor(np.array([10.0, 20.0], "f"))

    @porism.jit
    def swap() -> Any:
        old = a + 0
        a.assign(b + 0)
        b.assign(old)
        return a.sum()

    @porism.jit
    def mix() -> Any:
        first, second = a + b, a - b
        a.assign(first)
        b.assign(second)
        return a.sum()

    x, y = np.array([1.0, 2.0], "f"), np.array([10.0, 20.0], "f")
    for _ in range(3):
        swap()
        x, y = y, x
        np.testing.assert_array_equal((np.array(a), np.array(b)), (x, y))
        mix()
        x, y = x + y, x - y
        np.testing.assert_array_equal((np.array(a), np.array(b)), (x, y))


def test_elements_that_move_are_not_overwritten() -> None:
    x = Tensor(np.arange(5, dtype="f"))

    @porism.jit
    def turn() -> Any:
        x.assign(porism.flip(x) + porism.cumsum(x, axis=0))
        return x.sum()

    expected = np.arange(5, dtype="f")
    for _ in range(3):
        turn()
        expected = expected[::-1] + np.cumsum(expected)
        np.testing.assert_allclose(np.array(x), expected)


def test_a_value_that_is_returned_too_has_memory_of_its_own() -> None:
    x = Tensor(np.arange(3, dtype="f"))

    @porism.jit
    def step() -> Any:
        old = x
        x.assign(x + 1)
        return x, old * 1

    first, _ = step()
    copy = np.array(first)
    step()
    np.testing.assert_array_equal(first.numpy(), copy)


def scheduled(replaced: Replaced, *tensors: Tensor) -> Schedule:
    return schedule_graph(request([t.node for t in tensors]).graph, replaced=replaced)


def test_a_kernel_waits_for_all_that_read_what_it_overwrites() -> None:
    w, x = (porism.asarray(np.ones((8, 8), "f")) for _ in range(2))
    hidden = porism.relu(x @ w)
    new = w - x * 0.1
    result = hidden @ w
    graph = request([new.node, result.node])
    number = next(k for k, b in enumerate(graph.buffers) if b is w._node)
    schedule = schedule_graph(graph.graph, replaced=((0, number),))
    assert len(schedule.in_place) == 1
    check_memory_plan(schedule)
    output, overwritten = schedule.in_place[0]
    writer = next(k for k, s in enumerate(schedule.steps) if output in s.written)
    readers = {k for k, s in enumerate(schedule.steps) if overwritten in s.read} - {writer}
    assert readers
    assert readers <= set(schedule.steps[writer].after)
    assert max(readers) < writer


@pytest.mark.usefixtures("interruptible")
def test_interrupts_wait_for_the_end() -> None:
    done = []

    def interrupted() -> None:
        with deferred_interrupts():
            signal.raise_signal(signal.SIGINT)
            done.append(1)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == [1]
    with deferred_interrupts():
        done.append(2)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="there is no such signal here")
def test_a_time_limit_leaves_no_state_half_assigned(monkeypatch: pytest.MonkeyPatch) -> None:
    """One state is overwritten, and the other replaced: both take the step."""
    a, b = Tensor(np.zeros(4, "f")), Tensor(np.zeros(4, "f"))

    @porism.jit
    def step() -> None:
        a.assign(a + 1)
        b.assign(b.sum().broadcast_to((4,)) / 4 + 1)

    def give_up(*_: object) -> None:
        raise TimeoutError

    def end_of_time(*args: Any) -> Any:
        signal.raise_signal(signal.SIGALRM)  # the kernels have run, and nothing is assigned
        return buffer_for_array(*args)

    step()
    where = address(a), address(b)
    before = signal.signal(signal.SIGALRM, give_up)
    try:
        monkeypatch.setattr(replay, "buffer_for_array", end_of_time)
        with pytest.raises(TimeoutError):
            step()
        assert signal.getsignal(signal.SIGALRM) is give_up
    finally:
        signal.signal(signal.SIGALRM, before)
    assert address(a) == where[0]
    assert address(b) != where[1]
    assert a.tolist() == b.tolist() == [2.0] * 4


@pytest.mark.usefixtures("interruptible")
def test_all_handlers_are_called_at_the_end() -> None:
    called: list[int] = []
    inside: list[int] = []

    def interrupted() -> None:
        with deferred_interrupts():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
            inside.extend(called)

    before = signal.signal(signal.SIGTERM, lambda number, _: called.append(number))
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert (inside, called) == ([], [signal.SIGTERM])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("frozen_heap")
def test_a_training_step_takes_no_second_copy_of_its_state() -> None:
    model = porism.nn.Linear(256, 256)
    optimizer = porism.optim.AdamW(model.parameters())
    x = porism.asarray(np.ones((128, 256), "f"))

    @porism.jit
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    losses = [step(x).item()]
    gc.collect()
    before = [address(t) for t in (*model.parameters(), *optimizer.state_dict().values())]
    losses += [step(x).item() for _ in range(3)]
    after = [address(t) for t in (*model.parameters(), *optimizer.state_dict().values())]
    assert before == after
    assert losses == sorted(losses, reverse=True)
    node = model.weight._node
    assert is_unshared(node)


def test_one_more_reference_is_noticed() -> None:
    x = (Tensor(np.arange(4, dtype="f")) + 1).realize()
    node = x._node
    for find in (lambda: node, lambda: node.held, lambda: node.held[0]):
        assert is_unshared(node)
        kept = [find()]
        assert not is_unshared(node)
        kept.clear()
    assert is_unshared(node)


def test_results_are_the_same_as_without() -> None:
    results = []
    for shared in (False, True):
        rng = np.random.default_rng(0)
        w = porism.nn.Parameter(rng.standard_normal((7, 5)).astype("f"))
        optimizer = porism.optim.Adam([w], lr=0.1)
        x = porism.asarray(rng.standard_normal((3, 5)).astype("f"))

        @porism.jit
        def step(x: Any, w: Any = w, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = ((x @ w.T) ** 2).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        kept = []
        with settings.override(check=True):
            for _ in range(5):
                step(x)
                kept += [w.numpy()] * shared
        results.append(w.numpy().copy())
    np.testing.assert_array_equal(results[0], results[1])
