"""The benchmarks by name: those of the paper, two small ones that need no download, and whatever
installed packages announce by the entry point `uclearn.benchmarks`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from uclearn.choices import Registry, no_such
from uclearn.errors import SettingError
from uclearn.networks import cifar_network, omniglot_network
from uclearn.tasks import builders
from uclearn.tasks.builders import alphabet_tasks
from uclearn.tasks.sources import digits, omniglot
from uclearn.tasks.sources.catalogue import dataset
from uclearn.tasks.sources.dataset import DataSet, data_folder, present
from uclearn.tasks.task import TaskSequence
from uclearn.tasks.transforms import Jitter

if TYPE_CHECKING:
    from uclearn.tasks.own.source import Source

_ITSELF = "the training data themselves"
_TENTH = "10 % of each task's training data, held out"
_SMALL = "notMNIST small: a fifth of each letter, drawn from the seed, is the test"


@dataclass(frozen=True)
class Benchmark:
    """A named sequence of tasks, and all that has to be known of it without its data.

    `tasks` and `classes` (per task) count, `heads` is as in `TaskSequence`, `input_shape` is that
    of one prepared example. `data` names the data sets it needs of those that `uclearn data` can
    get, `validation` says what the best epoch is chosen by. `build(seed, folder, tasks)` makes the
    sequence; `free`: it can make as many tasks as are wanted.

    `network(seed)` makes its network where that leaves no choice; None: it is fully connected, and
    `network.hidden` is a setting. `settings` are those that suit it, by dotted key ("plan.epochs",
    "network.hidden", "ewc.strength"); for our own benchmarks `uclearn.paper` has them. `source`
    says where data of one's own lie, which have no name that others know (`uclearn.tasks.own`).
    """

    name: str
    description: str
    tasks: int
    classes: tuple[int, ...]
    heads: bool
    input_shape: tuple[int, ...]
    build: Callable[[int, str | Path | None, int], TaskSequence]
    data: tuple[str, ...] = ()
    validation: str = _ITSELF
    free: bool = False
    network: Callable[[int], nn.Module] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    source: Source | None = None

    @property
    def grows(self) -> bool:
        """Whether tasks bring new classes to one output layer."""
        return not self.heads and len(set(self.classes)) > 1


Named = str | Benchmark
"""A benchmark, or its name."""


def load_tasks(
    name: Named,
    seed: int,
    folder: str | Path | None = None,
    tasks: int | None = None,
    split_after_augmentation: bool = False,
    copies: int | None = None,
) -> TaskSequence:
    """The tasks of the benchmark `name`, or its first `tasks`.

    `folder` holds the data (default: UCLEARN_DATA, else the platform's cache folder).
    `split_after_augmentation` and `copies` (of each drawing; None: the paper's 20) are Omniglot's:
    see `uclearn.tasks.builders.alphabet_tasks`.

    >>> load_tasks("split-digits", seed=0)
    TaskSequence('split-digits', 5 tasks, a head each)
    """
    chosen = benchmark(name)
    wanted = chosen.tasks if tasks is None else tasks
    if wanted < 1 or (wanted > chosen.tasks and not chosen.free):
        bound = "be at least 1" if chosen.free else f"lie between 1 and {chosen.tasks}"
        raise SettingError(f"`tasks` must {bound} for {chosen.name}, got {wanted}.")
    if not split_after_augmentation and copies is None:
        return chosen.build(seed, folder, wanted)
    if chosen.name != "omniglot":
        raise SettingError(
            f"`split_after_augmentation` must be False and `copies` None for {chosen.name}, got "
            f"{split_after_augmentation} and {copies}. Only omniglot is augmented."
        )
    jitter = Jitter() if copies is None else Jitter(copies=copies)
    drawings = omniglot.load(folder)
    return alphabet_tasks(drawings, seed, jitter, split_after_augmentation).take(wanted)


def benchmark(name: Named) -> Benchmark:
    """The description of the benchmark `name`; one that is described already is returned."""
    if isinstance(name, Benchmark):
        return name
    if name not in BENCHMARKS:
        known = no_such("benchmark", name, BENCHMARKS)
        raise SettingError(f"{known} Or give the path of data of your own: there are none there.")
    return BENCHMARKS[name]


def absent_data(name: Named, folder: str | Path | None = None) -> list[DataSet]:
    """The data sets that the benchmark `name` needs and `folder` lacks.

    >>> absent_data("split-digits")
    []
    """
    needed = [dataset(data) for data in benchmark(name).data]
    place = data_folder(folder) if needed else Path()
    return [one for one in needed if any(present(file, place) is None for file in one.files)]


_permuted = partial(Benchmark, tasks=10, classes=(10,) * 10, heads=False, free=True)
_split = partial(Benchmark, tasks=5, classes=(2,) * 5, heads=True)
_cifar = partial(
    Benchmark,
    heads=True,
    input_shape=(3, 32, 32),
    validation=_TENTH,
    network=lambda seed: cifar_network(seed=seed),
)

_OURS = (
    _permuted(
        name="permuted-mnist",
        description="MNIST, its pixels in a new order for each task",
        input_shape=(784,),
        data=("mnist",),
        build=builders.permuted_mnist,
    ),
    _permuted(
        name="row-permuted-mnist",
        description="MNIST, its rows of pixels in a new order for each task",
        input_shape=(784,),
        data=("mnist",),
        build=builders.row_permuted_mnist,
    ),
    _split(
        name="split-mnist",
        description="MNIST two digits at a time: 0/1, 2/3, 4/5, 6/7, 8/9",
        input_shape=(784,),
        data=("mnist",),
        build=builders.split_mnist,
    ),
    _split(
        name="split-notmnist",
        description=f"letters from fonts two at a time: A/F, B/G, C/H, D/I, E/J ({_SMALL})",
        input_shape=(784,),
        data=("notmnist-small",),
        build=builders.split_notmnist,
    ),
    _split(
        name="split-notmnist-large",
        description="the same of notMNIST large, as in the paper: 40,000 of each letter train",
        input_shape=(784,),
        data=("notmnist-large",),
        build=builders.split_notmnist_large,
    ),
    _cifar(
        name="split-cifar100",
        description="CIFAR-100 ten consecutive classes at a time, tasks shuffled by the seed",
        tasks=10,
        classes=(10,) * 10,
        data=("cifar100",),
        build=builders.split_cifar100,
    ),
    _cifar(
        name="split-cifar10-100",
        description="CIFAR-10, then the ten tasks of split-cifar100",
        tasks=11,
        classes=(10,) * 11,
        data=("cifar10", "cifar100"),
        build=builders.split_cifar10_100,
    ),
    Benchmark(
        name="omniglot",
        description="an alphabet at a time; 20 turned and shifted copies of each drawing",
        tasks=50,
        classes=omniglot.CLASSES,
        heads=True,
        input_shape=(1, 28, 28),
        data=("omniglot",),
        validation="10 % of each alphabet's drawings (80 % train, 10 % test)",
        build=builders.omniglot_alphabets,
        network=lambda seed: omniglot_network(seed=seed),
    ),
    _permuted(
        name="permuted-digits",
        description="the 8x8 digits that come with the package, in a new order for each task",
        input_shape=(64,),
        build=digits.permuted_digits,
    ),
    _split(
        name="split-digits",
        description="the same digits two at a time: 0/1, 2/3, 4/5, 6/7, 8/9",
        input_shape=(64,),
        build=digits.split_digits,
    ),
)


def _announced(name: str, found: object) -> Benchmark:
    if not isinstance(found, Benchmark):
        raise TypeError(f"expected a uclearn.tasks.benchmarks.Benchmark, got {found!r}")
    if found.name != name:
        raise ValueError(f"its `name` must be {name!r} as announced, got {found.name!r}")
    return found


BENCHMARKS = Registry("uclearn.benchmarks", {entry.name: entry for entry in _OURS}, _announced)
