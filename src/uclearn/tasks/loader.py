"""Any `DataLoader` as the examples of a task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, NoReturn

import torch
from torch import Tensor

from uclearn.errors import DataError
from uclearn.fields import as_fields
from uclearn.tasks.data import Batch, Data, DataLike


@dataclass(frozen=True, eq=False)
class FromLoader:
    """A torch `DataLoader`, or anything that can be iterated again and again and yields
    `(inputs, targets)` batches, or dictionaries with `labels` among them, standing for the examples
    of task number `task`.

    The loader decides the batch size, the order and what happens to the last batch. Its examples
    cannot be picked one by one; where that is needed (replay, coresets, joint training), `stored`
    reads them into memory.
    """

    loader: Iterable[Any]
    task: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.loader, Iterator):
            raise DataError(
                f"`loader` must be iterable more than once, got an iterator "
                f"({type(self.loader).__name__}), which is empty after one epoch. Pass the "
                "DataLoader itself, or a list of batches."
            )

    def __len__(self) -> int:
        """How many examples there are: asked of the loader's data set, else counted in one pass."""
        try:
            return len(getattr(self.loader, "dataset", None))  # type: ignore[arg-type]
        except TypeError:  # no data set, or a streaming one without a length
            return sum(len(batch.targets) for batch in self._epoch())

    def batch(self, positions: Tensor) -> NoReturn:
        """Refused: see `stored`."""
        raise DataError(_NO_ACCESS)

    def subset(self, positions: Tensor) -> NoReturn:
        """Refused: see `stored`."""
        raise DataError(_NO_ACCESS)

    def all_targets(self) -> Tensor:
        """The targets of all examples, in the order of one pass through the loader."""
        return torch.cat([batch.targets for batch in self._epoch()])

    def batches(
        self, size: int, generator: torch.Generator | None, start: int, drop_last: bool
    ) -> Iterator[Batch]:
        """One epoch in the loader's own batches: `size` and `drop_last` are its affair.

        A `DataLoader` without a generator of its own draws its order from torch's global state when
        the epoch begins; with `generator` given, that state is seeded from it for this moment, so
        that the order follows `generator` and an epoch can be resumed at `start`.
        """
        epoch = self._epoch()
        if generator is not None:
            seed = int(torch.randint(2**62, (), generator=generator))
            epoch = begun_from_seed(epoch, seed)
        yield from islice(epoch, start, None)

    def _epoch(self) -> Iterator[Batch]:
        for item in self.loader:
            if isinstance(item, Mapping):
                item = labelled(item, "loader")
            if not isinstance(item, tuple | list) or len(item) < 2:
                raise DataError(
                    f"`loader` must yield (inputs, targets) batches, got a {type(item).__name__}."
                )
            yield Batch(as_fields(item[0]), item[1], self.task)


def labelled(item: Mapping[str, Any], name: str) -> tuple[Any, Any]:
    """A dictionary as inputs by name and the `labels` among them; `name` is what errors call it."""
    if "labels" not in item:
        raise DataError(
            f"`{name}` must hold `labels` beside the inputs where it is a dictionary, got "
            f"{', '.join(map(str, item))}."
        )
    return {key: value for key, value in item.items() if key != "labels"}, item["labels"]


def begun_from_seed(batches: Iterator[Batch], seed: int) -> Iterator[Batch]:
    """`batches`, of which the first is read now, while torch's own generator stands at `seed`: that
    is when a loader which shuffles draws its order."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        first = list(islice(batches, 1))
    return chain(first, batches)


_NO_ACCESS = (
    "The examples of a loader cannot be picked one by one. Read them into memory first: "
    "`stored(data)`, or give the task `Data`."
)


def stored(data: DataLike) -> DataLike:
    """`data` with its examples in memory: one pass through a loader; anything else is returned."""
    if not isinstance(data, FromLoader):
        return data
    batches = list(data.batches(1, None, 0, False))
    if not batches:
        raise DataError("`loader` must yield at least one batch, got none.")
    inputs = torch.cat([batch.inputs for batch in batches])
    return Data(inputs, torch.cat([batch.targets for batch in batches]), task=data.task)
