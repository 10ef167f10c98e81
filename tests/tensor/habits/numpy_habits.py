"""What people who know NumPy write; `np` is porism for the tensors and NumPy for what is expected.

A row is a snippet, and after `=>` another text with the expected value, or after `!!` a part of the
sentence that the error says. `x y` are floats of shape (2, 3), `v` of (3,), `m` of (3, 3), `i`
integers and `b` bools of (2, 3).
"""

from __future__ import annotations

from typing import Final

ROWS: Final = """
# making arrays
np.array([1, 2, 3])
np.array([[1.0, 2.0], [3.0, 4.0]])
np.array([1, 2], dtype=np.float32)
np.array([1, 2], dtype="int32")
np.array([1, 2], float)
np.array(x, copy=True)
np.array([1, 2], ndmin=2) !! add axes with porism.expand_dims
np.asarray([1, 2])
np.asarray(x)
np.asarray([1, 2], dtype=np.float64)
np.asarray([1, 2], order="C")
np.asanyarray([1, 2])
np.ascontiguousarray(x)
np.asfortranarray(x) !! row-major
np.zeros(3)
np.zeros((2, 3))
np.zeros(shape=(2, 3))
np.zeros((2, 3), dtype=np.int64)
np.zeros((2, 3), np.int64) => np.zeros((2, 3), np.int64)
np.zeros((2, 3), int) => np.zeros((2, 3), int)
np.zeros((2, 3), "float64")
np.zeros((2, 3), order="C")
np.ones((2, 3))
np.ones((2, 2), bool)
np.ones_like(x)
np.zeros_like(x, dtype=np.int32)
np.empty((2, 3)).shape
np.empty_like(x).shape
np.full((2, 2), 7)
np.full((2, 2), 7.0, dtype=np.float64)
np.full(3, np.inf)
np.full_like(x, 2)
np.eye(3)
np.eye(2, 3, k=1)
np.eye(3, dtype=np.int64)
np.eye(N=3)
np.identity(3)
np.arange(5)
np.arange(1, 10, 2)
np.arange(0.0, 1.0, 0.25)
np.arange(5, dtype=np.float32)
np.arange(5)[::-1]
np.linspace(0, 1, 5)
np.linspace(0, 1, num=5, endpoint=False)
np.linspace(0, 1, 5, retstep=True) !! compute the step
np.logspace(0, 2, 3)
np.geomspace(1, 8, 4)
np.diag([1, 2, 3])
np.diag(m)
np.diag(m, k=1)
np.diagflat([1, 2])
np.tri(3)
np.tri(3, 4, 1)
np.tril(m)
np.triu(m, k=1)
np.vander([1, 2, 3], 3)
np.meshgrid(v, v)[0]
np.meshgrid(v, v, indexing="ij")[1]
np.meshgrid(v, v, sparse=True) !! all tensors are dense
np.fromfunction(lambda a, b: a + b, (2, 2)) !! porism.meshgrid
np.fromiter(range(3), int) !! porism.asarray(list(values))
np.frombuffer(b"abcd", dtype=np.uint8) !! numpy.frombuffer
np.loadtxt("f") !! numpy.loadtxt
np.mgrid[0:2] !! porism.meshgrid
np.ogrid[0:2] !! porism.arange
np.r_[1, 2] !! porism.concat
np.c_[1, 2] !! porism.stack
np.random.rand(2, 3) !! porism.rand
np.random.seed(0) !! porism.seed(n)
np.random.default_rng(0) !! porism.seed(n)
# attributes and methods
x.shape
x.ndim
x.size
x.T
x.dtype == np.float32 => True
x.dtype.name
x.dtype.itemsize
x.itemsize
x.nbytes
len(x)
x.tolist()
x[0, 0].item()
x.item(0)
x.copy()
x.astype(np.int64)
x.astype("float64")
x.astype(int)
x.astype(float).dtype == np.float32 => True
x.astype(np.float64, copy=False)
x.reshape(3, 2)
x.reshape((3, 2))
x.reshape(-1)
x.reshape(3, -1)
x.reshape((3, 2), order="C")
x.reshape((3, 2), order="F") !! row-major order
x.ravel()
x.flatten()
x.transpose()
x.transpose(1, 0)
x.transpose((1, 0))
x.swapaxes(0, 1)
x.squeeze()
x[None].squeeze(axis=0)
x.sum()
x.sum(0)
x.sum(axis=1)
x.sum(axis=(0, 1))
x.sum(axis=1, keepdims=True)
x.sum(axis=0, dtype=np.float64)
x.mean()
x.mean(axis=1)
x.std()
x.std(axis=0, ddof=1)
x.var(ddof=1)
x.var(axis=1)
x.max()
x.min(axis=0)
x.max(axis=1, keepdims=True)
x.argmax()
x.argmin(axis=1)
x.prod()
x.cumsum()
x.cumsum(axis=1)
x.cumprod(axis=0)
x.any()
b.all(axis=1)
x.clip(0, 1)
x.clip(min=0)
x.round()
x.round(1)
x.round(decimals=1)
x.dot(v)
x.dot(m)
x.trace() => np.trace(x)
m.diagonal()
m.diagonal(offset=1)
x.repeat(2)
x.repeat(2, axis=1)
x.take([0, 2])
x.take([0, 2], axis=1)
x.nonzero()[0]
x.conj()
x.real
x.argsort()
x.argsort(axis=0)
x.searchsorted(1.0) !! one axis
v.searchsorted(0.5)
x.ptp() => np.ptp(x)
x.sort() => np.sort(x)
x.fill(0) !! x[...] = value
x.itemset(0) !! x[index] = value
x.tobytes() !! x.numpy().tobytes()
x.tofile("f") !! x.numpy().tofile
x.resize(3, 2) !! x.reshape(shape)
x.strides !! x.numpy().strides
x.flags !! x.numpy().flags
x.base !! never a view
x.flat !! x.flatten()
x.view(np.int32) !! write x.astype(dtype)
x.compress([True, False]) !! x[condition]
i.clip(0, 1).choose([1, 2])
x.put([0], 1) !! x[indices] = values
x.partition(1) !! x.sort()
x.byteswap() !! x.numpy().byteswap()
# indexing
x[0]
x[0, 1]
x[-1]
x[:, 0]
x[:, -1:]
x[::2]
x[:, ::-1]
x[..., 0]
x[None]
x[np.newaxis, :]
x[:, None].shape
x[b]
x[x > 0]
x[b.any(axis=1)]
x[[0, 1, 0]]
x[[0, 1], [1, 2]]
x[:, [2, 0]]
x[np.array([1, 0])]
x[i % 2, i % 3]
x[np.arange(2), np.array([0, 2])]
x[5] !! indices go from -2 to 1
x[0, 0, 0] !! index fewer axes
x["a"] !! index
x[1.0] !! index
v[slice(0, 2)]
x[..., np.newaxis].shape
x[0][1]
list(x)[0]
# arithmetic
x + y
x - 1
2 * x
x / y
x // 2
x % 2
x ** 2
x @ m
-x
abs(x)
x + [1, 2, 3]
x == y
x < y
x != y
~b
b & (x > 0)
b | b
b ^ b
i << 1
i >> 1
x > 0 and x < 1 !! bool() of a tensor
if_ if x > 0 else 0 !! bool() of a tensor
divmod(i, 2)[0]
round(float(x[0, 0]), 2)
1 / y
2 ** x
x += 1
# elementwise
np.add(x, y)
np.add(x, y, out=None)
np.add(x, y, out=x) !! assign the result
np.add(x, y, where=b) !! porism.where
np.subtract(x, y)
np.multiply(x, 2)
np.divide(x, y)
np.true_divide(x, y)
np.floor_divide(i, 2)
np.mod(i, 3)
np.remainder(i, 3)
np.fmod(i, 3)
np.divmod(i, 3)[1]
np.power(x, 2)
np.float_power(x, 2) !! porism.pow
np.negative(x)
np.positive(x)
np.absolute(x)
np.abs(x)
np.fabs(x)
np.sign(x)
np.sqrt(abs(x))
np.cbrt(x)
np.square(x)
np.reciprocal(y)
np.exp(x)
np.exp2(x)
np.expm1(x)
np.log(abs(x) + 1)
np.log2(abs(x) + 1)
np.log10(abs(x) + 1)
np.log1p(abs(x))
np.logaddexp(x, y)
np.logaddexp2(x, y) !! porism.log2
np.sin(x)
np.cos(x)
np.tan(x)
np.arcsin(x / 10)
np.arccos(x / 10)
np.arctan(x)
np.arctan2(x, y)
np.hypot(x, y)
np.sinh(x)
np.cosh(x)
np.tanh(x)
np.arcsinh(x)
np.arccosh(abs(x) + 1)
np.arctanh(x / 10)
np.deg2rad(x)
np.radians(x)
np.rad2deg(x)
np.degrees(x)
np.sinc(x)
np.i0(x) !! numpy.i0
np.floor(x)
np.ceil(x)
np.trunc(x)
np.rint(x)
np.fix(x)
np.round(x)
np.round(x, 1)
np.around(x, decimals=1)
np.maximum(x, y)
np.minimum(x, 0)
np.fmax(x, y)
np.fmin(x, y)
np.clip(x, -1, 1)
np.clip(x, a_min=-1, a_max=1)
np.clip(x, None, 1)
np.heaviside(x, 0.5)
np.copysign(x, y)
np.signbit(x)
np.nextafter(x, y)
np.isnan(x)
np.isinf(x)
np.isfinite(x)
np.isposinf(x)
np.isneginf(x)
np.isclose(x, y)
np.isclose(x, x, rtol=1e-3, atol=0)
np.allclose(x, x)
np.array_equal(x, x)
np.array_equiv(x, x) !! porism.equal
np.nan_to_num(x)
np.nan_to_num(x, nan=1.0)
np.logical_and(b, x > 0)
np.logical_or(b, b)
np.logical_not(b)
np.logical_xor(b, b)
np.bitwise_and(i, 1)
np.bitwise_or(i, 1)
np.bitwise_xor(i, 1)
np.invert(i)
np.bitwise_not(i)
np.left_shift(i, 1)
np.right_shift(i, 1)
np.gcd(i, 2)
np.lcm(i, 2)
np.where(b, x, y)
np.where(x > 0, x, 0)
np.where(b) !! porism.nonzero(condition)
np.select([x > 0, x < 0], [x, -x])
np.choose(i % 2, [x, y])
np.piecewise(x, [x > 0], [1]) !! porism.select
np.vectorize(lambda a: a)(x) !! whole tensors
np.apply_along_axis(sum, 0, x) !! with axis=
np.angle(x)
np.conj(x)
np.real(x)
np.frexp(x) !! porism.log2
np.ldexp(x, 2) !! porism.exp2
np.modf(x) !! porism.trunc
np.spacing(x) !! porism.nextafter
np.interp(v, [0.0, 1.0], [2.0, 3.0])
np.unwrap(v) !! numpy.unwrap
np.convolve(v, [1.0, 2.0])
np.convolve(v, [1.0, 2.0], mode="same")
np.correlate(v, [1.0, 2.0])
# reductions
np.sum(x)
np.sum(x, axis=0)
np.sum(x, 1)
np.sum(a=x, axis=1)
np.sum(x, axis=0, keepdims=True)
np.sum(x, initial=1.0) !! combine the result
np.sum(x, where=b) !! porism.where
np.sum(x, out=x) !! assign the result
np.prod(i)
np.prod(x, axis=1)
np.mean(x)
np.mean(x, axis=0)
np.mean(x, dtype=np.float64) !! x.astype
np.average(x)
np.average(x, axis=1, weights=[1, 2, 3])
np.median(x)
np.median(x, axis=0)
np.std(x, axis=1, ddof=1)
np.var(x)
np.max(x)
np.amax(x, axis=0)
np.min(x, axis=1)
np.amin(x)
np.ptp(x, axis=0)
np.argmax(x)
np.argmax(x, axis=1)
np.argmin(x, axis=0)
np.nansum(x)
np.nanmean(x, axis=0)
np.nanmax(x, axis=1)
np.nanmin(x)
np.nanstd(x)
np.nanvar(x, axis=0)
np.nanprod(x)
np.nanmedian(x)
np.nanargmax(x) !! porism.nan_to_num
np.nancumsum(x) !! porism.cumsum
np.any(b)
np.all(b, axis=0)
np.count_nonzero(i)
np.count_nonzero(i, axis=1)
np.percentile(x, 50)
np.percentile(x, [25, 75])
np.percentile(x, 50, axis=1)
np.percentile(x, 50, interpolation="linear") => np.percentile(x, 50)
np.percentile(x, 50, method="lower") !! interpolates linearly
np.quantile(x, 0.5)
np.quantile(x, [0.1, 0.9], axis=0)
np.cumsum(x)
np.cumsum(x, axis=1)
np.cumprod(x, axis=0)
np.diff(x)
np.diff(x, axis=0)
np.diff(v, n=2)
np.ediff1d(v) !! porism.diff
np.trapezoid(v)
np.trapezoid(v, dx=0.5)
np.cov(x)
np.cov(x, rowvar=False)
np.corrcoef(x)
np.histogram(v, bins=2)[0]
np.histogram(v, bins=3, range=(0, 1))[1]
np.histogram2d(v, v) !! numpy.histogram2d
np.bincount(i.ravel() % 4)
np.bincount(i.ravel() % 4, minlength=6)
np.digitize(v, [0.0, 1.0])
# shapes
np.reshape(x, (3, 2))
np.reshape(x, newshape=(3, 2)) => np.reshape(x, (3, 2))
np.ravel(x)
np.transpose(x)
np.transpose(x, (1, 0))
np.transpose(x, axes=(1, 0))
np.swapaxes(x, 0, 1)
np.moveaxis(x, 0, 1)
np.rollaxis(x, 1) !! porism.moveaxis
np.expand_dims(x, 0)
np.expand_dims(x, axis=(0, 1))
np.squeeze(x[None])
np.squeeze(x[None], axis=0)
np.broadcast_to(v, (2, 3))
np.broadcast_arrays(x, v)[1]
np.broadcast_shapes((2, 1), (3,))
np.concatenate([x, y])
np.concatenate((x, y), axis=1)
np.concatenate([x, y], axis=None)
np.concatenate([x, v]) !! axes
np.concat([x, y])
np.stack([x, y])
np.stack([x, y], axis=-1)
np.vstack([x, y])
np.vstack((v, v))
np.row_stack((v, v)) => np.vstack((v, v))
np.hstack([x, y])
np.dstack([x, y])
np.column_stack([v, v])
np.block([[x], [y]]) !! porism.concat
np.append(v, 1.0) !! porism.concat
np.insert(v, 0, 1.0) !! porism.concat
np.delete(v, 0) !! porism.concat
np.split(v, 3) => [v[:3]]
np.split(x, [1], axis=1) !! sum to that of the axis
np.array_split(v, 2)[0]
np.hsplit(x, 3)[0]
np.vsplit(x, 2)[1]
np.dsplit(x[None], 3) !! porism.array_split
np.tile(v, 2)
np.tile(x, (2, 1))
np.tile(v, reps=2)
np.repeat(v, 2)
np.repeat(x, 2, axis=0)
np.flip(x)
np.flip(x, axis=1)
np.fliplr(x)
np.flipud(x)
np.rot90(x)
np.rot90(x, k=2)
np.roll(v, 1)
np.roll(x, 1, axis=1)
np.pad(v, 1)
np.pad(x, ((1, 0), (0, 1)))
np.pad(v, (1, 2), mode="edge")
np.pad(v, (1, 2), mode="constant", constant_values=5)
np.pad(v, 1, "reflect")
np.atleast_1d(3.0)
np.atleast_2d(v)
np.atleast_3d(v)
np.take(x, [0, 1])
np.take(x, [0, 1], axis=1)
np.take_along_axis(x, i % 2, axis=0)
np.put_along_axis(x, i, 0, 0) !! porism.scatter
np.compress([True, False], x, axis=0) !! x[condition]
np.extract(b, x) !! x[condition]
np.nonzero(i)[0]
np.argwhere(b)
np.flatnonzero(i) !! porism.nonzero
np.ndim(x) !! x.ndim
np.shape(x) !! x.shape
np.size(x) !! x.size
np.copy(x) !! x.copy()
np.copyto(x, y) !! x[...] = y
np.unravel_index(3, (2, 3)) !! index // n
np.ravel_multi_index((1, 1), (2, 3)) !! row * columns
np.ix_([0], [1]) !! x[rows[:, None], columns]
np.tril_indices(3) !! numpy.tril_indices
np.diag_indices(3) !! porism.diagonal
np.fill_diagonal(m, 0) !! porism.where
np.lib.stride_tricks.sliding_window_view(v, 2) !! porism itself
# linear algebra
np.dot(x, m)
np.dot(v, v)
np.matmul(x, m)
np.inner(v, v)
np.outer(v, v)
np.vdot(v, v)
np.kron(v, v)
np.cross(v, [1.0, 2.0, 3.0])
np.tensordot(x, m, axes=1)
np.tensordot(x, x, axes=([0, 1], [0, 1]))
np.einsum("ij,jk->ik", x, m)
np.einsum("ij->j", x)
np.einsum("ij,ij", x, y, optimize=True)
np.trace(m)
np.trace(m, offset=1)
np.linalg.norm(v)
np.linalg.lstsq(m, v) !! porism.linalg.pinv
np.linalg.multi_dot([x, m]) !! a @ b
np.linalg.inv(m)
np.linalg.det(m)
np.linalg.solve(m, v)
np.polyval([1.0, 2.0], v)
np.polyfit(v, v, 1) !! numpy.polyfit
np.roots([1.0, 2.0]) !! numpy.roots
# order and sets
np.sort(x)
np.sort(x, axis=0)
np.sort(x, axis=None) !! pass an int
np.sort(x, kind="stable")
np.argsort(x)
np.argsort(x, axis=0, kind="mergesort")
np.argpartition(v, 1) !! porism.argsort
np.partition(v, 1) !! porism.sort
np.lexsort((v, v)) !! porism.argsort
np.searchsorted([0.0, 1.0], v)
np.searchsorted([0.0, 1.0], v, side="right")
np.unique(i) !! porism.unique_values
np.isin(i, [1, 2])
np.in1d(i, [1, 2]) !! porism.isin
np.union1d(i, i) !! porism.unique_values
np.intersect1d(i, i) !! porism.isin
np.setdiff1d(i, i) !! porism.isin
# types
np.float32
np.dtype("float32") == np.float32 => True
np.finfo(np.float32).eps
np.finfo(np.float32).max
np.iinfo(np.int32).max
np.issubdtype(x.dtype, np.floating) !! porism.isdtype
np.result_type(np.int8, np.int16) == np.int16 => True
np.can_cast(np.int8, np.int16)
np.pi
np.e
np.inf
np.nan != np.nan
np.newaxis is None
np.bool_ is np.bool => True
np.int_ == np.int64 => True
np.float128 !! porism.float64
np.integer !! porism.isdtype
np.ndarray !! porism.Tensor
isinstance(x, np.ndarray) !! porism.Tensor
np.errstate(all="ignore") !! no warnings
np.set_printoptions(precision=3) !! numpy.set_printoptions
np.save("f.npy", x[0]["a"]) !! index
np.savez("f", x) !! numpy.savez
np.nope !! dir(porism)
np.zeros_lik(x) !! did you mean zeros_like
np.sum(x, axis=5) !! there is no axis 5
np.sum(x, axes=0) => np.sum(x, axis=0)
np.sum() !! write porism.sum(x
np.ones((2, -1)) !! a size is not negative
np.reshape(x, (4, 2)) !! cannot reshape
x + np.ones(4) !! do not go together
np.zeros(3, dtype="float99") !! is no type of tensors
np.array(["a"]) !! convert the array first
np.array([[1], [1, 2]]) !! lists of equal lengths
np.array([None]) !! None as a tensor
np.arange(0, 1, 0) !! a step of 0
float(x) !! one is wanted
int(x[0, 0])
bool(x[0, 0] > 5)
f"{x[0, 0]:.2f}"
"""
