"""What a jitted function computes once of captured constants, and when it does so again."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.dtypes import index
from porism.base.errors import TypeMismatch
from porism.base.settings import settings
from porism.ir import ops
from porism.ir.buffer_node import new_buffer

RNG = np.random.default_rng(0)


def array(*dims: int) -> Any:
    return RNG.standard_normal(dims).astype(np.float32)


def once(jitted: Any) -> list[tuple[int, ...]]:
    """The shapes of what the only program of a function computes once."""
    (program,) = jitted.programs
    if program.constants.constant_program is None:
        return []
    schedule = program.constants.constant_program.schedule
    buffers = [schedule.buffers[place] for place in schedule.outputs]
    return [tuple(int(dim.arg) for dim in buffer.dims) for buffer in buffers]


@pytest.fixture
def not_verified() -> Iterator[None]:
    """Compile without verification, under which no weights are pre-packed."""
    with settings.override(verify=0):
        yield


def copies(jitted: Any) -> list[Any]:
    (program,) = jitted.programs
    return list(program.constants.program.copies)


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-4)


# -- what is computed once -------------------------------------------------------------------------


def test_a_batch_norm_has_its_factors_computed_once() -> None:
    scale, variance = porism.asarray(array(8)), porism.asarray(abs(array(8)))

    @porism.jit
    def normed(x: Any) -> Any:
        factor = scale / porism.sqrt(variance + 1e-5)
        return x * factor.reshape(1, 8, 1)

    x = array(2, 8, 5)
    expected = x * (scale.numpy() / np.sqrt(variance.numpy() + 1e-5)).reshape(1, 8, 1)
    close(normed(x), expected)
    assert once(normed) == [(8,)]
    close(normed(x), expected)


def test_what_is_larger_than_its_inputs_is_not_kept() -> None:
    rows, columns = porism.asarray(array(300, 1)), porism.asarray(array(1, 400))
    table = porism.jit(lambda x: x + (rows + columns) * 2)
    x = array(300, 400)
    close(table(x), x + (rows.numpy() + columns.numpy()) * 2)
    assert once(table) == []


def test_a_wider_type_of_large_weights_is_not_kept() -> None:
    weight = porism.asarray(RNG.integers(-9, 9, (300, 300)).astype(np.int8))
    scaled = porism.jit(lambda x: x * weight.astype("float32"))
    x = array(300, 300)
    close(scaled(x), x * weight.numpy())
    assert once(scaled) == []


def test_joined_weights_are_kept() -> None:
    first, second = porism.asarray(array(4, 6)), porism.asarray(array(4, 2))
    dense = porism.jit(lambda x: x + porism.concat([first, second], axis=1))
    x = array(4, 8)
    close(dense(x), x + np.concatenate([first.numpy(), second.numpy()], axis=1))
    assert once(dense) == [(4, 8)]


def test_arguments_and_state_are_no_constants() -> None:
    state, weight = porism.asarray(array(4)), porism.asarray(array(4))

    @porism.jit
    def step(x: Any) -> Any:
        state.assign(state * 2 + 1)
        return x + (state * 3).exp() + (x * 2) + weight

    before = state.numpy()
    step(array(4))
    assert once(step) == []
    np.testing.assert_allclose(state.numpy(), before * 2 + 1, rtol=1e-6)
    step(array(4))
    np.testing.assert_allclose(state.numpy(), (before * 2 + 1) * 2 + 1, rtol=1e-6)


def test_a_limit_of_memory() -> None:
    weight = porism.asarray(array(64, 256))
    with settings.override(constants_megabytes=0):
        product = porism.jit(lambda x: x @ (weight * 2))
        x = array(64, 64)
        close(product(x), x @ (weight.numpy() * 2))
        assert once(product) == []
        assert copies(product) == []


@pytest.mark.usefixtures("frozen_heap")
def test_the_memory_is_counted_and_freed() -> None:
    weight = porism.asarray(array(512, 512))
    gc.collect()
    before = porism.memory().in_use
    function: Any = porism.jit(lambda x: x @ (weight * 2))
    x = porism.asarray(array(8, 512))
    function(x).numpy()
    gc.collect()
    assert porism.memory().in_use >= before + weight.nbytes
    function.clear()
    del function
    gc.collect()
    assert porism.memory().in_use <= before + x.nbytes


def test_a_random_tensor_is_drawn_at_every_call() -> None:
    weight = porism.asarray(np.ones(4, np.float32))
    noisy = porism.jit(lambda x: x + porism.rand(4) * (weight * 2))
    first, second = noisy(array(4) * 0).numpy(), noisy(array(4) * 0).numpy()
    assert (first != second).any()


# -- assignments between calls ---------------------------------------------------------------------


def changed_by_assign(w: Any, value: Any) -> None:
    w.assign(value)


def changed_by_slices(w: Any, value: Any) -> None:
    w[...] = value


def changed_in_part(w: Any, value: Any) -> None:
    for k in range(len(value)):
        w[k] = value[k]


def changed_by_a_jitted_function(w: Any, value: Any) -> None:
    porism.jit(lambda v: w.assign(v))(value)


def changed_lazily(w: Any, value: Any) -> None:
    w.assign(porism.asarray(value) * 2 - porism.asarray(value))


@pytest.mark.parametrize(
    "change",
    [
        changed_by_assign,
        changed_by_slices,
        changed_in_part,
        changed_by_a_jitted_function,
        changed_lazily,
    ],
)
def test_assignments_are_seen(change: Any) -> None:
    weight, offset = porism.asarray(array(96, 64)), porism.asarray(array(64))
    layer: Any = porism.jit(lambda x: x @ (weight * 2) + (offset * 3))
    x = array(32, 96)
    for _ in range(3):
        for _ in range(2):
            close(layer(x), x @ (weight.numpy() * 2) + offset.numpy() * 3)
        change(weight, array(96, 64))
        close(layer(x), x @ (weight.numpy() * 2) + offset.numpy() * 3)
        change(offset, array(64))
    assert layer.traces == 1


def test_an_optimiser_step_is_seen() -> None:
    weight = porism.asarray(array(64, 48))
    forward: Any = porism.jit(lambda x: x @ weight)
    step: Any = porism.jit(lambda g: weight.assign(weight - g * 0.1))
    x = array(16, 64)
    for _ in range(3):
        close(forward(x), x @ weight.numpy())
        step(array(64, 48))
    assert forward.traces == step.traces == 1


def test_memory_is_still_written_over_in_place() -> None:
    from porism.engine.run.buffer_storage import node_storage

    weight = porism.asarray(array(96, 64))
    forward = porism.jit(lambda x: x @ (weight * 2))
    x = array(16, 96)
    forward(x)
    place = node_storage(weight._node)[1]
    weight[3] = 1.0
    assert node_storage(weight._node)[1] == place
    close(forward(x), x @ (weight.numpy() * 2))


def test_another_shape_is_traced_again() -> None:
    weight = porism.asarray(array(64, 48))
    forward: Any = porism.jit(lambda x: x @ (weight * 2))
    x = array(16, 64)
    close(forward(x), x @ (weight.numpy() * 2))
    weight._node = porism.asarray(array(64, 40))._node
    close(forward(x), x @ (weight.numpy() * 2))
    assert forward.traces == 2


# -- memory that is shared -------------------------------------------------------------------------


def test_shared_memory_may_change_at_any_time() -> None:
    values = array(96, 64)
    weight = porism.asarray(values, copy=False)
    layer = porism.jit(lambda x: x @ (weight * 2))
    x = array(32, 96)
    close(layer(x), x @ (values * 2))
    assert once(layer) == []
    values *= 3
    close(layer(x), x @ (values * 2))


def test_a_tensor_that_comes_to_share_memory() -> None:
    weight, values = porism.asarray(array(96, 64)), array(96, 64)
    layer: Any = porism.jit(lambda x: x @ (weight * 2))
    x = array(32, 96)
    close(layer(x), x @ (weight.numpy() * 2))
    weight.assign(porism.asarray(values, copy=False))
    close(layer(x), x @ (values * 2))
    values *= 3
    close(layer(x), x @ (values * 2))
    weight.assign(array(96, 64))
    close(layer(x), x @ (weight.numpy() * 2))
    assert layer.traces == 1


# -- copies for kernels ----------------------------------------------------------------------------


def product(x: Any, w: Any) -> Any:
    return x @ w


def transposed(x: Any, w: Any) -> Any:
    return x @ w.T


def from_the_left(x: Any, w: Any) -> Any:
    return w @ x


@pytest.mark.parametrize("function", [product, transposed, from_the_left])
@pytest.mark.parametrize(
    ("rows", "terms", "columns"), [(128, 512, 512), (64, 512, 50), (1, 256, 700), (77, 131, 101)]
)
def test_products(function: Any, rows: int, terms: int, columns: int) -> None:
    sizes = {
        product: ((rows, terms), (terms, columns)),
        transposed: ((rows, terms), (columns, terms)),
        from_the_left: ((terms, columns), (rows, terms)),
    }[function]
    x, weight = array(*sizes[0]), porism.asarray(array(*sizes[1]))
    layer = porism.jit(lambda x: function(x, weight))
    for _ in range(2):
        close(layer(x), function(x.astype(np.float64), weight.numpy().astype(np.float64)))
        weight.assign(array(*sizes[1]))


@pytest.mark.usefixtures("not_verified")
def test_a_product_reads_weights_as_they_were_laid_out() -> None:
    weight = porism.asarray(array(512, 512))
    layer: Any = porism.jit(lambda x: x @ weight)
    layer(array(128, 512))
    (copy,) = copies(layer)
    assert copy.size == weight.size


def test_in_verify_mode_weights_are_read_where_they_are() -> None:
    """What is verified is the kernel without copies, so that one runs."""
    weight, x = porism.asarray(array(512, 512)), array(128, 512)
    with settings.override(verify=1):
        layer: Any = porism.jit(lambda x: x @ weight)
        close(layer(x), x.astype(np.float64) @ weight.numpy().astype(np.float64))
        assert not copies(layer)


def test_weights_of_a_convolution() -> None:
    weight = porism.asarray(array(24, 16, 3, 3))
    x = array(1, 16, 14, 14)
    jitted = porism.jit(lambda x: porism.conv2d(x, weight, padding=1))
    for _ in range(2):
        close(jitted(x), porism.conv2d(x, weight, padding=1).numpy())
        weight.assign(array(24, 16, 3, 3))


def test_a_part_of_the_weights_that_a_call_chooses() -> None:
    weight = porism.asarray(array(700, 512))
    n = porism.Variable("n", 0, 188)
    product = porism.jit(lambda x, at: x @ weight[at : at + 512])
    x = array(128, 512)
    for begin in (0, 100, 188):
        close(product(x, n.bind(begin)), x @ weight.numpy()[begin : begin + 512])


def test_rows_of_the_weights_that_a_call_chooses() -> None:
    weight = porism.asarray(array(600, 512))
    product = porism.jit(lambda x, rows: x @ weight[rows])
    x = array(128, 512)
    for _ in range(2):
        rows = RNG.permutation(600)[:512]
        close(product(x, rows), x @ weight.numpy()[rows])


def test_two_functions_of_the_same_kind_have_their_own() -> None:
    weights = [porism.asarray(array(96, 64)) for _ in range(2)]
    layers = [porism.jit(lambda x, w=w: x @ w) for w in weights]
    x = array(32, 96)
    for _ in range(2):
        for layer, weight in zip(layers, weights, strict=True):
            close(layer(x), x @ weight.numpy())


def test_many_threads_while_weights_change() -> None:
    weight = porism.asarray(np.full((96, 64), 1.0, np.float32))
    layer = porism.jit(lambda x: x @ (weight * 2))
    x = np.ones((32, 96), np.float32)
    layer(x)
    wrong: list[float] = []
    latest = [1.0]

    def call() -> None:
        for _ in range(50):
            least = latest[0]
            result = layer(x).numpy()
            if (result != result[0, 0]).any() or result[0, 0] < 192 * least:
                wrong.append(float(result[0, 0]))

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for k in range(2, 30):
        weight.assign(np.full((96, 64), float(k), np.float32))
        latest[0] = float(k)
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_evaluator_has_what_is_computed_once_too() -> None:
    weight = porism.asarray(array(4, 3))
    with settings.override(backend="reference"):
        layer = porism.jit(lambda x: x @ (weight * 2))
        x = array(2, 4)
        close(layer(x), x @ (weight.numpy() * 2))
        weight[0] = 1.0
        close(layer(x), x @ (weight.numpy() * 2))


# -- explain ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("not_verified")
def test_explain_says_what_is_done_once(capsys: pytest.CaptureFixture[str]) -> None:
    weight, scale = porism.asarray(array(512, 512)), porism.asarray(array(512))
    layer = porism.jit(lambda x: x @ weight * scale.exp())
    porism.explain(layer)
    assert "was not called yet" in capsys.readouterr().out
    layer(array(128, 512))
    porism.explain(layer)
    output = capsys.readouterr().out
    assert "computed once from constants, 2.0 KiB, until one of them is assigned to:" in output
    assert "pre-packed once, 1.0 MiB: input1, as kernels read it along" in output


# -- indices ---------------------------------------------------------------------------------------

INDEXED = [
    (lambda x, i: x[i], lambda x, i: x[i]),
    (lambda x, i: x[:, i], lambda x, i: x[:, i]),
    (lambda x, i: porism.take(x, i, axis=1), lambda x, i: np.take(x, i, axis=1)),
    (lambda x, i: x[i][:, i], lambda x, i: x[i][:, i]),
]


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint64"])
@pytest.mark.parametrize("case", INDEXED, ids=["rows", "columns", "take", "both"])
def test_a_captured_tensor_of_indices(case: Any, dtype: str) -> None:
    """Memory holds integers of a width: an index that is computed once is not stored as such."""
    here, numpys = case
    chosen = np.array([2, 0, 2, 1], dtype)
    i, x = porism.asarray(chosen), array(3, 3)
    jitted = porism.jit(lambda x: here(x, i))
    for _ in range(2):
        np.testing.assert_array_equal(jitted(x).numpy(), numpys(x, chosen))


def test_captured_indices_of_a_scatter() -> None:
    i, x = porism.asarray(np.array([[0, 1, 0], [1, 1, 1]])), array(2, 3)
    jitted = porism.jit(lambda x: porism.scatter_add(porism.zeros((2, 3)), 0, i, x))
    expected = np.zeros((2, 3), np.float32)
    np.add.at(expected, (i.numpy(), [[0, 1, 2]] * 2), x)
    close(jitted(x), expected)


def test_memory_has_no_integers_without_a_width() -> None:
    with pytest.raises(TypeMismatch, match="memory has integers of a width"):
        ops.BUFFER(dtype=index, arg=(0, "cpu"))
    with pytest.raises(AssertionError, match="memory has integers of a width"):
        new_buffer(index, (), "cpu")


def test_calls_at_the_same_time_see_the_weights_of_their_time() -> None:
    """Each argument block writes the addresses of weights anew once they have changed."""
    weights = [porism.full((4,), float(k)).realize() for k in range(8)]
    function = porism.jit(lambda x: sum((x * w for w in weights), x))
    x = porism.ones((4,)).realize()
    barrier = threading.Barrier(4)

    def calls(_: int) -> set[float]:
        barrier.wait()
        return {float(function(x)[0]) for _ in range(40)}

    with ThreadPoolExecutor(4) as pool:
        for first in (0.0, 5.0, -3.0):
            weights[0].assign(porism.full((4,), first))
            assert float(function(x)[0]) == 29.0 + first
            assert set().union(*pool.map(calls, range(4))) == {29.0 + first}
