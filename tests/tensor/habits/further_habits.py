"""What people who know NumPy, PyTorch or JAX write: a second table, in the order of the libraries.

A row is a snippet, and after `=>` another text with the expected value, or after `!!` a part of the
sentence that the error says; the names are those of `numpy_habits`.
"""

from __future__ import annotations

from typing import Final

ROWS: Final = """
np.gradient(v)
np.gradient(x, axis=0)
np.gradient(x, 2.0)[1]
np.gradient(v, v)
np.gradient(lambda a: a) !! porism.grad(function)
np.nanquantile(x, 0.5)
np.nanpercentile(x, 50)
np.nanmedian(x, axis=0)
np.nanmedian(q, axis=(0, 2))
np.gcd(i, 6)
np.lcm(i, [2, 3, 4])
np.choose(i % 2, [x, y], mode="clip")
np.argwhere(x > 0)
np.array((1, 2, 3))
np.array(range(3))
np.array(3.5).item()
np.zeros([2, 3])
np.zeros(())
np.full((2, 3), np.nan)
np.arange(start=1, stop=4)
np.arange(stop=3) !! write porism.arange
np.linspace(start=0, stop=1, num=3)
np.linspace(0, 10, 5, dtype=int)
np.eye(2, M=3)
np.tri(N=3)
np.diag(v, -1)
x.dot(y.T)
np.dot(2, x)
np.matvec(x, v) !! x @ v
np.vecmat(v, m) !! v @ x
round(x, 1) => np.round(x, 1)
round(x) => np.round(x)
i ^ 3
x and y !! one is wanted
not x !! one is wanted
x if x.sum() > 0 else y
v[np.array([True, False, True])]
x[np.arange(2), [0, 2]]
x[0.5] !! an index is an int
x[True] !! a single bool
x[()]
x[slice(0, 1)]
x[1:1]
x.flat[0] !! x.flatten()
x.item((0, 1))
x.item(4)
x.item(1, 2)
x.item() !! one is wanted
sum(v)
max(v)
min(v)
[row.sum() for row in x]
3 in i
5.5 in x
complex(v[0])
"{:.2f}".format(v[0])
np.add.reduce(x) !! porism.sum(x, axis=0)
np.add.accumulate(v) !! porism.cumulative_sum
np.add.outer(v, v) !! porism.add(x[:, None], y)
np.multiply.outer(v, v) !! porism.multiply(x[:, None], y)
np.multiply.reduce(v) !! porism.prod
np.maximum.reduce(x) !! porism.max
np.maximum.accumulate(v) !! porism.cummax
np.minimum.reduce(x) !! porism.min
np.logical_and.reduce(b) !! porism.all
np.logical_or.reduce(b) !! porism.any
np.add.at(v, [0], 1) !! porism.index_add
np.maximum.at(v, [0], 1) !! porism.scatter_max
np.std(x, mean=0) !! leave mean out
np.median(x, axis=(0, 1))
np.percentile(q, 40, axis=(0, 2), keepdims=True)
np.quantile(x, np.array([0.1, 0.2]))
np.quantile(x, [0.1, 0.2], axis=(0, 1), keepdims=True)
np.percentile(x, 50, method="nearest") !! interpolates linearly
np.searchsorted(v, [0.4], "right")
np.digitize(v, [0.3, 1.0])
np.bincount(np.array([0, 1, 1]), weights=v)
np.histogram(v, bins=[0.0, 1.0, 3.0])[0]
np.diff(v, prepend=0)
np.diff(x, append=1.0, axis=0)
np.clip(x, min=0)
x.clip(max=1)
x.view()
x.flatten("C")
x.ravel("C")
x.flatten("F") !! x.T.flatten()
x.reshape(2, 3, order="F") !! row-major
np.expand_dims(x, (0, 1))
np.roll(x, (1, 1), axis=(0, 1))
np.unique(i, axis=0) !! porism.unique_values
np.flatnonzero(b) !! porism.nonzero
np.linalg.norm(x)
np.linalg.norm(x, 1)
np.linalg.norm(x, "fro")
np.linalg.norm(x, "nuc")
np.linalg.norm(v, np.inf)
np.linalg.norm(x, axis=1, keepdims=True)
np.linalg.norm(q, axis=(0, 2))
np.linalg.norm(q, 2) !! name the axes
np.linalg.svd(x, False)[1]
np.linalg.svd(x, compute_uv=False) !! porism.linalg.svdvals
np.linalg.qr(m, "reduced")[1]
np.linalg.invert(m) !! inv
np.einsum("ij,jk", x, m, optimize=True)
np.einsum("...j,j->...", x, v)
abs(np.fft.fft(v))
abs(np.fft.fft(v, 5))
abs(np.fft.fft(x, 4, 0))
abs(np.fft.fft2(x))
abs(np.fft.rfft2(x))
abs(np.fft.ifft2(x, norm="ortho"))
np.fft.fftfreq(4, 0.5)
np.fft.fftshift(v, 0)
np.fft.fft3(v) !! did you mean fft
np.random.choice(3) !! porism.rand
np.testing.assert_allclose(x, x) !! numpy.testing
np.cov(x, bias=True) !! correction=0
np.average(x, weights=y)
np.pad(x, 1, "reflect")
np.float32(1.5)
np.int64([1, 2])
np.float32()
np.promote_types(np.int8, np.int16) == np.int16 => True
np.bitwise_count(i) !! numpy.bitwise_count
np.packbits(b) !! numpy.packbits
np.angle(x, deg=True)
np.angle(x + 1j)
np.conjugate(x)
np.conjugate(x + 1j).imag
np.iscomplex(x) !! porism.imag(x) != 0
np.isreal(x) !! porism.imag(x) == 0
np.vdot(v + 1j, v).imag
np.var(x + 1j * y)
np.std(x + 1j * y, axis=0)
abs(np.einsum("ij,ij->i", x + 1j * y, x))
np.max(x + 1j) !! porism.real(x)
np.sort(x + 1j) !! porism.real(x)
np.diag(v + 1j).imag
np.allclose(x + 1j, x + 1j)
np.block([[m, m], [m, m]]) !! porism.concat
torch.arange(5).float() => np.arange(5)
torch.ones(2, 3, device=torch.device("cpu")) !! its name as text
x.repeat(2, 2, 1) !! porism.tile
torch.sgn(x) => np.sign(x)
torch.take_along_dim(x, i % 3, dim=1) => np.take_along_axis(x, i % 3, 1)
torch.broadcast_tensors(x, v)[1] => np.broadcast_to(v, (2, 3))
torch.svd(x) !! porism.linalg.svd
torch.inverse(m) !! porism.linalg.inv
torch.det(m) !! porism.linalg.det
torch.pinverse(x) !! porism.linalg.pinv
torch.qr(m) !! porism.linalg.qr
torch.linalg.norm(x, dim=1) => np.linalg.norm(x, axis=1)
torch.linalg.norm(x, ord=2, dim=1, keepdim=True) => np.linalg.norm(x, 2, 1, True)
torch.linalg.vector_norm(x, dim=1) => np.linalg.norm(x, axis=1)
abs(torch.fft.fft(x, dim=0)) => abs(np.fft.fft(x, axis=0))
abs(torch.fft.rfft(v, n=4, dim=-1, norm=None)) => abs(np.fft.rfft(v, 4))
torch.fft.fftshift(v, dim=0) => np.fft.fftshift(v)
torch.gradient(v, spacing=2.0) !! porism.gradient(x, 0.5)
F.one_hot(lab) !! name the number of classes
F.layer_norm(x, (3,)) !! axis=-1
F.layer_norm(x, x.shape[-1:]) !! axis=-1
F.interpolate(img, size=(3, 5), mode="bicubic").shape => (1, 2, 3, 5)
F.interpolate(img, size=2, mode="area") => img.reshape(1, 2, 2, 2, 2, 2).mean((3, 5))
F.triplet_margin_loss(x, y, x) !! porism.relu
F.hinge_embedding_loss(x, y) !! porism.where
F.cosine_embedding_loss(x, y, lab) !! porism.cosine_similarity
F.multi_margin_loss(x, lab) !! porism.cross_entropy
F.gumbel_softmax(x) !! porism.softmax
F.rrelu(x) !! porism.leaky_relu
torch.numel(x) !! x.size
torch.t(x) !! x.T
torch.unique_consecutive(i) !! x[1:] != x[:-1]
torch.combinations(v) !! itertools.combinations
torch.complex(x, y) !! x + 1j * y
torch.polar(x, y) !! porism.exp(1j
torch.view_as_real(x) !! porism.stack
torch.view_as_complex(x) !! x[..., 0]
torch.stft(v, 2) !! porism.fft.rfft
torch.func.grad(lambda a: a.sum())(x) !! porism.grad
torch.autograd.grad(x.sum(), x) !! porism.grad
torch.jit.script(lambda a: a) !! porism.jit(function)
torch.select(x, 0, 1) !! x[index]
torch.promote_types(torch.int8, torch.float32) => np.float32
torch.cumulative_trapezoid(v) !! porism.cumulative_sum
torch.nanmedian(x) => np.nanmedian(x)
torch.nanquantile(x, 0.5, dim=1) => np.nanquantile(x, 0.5, 1)
torch.gcd(i, i + 1) => np.gcd(i, i + 1)
torch.argwhere(b) => np.argwhere(b)
jax.jacfwd(lambda a: a * a)(v) => np.diag(2 * v)
jax.jacrev(lambda a: a * a)(v) => np.diag(2 * v)
jax.scipy.special.logsumexp(x) !! porism.logsumexp
jax.debug.print("x") !! porism.explain
jax.make_jaxpr(lambda a: a)(x) !! porism.explain
jax.config.update("jax_enable_x64", True) !! docs/settings.md
jax.default_backend() !! PORISM_BACKEND
jnp.float32(1.0) => np.float32(1.0)
jnp.int32([1, 2]) => np.array([1, 2])
jnp.gradient(v) => np.gradient(v)
jnp.linalg.norm(x, axis=-1) => np.linalg.norm(x, axis=-1)
jnp.linalg.norm(x, ord=1) => np.linalg.norm(x, 1)
"""
