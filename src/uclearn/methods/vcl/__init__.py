"""VCL, variational continual learning (Nguyen, Li, Bui, Turner; ICLR 2018).

Every weight w has a posterior q(w) = N(mean, variance) of its own. While task t is learned, the
loss is

    mean over S draws of the weights of the mean loss  +  1/N KL( q || q' )

with N training examples and q' the posterior that the previous task left; before the first task it
is the prior N(0, 1). The means start where a plain network trained on the first task ends, the
variances small (logarithm -6), or the noise would drown the signal from the first step on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Unpack, get_args

import torch
from torch import Tensor, nn

from uclearn.choices import check_choice, check_count
from uclearn.errors import SettingError
from uclearn.gaussian import Noise, NoiseKind, Sampling, require_convertible, survey
from uclearn.methods.contract import (
    Inputs,
    Losses,
    Method,
    Step,
    StepFields,
    as_step,
    gradient_of,
    groups_apart,
    lent,
)
from uclearn.methods.facts import Cost, Facts, Range
from uclearn.methods.losses import Loss
from uclearn.methods.parts.fit import fit, fit_settings
from uclearn.methods.parts.wrapper import DrawsWeights
from uclearn.methods.vcl.draws import WeightDraws
from uclearn.methods.vcl.mean_field import MeanFieldLayer, Posterior, mean_field
from uclearn.networks import MultiHead, head_names
from uclearn.penalties import add_kl_gradients, kl_and_gradients, known_gradient
from uclearn.tasks.data import DataLike
from uclearn.tasks.task import Task


def _grow(method: VCL, growth: Any) -> None:
    for layer in method._all_layers():
        layer.extend(method.initial_log_variance, method.prior_variance, growth)


class VCL(DrawsWeights):
    """Yesterday's posterior is today's prior.

    In `train()` the network returns `samples` draws stacked in front, (draws, batch, ...), made in
    one forward pass; the loss is to be averaged over them. In `eval()` it uses the means. Heads are
    mean-field like all other layers, as in the paper; a new one's prior is N(0, prior_variance).
    Normalisations stay plain and are not held. It keeps four numbers per weight.

    The first step of the first task first trains the means alone, on the data that `begin_task`
    got (a loop of one's own that does not call it starts from the model's own weights).

    Args:
        model: any network of Linear, Conv and Embedding layers; copied.
        example: not needed.
        samples: draws per training step.
        prediction_samples: draws that a prediction is averaged over (the authors: 100).
        initial_log_variance: of every weight and bias.
        prior_variance: of the prior before the first task, and of new heads.
        start_epochs: of plain training on the first task (the authors: as many as for VCL, 100 to
            120); 0 leaves it out.
        start_lr: its learning rate, with Adam.
        start_batch_size: its examples per step.
        loss: of the plain training, per example; None: that of the loop (see `use_loss`).
        plain: qualified names of modules that stay plain and are not held.
        sampling: `"weight"` (the authors': draws of all weights, shared by a batch) or `"local"`:
            what each node says to each example is drawn, and one of `samples` does as much as many.
        noise: `"table"` or `"fresh"` normal numbers (see `uclearn.gaussian.noise`).
        closed_form: add the penalty's gradient in `adjust_gradients` instead of through the loss.
        seed: of noise and of the plain training.

    >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> method = VCL(net, samples=3)
    >>> x = torch.randn(16, 4)
    >>> method.model(x).shape
    torch.Size([3, 16, 2])
    >>> with method.inference() as network:
    ...     torch.allclose(network(x).exp().sum(1), torch.ones(16))
    True
    """

    facts = Facts(
        answers_alike=False,
        search={
            "initial_log_variance": Range(-12.0, -2.0),
            "prior_variance": Range(0.01, 100.0, log=True),
        },
        without_start={"start_epochs": 0},
        cost=lambda n: Cost(4 * n.plain, 2 * (n.shared + n.head)),
        grow=_grow,
    )

    started: Tensor
    probabilities: Tensor

    def __init__(
        self,
        model: nn.Module,
        example: Any = None,
        *,
        samples: int = 10,
        prediction_samples: int = 20,
        initial_log_variance: float = -6.0,
        prior_variance: float = 1.0,
        start_epochs: int = 20,
        start_lr: float = 1e-3,
        start_batch_size: int = 256,
        loss: Loss | None = None,
        plain: Iterable[str] = (),
        sampling: Sampling = "weight",
        noise: NoiseKind = "table",
        closed_form: bool = False,
        seed: int = 0,
    ) -> None:
        _check_settings(samples, prediction_samples, prior_variance)
        check_choice("sampling", sampling, get_args(Sampling))
        plain = (*plain, *head_names(model))
        require_convertible(survey(model, plain))
        super().__init__(model)
        self.initial_log_variance, self.prior_variance = initial_log_variance, prior_variance
        self.loss, self.closed_form = loss, closed_form
        self._start_settings = fit_settings("start", start_epochs, start_lr, start_batch_size, seed)
        self.noise = Noise(seed, kind=noise)
        local = sampling == "local"
        self.draws = WeightDraws(samples, prediction_samples, self.noise, per_example=local)
        self._layers = [self._convert(*item) for item in survey(self.model, plain).layers.items()]
        self._convert_heads()
        self.draws.attach(self.model)
        self._first: Callable[[], DataLike] | None = None
        self.register_buffer("started", torch.tensor(False))
        self.register_buffer("probabilities", torch.tensor(True))

    # -- the contract ----------------------------------------------------------------------

    def begin_task(self, task: Task) -> Task:
        """The new head gets its posterior. The first task's data are kept until its first step."""
        task = super().begin_task(task)
        self._convert_heads()
        self.probabilities.fill_(task.classes is not None)
        if self._first is None and not self.started:
            self._first = lambda: task.train  # a function: copies of the method share the data
        return task

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """Means (and everything plain), then variances, which no weight decay must widen."""
        posteriors = (p for layer in self._all_layers() for p in layer.posteriors())
        return groups_apart(self.model, (p.log_variance for p in posteriors), lr)

    def begin_step(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        """Before the very first step: the maximum-likelihood start."""
        if self._first is None:
            return
        if not self.started:  # a state that was loaded since may have
            self._start(self._first())
        self._first = None

    def penalty(self, step: Step | None = None, **given: Unpack[StepFields]) -> Tensor:
        """`KL( q || q' ) / N`, summed over all weights and biases; N: the task's `examples`."""
        scale = self._scale(as_step(step, given))
        parameters: list[Tensor] = []
        gradients: list[Tensor] = []
        total = torch.zeros((), device=self.started.device)
        for posterior in self._pulled():
            value, pulls = kl_and_gradients(*posterior)
            total = total + value * scale
            parameters += posterior[:2]
            gradients += [pull.mul_(scale) for pull in pulls]
        return total if self.closed_form else known_gradient(total, parameters, gradients)

    def adjust_gradients(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        """With `closed_form`: add the penalty's gradient in place."""
        if not self.closed_form:
            return
        scale = self._scale(as_step(step, given))
        for posterior in self._pulled():
            gradients = gradient_of(posterior.mean), gradient_of(posterior.log_variance)
            add_kl_gradients(gradients, *posterior, scale=scale)

    def end_task(
        self, task: Task | None = None, losses: Losses | None = None, *, inputs: Inputs = None
    ) -> None:
        """The posterior becomes the prior."""
        for layer in self._all_layers():
            layer.remember()
        self.started.fill_(True)
        self._first = None

    @contextmanager
    def inference(self, task: int | None = None) -> Iterator[nn.Module]:
        """The network averaged over `prediction_samples` draws, the same for every batch: it puts
        out the logarithm of the mean probabilities, or for regression the mean output."""
        self.draws.probabilities = bool(self.probabilities)
        with lent(self.model) as network, self.draws.predicting():
            yield network

    # -- inside ----------------------------------------------------------------------------

    def _start(self, data: DataLike) -> None:
        """Train the means alone: the maximum-likelihood start."""
        with lent(self.model), torch.enable_grad(), self.draws.means():
            loss = self.loss or self._loss_of_loop[0]
            fit(Method(self.model, copied=True), data, loss=loss, **self._start_settings)
        self.started.fill_(True)

    def _scale(self, step: Step) -> float:
        examples = step.need("examples", "the divergence is divided by the task's examples")
        check_count("examples", examples, "the training examples of the task")
        return 1 / int(examples)

    def _convert(self, name: str, layer: nn.Module) -> MeanFieldLayer:
        return mean_field(name, layer, self.initial_log_variance, self.prior_variance, self.draws)

    def _convert_heads(self) -> None:
        for number, head in enumerate(self._heads()):
            if not isinstance(head, MeanFieldLayer):
                self._convert(f"heads.{number}", head).partial = True

    def _heads(self) -> list[nn.Module]:
        # looked for, not asked of the model: it may have been wrapped since (DDP, torch.compile)
        return [h for m in self.model.modules() if isinstance(m, MultiHead) for h in m.heads]

    def _all_layers(self) -> Iterator[MeanFieldLayer]:
        yield from self._layers
        for head in self._heads():
            assert isinstance(head, MeanFieldLayer)
            yield head

    def _pulled(self) -> Iterator[Posterior]:
        """All but heads that stand where their task left them: nothing pulls at those, and they
        should cost nothing either, however many there are."""
        for layer in self._all_layers():
            if not (layer.partial and layer.at_rest()):
                yield from layer.posteriors()

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        # a saved network may have met more tasks: their heads need variances before they load
        for name, module in list(self.named_modules()):
            if isinstance(module, MultiHead):
                key = f"{prefix}{name}.heads.{{}}.weight"
                while (saved := state_dict.get(key.format(len(module.heads)))) is not None:
                    module.add_head(saved.shape[0])
        self._convert_heads()
        super()._load_from_state_dict(state_dict, prefix, *others)


def _check_settings(samples: int, prediction_samples: int, prior_variance: float) -> None:
    for name, value in (("samples", samples), ("prediction_samples", prediction_samples)):
        if value < 1:
            raise SettingError(
                f"`{name}` must be at least 1, got {value}. It is the draws of the weights that "
                "are averaged over."
            )
    if not prior_variance > 0:
        raise SettingError(
            f"`prior_variance` must be positive, got {prior_variance}. It is the variance of every "
            "weight before anything is learned."
        )
