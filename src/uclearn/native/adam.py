"""torch's Adam in one pass over the weights."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from uclearn.native.calls import kernels, pointers, usable
from uclearn.native.holding import Hold

_NOT_HELD = (None, None)


class _Rates(ctypes.Structure):
    """The settings of a group, as the library reads them."""

    _fields_ = tuple(
        (name, ctypes.c_double) for name in ("lr", "beta1", "beta2", "eps", "weight_decay")
    )


class _Row(ctypes.Structure):
    """A parameter that is moved, as the library reads it."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("weight", "mean", "square", "step")),
        *((name, ctypes.c_void_p) for name in ("rates", "held", "previous")),
        ("size", ctypes.c_int64),
    )


class _Pull(NamedTuple):
    """A penalty whose gradient has yet to be added."""

    hold: Hold
    parameters: Sequence[Tensor]
    settings: tuple[float, float, bool]


class Adam(torch.optim.Adam):
    """`torch.optim.Adam`, with the same arguments, states and results, and less work.

    One pass of the library in C over weights, gradients and moments, where they are plain float32
    on the CPU; groups with anything else are torch's own work. What UCL holds is read in the same
    pass (`Method.move`).

    >>> weight = torch.nn.Parameter(torch.ones(2))
    >>> optimizer = Adam([weight], lr=0.1)
    >>> weight.square().sum().backward()
    >>> optimizer.step()
    >>> weight
    Parameter containing:
    tensor([0.9000, 0.9000], requires_grad=True)
    """

    _pull: _Pull | None = None
    _table: _Table | None = None

    @property
    def has_hooks(self) -> bool:
        """Whether anybody may look at gradients before or after a step."""
        return bool(
            self._optimizer_step_pre_hooks
            or self._optimizer_step_post_hooks
            or _global_optimizer_pre_hooks
            or _global_optimizer_post_hooks
        )

    def take_in(
        self, hold: Hold, parameters: Sequence[Tensor], settings: tuple[float, float, bool]
    ) -> None:
        """Add a penalty's gradient on the way, in the next step, to that of `parameters`, all of
        which have one; arguments as of `Hold.add_gradients`."""
        self._pull = _Pull(hold, parameters, settings)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """As torch's; what was taken in is part of the gradient."""
        self._pull = None
        _bare(torch.optim.Adam.zero_grad)(self, set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As torch's."""
        _bare(torch.optim.Adam.add_param_group)(self, param_group)

    def state_dict(self) -> dict[str, Any]:
        """As torch's."""
        found: dict[str, Any] = _bare(torch.optim.Adam.state_dict)(self)
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As torch's."""
        _bare(torch.optim.Adam.load_state_dict)(self, state_dict)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """As torch's."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        pull, self._pull = self._pull, None
        table, theirs = self._table, []
        gradients = None if table is None else table.gradients(self, pull)
        if table is None or gradients is None:
            moved = [self._moved(group) for group in self.param_groups]
            theirs = [k for k, found in enumerate(moved) if found is None]
            ours = [each for found in moved if found is not None for each in found]
            if pull is not None and (theirs or not _are_among(pull.parameters, ours)):
                before = _gradients_of(pull.parameters)
                pull.hold.add_gradients(pull.parameters, before, pull.settings)
                pull = None
            table = _Table(ours, pull)
            self._table = None if theirs else table
            gradients = _gradients_of(table.parameters)
        table.move(gradients, (0.0, 0.0, False) if pull is None else pull.settings)
        if theirs:
            self._leave_to_torch([self.param_groups[k] for k in theirs])
        return loss

    def _moved(self, group: dict[str, Any]) -> list[_Moving] | None:
        """What is moved of a group; None: by torch."""
        if not self._can_move(group):
            return None
        found = []
        for parameter in group["params"]:
            gradient = parameter.grad
            if gradient is None:
                continue
            if gradient.is_sparse or not usable(parameter, gradient):
                return None
            state = self.state[parameter]
            if not state:
                state["step"] = torch.zeros((), dtype=torch.float32)
                state["exp_avg"] = torch.zeros_like(parameter)
                state["exp_avg_sq"] = torch.zeros_like(parameter)
            moments = state["exp_avg"], state["exp_avg_sq"], state["step"]
            if not usable(*moments):
                return None
            found.append(_Moving(parameter, parameter.data_ptr(), state, *moments, group))
        return found

    def _can_move(self, group: dict[str, Any]) -> bool:
        """Whether its settings are those that the library knows."""
        return not (
            group["amsgrad"]
            or group["maximize"]
            or group["capturable"]
            or group["differentiable"]
            or group.get("decoupled_weight_decay")  # torch before 2.7 has none
            or isinstance(group["lr"], Tensor)
            or getattr(self, "found_inf", None) is not None  # a scaler's
            or torch.compiler.is_compiling()
        )

    def _leave_to_torch(self, groups: list[dict[str, Any]]) -> None:
        step: Any = torch.optim.Adam.step
        if getattr(step, "hooked", False):
            step = step.__wrapped__  # hooks have been called already
        everything, self.param_groups = self.param_groups, groups
        try:
            step(self)
        finally:
            self.param_groups = everything


class _Moving(NamedTuple):
    """A parameter, dense and float32, and what moves it."""

    parameter: Tensor
    place: int
    state: dict[str, Tensor]
    mean: Tensor
    square: Tensor
    step: Tensor
    group: dict[str, Any]

    def stands(self, group: dict[str, Any], state: dict[str, Tensor] | None) -> bool:
        """Whether everything is still where it was."""
        return (
            self.group is group
            and self.state is state
            and state.get("exp_avg") is self.mean
            and state.get("exp_avg_sq") is self.square
            and state.get("step") is self.step
            and self.parameter.data_ptr() == self.place
            and self.parameter.is_contiguous()
        )


class _Table:
    """Parameters that are moved together, as the library reads them; good for many steps, while
    everything stays where it is.

    Args:
        moved: each of them.
        pull: what is added to their gradients on the way.
    """

    def __init__(self, moved: Sequence[_Moving], pull: _Pull | None) -> None:
        self._moved, self._hold = moved, None if pull is None else pull.hold
        self._held = [] if pull is None else list(map(id, pull.parameters))
        groups = {id(moving.group): moving.group for moving in moved}
        self._rates = {key: (_Rates(), group) for key, group in groups.items()}
        held = {} if pull is None else dict(zip(self._held, pull.hold.addresses(), strict=True))
        sizes = [moving.parameter.numel() for moving in moved]
        rows = (
            _Row(
                moving.place,
                *map(Tensor.data_ptr, moving[3:6]),
                ctypes.addressof(self._rates[id(moving.group)][0]),
                *held.get(id(moving.parameter), _NOT_HELD),
                size,
            )
            for moving, size in zip(moved, sizes, strict=True)
        )
        self._rows = (_Row * len(moved))(*rows)
        self._size = sum(sizes)
        self.parameters = [moving.parameter for moving in moved]

    def gradients(self, optimizer: Adam, pull: _Pull | None) -> list[Tensor] | None:
        """Of its parameters, if they are those that are to be moved now and all is as it was."""
        if pull is not None and list(map(id, pull.parameters)) != self._held:
            return None
        if self._hold is not (None if pull is None else pull.hold):
            return None
        found: list[Tensor] = []
        rest = iter(self._moved)
        for group in optimizer.param_groups:
            if not optimizer._can_move(group):
                return None
            for parameter in group["params"]:
                gradient = parameter.grad
                if gradient is None:
                    continue
                moving = next(rest, None)
                if moving is None or moving.parameter is not parameter:
                    return None
                if not moving.stands(group, optimizer.state.get(parameter)):
                    return None
                if gradient.is_sparse:
                    return None
                found.append(gradient)
        return found if next(rest, None) is None and usable(*found) else None

    def move(self, gradients: Sequence[Tensor], settings: tuple[float, float, bool]) -> None:
        """All of them, in one call."""
        if not gradients:
            return
        for rates, group in self._rates.values():
            rates.lr, (rates.beta1, rates.beta2) = group["lr"], group["betas"]
            rates.eps, rates.weight_decay = group["eps"], group["weight_decay"]
        count, threads = len(gradients), torch.get_num_threads()
        kernels.adam(self._rows, pointers(gradients), count, *settings, self._size, threads)
        # as torch's own operations do it: autograd sees that they are other numbers now
        torch.autograd.graph.increment_version(self.parameters)


def _bare(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of torch's optimisers without what hides it from torch's compiler, where nobody
    uses that: to load it takes longer than many a short run."""
    compiler = "torch._dynamo" in sys.modules
    return function if compiler else getattr(function, "__wrapped__", function)


def _are_among(parameters: Sequence[Tensor], moved: Sequence[_Moving]) -> bool:
    """Each of them, once."""
    wanted = set(map(id, parameters))
    return len(wanted) == len(parameters) and wanted.issubset(id(own.parameter) for own in moved)


def _gradients_of(parameters: Sequence[Tensor]) -> list[Tensor]:
    return [parameter.grad for parameter in parameters if parameter.grad is not None]
