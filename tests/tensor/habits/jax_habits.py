"""What people who know JAX write; `jnp`, `jax` and `lax` are porism.

The form of a row and the arrays are those of `numpy_habits` and `torch_habits`; without `=>` the
same text is evaluated with NumPy as `jnp`.
"""

from __future__ import annotations

from typing import Final

ROWS: Final = """
jnp.array([1.0, 2.0])
jnp.asarray(x)
jnp.zeros((2, 3))
jnp.ones((2,), dtype=jnp.float32)
jnp.arange(3)
jnp.linspace(0, 1, 3)
jnp.sum(x, axis=0)
jnp.mean(x, axis=-1, keepdims=True)
jnp.where(x > 0, x, 0.0)
jnp.dot(x, m)
jnp.einsum("ij,jk->ik", x, m)
jnp.matmul(x, m)
jnp.concatenate([x, y], axis=-1)
jnp.stack([x, y])
jnp.expand_dims(x, 0)
jnp.squeeze(x[None])
jnp.transpose(x, (1, 0))
jnp.swapaxes(x, 0, 1)
jnp.maximum(x, 0)
jnp.clip(x, 0, 1)
jnp.clip(x, min=0, max=1)
jnp.exp(x)
jnp.tanh(x)
jnp.argmax(x, axis=-1)
jnp.argsort(x)
jnp.sort(x)
jnp.cumsum(x, axis=0)
jnp.take(x, jnp.array([0, 1]), axis=1)
jnp.take_along_axis(x, i % 2, axis=0)
jnp.tril(m)
jnp.eye(3)
jnp.full((2,), 1.0)
jnp.broadcast_to(v, (2, 3))
jnp.allclose(x, x)
jnp.isclose(x, y)
jnp.nan_to_num(x)
jnp.var(x, axis=0)
jnp.std(x, ddof=1)
jnp.logaddexp(x, y)
jnp.outer(v, v)
jnp.ravel(x)
jnp.repeat(v, 2)
jnp.tile(v, 2)
jnp.pad(v, (1, 1))
jnp.roll(v, 1)
jnp.float32 == x.dtype => True
jnp.ndarray !! porism.Tensor
jax.Array !! porism.Tensor
jax.jit(lambda t: t + 1)(x) => x + 1
jax.grad(lambda t: (t * t).sum())(x) => 2 * x
jax.vmap(lambda t: t + 1) !! porism
jax.pmap(lambda t: t + 1) !! porism.jit
jax.random.PRNGKey(0) !! porism.seed
jax.random.normal(0, (2,)) !! porism.rand
jax.device_put(x) !! porism.asarray
jax.device_get(x) !! x.numpy()
jax.devices()[0] == "cpu" => True
jax.block_until_ready(x) !! porism.realize
x.block_until_ready() => x
x.at[0].set(1.0) !! x[index] = value
x.at[0].add(1.0) !! x[index] = value
jax.nn.relu(x) => np.maximum(x, 0)
jax.lax.scan(lambda c, t: (c, t), 0, x) !! jit
jax.lax.cond(True, abs, abs, x) !! porism itself
lax.fori_loop(0, 3, lambda k, t: t, x) !! loop in Python
lax.while_loop(lambda t: True, lambda t: t, x) !! loop in Python
lax.scan(lambda c, t: (c, t), 0, x) !! loop in Python
lax.cond(True, abs, abs, x) !! porism.where
lax.rsqrt(abs(y)) => 1 / np.sqrt(abs(y))
lax.pow(x, 2) => x ** 2
lax.select([b], [x]) => np.where(b, x, 0)
jax.tree_util.tree_map(abs, x) !! porism.jit
jax.tree.map(abs, x) !! porism.jit
jnp.sum(x, where=b) !! porism.where
jnp.array(x, device=None) => x
jnp.matmul(x, m, precision=None) => x @ m
jnp.dot(x, m, preferred_element_type=None) => x @ m
jnp.unique(i) !! porism.unique_values
jnp.nonzero(i)[0]
jnp.linalg.norm(v)
jnp.select([x > 0], [x], 0.0)
jnp.piecewise(x, [x > 0], [1]) !! porism.select
jnp.apply_along_axis(sum, 0, x) !! with axis=
jnp.vectorize(abs) !! whole tensors
jnp.interp(v, jnp.array([0.0, 1.0]), jnp.array([2.0, 3.0])) => np.interp(v, [0.0, 1.0], [2.0, 3.0])
jnp.convolve(v, v)
jnp.histogram(v, bins=2)[0]
jnp.percentile(x, 50)
jnp.median(x)
jnp.digitize(v, jnp.array([0.0, 1.0])) => np.digitize(v, [0.0, 1.0])
jnp.bincount(i.ravel() % 4, length=4) => np.bincount(i.ravel() % 4, minlength=4)
jnp.argwhere(b)
jnp.rot90(x)
jnp.vstack([x, y])
jnp.hstack([v, v])
jnp.trace(m)
jnp.diag(v)
jnp.diagonal(m)
jnp.logspace(0, 1, 3)
jnp.cross(v, v)
jnp.kron(v, v)
jnp.polyval(jnp.array([1.0, 2.0]), v) => np.polyval([1.0, 2.0], v)
jnp.atleast_2d(v)
jnp.prod(x, axis=1)
jnp.square(x)
jnp.sign(x)
jnp.result_type(jnp.int8, jnp.int16) == jnp.int16 => True
jnp.finfo(jnp.float32).max
jnp.inf
jnp.newaxis is None
jnp.bfloat16 == jnp.bfloat16 => True
"""
