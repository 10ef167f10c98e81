"""Random numbers: a counter-based generator (Threefry), with the same numbers on every machine.

Element i of a tensor is the Threefry hash of `counter + i` under the seed's key; the counter then
advances by the number of elements. Key and counter are values in memory and not in the graph, so
that a program that draws again has the same graph and reuses its kernels.
"""

from __future__ import annotations

import math
import threading
from typing import Any, Final

import numpy as np

from porism.base import device_use, dtypes
from porism.base.device_use import HOST
from porism.base.dtypes import DType
from porism.base.fork_locks import held_while_forking
from porism.engine.run.buffer_storage import buffer_with_copy, new_buffer, new_placeholder
from porism.ir import ops
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.tensor import primitive, promotion, shapes
from porism.tensor.api.arithmetic import multiply
from porism.tensor.api.comparison import where
from porism.tensor.api.cumulative import cumsum
from porism.tensor.conversion import as_tensor
from porism.tensor.jit.tracing import ValueStream, current
from porism.tensor.movement.sorting import argsort, topk
from porism.tensor.standard.devices import new_device
from porism.tensor.static_sizes import static_size
from porism.tensor.tensor import Tensor, method

TWO_TO_32: Final = 1 << 32
"""The number of values of one of the two 32-bit words of a hash."""

_lock = held_while_forking(threading.Lock())
_key = 0
_counter = 0


def seed(n: int) -> None:
    """Set the seed: all numbers drawn afterwards depend on n alone.

    >>> porism.seed(7)
    >>> first = porism.rand(2).tolist()
    >>> porism.seed(7)
    >>> porism.rand(2).tolist() == first
    True
    """
    global _key, _counter
    number = shapes.as_int(n, "the seed")
    if current.get() is not None:
        raise shapes.shape_error(
            "seed inside of a jitted function",
            "it would happen once, when the function is traced, and not at every call",
            "call it before the function",
        )
    with _lock:
        _key, _counter = number % (1 << 64), 0


def _random_bits(sizes: shapes.Sizes, device: Any = None) -> UOp:
    """Return 64 random bits for each element, as u64, which a device computes."""
    count = shapes.product(static_size(size, "random numbers") for size in sizes)
    assert isinstance(count, int)
    words, before = _key_and_counter(count, new_device(device))
    key, start = (
        primitive.broadcast(primitive.shrink(words, [(k, k + 1)]), [count]) for k in range(2)
    )
    counter = primitive.cast(primitive.iota([count], 0), dtypes.u64) + start
    if before:
        counter = counter + before
    return primitive.reshape(ops.THREEFRY(counter, key), sizes)


def _key_and_counter(count: int, device: str) -> tuple[UOp, int]:
    """Return a buffer of the key and the counter, and how many numbers were drawn since then."""
    trace = current.get()
    if trace is None:
        if device == HOST:
            return new_buffer(dtypes.u64, (2,), advance_counter(count)), 0
        dims = (UOp.const(dtypes.index, 2),)
        return buffer_with_copy(dtypes.u64, dims, advance_counter(count), device), 0
    # Each call of a jitted function reads the state and advances it by all that the function draws.
    stream = trace.streams.get("random")
    if stream is None:
        words = new_placeholder(dtypes.u64, (UOp.const(dtypes.index, 2),), None)
        stream = trace.streams["random"] = ValueStream(words, advance_counter)
    before = stream.amount
    stream.amount += count
    words = stream.placeholder
    if device_use.others_are_used:  # the state is on no device, and what is drawn is
        words = ops.COPY(words, arg=device)
    return words, before


def advance_counter(count: int) -> Array:
    """Return the key and the counter, and advance the counter by `count`."""
    global _counter
    with _lock:
        state = np.array([_key, _counter], np.uint64)
        _counter = (_counter + count) % (1 << 64)
    return state


def _low_word(bits: UOp) -> UOp:
    """Return the low 32 bits."""
    return primitive.cast(bits, dtypes.u32)


def _high_word(bits: UOp) -> UOp:
    """Return the high 32 bits."""
    return primitive.cast(bits // TWO_TO_32, dtypes.u32)


def _uniform_node(sizes: shapes.Sizes, dtype: DType, device: Any = None) -> UOp:
    """Return multiples of 2^-p in [0, 1), where p is the precision of the type: 24 bits for f32."""
    bits = _random_bits(sizes, device)
    word, width = (bits, 64) if dtype.precision > 32 else (_low_word(bits), 32)
    numerator = word // (1 << (width - dtype.precision))
    compute_dtype = dtypes.f64 if width == 64 else dtypes.f32
    return primitive.cast(primitive.cast(numerator, compute_dtype) * 2.0**-dtype.precision, dtype)


def _normal_node(sizes: shapes.Sizes, dtype: DType, device: Any = None) -> UOp:
    """Return standard normal numbers (Box-Muller): a radius and an angle from one word each."""
    bits = _random_bits(sizes, device)
    compute_dtype = dtypes.f64 if dtype is dtypes.f64 else dtypes.f32
    # In (0, 1], so that its logarithm is finite.
    first = (primitive.cast(_low_word(bits), compute_dtype) + 1.0) * (1 / TWO_TO_32)
    second = primitive.cast(_high_word(bits) // 256, compute_dtype) * 2.0**-24
    radius = ops.SQRT(ops.LOG2(first) * (-2 * math.log(2)))
    return primitive.cast(radius * ops.SIN(second * (2 * math.pi)), dtype)


def _float_dtype(dtype: Any, what: str) -> DType:
    """Return the float type of random numbers, float32 if None is given."""
    wanted_dtype = promotion.DEFAULT_FLOAT if dtype is None else promotion.as_dtype(dtype)
    promotion.require_dtype(
        wanted_dtype, promotion.FLOATS, what, "pass a float type, or use randint"
    )
    return wanted_dtype


def rand(*shape: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """Return uniform random numbers in [0, 1), float32 by default.

    >>> porism.rand(2, 3)
    Tensor(lazy, shape=(2, 3), dtype=float32)
    """
    return Tensor(_uniform_node(shapes.as_sizes(shape), _float_dtype(dtype, "rand"), device))


def randn(*shape: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """Return standard normal random numbers (mean 0, variance 1), float32 by default.

    >>> porism.randn(2, 3)
    Tensor(lazy, shape=(2, 3), dtype=float32)
    """
    return Tensor(_normal_node(shapes.as_sizes(shape), _float_dtype(dtype, "randn"), device))


def uniform(
    low: float = 0.0,
    high: float = 1.0,
    shape: Any = (),
    *,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Return uniform random numbers in [low, high); `high` itself can occur by rounding.

    >>> porism.uniform(-1, 1, (2, 3))
    Tensor(lazy, shape=(2, 3), dtype=float32)
    """
    wanted_dtype = _float_dtype(dtype, "uniform")
    first, last = shapes.as_number(low, "low"), shapes.as_number(high, "high")
    node = _uniform_node(shapes.as_sizes(shape), wanted_dtype, device)
    return Tensor(node * (last - first) + first)


def normal(
    mean: float = 0.0,
    std: float = 1.0,
    shape: Any = (),
    *,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Return random numbers of the normal distribution with a mean and a standard deviation.

    >>> porism.normal(5, 2, (2, 3))
    Tensor(lazy, shape=(2, 3), dtype=float32)
    """
    mean_value = shapes.as_number(mean, "mean")
    if shapes.as_number(std, "std") < 0:
        raise shapes.shape_error(
            f"normal with std={std}", "a standard deviation is not negative", "pass 0 or more"
        )
    wanted_dtype = _float_dtype(dtype, "normal")
    node = _normal_node(shapes.as_sizes(shape), wanted_dtype, device)
    return Tensor(node * std + mean_value)


def randint(
    low: int, high: Any = None, shape: Any = (), *, dtype: Any = None, device: Any = None
) -> Tensor:
    """Return uniform random integers from low to high - 1; from 0 to low - 1 if `high` is None.

    The shape may follow `low` as well. For up to 2^32 different numbers their probabilities differ
    by at most 2^-32.

    >>> (porism.randint(6, shape=(100,)) < 6).all().item()
    True
    """
    if isinstance(high, (tuple, list)):  # PyTorch's randint(high, size)
        high, shape = None, high
    first, last = (0, low) if high is None else (low, high)
    first, last = shapes.as_int(first, "low"), shapes.as_int(last, "high")
    wanted_dtype = promotion.DEFAULT_INT if dtype is None else promotion.as_dtype(dtype)
    promotion.require_dtype(
        wanted_dtype, promotion.INTEGERS, "randint", "pass an integer type, or use uniform"
    )
    if not wanted_dtype.min <= first < last <= wanted_dtype.max + 1:
        raise shapes.shape_error(
            f"randint from {first} to {last} in {promotion.name_of(wanted_dtype)}",
            "there is no such number" if first >= last else "the type does not hold all of them",
            "pass a high above low, or a wider dtype",
        )
    count = last - first
    bits = _random_bits(shapes.as_sizes(shape), device)
    if count <= TWO_TO_32:
        number = primitive.cast(_low_word(bits), dtypes.u64) * count // TWO_TO_32
    else:
        number = bits if count == 1 << 64 else bits % count
    return Tensor(primitive.cast(number, wanted_dtype) + first)


def permutation(x: int, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return the integers from 0 to x - 1 in random order.

    >>> porism.sort(porism.permutation(4)).tolist()
    [0, 1, 2, 3]
    """
    size = shapes.as_int(x, "the size of a permutation")
    if size < 0:
        raise shapes.shape_error(
            f"a permutation of {size} numbers", "a size is not negative", "pass 0 or more"
        )
    wanted_dtype = promotion.DEFAULT_INT if dtype is None else promotion.as_dtype(dtype)
    keys = primitive.contiguous(_low_word(_random_bits((size,), device)), "permutation")
    return Tensor(primitive.cast(argsort(Tensor(keys)).node, wanted_dtype))


@method
def shuffle(x: Any, axis: int = 0) -> Tensor:
    """Return x with its slices along an axis in random order.

    >>> porism.shuffle([1, 2, 3]).sum().item()
    6
    """
    tensor = as_tensor(x)
    shuffled_axis = shapes.normalize_axis(axis, tensor.ndim)
    size = static_size(tensor.shape[shuffled_axis], "shuffle")
    order = permutation(size, device=tensor.device)
    sizes = tensor.shape
    index_sizes = [n if k == shuffled_axis else 1 for k, n in enumerate(sizes)]
    chosen = primitive.contiguous(order.node, "shuffle") if order.size else order.node
    source_index = primitive.expand(primitive.reshape(chosen, index_sizes), sizes)
    indices = [
        primitive.clamp_index(source_index, sizes[shuffled_axis])
        if k == shuffled_axis
        else primitive.iota(sizes, k)
        for k in range(tensor.ndim)
    ]
    return Tensor(primitive.gather(tensor.node, indices))


@method
def dropout(x: Any, p: float = 0.5, training: bool = True) -> Tensor:
    """Return x with elements set to 0 with probability p and the others scaled by 1 / (1 - p).

    With `training=False` x is returned unchanged.

    >>> porism.dropout([1.0, 2.0], p=0.5, training=False).tolist()
    [1.0, 2.0]
    """
    if not 0 <= p <= 1:
        raise shapes.shape_error(f"dropout with p={p}", "a probability is from 0 to 1", "pass one")
    tensor = as_tensor(x)
    promotion.require_dtype(
        tensor.node.dtype, promotion.FLOATS, "dropout", "convert it, with astype"
    )
    if not training or p == 0:
        return Tensor(tensor.node)
    if p == 1:
        return Tensor(primitive.full(tensor.node.dtype, 0, tensor.shape))
    kept = Tensor(_uniform_node(tensor.shape, dtypes.f32, tensor.device) >= p)
    return where(kept, multiply(tensor, 1 / (1 - p)), 0.0)


@method
def multinomial(x: Any, num_samples: int, replacement: bool = False) -> Tensor:
    """Return class indices, drawn in proportion to the weights along the last axis.

    With replacement, each draw is compared with all cumulative sums. Without, the classes with the
    largest log(weight) plus Gumbel noise are taken, which equals successive draws; classes of
    weight 0 come last. Weights are computed at once to refuse invalid ones; in a jitted function,
    where their values are unknown, rows with invalid weights give -1.

    >>> porism.multinomial([0.0, 1.0, 0.0], 1).tolist()
    [1]
    """
    tensor = as_tensor(x)
    if tensor.ndim not in (1, 2):
        raise shapes.shape_error(
            f"multinomial of a tensor of shape {shapes.to_text(tensor.shape)}",
            "probabilities are (classes,) or (batch, classes)",
            "reshape it",
        )
    count = shapes.as_int(num_samples, "num_samples")
    *batch, classes = (static_size(size, "multinomial") for size in tensor.shape)
    if count < 1 or not classes or (count > classes and not replacement):
        raise shapes.shape_error(
            f"multinomial of {count} samples from {classes} classes",
            "at least one is drawn, and without replacement each class once at most",
            "draw fewer, or pass replacement=True",
        )
    if current.get() is None:
        _check_weights(tensor)
    weights = primitive.cast(tensor.node, dtypes.f32)
    drawn = _sample_classes(weights, batch, classes, count, replacement, tensor.device)
    usable = (weights >= 0.0) & (weights < math.inf)
    all_usable = primitive.reduce(primitive.cast(usable, dtypes.i64), ops.MIN, [len(batch)])
    any_positive = primitive.reduce(
        primitive.cast(weights > 0.0, dtypes.i64), ops.MAX, [len(batch)]
    )
    valid = primitive.expand(all_usable * any_positive, [*batch, count]).ne(0)
    return Tensor(valid.where(drawn, drawn.lift(-1)))


def _check_weights(tensor: Tensor) -> None:
    """Refuse weights that are negative, not finite, or all 0 in a row."""
    values = tensor.realize().numpy().astype(np.float32)
    reasons = {
        "one is negative": (values < 0).any(),
        "one is NaN or infinite": not np.isfinite(values).all(),
        "all of a row are 0": not (values > 0).any(axis=-1).all(),
    }
    for why, holds in reasons.items():
        if holds:
            raise shapes.shape_error(
                "multinomial with weights that cannot be probabilities",
                why,
                "give weights from 0 on, of which some are above 0, such as softmax(x)",
            )


def _sample_classes(
    weights: UOp, batch: list[int], classes: int, count: int, replacement: bool, device: str
) -> UOp:
    """Return `count` class indices for each row of weights."""
    if not replacement:
        noise = _uniform_node((*batch, classes), dtypes.f32, device) + 2.0**-25
        noise = ops.MIN(noise, noise.lift(1 - 2.0**-24))  # in (0, 1): both logarithms are finite
        scores = ops.LOG2(weights) - ops.LOG2(-ops.LOG2(noise))
        return topk(Tensor(primitive.contiguous(scores, "multinomial")), count).indices.node
    sums = cumsum(Tensor(weights), axis=-1).node
    sums = primitive.contiguous(sums, "multinomial")
    table = [*batch, count, classes]
    rank = len(table)
    cumulative = primitive.expand(primitive.reshape(sums, [*batch, 1, classes]), table)
    total = primitive.shrink(sums, [*[(0, n) for n in batch], (classes - 1, classes)])
    draws = _uniform_node((*batch, count), dtypes.f32, device)
    draws = draws * primitive.expand(total, [*batch, count])
    thresholds = primitive.expand(primitive.reshape(draws, [*batch, count, 1]), table)
    exceeded = primitive.cast(cumulative <= thresholds, promotion.DEFAULT_INT)
    number = primitive.reduce(exceeded, ops.ADD, [rank - 1])
    number = ops.MIN(number, number.lift(classes - 1))
    return primitive.reshape(number, [*batch, count])
