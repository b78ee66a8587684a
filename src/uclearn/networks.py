"""Plain torch networks: a trunk with an output layer for each task, fully connected networks, and
the two convolutional ones of the paper's supplement. No Bayesian twins, no masked twins: methods
convert what they get."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from uclearn.errors import TaskError
from uclearn.fields import Fields


class MultiHead(nn.Module):
    """A trunk that all tasks share and a linear head for each.

    Called as `model(x, task=2)`, or with `task` a (batch,) tensor when the examples belong to
    different tasks: then each goes through its own head, and where heads differ in size the
    missing classes hold -inf, which no softmax sees.

    Args:
        trunk: any module that ends in (batch, features).
        features: the width of its output.
        seed: head i is drawn from (seed, i), whenever it is added.

    >>> net = MultiHead(nn.Flatten(), features=4)
    >>> net.add_head(3), net.add_head(2)
    (0, 1)
    >>> net(torch.zeros(5, 2, 2), task=1).shape
    torch.Size([5, 2])
    """

    def __init__(self, trunk: nn.Module, features: int, seed: int = 0) -> None:
        super().__init__()
        self.trunk, self.features, self.seed = trunk, features, seed
        self.heads = nn.ModuleList()

    def add_head(self, outputs: int) -> int:
        """Give the next task a head; its number is returned."""
        index = len(self.heads)
        head = nn.Linear(self.features, outputs)
        generator = torch.Generator().manual_seed(self.seed * 100_003 + index)
        bound = 1 / math.sqrt(self.features)
        for parameter in head.parameters():
            nn.init.uniform_(parameter, -bound, bound, generator=generator)
        self.heads.append(head.to(next(self.trunk.parameters(), torch.zeros(()))))
        return index

    def forward(self, input: Any, task: int | Tensor = 0) -> Tensor:
        """(batch, classes of the task), or (batch, classes of the largest head) for mixed tasks."""
        features = self.embed(input)
        if isinstance(task, int):
            output: Tensor = self._head(task)(features)
            return output
        tasks = task.unique().tolist()
        widest = max(self._head(t).out_features for t in tasks)
        outputs: Tensor = features.new_full((len(features), widest), -math.inf)
        for t in tasks:
            mine = task == t
            head = self._head(t)
            outputs[mine, : head.out_features] = head(features[mine]).to(outputs.dtype)
        return outputs

    def embed(self, input: Any) -> Tensor:
        """(batch, features): what enters the heads."""
        output = call(self.trunk, input)
        return output if isinstance(output, Tensor) else that_counts(output)

    def _head(self, task: int) -> nn.Linear:
        if not 0 <= task < len(self.heads):
            raise TaskError(
                f"`task` must be one of the {len(self.heads)} tasks that have a head, got {task}. "
                "`begin_task` adds the head of a new task."
            )
        head = self.heads[task]
        assert isinstance(head, nn.Linear)
        return head

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        # a saved network may have met more tasks than this one: it gets their heads first
        key = f"{prefix}heads.{{}}.weight"
        while (weight := state_dict.get(key.format(len(self.heads)))) is not None:
            self.add_head(weight.shape[0])
        super()._load_from_state_dict(state_dict, prefix, *others)


def has_heads(model: nn.Module) -> bool:
    """Whether the model is called with a task."""
    return isinstance(model, MultiHead)


def run(model: nn.Module, inputs: Any, task: int | Tensor = 0) -> Tensor:
    """What a model answers: `model(inputs, task=task)` for a network with heads, `model(inputs)`
    for one without."""
    if isinstance(model, MultiHead):
        output: Tensor = model(inputs, task=task)
        return output
    return answer(call(model, inputs))


def call(model: nn.Module, inputs: Any) -> Any:
    """Call a model as its users do: a dictionary (or `Fields`) holds arguments by name, such as a
    tokenizer's BatchEncoding, a tuple several arguments, anything else is one.

    >>> call(nn.Linear(2, 1), {"input": torch.zeros(3, 2)}).shape
    torch.Size([3, 1])
    """
    named = isinstance(inputs, Mapping | Fields)
    return model(**inputs) if named else model(*arguments(inputs))


def answer(output: Any) -> Tensor:
    """The tensor that counts in what a model puts out: itself, its `logits`, or else the first
    tensor that is no single number, such as a loss. Classes are second in it, as in torch's losses:
    behind `logits` of sequences, (batch, places, classes), they are last.

    >>> answer({"loss": torch.tensor(1.0), "logits": torch.zeros(3, 7, 2)}).shape
    torch.Size([3, 2, 7])
    """
    found, classes = as_put_out(output)
    return found if classes == 1 else found.movedim(classes, 1)


def as_put_out(output: Any) -> tuple[Tensor, int]:
    """The tensor that counts as the model made it, and which of its dimensions is the classes'."""
    if isinstance(output, Tensor):
        return output, 1
    if isinstance(output, Answered):
        return output.answers, 1
    found = that_counts(output)
    return found, 2 if found.dim() == 3 else 1


class Answered(dict[Any, Any]):
    """What a model put out, by name or place, where its answers do not follow from their shape,
    such as those of several draws.

    >>> said = Answered({"loss": 0.5}, answers=torch.zeros(2, 3))
    >>> said.loss, said["loss"], answer(said).shape
    (0.5, 0.5, torch.Size([2, 3]))
    """

    def __init__(self, parts: Mapping[Any, Any], answers: Tensor) -> None:
        super().__init__(parts)
        self.answers = answers

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"The model put out no {name!r}, but {list(self)}.") from None


def that_counts(output: Any) -> Tensor:
    """The tensor by which a model that puts out several things answers, as it is."""
    logits = output.get("logits") if isinstance(output, Mapping) else None
    logits = getattr(output, "logits", logits)
    if isinstance(logits, Tensor):
        return logits
    parts = output.values() if isinstance(output, Mapping) else output
    found = [part for part in parts if isinstance(part, Tensor) and part.dim() > 0]
    if not found:
        raise TaskError(
            "The model must put out a tensor, something with `logits`, or several tensors of which "
            f"the first counts, got {type(output).__name__} without one. Wrap the model in a "
            "module that returns what counts."
        )
    return found[0]


def arguments(example: Any) -> tuple[Any, ...]:
    """A batch of inputs as what a network is called with: a tuple stands for several arguments."""
    return example if isinstance(example, tuple) else (example,)


def run_trunk(model: nn.Module, inputs: Any) -> Any:
    """What all tasks share: the trunk of a network with heads, else the whole network."""
    if isinstance(model, MultiHead) and not isinstance(inputs, tuple):
        return model.embed(inputs)
    return call(model, inputs)


def head_names(model: nn.Module) -> tuple[str, ...]:
    """The qualified names of all modules that hold heads."""
    return tuple(
        f"{name}.heads".lstrip(".")
        for name, module in model.named_modules()
        if isinstance(module, MultiHead)
    )


def mlp(
    inputs: int,
    hidden: Sequence[int],
    outputs: int | None,
    *,
    dropout: float = 0.0,
    input_dropout: float = 0.0,
    seed: int = 0,
) -> nn.Module:
    """ReLU layers, He-initialised; `outputs=None` gives a trunk with a head for each task.

    Args:
        inputs: features per example.
        hidden: width of each hidden layer.
        outputs: width of the one output layer, or None for heads that tasks add.
        dropout: after each hidden layer.
        input_dropout: on the inputs.
        seed: for the weights.

    >>> sum(p.numel() for p in mlp(784, (400, 400), 10).parameters())
    478410
    """
    layers: list[nn.Module] = [nn.Dropout(input_dropout)] if input_dropout else []
    for before, after in itertools.pairwise((inputs, *hidden)):
        layers += [nn.Linear(before, after), nn.ReLU()]
        layers += [nn.Dropout(dropout)] if dropout else []
    if outputs is not None:
        layers.append(nn.Linear(hidden[-1] if hidden else inputs, outputs))
    trunk = _drawn(layers, seed)
    return trunk if outputs is not None else MultiHead(trunk, hidden[-1], seed)


def cifar_network(*, seed: int = 0) -> MultiHead:
    """Six convolutions and a dense layer for (3, 32, 32) images (supplement, table 1).

    Dropout 0.25 after each pooling and 0.5 after the dense layer. No padding in the third pooling,
    so that 4 x 4 x 128 values enter the dense layer, as the paper's count of parameters needs.

    >>> net = cifar_network()
    >>> for _ in range(11):
    ...     _ = net.add_head(10)
    >>> sum(p.numel() for p in net.parameters())
    839822
    """
    layers = _convolutions((3, 32, 64, 128), padding=1, dropout=0.25)
    layers += [nn.Linear(128 * 4 * 4, 256), nn.ReLU(), nn.Dropout(0.5)]
    return MultiHead(_drawn(layers, seed), 256, seed)


def omniglot_network(*, seed: int = 0) -> MultiHead:
    """Four convolutions for (1, 28, 28) drawings (supplement, table 2); 4 x 4 x 64 values enter
    each head."""
    return MultiHead(_drawn(_convolutions((1, 64, 64)), seed), 64 * 4 * 4, seed)


class Residual(nn.Module):
    """Two convolutions beside a shortcut, added; `stride` 2 halves the picture."""

    def __init__(self, before: int, after: int, stride: int = 1) -> None:
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, padding=1),
            nn.ReLU(),
            nn.Conv2d(after, after, 3, padding=1),
        )
        alike = before == after and stride == 1
        self.shortcut = nn.Identity() if alike else nn.Conv2d(before, after, 1, stride)
        self.last = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """(batch, after, height / stride, width / stride)."""
        output: Tensor = self.last(self.path(x) + self.shortcut(x))
        return output


def picture_network(
    kind: str, shape: Sequence[int], outputs: int | None, *, seed: int = 0
) -> nn.Module:
    """For pictures of any (channels, height, width): `conv`, up to three blocks of two
    convolutions as in `cifar_network` and a dense layer, or `resnet`, three residual blocks.

    `outputs=None` gives a trunk with a head for each task.

    >>> picture_network("conv", (1, 12, 20), 4)(torch.zeros(2, 1, 12, 20)).shape
    torch.Size([2, 4])
    """
    channels, height, width = shape
    if kind == "resnet":
        layers: list[nn.Module] = [nn.Conv2d(channels, 32, 3, padding=1), nn.ReLU()]
        layers += [Residual(32, 32), Residual(32, 64, 2), Residual(64, 128, 2)]
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        features = 128
    else:
        halvings = max(1, min(3, int(math.log2(max(min(height, width), 2))) - 1))
        layers = _convolutions((channels, 32, 64, 128)[: halvings + 1], padding=1)
        last, cut = (32, 64, 128)[halvings - 1], 2**halvings
        features = 256
        layers += [nn.Linear(last * (height // cut) * (width // cut), features), nn.ReLU()]
    if outputs is not None:
        layers.append(nn.Linear(features, outputs))
    trunk = _drawn(layers, seed)
    return trunk if outputs is not None else MultiHead(trunk, features, seed)


def _convolutions(
    channels: Sequence[int], padding: int = 0, dropout: float = 0.0
) -> list[nn.Module]:
    """Blocks of two 3 x 3 convolutions and a pooling, flattened behind the last."""
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(channels):
        for width in (before, after):
            layers += [nn.Conv2d(width, after, 3, padding=padding), nn.ReLU()]
        layers += [nn.MaxPool2d(2), *([nn.Dropout(dropout)] if dropout else [])]
    return [*layers, nn.Flatten()]


def _drawn(layers: list[nn.Module], seed: int) -> nn.Module:
    return he_start(nn.Sequential(*layers), torch.Generator().manual_seed(seed))


def torch_start(network: nn.Module, generator: torch.Generator) -> nn.Module:
    """As torch draws by itself, from `generator`: uniform weights and biases of variance
    1 / (3 fan-in), for every Linear and Conv layer."""
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, nn.Linear | nn.modules.conv._ConvNd):
                bound = 1 / math.sqrt(module.weight[0].numel())
                for parameter in module.parameters(recurse=False):
                    parameter.uniform_(-bound, bound, generator=generator)
    return network


def he_start(network: nn.Module, generator: torch.Generator) -> nn.Module:
    """Uniform weights of variance 2 / fan-in and zero biases, for every Linear and Conv layer."""
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, nn.Linear | nn.modules.conv._ConvNd):
                bound = math.sqrt(6 / module.weight[0].numel())
                module.weight.uniform_(-bound, bound, generator=generator)
                if module.bias is not None:
                    module.bias.zero_()
    return network
