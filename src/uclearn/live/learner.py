"""A model that goes on learning: for people who do not want to write a loop.

    learner = Learner(model, method="ucl")
    gate = Gate(max_drop=0.01)
    learner.learn((x, y), name="january", gate=gate)
    update = learner.learn((x2, y2), name="february", gate=gate)   # whole, or not at all
    answer = learner.predict(x3, task="january", uncertainty=True)
    learner.save("machines")

`docs/live.md` tells a longer story.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from uclearn.errors import SettingError, TaskError, UclearnError
from uclearn.fields import as_fields
from uclearn.live import folder as files
from uclearn.live import journal, record
from uclearn.live.canaries import TaskRecord, divide, guarded
from uclearn.live.capacity import Capacity, capacity
from uclearn.live.export import Exported, export
from uclearn.live.gate import Gate
from uclearn.live.infer_task import InferenceAccuracy, inference_accuracy
from uclearn.live.new_data import NewData, as_data, as_inputs, check_inputs, check_targets
from uclearn.live.predictions import DRAWS, LearnerPrediction, classify, regress, undisturbed
from uclearn.live.reading import read_table
from uclearn.live.table import Knows, as_update
from uclearn.live.update import Update, UpdateRequest, UpdateTarget, known_task
from uclearn.methods.contract import Method
from uclearn.methods.losses import ClassWeights, Loss, cross_entropy, squared_error, weighted
from uclearn.methods.registry import build, by_part
from uclearn.networks import MultiHead, has_heads
from uclearn.storage.checkpoint import has_checkpoint
from uclearn.storage.files import FolderLock
from uclearn.surgery.anatomy import widths
from uclearn.surgery.growth import By, widen
from uclearn.surgery.outputs import add_outputs, resize_to, sizes
from uclearn.tasks.data import generator
from uclearn.tasks.own.encoding import Encoding
from uclearn.tasks.own.source import Asked
from uclearn.training.plan import Plan


class Learner:
    """A network, a method that keeps it from forgetting, and what was learned so far.

    Updates are made on a copy: whether one is rejected, fails or is interrupted, the model in use
    stays as it was, to the bit.

    Args:
        model: any plain network; copied. With heads (`uclearn.networks.MultiHead`) every `learn`
            adds an output layer, without heads one output layer serves all.
        method: name of the method, such as `"ucl"`, `"ewc"` or `"ucl+replay"`.
        example: a small batch of inputs, as the model is called with: a dictionary holds arguments
            by name; None: taken from the first data.
        plan: how long and how fast to train; None: 20 epochs in which the learning rate falls to
            0, in the precision that the machine is best at; the journal says in which.
        loss: per-example loss of (outputs, targets); None: cross-entropy for labels, squared error
            for numbers.
        settings: of the method, as `beta=0.01`; with a wrapper each goes to the part that has it.

    >>> import torch
    >>> from uclearn.networks import mlp
    >>> x = torch.cat([torch.randn(40, 2) - 3, torch.randn(40, 2) + 3])
    >>> learner = Learner(mlp(2, (8,), None), plan=Plan(epochs=20, batch_size=8, lr=0.01))
    >>> learner.learn((x, torch.arange(80) // 40), name="january").decision
    'ungated'
    >>> learner.predict(torch.tensor([[-3.0, -3.0], [3.0, 3.0]]), task="january").labels
    tensor([0, 1])
    """

    def __init__(
        self,
        model: nn.Module,
        method: str = "ucl",
        *,
        example: Any = None,
        plan: Plan | None = None,
        loss: Loss | None = None,
        **settings: Any,
    ) -> None:
        self.method_name, self.settings = method, settings
        self.plan = Plan(schedule="cosine", precision="auto") if plan is None else plan
        self.loss = loss
        self.tasks: dict[str, TaskRecord] = {}
        """What was learned, by name, oldest first."""
        self.journal: list[dict[str, Any]] = []
        """Every update, rejected and interrupted ones too, oldest first."""
        self.note: str | None = None
        """What there is to say about loading: that the newest state was damaged."""
        if isinstance(model, MultiHead) and len(model.heads):
            raise SettingError(
                f"`model` must have no heads yet, got {len(model.heads)}: each task adds its own. "
                "Hand in its trunk in a new MultiHead."
            )
        self._settings_by_part = by_part(method, settings)
        self._blank = copy.deepcopy(model)
        self._first_sizes = sizes(model)
        self.example = as_fields(example)
        """A batch of inputs, as the network takes them; None before the first data."""
        self._method = None if example is None else self._build(self._blank)
        self.encoding: Encoding | None = None
        """How columns of tables become features, once a table was learned."""
        self._continues: dict[Path, files.SavedState] = {}
        self._open_in: Path | None = None

    # -- learning --------------------------------------------------------------------------

    def learn(
        self,
        data: NewData,
        name: str,
        *,
        task: str | None = None,
        gate: Gate | None = None,
        validation: NewData | None = None,
        classes: int | None = None,
        labels: Sequence[str] = (),
        class_weights: ClassWeights | None = None,
        groups: Sequence[str] | None = None,
        notes: Sequence[str] = (),
    ) -> Update:
        """Learn from new data; what comes back says what became of it.

        Args:
            data: `(inputs, targets)` as tensors or arrays (inputs in a dictionary where the model
                takes them by name; targets of several places, such as the words of a text, one
                for each), a dictionary with `labels` in it, a torch `Dataset` or `DataLoader`
                (read into memory), `uclearn.tasks.Data`, or the path of a file or a folder of
                pictures (see `uclearn.live.reading`), whose labels are then named.
            name: of the update, and of the task that it begins.
            task: go on with this known task instead of beginning one.
            gate: whether the update may pass; None: it always does.
            validation: data of the same kind to choose the best epoch by (see `Plan.patience`).
            classes: how many there are. By default as many as a new head's labels need. For a
                network with one output layer: more than it has adds outputs; the old ones stay
                what they are.
            labels: names of the classes.
            class_weights: one for each class, or `"balanced"`: rare classes count as much as
                frequent ones.
            groups: for each example what it belongs to, as a patient: a gate sets whole groups
                apart, and those of one side stay there in later updates.
            notes: what there is to say about the data, for the journal.
        """
        encoding = self.encoding
        if isinstance(data, str | Path):
            table = read_table(Asked(str(data)), self.knows(), labelled=True)
            encoding = table.encoding or encoding
            notes, groups = (*notes, *table.notes), groups or table.groups
            found = as_update(table, self.tasks, task, heads=has_heads(self.network))
            data, labels = found["data"], labels or found["labels"]
            classes = found["classes"] if classes is None else classes
        arrived = as_data(data)
        check_inputs(self.network, arrived.inputs, self.example, "data")
        if self._method is None:
            self.example = arrived.inputs[:1].clone()
            self._method = self._build(self._blank)
        asked = UpdateTarget(name, task, classes, tuple(labels))
        target, outputs = asked.find(self.tasks, self.method.model, self.example, arrived)
        arrived = replace(arrived, task=target.index)
        if self.loss is None:
            check_targets(self.method.model, arrived, self.example)
        known = guarded(self.tasks.values(), gate)
        portions = divide(arrived, target.name, gate, known, self.plan.seed, groups)
        valid = None
        if validation is not None:
            valid = target.validation(validation, self.method.model, self.example)
        number = journal.next_number(self.journal)
        said = tuple(notes)
        request = UpdateRequest(
            *(name, number, target, known, arrived, portions, valid, gate), self.journal, said
        )
        usual = squared_error if target.classes is None else cross_entropy
        trained_on = portions.train.all_targets()
        own = usual if self.loss is None else self.loss
        loss = weighted(own, class_weights, trained_on, target.classes)
        copied, blank = self._copy(outputs)
        if self._open_in is not None:
            self.journal += journal.begin(self._open_in, number, name, target.name)
        update, tasks = request.learn(self.method, copied, self.plan, loss, self.method_name)
        self.journal.append(update.document())
        if update.kept:
            self._method, self._blank, self.encoding = copied, blank, encoding
            self.tasks = tasks
        return update

    # -- predicting ------------------------------------------------------------------------

    def predict(
        self,
        x: Any,
        task: str | None = None,
        *,
        uncertainty: bool = False,
        draws: int = DRAWS,
        together: bool = False,
    ) -> LearnerPrediction:
        """What the model says about a batch; predicting leaves no trace.

        Args:
            x: a batch of inputs, or the path of some.
            task: which task it belongs to. None: for a network with heads the task whose head is
                least uncertain, example by example (see `uclearn.live.infer_task`); with one
                output layer, the newest.
            uncertainty: average over draws of the weights, and say how far they disagree.
            draws: how many.
            together: with `task=None`, all of `x` belongs to one task, which is to be found.
        """
        if not self.tasks:
            raise TaskError("This learner has learned nothing yet. Call `learn` first.")
        if isinstance(x, str | Path):
            x = read_table(Asked(str(x)), self.knows(), labelled=False).inputs
        inputs = as_inputs(x).to(next(self.method.parameters()).device)
        check_inputs(self.method.model, inputs, self.example, "x")
        if uncertainty and draws < 2:
            raise SettingError(f"`draws` must be at least 2 to disagree, got {draws}.")
        count = draws if uncertainty else 0
        names = list(self.tasks)
        if task is None and has_heads(self.method.model) and len(names) > 1:
            return classify(self.method, inputs, names, None, count, together)
        known = known_task(self.tasks, names[-1] if task is None else task)
        if known.classes is None:
            return regress(self.method, inputs, known.name, known.index, count)
        return classify(self.method, inputs, names, known.index, count, together)

    def guessing(self) -> InferenceAccuracy | None:
        """How well tasks are told apart on the canaries of all of them, and what it costs; None
        where a task has no canaries, or there is nothing to guess."""
        known = [task.canary for task in self.tasks.values() if task.canary is not None]
        if len(known) < max(2, len(self.tasks)) or not has_heads(self.method.model):
            return None
        if any(task.classes is None for task in self.tasks.values()):
            return None
        with undisturbed(self.method.model):
            return inference_accuracy(self.method, known)

    # -- room ------------------------------------------------------------------------------

    def capacity(self) -> Capacity:
        """How full the network is, how that grew update by update, and where it leads."""
        return capacity(self.method, journal.node_history(self.journal))

    def widen(self, by: By) -> None:
        """Add nodes, free ones, without a change in what the network computes.

        Args:
            by: a factor for every layer that can be widened, or how many nodes to add by layer.
        """
        wide = widen(self.method, by, self.example, seed=self.plan.seed)
        self._blank = resize_to(copy.deepcopy(self._blank), sizes(wide.model))
        self._method = wide
        self.journal.append(
            {
                "schema": journal.SCHEMA,
                "event": "widened",
                "number": journal.next_number(self.journal),
                "time": journal.now(),
                "by": by if isinstance(by, int | float) else dict(by),
                "widths": widths(wide.model),
            }
        )

    def export(
        self,
        path: str | Path | None = None,
        task: str | None = None,
        *,
        prune: float | None = None,
        data: NewData | None = None,
    ) -> Exported:
        """A plain network for deployment, smaller if wanted; see `uclearn.live.export`.

        Args:
            path: a `.pt2` or `.onnx` file; None: only return the network.
            task: whose head to export; None: all heads side by side.
            prune: how much accuracy may be lost for a smaller network, 0.01 is one point.
            data: held-out examples to judge that by; None: the canaries.
        """
        chosen = list(self.tasks.values()) if task is None else [known_task(self.tasks, task)]
        head = chosen[0].index if task is not None and has_heads(self.method.model) else None
        if data is None:
            judges = [known.canary for known in chosen if known.canary is not None]
        else:
            judges = [replace(as_data(data), task=chosen[-1].index)]
        return export(self.method, path, task=head, prune=prune, data=judges, example=self.example)

    # -- keeping ---------------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Keep everything in `folder`, all at once: until the new state is whole, the old stays.

        Refused where another learner, or another process that learned in between, would be lost.
        """
        files.save(self, Path(folder))

    def record(self, place: str | Path, name: str = "learner") -> Path:
        """Write what was learned as a run below `place`, for `uclearn runs` and `report`; called
        again, anew. Every task is judged by its canary, so learn with a `gate`.

        Args:
            place: a folder of runs, such as `"runs"`.
            name: what it is called among them.
        """
        return record.write(self, Path(place), name)

    @classmethod
    def load(
        cls, folder: str | Path, model: nn.Module | None = None, loss: Loss | None = None
    ) -> Learner:
        """The learner that was saved in `folder`; no code is executed.

        Args:
            folder: where `save` put it.
            model: a freshly built network. Not needed where it is made of `Sequential`,
                `MultiHead` and common layers, as those of `uclearn.networks` are.
            loss: the loss, if it was one of your own.
        """
        return files.load(cls, Path(folder), model, loss)

    @classmethod
    @contextmanager
    def open(
        cls,
        folder: str | Path,
        model: nn.Module | None = None,
        loss: Loss | None = None,
        *,
        new: Callable[[], Learner] | None = None,
    ) -> Iterator[Learner]:
        """Within: the learner in `folder`, locked against other processes; saved at the end.

        `with Learner.open(folder) as learner: learner.learn(...)`. After an error nothing is saved;
        the journal says that an update was begun, and if it did not end that it was interrupted.
        The arguments are those of `load`; `new` makes the learner if there is none in `folder` yet
        (None: that is an error).
        """
        place = Path(folder)
        if new is not None:
            files.make(place)
        with FolderLock(place, "learning"):
            begins = new is not None and not has_checkpoint(place)
            learner = new() if new is not None and begins else cls.load(place, model, loss)
            with journal_of(learner, place):
                yield learner
            files.write(learner, place)

    # -- the parts -------------------------------------------------------------------------

    @property
    def method(self) -> Method:
        """The method with its network. Another object after each update that was kept."""
        if self._method is None:
            raise TaskError(
                "The method is built when the first data come. Call `learn` first, or give the "
                "learner an `example`."
            )
        return self._method

    @property
    def network(self) -> nn.Module:
        """The network in the method's hands; before the first data, the plain one."""
        return self._blank if self._method is None else self._method.model

    def knows(self) -> Knows:
        """What it was taught from."""
        shape = tuple(self.example.shape[1:]) if isinstance(self.example, Tensor) else None
        return Knows(shape, self.encoding)

    # -- inside ----------------------------------------------------------------------------

    def _build(self, model: nn.Module) -> Method:
        method = build(self.method_name, model, self.example, self._settings_by_part)
        method.use_loss(self.loss)
        return method

    def _copy(self, outputs: int | None) -> tuple[Method, nn.Module]:
        """A copy to train, with more outputs if so many are needed."""
        if outputs is None:
            return copy.deepcopy(self.method), self._blank
        draw = generator(self.plan.seed, f"{outputs} outputs")
        return add_outputs(self.method, self._blank, self.example, outputs, self._build, draw)


@contextmanager
def journal_of(learner: Learner, folder: Path) -> Iterator[None]:
    """Within, `learner` says in the journal in `folder` what it begins; what others left open there
    is settled first, and what an error leaves open at the end."""
    journal.append_missing(folder, learner.journal)
    journal.settle(folder)
    learner.journal = journal.merged(journal.read_journal(folder), learner.journal)
    learner._open_in = folder
    try:
        yield
    except BaseException as error:
        with suppress(UclearnError):  # what went wrong before is what matters
            journal.settle(folder, type(error).__name__)
        raise
    finally:
        learner._open_in = None
