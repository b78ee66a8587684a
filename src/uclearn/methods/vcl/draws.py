"""Several draws of a network's weights in one forward pass.

The batch is repeated once per draw, in front, before the network sees it: (draws * batch, ...).
Pooling, activations, views and normalisations then work as on any batch; layers with Gaussian
weights take the repetitions apart and give each its own weights (see `mean_field`). What comes out
is stacked, (draws, batch, ...), or averaged.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_map_only

from uclearn.errors import UnsupportedLayerError
from uclearn.gaussian import Noise
from uclearn.networks import Answered, answer, that_counts


class WeightDraws:
    """How many draws a network makes, and of which noise. Its layers share one.

    In `train()` the network makes `samples` draws and returns them stacked. In `eval()` it uses
    the means; within `predicting()` it averages over `predictions` draws, the same for each batch.
    """

    def __init__(
        self, samples: int, predictions: int, noise: Noise, *, per_example: bool = False
    ) -> None:
        self.samples, self.predictions, self.noise = samples, predictions, noise
        self.per_example = per_example
        """Training draws what each node says to each example, instead of weights."""
        self.now = 0
        """Number of draws in the forward pass that is under way; 0: the means."""
        self.probabilities = True
        """Whether the network puts out logits, whose probabilities are averaged."""
        self._rows = 0  # of the repeated batch
        self._forced: int | None = None
        self._averages = False

    def attach(self, model: nn.Module) -> None:
        """From now on `model` draws whenever it is called."""
        # bound methods: a deep copy of the model gets a copy of this object along with it
        model.register_forward_pre_hook(self._before, with_kwargs=True)
        model.register_forward_hook(self._after, always_call=True)

    def apart(self, input: Tensor, partial: bool = False) -> Tensor:
        """(draws * batch, ...) -> (draws, batch, ...), for a layer that gives each draw weights of
        its own; `partial`: it may get some examples of the batch only, as heads do."""
        # a multiple of the batch, where a model moves positions into it
        if len(input) % (self.now if partial else self._rows):
            raise UnsupportedLayerError(
                f"A layer that draws its weights got an input of shape {tuple(input.shape)}, whose "
                f"first dimension does not hold the {self._rows} examples of the batch. Let the "
                "batch come first in all that the layer gets, or name the layer in `plain`."
            )
        apart: Tensor = input.unflatten(0, (self.now, -1))
        return apart

    def normals(self, name: str, like: Tensor) -> Tensor:
        """(draws, ...) standard normal numbers for the parameter `name`, shaped like it.

        In training the next ones of the stream. A prediction always gets the same ones for the same
        parameter, so the network that predicts is one fixed ensemble, and training's noise is left
        alone."""
        noise = self.noise
        if self._averages:
            noise = Noise(noise.seed, 1 + zlib.crc32(name.encode()), noise.kind)
        return noise.normals((self.now, *like.shape), like.dtype, like.device)

    @property
    def draws_outputs(self) -> bool:
        """Whether the forward pass under way draws outputs: a prediction never does, since it is
        made by one fixed ensemble."""
        return self.per_example and not self._averages

    def means(self) -> AbstractContextManager[None]:
        """Within: no draws, in `train()` neither."""
        return self._set(0, False)

    def predicting(self) -> AbstractContextManager[None]:
        """Within: averages over draws."""
        return self._set(self.predictions, True)

    @contextmanager
    def _set(self, forced: int, averages: bool) -> Iterator[None]:
        before = self._forced, self._averages
        self._forced, self._averages = forced, averages
        try:
            yield
        finally:
            self._forced, self._averages = before

    def _before(self, model: nn.Module, arguments: Any, named: Any) -> Any:
        following = self.samples if model.training else 0
        self.now = following if self._forced is None else self._forced
        if not self.now:
            return None
        repeated = tree_map_only(Tensor, self._repeat, (arguments, named))
        tensors = (t for t in tree_flatten(repeated)[0] if isinstance(t, Tensor) and t.dim())
        self._rows = next((len(tensor) for tensor in tensors), self.now)
        return repeated

    def _repeat(self, tensor: Tensor) -> Tensor:
        """(batch, ...) -> (draws * batch, ...); a scalar belongs to no example."""
        if not tensor.dim():
            return tensor
        return tensor.expand(self.now, *tensor.shape).flatten(0, 1)

    def _after(self, model: nn.Module, arguments: Any, output: Any) -> Any:
        now, self.now = self.now, 0
        if not now or output is None:  # None: the model raised
            return None
        if isinstance(output, Tensor):
            return self._answers(output, now)
        answers, counts = self._answers(answer(output), now), that_counts(output)
        parts = {
            key: answers if part is counts else tree_map_only(Tensor, self._rest(now), part)
            for key, part in _parts(output)
        }
        return Answered(parts, answers)

    def _answers(self, answers: Tensor, now: int) -> Tensor:
        """(draws, batch, classes, ...), or averaged; (draws * batch, classes, ...) is given."""
        stacked: Tensor = answers.unflatten(0, (now, -1))
        if not self._averages:
            return stacked
        return (average_probabilities if self.probabilities else average_outputs)(stacked)

    def _rest(self, now: int) -> Callable[[Tensor], Tensor]:
        """What becomes of other tensors: of a loss, which is a mean over all draws, nothing."""

        def stacked(tensor: Tensor) -> Tensor:
            if tensor.dim() == 0 or len(tensor) % now:
                return tensor
            apart: Tensor = tensor.unflatten(0, (now, -1))
            whole = not self._averages or not tensor.is_floating_point()
            return apart if whole else average_outputs(apart)

        return stacked


def _parts(output: Any) -> Iterable[tuple[Any, Any]]:
    """Of what a model puts out: by name, or by place in a tuple."""
    if isinstance(output, Mapping):
        return output.items()
    named = not isinstance(output, tuple | list)
    return vars(output).items() if named else enumerate(output)


def average_probabilities(logits: Tensor) -> Tensor:
    """(draws, batch, classes, ...) -> (batch, classes, ...): the logarithm of the mean
    probabilities, `log( 1/S sum_s softmax(logits_s) )`; their softmax is those again.

    >>> average_probabilities(torch.tensor([[[0.0, 0.0]], [[0.0, -math.inf]]])).exp()
    tensor([[0.7500, 0.2500]])
    """
    classes = 2 if logits.dim() > 2 else -1
    return logits.log_softmax(classes).logsumexp(0) - math.log(len(logits))


def average_outputs(outputs: Tensor) -> Tensor:
    """(draws, batch, ...) -> (batch, ...): the mean, for networks that put out values."""
    return torch.mean(outputs, 0)
