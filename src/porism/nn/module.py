"""Modules: plain Python objects whose parameters are found by structure.

The tensors of a module are those that its attributes hold, directly or in lists, tuples, dicts and
other modules. A `Parameter` is trained, a `Buffer` is state that is saved but not trained, and any
other tensor belongs to nobody: it is neither trained nor saved. Names are paths through this
structure, `layers.0.weight`, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Self

from porism.base.dtypes import DType
from porism.base.errors import PorismError, ShapeError
from porism.ir.node import UOp
from porism.tensor.autodiff.backward import no_grad, requires_grad_
from porism.tensor.conversion import as_tensor, from_copy, to_array
from porism.tensor.jit.tracing import read_mode
from porism.tensor.promotion import as_dtype, name_of
from porism.tensor.shapes import shapes_equal, to_text
from porism.tensor.standard.devices import is_device_name, on_device
from porism.tensor.tensor import Tensor
from porism.tensor.user_line import users_line

_TRAINING: Final = "_training"


class Parameter(Tensor):
    """A tensor that is trained.

    >>> porism.nn.Parameter([1.0, 2.0]).shape
    (2,)
    """

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        super().__init__(_value_of(data))
        requires_grad_(self, requires_grad)


class Buffer(Tensor):
    """A tensor that is state of a module: saved with it, and not trained.

    >>> porism.nn.Buffer([0.0]).shape
    (1,)
    """

    __slots__ = ()

    def __init__(self, data: Any) -> None:
        super().__init__(_value_of(data))


def _value_of(data: Any) -> UOp:
    """Return the node of a value, without its gradient."""
    with no_grad():
        return as_tensor(data).node


class LoadResult(NamedTuple):
    """The names in which a state dict and a module differ."""

    missing_keys: list[str]
    """Names of the module that the state dict lacks."""
    unexpected_keys: list[str]
    """Names of the state dict that the module lacks."""


class Module:
    """The base class of layers and models: a call runs `forward`.

    >>> class Net(porism.nn.Module):
    ...     def __init__(self):
    ...         self.layers = [porism.nn.Linear(2, 3), porism.nn.Linear(3, 1)]
    ...     def forward(self, x):
    ...         return self.layers[1](self.layers[0](x).relu())
    >>> net = Net()
    >>> [name for name, _ in net.named_parameters()]
    ['layers.0.weight', 'layers.0.bias', 'layers.1.weight', 'layers.1.bias']
    >>> net(porism.ones(5, 2)).shape
    (5, 1)
    """

    @property
    def training(self) -> bool:
        """Whether layers such as `Dropout` behave as in training.

        A jitted function that reads it is traced again after `train()` or `eval()`.
        """
        own = vars(self)
        own.setdefault(_TRAINING, True)
        return bool(read_mode(own, _TRAINING))

    @training.setter
    def training(self, mode: bool) -> None:
        vars(self)[_TRAINING] = mode

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return `forward` of the arguments."""
        return self.forward(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the result; each module defines it."""
        raise PorismError(
            f"a call of {type(self).__name__}, which has no forward",
            where=users_line(),
            why="a call of a module runs its method `forward`",
            fix="define forward(self, x) in the class",
        )

    # -- structure ---------------------------------------------------------------------------------

    def named_tensors(self) -> Iterator[tuple[str, Parameter | Buffer]]:
        """Yield every parameter and buffer with its path; a shared one once for each path."""
        for name, value in _members(vars(self)):
            if isinstance(value, Module):
                yield from ((f"{name}.{inner}", t) for inner, t in value.named_tensors())
            else:
                yield name, value

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Yield the parameters with their paths; a shared one once, under its first path."""
        seen: set[int] = set()
        for name, tensor in self.named_tensors():
            if isinstance(tensor, Parameter) and id(tensor) not in seen:
                seen.add(id(tensor))
                yield name, tensor

    def parameters(self) -> Iterator[Parameter]:
        """Yield the parameters, each once."""
        return (tensor for _, tensor in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Buffer]]:
        """Yield the buffers with their paths."""
        return ((name, t) for name, t in self.named_tensors() if isinstance(t, Buffer))

    def buffers(self) -> Iterator[Buffer]:
        """Yield the buffers."""
        return (tensor for _, tensor in self.named_buffers())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield the modules that this one holds directly, with their paths."""
        return ((name, m) for name, m in _members(vars(self)) if isinstance(m, Module))

    def children(self) -> Iterator[Module]:
        """Yield the modules that this one holds directly."""
        return (module for _, module in self.named_children())

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """Yield this module and all inside of it, with their paths."""
        yield prefix, self
        for name, child in self.named_children():
            yield from child.named_modules(f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator[Module]:
        """Yield this module and all inside of it."""
        return (module for _, module in self.named_modules())

    def apply(self, function: Callable[[Module], Any]) -> Self:
        """Call a function with every module, inner ones first; return this module."""
        for child in self.children():
            child.apply(function)
        function(self)
        return self

    # -- modes -------------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Set whether this module and all inside of it behave as in training; return it."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Let all modules behave as after training; return this module."""
        return self.train(False)

    def to(self, *target: Any, dtype: Any = None, device: Any = None) -> Self:
        """Move parameters and buffers to a device, and convert those of floats to a float type.

        Each is a keyword, or known by its name: `to("cuda")`, `to("bfloat16")`. Returns this
        module.
        """
        for given in target:
            if is_device_name(given):
                device = given
            else:
                dtype = given
        wanted: DType | None = None if dtype is None else as_dtype(dtype)
        for _, tensor in self.named_tensors():
            with no_grad():
                value = on_device(Tensor(tensor.node), device)
                if wanted is not None and value.node.dtype.is_float:
                    value = value.astype(wanted)
                if value.node is not tensor.node:
                    tensor.node = value.realize().node
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set whether gradients of the parameters are computed; return this module."""
        for p in self.parameters():
            requires_grad_(p, requires_grad)
        return self

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters."""
        for p in self.parameters():
            p.grad = None

    # -- state -------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Tensor]:
        """Return the parameters and buffers by their paths.

        >>> {k: v.shape for k, v in porism.nn.Linear(2, 3).state_dict().items()}
        {'weight': (3, 2), 'bias': (3,)}
        """
        return dict(self.named_tensors())

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> LoadResult:
        """Give parameters and buffers the values of a state dict, converted to their types.

        Values are tensors, arrays, or anything that NumPy converts. Names that differ are an error,
        unless `strict` is false; sizes that differ always are. After an error nothing has changed.
        """
        own = self.state_dict()
        missing = [name for name in own if name not in state]
        unexpected = [name for name in state if name not in own]
        if strict and (missing or unexpected):
            raise _different_names(type(self).__name__, missing, unexpected)
        arrays = {
            name: _checked_array(name, own[name], state[name]) for name in own if name in state
        }
        for name, array in arrays.items():
            given = from_copy(array, own[name].node.dtype, own[name].device)
            own[name].node = given.realize().node
        return LoadResult(missing, unexpected)

    # -- text --------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """Return what `repr` shows of a layer: its numbers and texts."""
        return ", ".join(
            f"{name}={value!r}"
            for name, value in vars(self).items()
            if isinstance(value, (int, float, str, tuple)) and not name.startswith("_")
        )

    def __repr__(self) -> str:
        children = [f"({name}): {child!r}" for name, child in self.named_children()]
        if not children:
            return f"{type(self).__name__}({self.extra_repr()})"
        lines = [line for child in children for line in child.split("\n")]
        return "\n".join([f"{type(self).__name__}(", *(f"  {line}" for line in lines), ")"])


def _members(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the modules, parameters and buffers in attributes and containers, with their paths."""
    for name, value in list(values.items()):
        if isinstance(value, (Module, Parameter, Buffer)):
            yield name, value
        elif isinstance(value, (list, tuple)):
            inner = {str(k): item for k, item in enumerate(value)}
            yield from ((f"{name}.{path}", item) for path, item in _members(inner))
        elif isinstance(value, dict):
            inner = {str(key): item for key, item in value.items()}
            yield from ((f"{name}.{path}", item) for path, item in _members(inner))


def _different_names(module: str, missing: list[str], unexpected: list[str]) -> PorismError:
    """Return the error for a state dict with other names than those of a module."""
    parts = [
        f"{what}: {', '.join(names)}"
        for what, names in (("missing", missing), ("unexpected", unexpected))
        if names
    ]
    return PorismError(
        f"a state dict that does not fit {module}",
        where=users_line(),
        why="; ".join(parts),
        fix="rename the entries, or pass strict=False to load those that are in both",
    )


def _checked_array(name: str, own: Tensor, value: Any) -> Any:
    """Return a value of a state dict as an array; refuse one of another shape."""
    if isinstance(value, Tensor):
        array = value.numpy()
    else:
        detach = getattr(value, "detach", None)  # a tensor of PyTorch that requires gradients
        array = to_array(value if detach is None else detach())
    if not shapes_equal(own.shape, array.shape):
        raise ShapeError(
            f"{name} in a state dict has the shape {to_text(array.shape)}",
            where=users_line(),
            why=f"that of the module has the shape {to_text(own.shape)}",
            fix="build the module with the sizes that it was saved with",
        )
    if not own.node.dtype.is_float and array.dtype.kind not in "biu":
        raise PorismError(
            f"{name} in a state dict has floats",
            where=users_line(),
            why=f"that of the module is of {name_of(own.node.dtype)}",
            fix="convert it first, with astype",
        )
    return array


class Sequential(Module):
    """Modules that are called one after the other.

    Attributes are named by position, so that names are those of PyTorch: `0.weight`.

    >>> net = porism.nn.Sequential(porism.nn.Linear(2, 4), porism.nn.ReLU(), porism.nn.Linear(4, 1))
    >>> net(porism.ones(3, 2)).shape, list(net.state_dict())
    ((3, 1), ['0.weight', '0.bias', '2.weight', '2.bias'])
    """

    def __init__(self, *modules: Any) -> None:
        named = modules[0] if len(modules) == 1 and isinstance(modules[0], dict) else None
        self._names: tuple[str, ...] = ()
        for name, module in (named or {str(k): m for k, m in enumerate(modules)}).items():
            self._add(name, module)

    def _add(self, name: str, module: Any) -> None:
        """Put a module at the end."""
        setattr(self, name, module)
        self._names += (name,)

    def append(self, module: Any) -> Self:
        """Put a module at the end; return this one."""
        self._add(str(len(self._names)), module)
        return self

    def forward(self, x: Any) -> Any:
        """Return x after every module in turn."""
        for module in self:
            x = module(x)
        return x

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, name) for name in self._names)

    def __getitem__(self, key: int | slice) -> Any:
        if isinstance(key, slice):
            return Sequential(*list(self)[key])
        return getattr(self, self._names[key])


class ModuleList(Module):
    """A list of modules; a plain list as an attribute works as well.

    >>> len(porism.nn.ModuleList([porism.nn.ReLU(), porism.nn.ReLU()]))
    2
    """

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        for module in modules:
            self.append(module)

    def append(self, module: Module) -> Self:
        """Put a module at the end; return this one."""
        setattr(self, str(len(self)), module)
        return self

    def __len__(self) -> int:
        return sum(1 for _ in self.children())

    def __iter__(self) -> Iterator[Module]:
        return self.children()

    def __getitem__(self, key: int | slice) -> Any:
        chosen = list(self)[key]
        return ModuleList(chosen) if isinstance(chosen, list) else chosen


class ModuleDict(Module):
    """Modules by name; a plain dict as an attribute works as well.

    >>> porism.nn.ModuleDict({"a": porism.nn.ReLU()})["a"]
    ReLU()
    """

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        for name, module in (modules or {}).items():
            self[name] = module

    def __getitem__(self, name: str) -> Any:
        return vars(self)[name]

    def __setitem__(self, name: str, module: Module) -> None:
        setattr(self, name, module)

    def __contains__(self, name: object) -> bool:
        return name in vars(self)

    def __len__(self) -> int:
        return sum(1 for _ in self.children())

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.named_children())

    def items(self) -> Iterator[tuple[str, Module]]:
        """Yield names and modules."""
        return self.named_children()
