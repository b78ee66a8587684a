"""What watches the single operations of a forward pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only

from uclearn.errors import UnsupportedLayerError
from uclearn.topology.call import Call, Rule, bind
from uclearn.topology.memory import Memory, address
from uclearn.topology.rules import rule_for
from uclearn.topology.sets import NodeSets


class Operations(TorchDispatchMode):
    """Sees every operation and keeps, for each place in memory, its set of nodes.

    Args:
        parameters: to which layer each parameter belongs.
    """

    def __init__(self, parameters: Mapping[Tensor, str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.sets = NodeSets()
        self.memory = Memory(self.sets)
        self.within: list[str] = []
        """The modules that are running, the innermost last."""
        self.resting = 0
        """More than 0 inside of modules that are taken as a whole."""
        self._owners = {address(p): name for p, name in parameters.items()}
        self._refusal: UnsupportedLayerError | None = None

    def watch(self, forward: Callable[[], Any]) -> None:
        """Follow one forward pass."""
        # Below autograd an operation arrives whole (`layer_norm`, not its parts), and what the
        # model caches stays an ordinary tensor, as it would not in inference mode.
        try:
            with torch.no_grad(), torch._C._AutoDispatchBelowAutograd(), self:
                forward()
        except TypeError:  # operators such as `@` and `//` turn a refusal into one of their own
            if self._refusal is None:
                raise
        if self._refusal is not None:
            raise self._refusal

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if self.resting:
            return func(*args, **kwargs)
        data = bind(func, args, kwargs)
        self._check_owners(func, _tensors(data))
        numbers = tree_map_only(Tensor, self.memory.read, data)
        if not any(bool(n.any()) for n in _tensors(numbers)):
            return func(*args, **kwargs)
        rule = rule_for(func)
        if rule is None:
            return self._follow_parts(func, args, kwargs)
        output = func(*args, **kwargs)
        outputs = _tensors(output)
        # a view lies where everything is known already
        if func._schema.is_mutable or not all(map(self.memory.knows, outputs)):
            self._record(outputs, rule, Call(func, data, numbers, output))
        return output

    def _follow_parts(self, func: OpOverload, args: Any, kwargs: Any) -> Any:
        with self:
            output = func.decompose(*args, **kwargs)
        if output is NotImplemented:
            raise self._cannot_follow(func)
        return output

    def _record(self, outputs: list[Tensor], rule: Rule, call: Call) -> None:
        try:
            found = rule(self.sets, call)
        except Exception as error:  # a form of the operation that its rule did not foresee
            raise self._cannot_follow(call.operation) from error
        if found is None:
            return
        numbers = _tensors(found)
        if [n.shape for n in numbers] != [t.shape for t in outputs]:
            raise self._cannot_follow(call.operation)
        for tensor, number in zip(outputs, numbers, strict=True):
            self.memory.write(tensor, number)

    def _check_owners(self, func: OpOverload, tensors: list[Tensor]) -> None:
        """A weight is held by the nodes that it joins; used outside of its layer, it joins others.

        Views and `type_as` only look at its shape or type.
        """
        strided = [t for t in tensors if t.layout is torch.strided]
        owners = {self._owners.get(address(t)) for t in strided}
        used = owners - {None}
        if used and None in owners and not func.is_view and _name(func) != "type_as":
            raise self._refuse(
                f"The operation `{_name(func)}` in {self._place()} uses a parameter of the layer "
                f"`{used.pop()}` outside of that layer, so it is not known which nodes its weights "
                "join. Call the layer itself, or name it in `plain`."
            )

    def _cannot_follow(self, func: OpOverload) -> UnsupportedLayerError:
        return self._refuse(
            f"The operation `{_name(func)}` in {self._place()} cannot be followed: it is not known "
            "which nodes its result comes from. Use an operation that has a rule "
            "(uclearn.topology.rules lists them), or name that module in `plain`, so that what it "
            "puts out counts as an input of the network."
        )

    def _place(self) -> str:
        return self.within[-1] if self.within else "the model"

    def _refuse(self, message: str) -> UnsupportedLayerError:
        self._refusal = self._refusal or UnsupportedLayerError(message)
        return self._refusal


def _name(func: OpOverload) -> str:
    return str(func.overloadpacket.__name__)


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_flatten(tree)[0] if isinstance(leaf, Tensor)]
