"""Namespace: the module of each public function of `porism`.

`import porism` imports none of them. The first use of any imports those with operators; every other
module is imported when a function or a method of it is first used. To add a function, write its
name after its module.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Any, Final

from porism.base.settings import settings
from porism.optimize.actions.action_registry import ACTIONS
from porism.tensor.habits import synonyms
from porism.tensor.habits.function_attributes import with_attributes
from porism.tensor.habits.keywords import public

MODULES: Final[dict[str, str]] = {
    "tensor": "Tensor",
    "symbolic_sizes": "Variable",
    "element_types": "dtype",
    "promotion": "can_cast",
    "api.dtype_info": "finfo iinfo isdtype result_type",
    "shapes": "broadcast_shapes",
    "exchange": "from_dlpack",
    "display": "",
    "habits.familiar_methods": "",
    "standard.devices": "devices",
    "complex.complex_parts": "conj real imag angle",
    "api.creation": (
        "asarray tensor full zeros ones empty full_like zeros_like ones_like empty_like arange"
        " linspace logspace geomspace eye tril triu one_hot"
    ),
    "api.arithmetic": (
        "astype add subtract multiply divide floor_divide remainder divmod pow negative positive"
        " abs maximum minimum square reciprocal sign sqrt rsqrt lerp floor ceil trunc round"
        " copysign signbit nextafter"
    ),
    "api.comparison": (
        "less less_equal greater greater_equal equal not_equal isnan isinf isfinite"
        " bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift bitwise_invert"
        " logical_and logical_or logical_xor logical_not where clip"
    ),
    "api.exponentials": (
        "exp exp2 expm1 log log2 log10 log1p logaddexp sinh cosh tanh asinh acosh atanh"
    ),
    "api.trigonometry": "sin cos tan asin acos atan atan2 hypot",
    "elementwise.real_functions": (
        "fmod frac fmax fmin heaviside cbrt deg2rad rad2deg sinc xlogy logit addcmul addcdiv"
    ),
    "elementwise.closeness": "isclose allclose array_equal nan_to_num isposinf isneginf",
    "elementwise.selection": "select choose masked_fill",
    "elementwise.common_divisors": "gcd lcm",
    "network.activations": "erf relu leaky_relu sigmoid silu softplus gelu",
    "elementwise.error_functions": "erfc erfinv",
    "network.rectifiers": (
        "elu selu celu mish logsigmoid tanhshrink relu6 hardtanh hardsigmoid hardswish softsign"
        " softshrink hardshrink threshold prelu glu"
    ),
    "movement.reshape": (
        "reshape flatten unflatten expand_dims unsqueeze squeeze permute_dims permute transpose"
        " swapaxes moveaxis matrix_transpose flip broadcast_to expand broadcast_arrays"
        " diagonal pixel_shuffle pixel_unshuffle"
    ),
    "movement.pad": "pad",
    "movement.repetition": "repeat tile unfold",
    "movement.assignment": "",
    "movement.indexing": "take index_select embedding take_along_axis gather",
    "movement.joining": "concat stack split chunk unstack roll meshgrid",
    "movement.stacking": (
        "atleast_1d atleast_2d atleast_3d vstack hstack dstack column_stack array_split hsplit"
        " vsplit narrow flipud fliplr rot90"
    ),
    "api.reductions": (
        "sum prod max min amax amin mean var std any all argmax argmin logsumexp norm vector_norm"
        " count_nonzero"
    ),
    "statistics.nan_reductions": "nansum nanprod nanmax nanmin nanmean nanvar nanstd",
    "statistics.nan_quantiles": "nanquantile nanpercentile nanmedian",
    "statistics.moments": "ptp average cov corrcoef",
    "api.cumulative": "cumulative_sum cumulative_prod cumsum cumprod cummax cummin diff",
    "api.linear_algebra": "matmul vecdot dot outer tensordot linear trace",
    "api.einsum": "einsum",
    "matrices.matrix_construction": "diag diagflat diag_embed tri vander",
    "matrices.vector_products": "inner vdot kron cross addmm",
    "matrices.sequence_products": "convolve correlate trapezoid polyval interp",
    "matrices.finite_differences": "gradient",
    "network.convolution": (
        "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d"
    ),
    "network.pooling": "max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d",
    "network.adaptive_pooling": (
        "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d"
        " adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d"
    ),
    "network.normalization": (
        "softmax log_softmax layer_norm rms_norm batch_norm batch_statistics group_norm"
        " instance_norm"
    ),
    "network.similarity": "normalize cosine_similarity pairwise_distance",
    "network.interpolation": "interpolate",
    "network.attention": "scaled_dot_product_attention",
    "movement.sorting": "sort argsort topk searchsorted quantile percentile median",
    "movement.scatter": "scatter scatter_add scatter_min scatter_max index_add bincount",
    "statistics.binning": "digitize bucketize histogram",
    "search.nonzero_indices": "nonzero argwhere",
    "search.set_functions": "unique_all unique_counts unique_inverse unique_values isin",
    "standard.array_api_info": "__array_namespace_info__",
    "network.losses": (
        "cross_entropy nll_loss mse_loss l1_loss huber_loss smooth_l1_loss kl_div"
        " binary_cross_entropy binary_cross_entropy_with_logits"
    ),
    "inspect.explain": "kernels explain",
    "inspect.kernel_profile": "profile",
    "inspect.manual_schedule": "opt",
    "inspect.verify_report": "verify",
    "realization": "realize memory",
    "jit.jit": "jit",
    "autodiff.gradient_functions": "grad value_and_grad vjp jvp jacobian hessian",
    "autodiff.custom_gradients": "stop_gradient custom_gradient checkpoint",
    "autodiff.backward": "no_grad enable_grad",
    "fast_math_switch": "fast_math",
    "api.random": (
        "seed rand randn uniform normal randint permutation shuffle dropout multinomial"
    ),
}
"""The public names of each module of `porism.tensor`."""

MODULE_OF: Final = {name: module for module, names in MODULES.items() for name in names.split()}
"""The module of each public function."""

DTYPES: Final = frozenset(
    {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}
    | {"float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"}
    | {"complex64", "complex128"}
)
"""The types of tensors."""

CONSTANTS: Final = {"e": math.e, "inf": math.inf, "nan": math.nan, "pi": math.pi, "newaxis": None}

NAMES: Final = frozenset((*MODULE_OF, *ACTIONS, *DTYPES, *CONSTANTS))
"""The public names of `porism` for tensors: functions, types and constants."""

SYNONYMS: Final = {
    foreign: ours
    for foreign, ours in (*synonyms.FUNCTIONS.items(), *synonyms.TYPES.items())
    if foreign not in NAMES
}
"""Names of other libraries that mean the same as a public name."""

ON_TENSORS: Final = (
    *("api.", "network.", "movement.", "elementwise.", "statistics.", "matrices.", "complex."),
    "search.",
)
"""The folders of functions that take keywords of other libraries too."""

WITH_OPERATORS: Final = (
    *("display", "exchange", "api.arithmetic", "api.comparison", "api.linear_algebra"),
    *("movement.indexing", "movement.assignment", "autodiff.backward"),
)
"""The modules that register operators and properties, which Python looks for in the class alone."""

WITHOUT_METHODS: Final = ("inspect.", "jit.")
"""Folders whose functions are no methods of tensors."""


def load() -> None:
    """Import every module with methods, so that tensors have all their methods and operators."""
    for module in MODULES:
        if not module.startswith(WITHOUT_METHODS):
            import_module(f"porism.tensor.{module}")
    _name_nans()


def _name_nans() -> None:
    """Let every computation be checked, if the setting `nan` asks for it."""
    if settings.nan:
        import_module("porism.tensor.inspect.nan_origins").install()


def find(name: str) -> Any:
    """Return the function, type or constant of a name of `NAMES` or `SYNONYMS`."""
    name = SYNONYMS.get(name, name)
    if name in CONSTANTS:
        return CONSTANTS[name]
    if name in DTYPES:
        return import_module("porism.tensor.promotion").ELEMENT_TYPES[name]
    if name in ACTIONS:
        return ACTIONS[name]
    for with_operators in WITH_OPERATORS:
        import_module(f"porism.tensor.{with_operators}")
    _name_nans()
    if "einops" in sys.modules:
        import_module("porism.tensor.habits.einops_backend").register_if_imported()
    module = MODULE_OF[name]
    found = getattr(import_module(f"porism.tensor.{module}"), name)
    return with_attributes(name, public(found) if module.startswith(ON_TENSORS) else found)


def method_name(name: str) -> str:
    """Return the name here of a method, after its module is loaded.

    >>> method_name("clamp")
    'clip'
    """
    from porism.tensor.tensor import Tensor

    found = name if name in synonyms.TYPES else SYNONYMS.get(name, name)
    if found in MODULE_OF:
        import_module(f"porism.tensor.{MODULE_OF[found]}")
    if not hasattr(Tensor, found):
        load()
    if not hasattr(Tensor, found):
        known = (attribute for attribute in dir(Tensor) if not attribute.startswith("_"))
        raise _unknown_name("a tensor", name, (*known, *synonyms.FUNCTIONS))
    return found


def unknown(name: str) -> AttributeError:
    """Return the error for a name that `porism` does not have."""
    return _unknown_name("porism", name, NAMES)


def _unknown_name(owner: str, name: str, known: Iterable[str]) -> AttributeError:
    from porism.tensor.habits.unknown_names import UnknownName

    return UnknownName(owner, name, known)


if settings.view:
    import_module("porism.tensor.inspect.program_view").view_process()
