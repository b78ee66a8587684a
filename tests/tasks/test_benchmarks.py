from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.tasks.sources.published import cifar_names, cifar_pickle, write_mnist
from uclearn.errors import DataError, SettingError
from uclearn.tasks.benchmarks import BENCHMARKS, benchmark, load_tasks
from uclearn.tasks.data import Data, DataLike
from uclearn.tasks.task import TaskSequence


def everything(data: DataLike | None) -> torch.Tensor:
    assert data is not None
    found: torch.Tensor = data.batch(torch.arange(len(data))).inputs
    return found


def rows(data: DataLike | None) -> set[int]:
    assert isinstance(data, Data)
    assert data.rows is not None
    return set(data.rows.tolist())


def described(name: str, sequence: TaskSequence) -> None:
    """The sequence is what the table of benchmarks says."""
    entry = benchmark(name)
    assert sequence.name == entry.name
    assert len(sequence) == entry.tasks
    assert sequence.classes == entry.classes
    assert sequence.heads == entry.heads
    for task in sequence:
        batch = task.train.batch(torch.tensor([0, 1]))
        assert batch.inputs.dtype == torch.float32
        assert batch.task == task.index
        labels = task.train.all_targets()
        assert labels.unique().tolist() == list(range(task.classes or 0))


def test_the_digits_need_no_files(tmp_path: Path) -> None:
    for name in ("permuted-digits", "split-digits"):
        sequence = load_tasks(name, seed=0, folder=tmp_path)
        described(name, sequence)
        assert sequence.input_shape == (64,)
        inputs = everything(sequence[0].train)
        assert (float(inputs.min()), float(inputs.max())) == (0.0, 1.0)


def test_digits_to_train_and_to_test_on_are_all_of_them_and_differ() -> None:
    sequence = load_tasks("split-digits", seed=3)
    train = set().union(*(rows(task.train) for task in sequence))
    test = set().union(*(rows(task.test) for task in sequence))
    assert not train & test
    assert len(train | test) == 1797
    assert len(test) == 359  # a fifth


@pytest.mark.parametrize("name", ["permuted-digits", "split-digits"])
def test_what_is_said_without_data_is_so(name: str) -> None:
    said, made = benchmark(name), load_tasks(name, seed=0)
    assert (said.input_shape, said.classes) == (made.input_shape, made.classes)
    assert (said.tasks, said.heads) == (len(made), made.heads)


def test_the_seed_decides() -> None:
    first, again, other = (load_tasks("permuted-digits", seed) for seed in (0, 0, 1))
    assert torch.equal(everything(first[2].test), everything(again[2].test))
    assert not torch.equal(everything(first[2].test), everything(other[2].test))


def test_permuted_benchmarks_make_as_many_tasks_as_are_wanted() -> None:
    assert len(load_tasks("permuted-digits", 0, tasks=25)) == 25
    assert len(load_tasks("split-digits", 0, tasks=2)) == 2
    with pytest.raises(
        SettingError, match="`tasks` must lie between 1 and 5 for split-digits, got 6"
    ):
        load_tasks("split-digits", 0, tasks=6)
    with pytest.raises(SettingError, match="`tasks` must be at least 1 for permuted-digits, got 0"):
        load_tasks("permuted-digits", 0, tasks=0)


def test_names_and_settings_that_do_not_exist_are_refused() -> None:
    with pytest.raises(
        SettingError, match=r"'mnist'\. Did you mean 'split-mnist'\? Known: permuted-mnist"
    ):
        load_tasks("mnist", 0)
    with pytest.raises(SettingError, match=r"must be False .* for split-digits, got True and None"):
        load_tasks("split-digits", 0, split_after_augmentation=True)
    with pytest.raises(SettingError, match=r"`copies` None for split-digits, got False and 4"):
        load_tasks("split-digits", 0, copies=4)


@pytest.mark.parametrize("name", [n for n, entry in BENCHMARKS.items() if entry.data])
def test_without_files_every_benchmark_says_how_to_get_them(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=rf"`uclearn data get {benchmark(name).data[0]}`"):
        load_tasks(name, 0, tmp_path)


def test_mnist_is_normalised_and_permuted_in_the_batch(tmp_path: Path) -> None:
    written = write_mnist(tmp_path / "mnist")["train-images-idx3"]
    plain = (written.reshape(5, 784).astype(np.float64) / 255 - 0.1307) / 0.3081
    for name in ("permuted-mnist", "row-permuted-mnist"):
        for task in load_tasks(name, 0, tmp_path, tasks=2):
            batch = everything(task.train)
            assert batch.shape == (5, 784)
            assert np.allclose(np.sort(batch.numpy()), np.sort(plain), atol=1e-5)
            assert not np.allclose(batch.numpy(), plain, atol=1e-2)
            assert task.validation() is task.train


def cifar10_and_100(folder: Path) -> None:
    """CIFAR-100 with 20 examples of each class in training, CIFAR-10 with 10; tests with 1 each."""
    draw = np.random.default_rng(0)
    hundred, ten = folder / "cifar-100-python", folder / "cifar-10-batches-bin"
    hundred.mkdir()
    ten.mkdir()
    for name, each in (("train", 20), ("test", 1)):
        pixels = draw.integers(0, 256, (100 * each, 3072), dtype=np.uint8)
        (hundred / name).write_bytes(cifar_pickle(pixels, [*range(100)] * each, "fine_labels"))
    (hundred / "meta").write_bytes(cifar_names([str(n) for n in range(100)]))
    for name in [*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]:
        pixels = draw.integers(0, 256, (20, 3073), dtype=np.uint8)
        pixels[:, 0] = np.arange(20) % 10
        (ten / f"{name}.bin").write_bytes(pixels.tobytes())


@pytest.mark.parametrize("name", ["split-cifar100", "split-cifar10-100"])
def test_cifar_benchmarks_hold_out_a_tenth_and_shuffle_the_hundred(
    tmp_path: Path, name: str
) -> None:
    cifar10_and_100(tmp_path)
    sequences = [load_tasks(name, seed, tmp_path) for seed in (0, 0, 1)]
    described(name, sequences[0])
    names = [[task.name for task in sequence] for sequence in sequences]
    assert names[0] == names[1] != names[2]
    hundred = [f"cifar100 {first}-{first + 9}" for first in range(0, 100, 10)]
    assert sorted(n for n in names[0] if n != "cifar10") == hundred
    if name == "split-cifar10-100":
        assert names[0][0] == names[2][0] == "cifar10"
    for task in sequences[0]:
        assert task.valid is not None
        assert len(task.train) == 9 * len(task.valid)
        assert not rows(task.train) & rows(task.valid)


def test_cifar_is_normalised_by_channel(tmp_path: Path) -> None:
    cifar10_and_100(tmp_path)
    task = load_tasks("split-cifar100", 0, tmp_path)[0]
    assert isinstance(task.train, Data)
    assert task.train.rows is not None
    raw = task.train.inputs[task.train.rows[:4]].double()
    result = task.train.batch(torch.arange(4)).inputs
    settings = ((125.3, 63.0), (123.0, 62.1), (113.9, 66.7))
    for channel, (mean, std) in enumerate(settings):
        assert torch.allclose(
            result[:, channel].double(), (raw[:, channel] - mean) / std, atol=1e-5
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n, entry in BENCHMARKS.items() if entry.data])
def test_the_real_benchmarks(folder_with: Callable[..., Path], name: str) -> None:
    folder = folder_with(*benchmark(name).data)
    described(name, load_tasks(name, 0, folder))


def test_notmnist_pairs_and_its_fifth_for_the_test(folder_with: Callable[..., Path]) -> None:
    sequence = load_tasks("split-notmnist", 0, folder_with("notmnist-small"))
    assert [task.name for task in sequence] == ["A/F", "B/G", "C/H", "D/I", "E/J"]
    for task in sequence:
        assert task.test is not None
        assert not rows(task.train) & rows(task.test)
        assert task.test.all_targets().bincount().tolist() == [
            374 + (n == 1873) for n in counts(task.name)
        ]


def counts(pair: str) -> list[int]:
    """Letters B to E have one example more than the others."""
    return [1873 if letter in "BCDE" else 1872 for letter in pair.split("/")]


def test_omniglot_can_be_split_the_authors_way(folder_with: Callable[..., Path]) -> None:
    folder = folder_with("omniglot")
    honest = load_tasks("omniglot", 0, folder, tasks=1)[0]
    leaking = load_tasks("omniglot", 0, folder, tasks=1, split_after_augmentation=True)[0]
    drawings = 20 * 20
    assert len(honest.train) == drawings * 0.8 * 21
    assert len(honest.validation()) == drawings * 0.1
    assert len(leaking.train) == drawings * 0.8 * 21
    assert len(leaking.validation()) == drawings * 0.1 * 21


@pytest.mark.parametrize("copies", [0, 4])
def test_omniglot_can_have_fewer_copies(folder_with: Callable[..., Path], copies: int) -> None:
    task = load_tasks("omniglot", 0, folder_with("omniglot"), tasks=1, copies=copies)[0]
    assert len(task.train) == 20 * 16 * (1 + copies)
    assert task.test is not None
    assert len(task.test) == 20 * 2


def test_ten_permuted_tasks_need_four_tenths_of_one_float_copy(
    folder_with: Callable[..., Path],
) -> None:
    """The peak of Python's and NumPy's memory is traced; the tensors kept are counted beside it."""
    folder = folder_with("mnist")
    tracemalloc.start()
    try:
        sequence = load_tasks("permuted-mnist", 0, folder)
        traced = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    tensors = {}
    for task in sequence:
        for data in (task.train, task.test):
            assert isinstance(data, Data)
            for tensor in (data.inputs, data.targets):
                tensors[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
    float_copy = 70_000 * 784 * 4
    assert traced + sum(tensors.values()) <= 0.4 * float_copy
