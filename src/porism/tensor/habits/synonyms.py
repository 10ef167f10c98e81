"""Synonyms: names and keywords of other libraries that mean the same as ours, as tables."""

from __future__ import annotations

from typing import Final


def _table(text: str) -> dict[str, str]:
    """Read a table of `foreign=ours` words."""
    return dict(word.split("=") for word in text.split())


FUNCTIONS: Final = _table(
    """
    absolute=abs fabs=abs arccos=acos arcsin=asin arctan=atan arctan2=atan2 arccosh=acosh
    arcsinh=asinh arctanh=atanh concatenate=concat cat=concat power=pow mod=remainder
    true_divide=divide div=divide mul=multiply sub=subtract neg=negative invert=bitwise_invert
    bitwise_not=bitwise_invert left_shift=bitwise_left_shift right_shift=bitwise_right_shift
    gt=greater ge=greater_equal lt=less le=less_equal eq=equal ne=not_equal clamp=clip
    rint=round fix=trunc around=round array=asarray as_tensor=asarray
    from_numpy=asarray asanyarray=asarray ascontiguousarray=asarray ravel=flatten movedim=moveaxis
    swapdims=swapaxes repeat_interleave=repeat unbind=unstack expit=sigmoid
    swish=silu manual_seed=seed randperm=permutation mm=matmul bmm=matmul mv=matmul identity=eye
    row_stack=vstack tensor_split=array_split trapz=trapezoid degrees=rad2deg radians=deg2rad
    hard_tanh=hardtanh hard_sigmoid=hardsigmoid hard_swish=hardswish hard_silu=hardswish
    log_sigmoid=logsigmoid soft_sign=softsign sdpa=scaled_dot_product_attention
    ger=outer conjugate=conj promote_types=result_type sgn=sign take_along_dim=take_along_axis
    broadcast_tensors=broadcast_arrays jacrev=jacobian jacfwd=jacobian
    """
)
"""Functions and methods: the name there, and ours."""

TYPES: Final = _table(
    """
    float=float32 double=float64 half=float16 short=int16 long=int64 bool_=bool single=float32
    float_=float64 intp=int64 int_=int64 ubyte=uint8 byte=uint8 float8_e4m3=float8_e4m3fn
    """
)
"""Types: the name there, and ours."""

KEYWORDS: Final[dict[str, tuple[str, ...]]] = {
    foreign: tuple(ours.split("|"))
    for foreign, ours in _table(
        """
        dim=axis|axes dims=axis|axes|repetitions axes=axis keepdim=keepdims ddof=correction
        unbiased=correction start_dim=start_axis end_dim=end_axis is_causal=causal attn_mask=mask
        a_min=min a_max=max steps=num N=n_rows M=n_cols n=n_rows m=n_cols diagonal=k
        reps=repetitions shifts=shift split_size=split_size_or_sections p=ord other=x2|end
        exponent=x2 y=x2 b=x2 mat2=x2 vec=x2 vec2=x2 v=x2 values=x2|src tensors=arrays seq=arrays
        arrays=tensors operands=tensors sorted_sequence=x1 size=shape|sizes newshape=shape
        shape=sizes constant_values=value pad=pad_width end=stop indices=index index=indices
        dim0=axis1 dim1=axis2|axis1 dim2=axis2 labels=target logits=x padding_value=value
        num_classes=classes upper=high lower=low
        """
    ).items()
}
"""Keywords: the name there, and ours; the first one that the function has."""

OF_FUNCTION: Final[dict[str, dict[str, str]]] = {
    "where": {"x": "x1", "y": "x2", "input": "x1", "other": "x2"},
    "diagonal": {"dim1": "axis1", "dim2": "axis2"},
    "vander": {"N": "n_cols"},
    "diag_embed": {"dim1": "axis1", "dim2": "axis2"},
}
"""Keywords of single functions, which go before those of all."""

FIRST: Final = frozenset(
    ("input", "a", "x", "x1", "arr", "array", "ary", "ar", "obj", "object", "data", "tensor", "m")
)
"""Names of the first operand; ours is the first parameter of each function."""

FOREIGN: Final = frozenset({*KEYWORDS, *FIRST, "shape", "sizes", "axes", "arrays"})
"""Keywords that may have to be renamed."""

AMBIGUOUS: Final[dict[tuple[str, str], tuple[str, str]]] = {
    **{
        (name, "dim"): (
            f"PyTorch's {name} with dim returns values and indices",
            f"write x.{name}(axis=…) for the values and x.arg{name}(axis=…) for the indices",
        )
        for name in ("max", "min")
    },
    **{
        (name, "dim"): (
            f"PyTorch's {name} with dim returns values and indices",
            f"write porism.{name}(x, axis=…), which returns the values",
        )
        for name in ("median", "cummax", "cummin")
    },
    ("sort", "dim"): (
        "PyTorch's sort returns values and indices",
        "write x.sort(axis=…) for the values and x.argsort(axis=…) for the indices",
    ),
}
"""A function and a keyword that is refused: why, and what to write."""

DIVIDES_BY_LESS: Final = frozenset({"var", "std"})
"""Functions which, by default, divide by n - 1 in PyTorch and by n in NumPy and here."""
