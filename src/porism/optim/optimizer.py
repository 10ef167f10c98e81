"""Optimizers: what all of them have in common: parameter groups, state, and the step.

The state of an optimizer is made of tensors that exist from the beginning, and the learning rate is
one of them. So a jitted function can call `step`: the rate may change from call to call, and the
step is part of the same program as the gradients.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from porism.base.errors import PorismError
from porism.tensor.api.comparison import where
from porism.tensor.autodiff.backward import no_grad
from porism.tensor.conversion import as_tensor, from_copy
from porism.tensor.jit.tracing import current
from porism.tensor.promotion import name_of
from porism.tensor.realization import realize
from porism.tensor.shapes import to_text
from porism.tensor.standard.devices import on_device
from porism.tensor.static_sizes import static_size
from porism.tensor.tensor import Tensor
from porism.tensor.user_line import users_line

State = dict[str, Tensor]
"""The state that belongs to one parameter, by name."""

MASTER: Final = "master"
"""The name of the copy in float32 of a parameter of a narrower type."""


class ParameterGroup:
    """Parameters with the same options; the learning rate `lr` may change between steps."""

    def __init__(self, params: Iterable[Tensor], options: Mapping[str, Any]) -> None:
        self.params = list(params)
        self.options = dict(options)
        device = self.params[0].device if self.params else None
        self.rate = from_copy(np.asarray(self.options.pop("lr"), np.float64), device=device)
        """The learning rate: a float64 tensor without axes."""

    def __getitem__(self, name: str) -> Any:
        """Return an option; `lr` as a float, or inside of a jitted function as a tensor."""
        if name == "params":
            return self.params
        if name == "lr":
            return self.rate if current.get() is not None else self.rate.item()
        return self.options[name]

    def __setitem__(self, name: str, value: Any) -> None:
        """Change an option; only a change of `lr` reaches functions that are jitted already."""
        if name == "lr":
            self.rate.assign(as_tensor(value))
            self.rate.realize()
        else:
            self.options[name] = value

    def keys(self) -> list[str]:
        """Return the names of the options."""
        return ["params", "lr", *self.options]

    def scalar(self, like: Tensor) -> Tensor:
        """Return the learning rate in the type of a tensor."""
        return on_device(self.rate.astype(like.dtype), like.device)


class Optimizer:
    """The base class: a subclass says which state a parameter has, and how a step changes both.

    `params` are tensors, or dicts with `params` and options for these alone.
    """

    def __init__(
        self, params: Iterable[Any], options: dict[str, Any], *, master_weights: bool = False
    ) -> None:
        given = [params] if isinstance(params, Tensor) else list(params)
        groups = given if given and isinstance(given[0], dict) else [{"params": given}]
        self.param_groups = [_as_group(group, options) for group in groups]
        self.params = [p for group in self.param_groups for p in group.params]
        self._check_params()
        self.step_count = from_copy(np.asarray(0, np.float64), device=self.params[0].device)
        """How many steps were made: a float64 tensor without axes, for exact bias corrections."""
        self.state: list[State] = []
        for group in self.param_groups:
            for p in group.params:
                value = Tensor(p.node)
                narrow = value.dtype.itemsize < 4
                master = master_weights and narrow
                start = value.astype("float32") if master else value
                state = self.initial_state(start, group)
                if master:
                    state[MASTER] = start.realize()
                self.state.append(state)

    def _check_params(self) -> None:
        """Refuse what cannot be trained."""
        if not self.params:
            raise PorismError(
                f"{type(self).__name__} of no parameters",
                where=users_line(),
                why="it was given an empty list, or a generator that was used before",
                fix="pass model.parameters()",
            )
        if len(set(map(id, self.params))) < len(self.params):
            raise PorismError(
                f"{type(self).__name__} of a parameter that is given twice",
                where=users_line(),
                why="it would be updated twice in each step",
                fix="give each parameter once",
            )

    # -- what an algorithm defines -----------------------------------------------------------------

    def initial_state(self, p: Tensor, group: ParameterGroup) -> State:
        """Return the state of a parameter before the first step."""
        return {}

    def update(
        self, p: Tensor, grad: Tensor, state: State, group: ParameterGroup, step: Tensor
    ) -> tuple[Tensor, State]:
        """Return the parameter and its state after step number `step`, which counts from 1."""
        raise AssertionError("each optimizer defines its update")

    # -- steps -------------------------------------------------------------------------------------

    def step(self, *, skip: Any = None) -> None:
        """Change every parameter that has a gradient; where the bool `skip` is true, none."""
        with no_grad():
            changed = list(self._step(None if skip is None else as_tensor(skip)))
        if current.get() is None:
            realize(*changed)

    def _step(self, skip: Tensor | None) -> Iterator[Tensor]:
        """Assign new values to parameters and state, and yield these tensors."""
        step = self.step_count + 1
        position = 0
        for group in self.param_groups:
            for p in group.params:
                state = self.state[position]
                position += 1
                if p.grad is None:
                    continue
                value = state.get(MASTER, p)
                grad = p.grad.astype(value.dtype)
                own_step = on_device(step, value.device)
                new, new_state = self.update(value, grad, state, group, own_step)
                if MASTER in state:
                    new_state[MASTER] = new
                yield _assign(p, new.astype(p.dtype), skip)
                for name, tensor in new_state.items():
                    yield _assign(state[name], tensor, skip)
        yield _assign(self.step_count, step, skip)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters."""
        for p in self.params:
            p.grad = None

    # -- saving ------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Tensor]:
        """Return the whole state by names: `step`, `0.lr` of group 0, `3.exp_avg` of parameter 3.

        >>> opt = porism.optim.SGD([porism.nn.Parameter([1.0])], lr=0.1, momentum=0.9)
        >>> list(opt.state_dict())
        ['step', 'lr.0', '0.momentum_buffer']
        """
        return {
            "step": self.step_count,
            **{f"lr.{k}": group.rate for k, group in enumerate(self.param_groups)},
            **{f"{k}.{name}": t for k, state in enumerate(self.state) for name, t in state.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a state that `state_dict` returned; after an error nothing has changed."""
        own = self.state_dict()
        if set(own) != set(state):
            wrong = sorted(set(own) ^ set(state))
            raise PorismError(
                f"a state dict that does not fit {type(self).__name__}",
                where=users_line(),
                why=f"{', '.join(wrong[:10])} {'is' if len(wrong) == 1 else 'are'} in one alone",
                fix="build the optimizer with the same parameters and options first",
            )
        new = {name: as_tensor(value) for name, value in state.items()}
        for name, tensor in own.items():
            if tensor.shape != new[name].shape:
                raise PorismError(
                    f"{name} in a state dict has the shape {to_text(new[name].shape)}",
                    where=users_line(),
                    why=f"that of the optimizer has the shape {to_text(tensor.shape)}",
                    fix="build the optimizer with the same parameters first",
                )
        for name, tensor in own.items():
            values = new[name].astype(tensor.dtype).numpy()
            tensor.node = from_copy(values, device=tensor.device).node

    def __repr__(self) -> str:
        groups = ", ".join(
            f"{len(group.params)} parameters at lr={group.rate.item():g}"
            for group in self.param_groups
        )
        return f"{type(self).__name__}({groups})"


def zeros_like(p: Tensor, value: float = 0.0) -> Tensor:
    """Return a tensor in memory of the shape and type of p, with one value everywhere."""
    sizes = [static_size(size, "an optimizer") for size in p.shape]
    return from_copy(np.full(sizes, value, p.dtype.numpy), device=p.device)


def _as_group(given: Any, options: Mapping[str, Any]) -> ParameterGroup:
    """Return a parameter group from a dict; refuse options that the optimizer does not have."""
    unknown = [name for name in given if name != "params" and name not in options]
    if unknown or "params" not in given:
        raise PorismError(
            f"a parameter group with {', '.join(unknown) or 'no params'}",
            where=users_line(),
            why="a group has params and some of " + ", ".join(options),
            fix="use these names",
        )
    own = {name: given.get(name, value) for name, value in options.items()}
    params = given["params"]
    tensors = [params] if isinstance(params, Tensor) else list(params)
    for p in tensors:
        if not isinstance(p, Tensor) or not p.node.dtype.is_float:
            shown = name_of(p.node.dtype) if isinstance(p, Tensor) else type(p).__name__
            raise PorismError(
                f"a parameter of {shown}",
                where=users_line(),
                why="gradients are those of tensors of floats",
                fix="pass model.parameters(), or tensors of floats",
            )
    return ParameterGroup(tensors, own)


def _assign(target: Tensor, value: Tensor, skip: Tensor | None) -> Tensor:
    """Give a tensor a new value, unless `skip` is true; return the tensor."""
    target.assign(value if skip is None else where(skip, target, value))
    return target


def check_range(name: str, value: float, low: float = 0.0, high: float = float("inf")) -> None:
    """Refuse an option outside of low <= value < high."""
    if not low <= value < high:
        allowed = f"at least {low:g}" if high == float("inf") else f"from {low:g} to below {high:g}"
        raise PorismError(
            f"an optimizer with {name}={value}",
            where=users_line(),
            why=f"it has to be {allowed}",
            fix="pass such a number",
        )
