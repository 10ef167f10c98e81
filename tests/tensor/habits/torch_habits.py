"""What people who know PyTorch write; `torch` is porism, and the expected text is NumPy's.

The form of a row and the arrays are those of `numpy_habits`; also `img` is of shape (1, 2, 4, 4),
`k` of (3, 2, 2, 2), `q` of (2, 3, 4), and `lab` are labels 2, 0. `F` is porism too.
"""

from __future__ import annotations

from typing import Final

ROWS: Final = """
# making tensors
torch.tensor([1, 2, 3]) => np.array([1, 2, 3])
torch.tensor([1.0, 2.0]) => np.array([1.0, 2.0])
torch.tensor([1, 2], dtype=torch.float32) => np.array([1.0, 2.0])
torch.tensor([1, 2], dtype=torch.float) => np.array([1.0, 2.0])
torch.tensor([1.0], requires_grad=True).requires_grad => True
torch.tensor([1.0], device="cpu") => np.array([1.0])
torch.tensor([1.0], device="cuda:999") !! cuda
torch.Tensor([1, 2]) => np.array([1, 2])
torch.Tensor(2, 3) !! porism.zeros(2, 3)
torch.FloatTensor([1]) !! porism.tensor(values, dtype=porism.float32)
torch.LongTensor([1]) !! porism.tensor(values, dtype=porism.int64)
torch.as_tensor([1, 2]) => np.array([1, 2])
torch.from_numpy(np.ones(3)) => np.ones(3)
torch.zeros(2, 3) => np.zeros((2, 3))
torch.zeros(size=(2, 3)) => np.zeros((2, 3))
torch.zeros((2, 3), dtype=torch.long) => np.zeros((2, 3), np.int64)
torch.zeros(2, 3, device="cpu") => np.zeros((2, 3))
torch.zeros(2, 3, requires_grad=True) !! requires_grad_()
torch.ones(2, 3) => np.ones((2, 3))
torch.ones_like(x) => np.ones((2, 3))
torch.zeros_like(x) => np.zeros((2, 3))
torch.full((2,), 3.0) => np.full(2, 3.0)
torch.full_like(x, 2.0) => np.full((2, 3), 2.0)
torch.empty(2, 3).shape => (2, 3)
torch.eye(3) => np.eye(3)
torch.eye(n=3) => np.eye(3)
torch.arange(5) => np.arange(5)
torch.arange(0, 10, 2) => np.arange(0, 10, 2)
torch.arange(start=0, end=4) => np.arange(4)
torch.linspace(0, 1, 5) => np.linspace(0, 1, 5)
torch.linspace(0, 1, steps=5) => np.linspace(0, 1, 5)
torch.logspace(0, 2, steps=3) => np.logspace(0, 2, 3)
torch.rand(2, 3).shape => (2, 3)
torch.randn(2, 3).shape => (2, 3)
torch.rand((2, 3)).shape => (2, 3)
torch.randint(0, 5, (2, 3)).shape => (2, 3)
torch.randint(5, (2, 3)).shape => (2, 3)
torch.randperm(5).shape => (5,)
torch.rand_like(x) !! porism.rand(
torch.randn_like(x) !! porism.randn(
torch.manual_seed(0) => None
torch.bernoulli(x) !! porism.rand
torch.normal(0.0, 1.0, size=(2, 3)).shape => (2, 3)
torch.multinomial(abs(v), 1).shape => (1,)
torch.device("cpu") !! its name as text
torch.is_tensor(x) !! isinstance(x, porism.Tensor)
torch.set_default_dtype(torch.float64) !! dtype=
torch.no_grad() is not None => True
torch.inference_mode() !! porism.no_grad
torch.compile(abs) !! porism.jit
torch.save(x, "f.txt") !! save
torch.cuda.is_available() !! porism.devices()
torch.nn.functional.relu(x) => np.maximum(x, 0)
torch.device !! its name as text
# methods
x.size() => (2, 3)
x.size(0) => 2
x.size(-1) => 3
x.shape[0] => 2
x.dim() => 2
x.ndim => 2
x.numel() => 6
x.nelement() => 6
x.element_size() => 4
x.dtype == torch.float32 => True
x.type() => 'float32'
x.type(torch.int64) => x.astype(np.int64)
x.type_as(i) => x.astype(np.int64)
x.to(torch.float64) => x.astype(np.float64)
x.to("cpu") => x
x.to(dtype=torch.int32) => x.astype(np.int32)
x.to("cuda:999") !! cuda
x.to(i) => x.astype(np.int64)
x.cuda(999) !! cuda
x.cpu() => x
x.float() => x
x.double() => x.astype(np.float64)
x.half() => x.astype(np.float16)
x.bfloat16().float() => x
x.int() => x.astype(np.int32)
x.long() => x.astype(np.int64)
x.bool() => x.astype(bool)
abs(x).byte() => abs(x).astype(np.uint8)
x.short() => x.astype(np.int16)
x.is_cuda !! x.device
x.device == "cpu" => True
x.is_contiguous() => True
x.contiguous() => x
x.clone() => x
x.detach() => x
x.detach().cpu().numpy() => x
x.numpy() => x
x.tolist() => x.tolist()
x[0, 0].item() => float(x[0, 0])
x.data !! x itself
x.grad is None => True
x.requires_grad => False
x.grad_fn !! porism
x.stride() !! strides
x.storage() !! x.numpy()
x.data_ptr() !! x.numpy()
x.view(3, 2) => x.reshape(3, 2)
x.view(-1) => x.ravel()
x.view((3, 2)) => x.reshape(3, 2)
x.view_as(y) => x
x.reshape(3, 2) => x.reshape(3, 2)
x.reshape_as(y) => x
x.flatten() => x.ravel()
q.flatten(1) => q.reshape(2, 12)
q.flatten(start_dim=1) => q.reshape(2, 12)
q.flatten(start_dim=0, end_dim=1) => q.reshape(6, 4)
torch.flatten(q, 1) => q.reshape(2, 12)
q.unflatten(2, (2, 2)) => q.reshape(2, 3, 2, 2)
x.unsqueeze(0) => x[None]
x.unsqueeze(dim=-1) => x[..., None]
x[None].squeeze(0) => x
x[None].squeeze(dim=0) => x
x.t() => x.T
x.T => x.T
q.mT => q.swapaxes(1, 2)
q.transpose(1, 2) => q.swapaxes(1, 2)
torch.transpose(q, 0, 1) => q.swapaxes(0, 1)
torch.swapaxes(q, dim0=0, dim1=1) => q.swapaxes(0, 1)
q.permute(2, 0, 1) => q.transpose(2, 0, 1)
q.permute((2, 0, 1)) => q.transpose(2, 0, 1)
torch.permute(q, dims=(2, 0, 1)) => q.transpose(2, 0, 1)
torch.movedim(q, 0, 2) => np.moveaxis(q, 0, 2)
v.expand(2, 3) => np.broadcast_to(v, (2, 3))
v.expand(2, -1) => np.broadcast_to(v, (2, 3))
v.expand_as(x) => np.broadcast_to(v, (2, 3))
v.tile(2) => np.tile(v, 2)
torch.tile(v, dims=(2,)) => np.tile(v, 2)
v.repeat_interleave(2) => np.repeat(v, 2)
x.repeat_interleave(2, dim=1) => np.repeat(x, 2, 1)
x.chunk(2, dim=0)[1] => x[1:]
x.split(2, dim=1)[1] => x[:, 2:]
torch.split(x, [1, 2], dim=1)[1] => x[:, 1:]
x.unbind(0)[1] => x[1]
x.unbind(dim=1)[2] => x[:, 2]
x.narrow(1, 0, 2) => x[:, :2]
x.select(0, 1) !! porism.select
x.index_select(1, i[0] % 2) => x[:, i[0] % 2]
torch.index_select(x, dim=1, index=i[0] % 2) => x[:, i[0] % 2]
x.gather(1, i % 3) => np.take_along_axis(x, i % 3, 1)
torch.gather(x, dim=1, index=i % 3) => np.take_along_axis(x, i % 3, 1)
x.scatter(1, i % 3, 0.0).shape => (2, 3)
x.scatter(1, torch.tensor([[0], [1]]), torch.zeros(2, 1)).shape => (2, 3)
x.scatter_add(1, i % 3, y).shape => (2, 3)
x.scatter_(1, i % 3, y) !! x = x.scatter
x.index_add(0, torch.tensor([0, 1]), y) => x + y
x.index_fill(0, torch.tensor([0]), 0.0) !! x[index] = value
x.masked_fill(b, 0.0) => np.where(b, 0, x)
x.masked_fill(b, float("-inf")) => np.where(b, -np.inf, x)
x.masked_fill_(b, 0.0) !! x = x.masked_fill
x.masked_select(b) !! x[mask
x.where(b, y) !! porism.where(condition, x, other)
torch.where(b, x, y) => np.where(b, x, y)
torch.where(b, input=x, other=y) => np.where(b, x, y)
x.take(torch.tensor([0, 5])) => x.ravel()[[0, 5]]
x.roll(1, dims=1) => np.roll(x, 1, 1)
torch.roll(x, shifts=1, dims=1) => np.roll(x, 1, 1)
x.flip(0) => np.flip(x, 0)
x.flip(dims=(0, 1)) => np.flip(x)
torch.flip(x, [0]) => np.flip(x, 0)
x.fliplr() => np.fliplr(x)
torch.rot90(x) => np.rot90(x)
m.diagonal() => np.diagonal(m)
m.diag() => np.diag(m)
torch.diag(v) => np.diag(v)
torch.diag_embed(v) => np.diag(v)
m.tril() => np.tril(m)
m.triu(diagonal=1) => np.triu(m, 1)
torch.tril(m, diagonal=-1) => np.tril(m, -1)
m.trace() => np.trace(m)
x.unfold(1, 2, 1) !! unfold
x.new_zeros(2) !! porism.zeros
x.new_tensor([1]) !! porism.tensor
x.apply_(abs) !! whole tensors
x.add_(1) !! x = x.add
x.mul_(2) !! x = x.mul
x.zero_() !! x[...] = 0
x.fill_(1) !! x[...] = value
x.copy_(y) !! x[...] = y
x.relu_() !! x = x.relu
x.clamp_(0, 1) !! x = x.clamp
x.uniform_() !! porism.uniform
x.normal_() !! porism.normal
# elementwise
torch.add(x, y) => x + y
torch.add(x, y, alpha=2) !! x + alpha * y
torch.add(input=x, other=y) => x + y
torch.sub(x, y) => x - y
torch.mul(x, y) => x * y
torch.div(x, y) => x / y
torch.div(x, y, rounding_mode="floor") !! porism.floor_divide
x.add(1) => x + 1
x.sub(y) => x - y
x.mul(2) => x * 2
x.div(2) => x / 2
x.pow(2) => x ** 2
torch.pow(x, exponent=2) => x ** 2
x.neg() => -x
x.abs() => abs(x)
x.sqrt().isnan().any() => True
x.exp() => np.exp(x)
x.sigmoid() => 1 / (1 + np.exp(-x))
x.tanh() => np.tanh(x)
x.relu() => np.maximum(x, 0)
x.erf().shape => (2, 3)
torch.erfc(x) + torch.erf(x) => np.ones((2, 3))
torch.erfinv(x / 10).shape => (2, 3)
torch.rsqrt(abs(x) + 1) => 1 / np.sqrt(abs(x) + 1)
torch.reciprocal(y) => 1 / y
torch.lerp(x, y, 0.5) => (x + y) / 2
torch.frac(x) => x - np.trunc(x)
torch.addcmul(x, x, y, value=0.5) => x + 0.5 * x * y
torch.addcdiv(x, x, y) => x + x / y
torch.clamp(x, 0, 1) => np.clip(x, 0, 1)
x.clamp(min=0) => np.maximum(x, 0)
x.clamp(0, 1) => np.clip(x, 0, 1)
x.clamp_min(0) !! porism.clip
torch.maximum(x, y) => np.maximum(x, y)
torch.fmod(i, 3) => np.fmod(i, 3)
torch.remainder(i, 3) => i % 3
torch.floor_divide(i, 2) => i // 2
torch.logical_and(b, b) => b
torch.bitwise_not(i) => ~i
x.eq(y) => x == y
x.ne(y) => x != y
x.gt(0) => x > 0
x.ge(0) => x >= 0
x.lt(0) => x < 0
x.le(0) => x <= 0
torch.equal(x, x).all() => True
torch.allclose(x, x) => True
torch.isclose(x, y) => np.isclose(x, y)
torch.isnan(x) => np.isnan(x)
torch.sign(x) => np.sign(x)
torch.deg2rad(x) => np.deg2rad(x)
torch.logit(torch.sigmoid(x)) => x
torch.xlogy(x, abs(y)) => x * np.log(abs(y))
torch.heaviside(x, y) => np.heaviside(x, y)
torch.nan_to_num(x, nan=0.0) => x
torch.log1p(abs(x)) => np.log1p(abs(x))
# reductions
x.sum() => x.sum()
x.sum(dim=1) => x.sum(1)
x.sum(dim=(0, 1)) => x.sum()
x.sum(-1, keepdim=True) => x.sum(-1, keepdims=True)
x.sum(0, True) !! keepdims=False
torch.sum(x, dim=0) => x.sum(0)
torch.sum(x, 0, keepdim=True) => x.sum(0, keepdims=True)
x.mean(dim=1, keepdim=True) => x.mean(1, keepdims=True)
x.mean(-1) => x.mean(-1)
x.prod(dim=0) => x.prod(0)
x.max() => x.max()
x.max(dim=1) !! x.argmax
x.max(1) => x.max(1)
torch.max(x, dim=0) !! x.argmax
torch.max(x, y) !! axis
x.min(dim=0) !! x.argmin
x.amax(dim=1) => x.max(1)
x.amin(dim=1, keepdim=True) => x.min(1, keepdims=True)
x.aminmax() !! x.min()
x.argmax(dim=1) => x.argmax(1)
x.argmax(dim=-1, keepdim=True) => x.argmax(-1)[:, None]
x.std() => x.std()
x.std(dim=0) !! correction=1
x.std(dim=0, unbiased=False) => x.std(0)
x.var(dim=0, unbiased=True) => x.var(0, ddof=1)
x.var(dim=0, correction=1) => x.var(0, ddof=1)
torch.std_mean(x) !! x.std
x.norm() => np.sqrt((x * x).sum())
x.norm(p=1, dim=1) => abs(x).sum(1)
torch.norm(x, dim=0) => np.sqrt((x * x).sum(0))
x.median(dim=0) !! returns the values
x.mode() !! porism.bincount
x.cumsum(dim=1) => x.cumsum(1)
torch.cumprod(x, dim=0) => x.cumprod(0)
torch.cummax(x, dim=0) !! returns the values
torch.logsumexp(x, dim=1) => np.log(np.exp(x).sum(1))
torch.logcumsumexp(x, dim=1) !! porism.cumsum
x.any() => True
b.all(dim=1) => b.all(1)
torch.count_nonzero(i, dim=0) => np.count_nonzero(i, 0)
torch.quantile(x, 0.5, dim=1) => np.quantile(x, 0.5, 1)
torch.nanmean(x, dim=0) => x.mean(0)
x.topk(2).values => np.sort(x)[:, ::-1][:, :2]
x.topk(2, dim=1, sorted=True).indices => np.argsort(-x)[:, :2]
x.sort(dim=1) !! x.argsort
x.argsort(dim=1) => np.argsort(x, 1)
x.argsort(descending=True) => np.argsort(-x, 1)
torch.argsort(x, dim=0, stable=True) => np.argsort(x, 0)
x.kthvalue(1) !! porism.sort
torch.bincount(i.flatten() % 4) => np.bincount(i.ravel() % 4)
torch.histc(v, 3) !! porism.histogram
torch.bucketize(v, torch.tensor([0.0, 1.0])) => np.searchsorted([0.0, 1.0], v)
torch.searchsorted(torch.tensor([0.0, 1.0]), v) => np.searchsorted([0.0, 1.0], v)
torch.searchsorted(torch.tensor([0.0, 1.0]), v, right=True) !! side='right'
torch.unique(i) !! porism.unique_values
torch.diff(v) => np.diff(v)
x.nonzero()[0].shape => (6,)
torch.cov(x) => np.cov(x)
torch.corrcoef(x) => np.corrcoef(x)
torch.trapezoid(v) => np.trapezoid(v)
torch.cdist(x, y) !! porism.vector_norm
# joining and products
torch.cat([x, y]) => np.concatenate([x, y])
torch.cat((x, y), dim=1) => np.concatenate([x, y], 1)
torch.cat(tensors=[x, y], dim=-1) => np.concatenate([x, y], 1)
torch.concat([x, y], dim=0) => np.concatenate([x, y])
torch.stack([x, y], dim=1) => np.stack([x, y], 1)
torch.vstack((v, v)) => np.vstack((v, v))
torch.hstack([x, y]) => np.hstack([x, y])
torch.meshgrid(v, v, indexing="ij")[0] => np.meshgrid(v, v, indexing="ij")[0]
torch.tensor_split(v, 2)[0] => v[:2]
torch.broadcast_tensors(x, v) => np.broadcast_arrays(x, v)
torch.broadcast_to(v, (2, 3)) => np.broadcast_to(v, (2, 3))
torch.mm(x, m) => x @ m
torch.bmm(q, q.mT) => q @ q.swapaxes(1, 2)
torch.mv(x, v) => x @ v
torch.matmul(x, m) => x @ m
torch.dot(v, v) => v @ v
torch.outer(v, v) => np.outer(v, v)
torch.ger(v, v) => np.outer(v, v)
torch.addmm(v, x, m) => v + x @ m
torch.baddbmm(q, q, q) !! x + batch1 @ batch2
torch.einsum("bij,bkj->bik", q, q) => np.einsum("bij,bkj->bik", q, q)
torch.tensordot(x, m, dims=1) => x @ m
torch.kron(v, v) => np.kron(v, v)
torch.cross(v, v, dim=0) => np.zeros(3)
torch.chain_matmul(x, m) !! a @ b
x @ m.T => x @ m.T
# networks
F.relu(x) => np.maximum(x, 0)
F.relu(x, inplace=True) !! x = porism.relu(x)
F.relu(x, inplace=False) => np.maximum(x, 0)
F.relu6(x) => np.clip(x, 0, 6)
F.elu(x).shape => (2, 3)
F.selu(x).shape => (2, 3)
F.celu(x).shape => (2, 3)
F.gelu(x).shape => (2, 3)
F.gelu(x, approximate="tanh").shape => (2, 3)
F.silu(x) => x / (1 + np.exp(-x))
F.mish(x) => x * np.tanh(np.log1p(np.exp(x)))
F.glu(q, dim=-1).shape => (2, 3, 2)
F.hardswish(x) => x * np.clip(x + 3, 0, 6) / 6
F.hardsigmoid(x) => np.clip(x + 3, 0, 6) / 6
F.hardtanh(x) => np.clip(x, -1, 1)
F.softplus(x) => np.log1p(np.exp(x))
F.softsign(x) => x / (1 + abs(x))
F.logsigmoid(x) => -np.log1p(np.exp(-x))
F.leaky_relu(x, 0.1) => np.where(x > 0, x, 0.1 * x)
F.leaky_relu(x, negative_slope=0.1) => np.where(x > 0, x, 0.1 * x)
F.prelu(x, torch.tensor([0.5])) => np.where(x > 0, x, 0.5 * x)
F.sigmoid(x) => 1 / (1 + np.exp(-x))
F.softmax(x, dim=-1) => np.exp(x) / np.exp(x).sum(-1, keepdims=True)
F.softmax(x, dim=1, dtype=torch.float32) !! x.astype
F.log_softmax(x, dim=1) => x - np.log(np.exp(x).sum(1, keepdims=True))
F.softmin(x) !! porism.softmax(-x)
F.normalize(x, dim=1) => x / np.sqrt((x * x).sum(1, keepdims=True))
F.normalize(x, p=2.0, dim=1) => x / np.sqrt((x * x).sum(1, keepdims=True))
F.cosine_similarity(x, y, dim=1).shape => (2,)
F.pairwise_distance(x, y).shape => (2,)
F.linear(x, m) => x @ m.T
F.linear(x, m, bias=v) => x @ m.T + v
F.embedding(i % 3, m) => m[i % 3]
F.embedding(input=i % 3, weight=m) => m[i % 3]
F.one_hot(i % 3, num_classes=3) => np.eye(3, dtype=np.int64)[i % 3]
F.conv2d(img, k).shape => (1, 3, 3, 3)
F.conv2d(img, k, padding=1, stride=2).shape => (1, 3, 3, 3)
F.conv2d(input=img, weight=k, padding="same").shape => (1, 3, 4, 4)
F.max_pool2d(img, 2).shape => (1, 2, 2, 2)
F.max_pool2d(img, kernel_size=2, stride=1).shape => (1, 2, 3, 3)
F.max_pool2d(img, 2, return_indices=True) !! porism.argmax
F.avg_pool2d(img, 2).shape => (1, 2, 2, 2)
F.adaptive_avg_pool2d(img, 1) => img.mean((2, 3), keepdims=True)
F.interpolate(img, scale_factor=2).shape => (1, 2, 8, 8)
F.interpolate(img, size=(8, 8), mode="bilinear", align_corners=False).shape => (1, 2, 8, 8)
F.interpolate(img, size=3, mode="bicubic").shape => (1, 2, 3, 3)
F.interpolate(v, size=3, mode="bicubic") !! bicubic
F.upsample(img, scale_factor=2) !! porism.interpolate
F.grid_sample(img, img) !! porism.take
F.unfold(img, 2).shape => (1, 8, 9)
F.fold(img, 2) !! porism.conv_transpose2d
F.pad(x, (1, 1)).shape => (2, 5)
F.pad(x, (1, 1, 0, 1), value=2.0).shape => (3, 5)
F.pad(x, (1, 1), mode="constant", value=0).shape => (2, 5)
F.pixel_shuffle(img[:, :1].expand(1, 4, 4, 4), 2).shape => (1, 1, 8, 8)
F.dropout(x, p=0.0) => x
F.dropout(x, 0.5, training=False) => x
F.dropout2d(img) !! porism.dropout
F.layer_norm(x, (3,)).shape !! weight
F.layer_norm(x, normalized_shape=(3,)) !! name the axes
F.batch_norm(img, None, None, training=True).shape => (1, 2, 4, 4)
F.batch_norm(img, None, None, training=True, momentum=0.1) !! porism.batch_statistics
F.group_norm(img, 2).shape => (1, 2, 4, 4)
F.group_norm(img, num_groups=1).shape => (1, 2, 4, 4)
F.cross_entropy(x, lab).shape => ()
F.cross_entropy(input=x, target=lab, reduction="sum").shape => ()
F.cross_entropy(x, lab, label_smoothing=0.1).shape => ()
F.cross_entropy(x, lab, size_average=True) !! reduction=
F.nll_loss(x, lab).shape => ()
F.mse_loss(x, y) => ((x - y) ** 2).mean()
F.mse_loss(x, y, reduction="none") => (x - y) ** 2
F.l1_loss(x, y) => abs(x - y).mean()
F.smooth_l1_loss(x, y, beta=0.5).shape => ()
F.huber_loss(x, y, delta=1.0).shape => ()
F.kl_div(x, abs(y), reduction="batchmean").shape => ()
F.binary_cross_entropy(torch.sigmoid(x), torch.sigmoid(y)).shape => ()
F.binary_cross_entropy_with_logits(x, torch.sigmoid(y)).shape => ()
F.scaled_dot_product_attention(q, q, q).shape => (2, 3, 4)
F.scaled_dot_product_attention(q, q, q, is_causal=True).shape => (2, 3, 4)
F.scaled_dot_product_attention(q, q, q, attn_mask=None, dropout_p=0.0).shape => (2, 3, 4)
F.scaled_dot_product_attention(q, q, q, dropout_p=0.5) !! porism.dropout
F.multi_head_attention_forward(q) !! porism.scaled_dot_product_attention
F.ctc_loss(x, y) !! cross_entropy
# loops and errors
[row.sum().item() for row in x] => [float(r.sum()) for r in x]
len(x) => 2
x[0] => x[0]
x[:, 1:] => x[:, 1:]
x[b] => x[b]
x[x > 0] => x[x > 0]
x[torch.tensor([1, 0])] => x[[1, 0]]
x[..., None].shape => (2, 3, 1)
x + y.cuda(999) !! cuda
torch.nope(x) !! porism
x.nope() !! a tensor has no attribute
x.viw(3, 2) !! did you mean view
"""
