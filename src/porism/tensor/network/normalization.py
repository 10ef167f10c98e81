"""Normalization: softmax, and values scaled to mean 0 and variance 1 over different axes.

Each is a graph of reductions followed by one elementwise formula, of which the scheduler makes one
kernel. Floats narrower than 32 bits are computed in f32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from porism.gradient.stated_pullbacks import pullback, stated
from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.tensor import primitive, promotion, shapes
from porism.tensor.api.exponentials import LN_2, LOG2_E
from porism.tensor.api.operands import float_node
from porism.tensor.api.reductions import (
    Axes,
    accumulation_dtype,
    expand_like,
    mean_node,
    variance_node,
)
from porism.tensor.conversion import as_tensor
from porism.tensor.float_formulas import in_f32
from porism.tensor.primitive import Dim
from porism.tensor.tensor import Tensor, method

# -- softmax ---------------------------------------------------------------------------------------


def softmax_node(x: UOp, axes: Sequence[int]) -> UOp:
    """Return exp(x - max) over its sum along axes, in x's own type."""
    exponentials = _shifted_exp(x, axes)
    total = primitive.reduce(exponentials, ops.ADD, axes)
    result = exponentials * expand_like(ops.RECIPROCAL(total), x)
    return stated("softmax", result, x, parameters=(tuple(axes),))


@pullback("softmax", "y · (g - sum(g · y))")
def _pull_softmax(g: UOp, y: UOp, inputs: tuple[UOp], axes: tuple[int, ...]) -> list[UOp]:
    total = primitive.reduce(g * y, ops.ADD, axes)
    return [y * (g - expand_like(total, y))]


@pullback("log_softmax", "g - exp(y) · sum(g)")
def _pull_log_softmax(g: UOp, y: UOp, inputs: tuple[UOp], axes: tuple[int, ...]) -> list[UOp]:
    total = primitive.reduce(g, ops.ADD, axes)
    return [g - ops.EXP2(y * LOG2_E) * expand_like(total, y)]


def _subtract_max(x: UOp, axes: Sequence[int]) -> UOp:
    """Return x minus its maximum along axes, so that no exponential overflows."""
    return x - expand_like(primitive.reduce(x, ops.MAX, axes), x)


def _shifted_exp(x: UOp, axes: Sequence[int]) -> UOp:
    """Return exp(x - max)."""
    return ops.EXP2(_subtract_max(x, axes) * LOG2_E)


def log_softmax_node(x: UOp, axes: Sequence[int]) -> UOp:
    """Return the logarithm of softmax, without the logarithm of an underflowed 0."""
    total = primitive.reduce(_shifted_exp(x, axes), ops.ADD, axes)
    result = _subtract_max(x, axes) - expand_like(ops.LOG2(total) * LN_2, x)
    return stated("log_softmax", result, x, parameters=(tuple(axes),))


@method
def softmax(x: Any, axis: Axes = -1) -> Tensor:
    """Return exp(x) / sum(exp(x)) along axes, without overflow; NaN if all values are -inf.

    >>> porism.softmax([0.0, 0.0, 1000.0, 1000.0]).tolist()
    [0.0, 0.0, 0.5, 0.5]
    """
    tensor = as_tensor(x)
    axes = shapes.normalize_axes(axis, tensor.ndim)
    return Tensor(in_f32(lambda node: softmax_node(node, axes), float_node(tensor)))


@method
def log_softmax(x: Any, axis: Axes = -1) -> Tensor:
    """Return the logarithm of `softmax` along axes, also where softmax underflows to 0.

    >>> porism.log_softmax([0.0, 1000.0]).tolist()
    [-1000.0, 0.0]
    """
    tensor = as_tensor(x)
    axes = shapes.normalize_axes(axis, tensor.ndim)
    return Tensor(in_f32(lambda node: log_softmax_node(node, axes), float_node(tensor)))


# -- norms -----------------------------------------------------------------------------------------


def _inverse_std(variance: UOp, eps: float) -> UOp:
    """Return 1 / sqrt(variance + eps)."""
    return ops.RECIPROCAL(ops.SQRT(variance + eps))


def _standardize(x: UOp, axes: Sequence[int], eps: float) -> UOp:
    """Return x shifted and scaled to mean 0 and variance 1 over axes."""
    scale = _inverse_std(variance_node(x, axes), eps)
    result = (x - expand_like(mean_node(x, axes), x)) * expand_like(scale, x)
    return stated("standardize", result, x, parameters=(tuple(axes), float(eps)))


@pullback("standardize", "(g - mean(g) - y · mean(g · y)) / sqrt(variance + eps)")
def _pull_standardize(
    g: UOp, y: UOp, inputs: tuple[UOp], axes: tuple[int, ...], eps: float
) -> list[UOp]:
    (x,) = inputs
    scale = expand_like(_inverse_std(variance_node(x, axes), eps), x)
    centred = g - expand_like(mean_node(g, axes), g)
    return [(centred - y * expand_like(mean_node(g * y, axes), g)) * scale]


def _divide_by_rms(x: UOp, axes: Sequence[int], eps: float) -> UOp:
    """Return x divided by its root mean square over axes."""
    result = x * expand_like(_inverse_std(mean_node(x * x, axes), eps), x)
    return stated("divide_by_rms", result, x, parameters=(tuple(axes), float(eps)))


@pullback("divide_by_rms", "(g - y · mean(g · y)) / sqrt(mean square + eps)")
def _pull_divide_by_rms(
    g: UOp, y: UOp, inputs: tuple[UOp], axes: tuple[int, ...], eps: float
) -> list[UOp]:
    (x,) = inputs
    scale = expand_like(_inverse_std(mean_node(x * x, axes), eps), x)
    return [(g - y * expand_like(mean_node(g * y, axes), g)) * scale]


def _scale_and_shift(x: UOp, weight: UOp | None, bias: UOp | None) -> UOp:
    """Return x times a weight plus a bias, which have size 1 along axes they repeat over."""
    if weight is not None:
        x = x * expand_like(weight, x)
    return x if bias is None else x + expand_like(bias, x)


def _expand_parameter(
    parameter: Any, what: str, x: UOp, sizes: Sequence[Dim], axes: Sequence[int]
) -> UOp | None:
    """Return a weight or bias reshaped to the axes of x it belongs to; size 1 along the others."""
    if parameter is None:
        return None
    tensor = as_tensor(parameter)
    if not shapes.shapes_equal(tensor.shape, sizes):
        raise shapes.shape_error(
            f"{what} has the shape {shapes.to_text(tensor.shape)}",
            f"one of shape {shapes.to_text(sizes)} goes with an input of shape "
            f"{shapes.to_text(shapes.sizes_of(x))}",
            "reshape or slice it",
        )
    expanded_sizes: list[Dim] = [1] * len(shape(x))
    for axis, size in zip(axes, sizes, strict=True):
        expanded_sizes[axis] = size
    return primitive.reshape(
        primitive.cast(tensor.node, accumulation_dtype(x.dtype)), expanded_sizes
    )


def _normalized_axes(x: Tensor, axis: Axes, weight: Any, what: str) -> tuple[int, ...]:
    """Return the axes to normalize: those given, or as many last ones as the weight has."""
    if axis is not None:
        return tuple(sorted(shapes.normalize_axes(axis, x.ndim)))
    count = 1 if weight is None else as_tensor(weight).ndim
    if not 0 < count <= x.ndim:
        raise shapes.shape_error(
            f"{what} of a tensor of shape {shapes.to_text(x.shape)} over its last {count} axes",
            "the weight has an axis for each axis that is normalized, at least one",
            "reshape the weight, or pass axis=",
        )
    return tuple(range(x.ndim - count, x.ndim))


@method
def layer_norm(
    x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *, axis: Axes = None
) -> Tensor:
    """Return x scaled to mean 0 and variance 1 over its last axes, then times weight plus bias.

    It normalizes as many last axes as the weight has (one without a weight), or those of `axis`;
    `eps` is added to the variance.

    >>> porism.layer_norm([[1.0, 3.0], [10.0, 30.0]], eps=0).tolist()
    [[-1.0, 1.0], [-1.0, 1.0]]
    """
    tensor = as_tensor(x)
    if isinstance(weight, tuple):
        raise promotion.type_error(
            f"the tuple {weight!r} as the weight of layer_norm",
            "PyTorch's second argument is a shape, and here it is the weight",
            "name the axes: porism.layer_norm(x, weight, bias, axis=-1)",
        )
    axes = _normalized_axes(tensor, axis, bias if weight is None else weight, "layer_norm")
    node = float_node(tensor)
    sizes = [tensor.shape[k] for k in axes]
    scale = _expand_parameter(weight, "the weight of layer_norm", node, sizes, axes)
    offset = _expand_parameter(bias, "the bias of layer_norm", node, sizes, axes)
    return Tensor(
        in_f32(lambda n: _scale_and_shift(_standardize(n, axes, eps), scale, offset), node)
    )


@method
def rms_norm(x: Any, weight: Any = None, eps: float = 1e-5, *, axis: Axes = None) -> Tensor:
    """Return x divided by its root mean square over its last axes, then times weight.

    It normalizes as many last axes as the weight has (one without a weight), or those of `axis`;
    `eps` is added to the mean square.

    >>> porism.rms_norm([3.0, 3.0, 3.0, 3.0], eps=0).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    tensor = as_tensor(x)
    axes = _normalized_axes(tensor, axis, weight, "rms_norm")
    node = float_node(tensor)
    scale = _expand_parameter(
        weight, "the weight of rms_norm", node, [tensor.shape[k] for k in axes], axes
    )

    def formula(n: UOp) -> UOp:
        return _scale_and_shift(_divide_by_rms(n, axes, eps), scale, None)

    return Tensor(in_f32(formula, node))


def _channel_count(x: Tensor, what: str) -> Dim:
    """Return the size of axis 1; refuse a tensor without it."""
    if x.ndim < 2:
        raise shapes.shape_error(
            f"{what} of a tensor of shape {shapes.to_text(x.shape)}",
            "its axes are (batch, channels, …)",
            "add axes with reshape or expand_dims",
        )
    return x.shape[1]


@method
def batch_norm(
    x: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    eps: float = 1e-5,
) -> Tensor:
    """Return x with each channel (axis 1) normalized, then times weight plus bias.

    It uses `running_mean` and `running_var`, or with `training=True` the statistics of the batch
    itself. It updates nothing: `batch_statistics` returns the running statistics after a batch.

    >>> porism.batch_norm([[1.0, 10.0], [3.0, 30.0]], training=True, eps=0).tolist()
    [[-1.0, -1.0], [1.0, 1.0]]
    """
    tensor = as_tensor(x)
    channels = [_channel_count(tensor, "batch_norm")]
    node = float_node(tensor)
    from_batch = training or running_mean is None or running_var is None
    if from_batch and not training:
        raise shapes.shape_error(
            "batch_norm without running statistics",
            "outside of training it needs running_mean and running_var",
            "pass both, or training=True",
        )
    parameters = (
        ("the weight", weight),
        ("the bias", bias),
        ("running_mean", running_mean),
        ("running_var", running_var),
    )
    scale, offset, mean, variance = (
        _expand_parameter(value, f"{name} of batch_norm", node, channels, [1])
        for name, value in parameters
    )
    axes = [k for k in range(tensor.ndim) if k != 1]

    def formula(n: UOp) -> UOp:
        if training:
            return _scale_and_shift(_standardize(n, axes, eps), scale, offset)
        assert mean is not None
        assert variance is not None
        factor = _inverse_std(variance, eps)
        return _scale_and_shift((n - expand_like(mean, n)) * expand_like(factor, n), scale, offset)

    return Tensor(in_f32(formula, node))


def batch_statistics(
    x: Any, running_mean: Any, running_var: Any, momentum: float = 0.1
) -> tuple[Tensor, Tensor]:
    """Return the running mean and variance of each channel (axis 1) after this batch.

    They are old·(1 - momentum) + new·momentum, where the new variance is the unbiased one, over n -
    1.

    >>> mean, var = porism.batch_statistics([[1.0], [3.0]], [0.0], [1.0], momentum=0.5)
    >>> mean.tolist(), var.tolist()
    ([1.0], [1.5])
    """
    tensor = as_tensor(x)
    channels = [_channel_count(tensor, "batch_statistics")]
    axes = [k for k in range(tensor.ndim) if k != 1]
    node = float_node(tensor)
    batch = primitive.cast(node, accumulation_dtype(node.dtype))
    results = []
    for name, old, new in (
        ("running_mean", running_mean, mean_node(batch, axes)),
        ("running_var", running_var, variance_node(batch, axes, correction=1)),
    ):
        before = _expand_parameter(old, f"{name} of batch_statistics", node, channels, [1])
        if before is None:
            raise shapes.shape_error(
                f"batch_statistics without {name}",
                "it gives the statistics after this batch from those before it",
                "start with zeros for running_mean, and ones for running_var",
            )
        after = before * (1 - momentum) + new * momentum
        flat = primitive.reshape(after, channels)
        results.append(Tensor(primitive.cast(flat, as_tensor(old).node.dtype)))
    return results[0], results[1]


@method
def group_norm(
    x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    """Return x scaled to mean 0 and variance 1 over groups of channels and all axes after them.

    The channels (axis 1) are cut into `num_groups` groups of equal size; weight and bias have one
    number for each channel.

    >>> porism.group_norm([[1.0, 3.0, 10.0, 30.0]], 2, eps=0).tolist()
    [[-1.0, 1.0, -1.0, 1.0]]
    """
    tensor = as_tensor(x)
    channels = _channel_count(tensor, "group_norm")
    groups = shapes.as_int(num_groups, "num_groups")
    if groups < 1 or (isinstance(channels, int) and channels % groups):
        raise shapes.shape_error(
            f"group_norm of {shapes.size_text(channels)} channels in {groups} groups",
            "every group has the same number of channels",
            "choose a number of groups that divides the channels",
        )
    batch, _, *rest = tensor.shape
    node = float_node(tensor)
    split_sizes = [batch, groups, channels // groups, *rest]
    parameter_sizes: list[Dim] = [1, groups, channels // groups, *[1] * len(rest)]
    scale, offset = (
        None if parameter is None else primitive.reshape(parameter, parameter_sizes)
        for parameter in (
            _expand_parameter(weight, "the weight of group_norm", node, [channels], [1]),
            _expand_parameter(bias, "the bias of group_norm", node, [channels], [1]),
        )
    )

    def formula(n: UOp) -> UOp:
        # Weight and bias are split too, so that one loop over groups computes everything.
        split = primitive.reshape(n, split_sizes)
        result = _scale_and_shift(
            _standardize(split, range(2, len(split_sizes)), eps), scale, offset
        )
        return primitive.reshape(result, tensor.shape)

    return Tensor(in_f32(formula, node))


@method
def instance_norm(x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """Return x with each channel (axis 1) of each example normalized over the axes after it.

    >>> porism.instance_norm([[[1.0, 3.0], [10.0, 30.0]]], eps=0).tolist()
    [[[-1.0, 1.0], [-1.0, 1.0]]]
    """
    tensor = as_tensor(x)
    channels = [_channel_count(tensor, "instance_norm")]
    node = float_node(tensor)
    scale = _expand_parameter(weight, "the weight of instance_norm", node, channels, [1])
    offset = _expand_parameter(bias, "the bias of instance_norm", node, channels, [1])
    axes = range(2, tensor.ndim)
    return Tensor(
        in_f32(lambda n: _scale_and_shift(_standardize(n, axes, eps), scale, offset), node)
    )
