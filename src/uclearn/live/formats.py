"""Files that run without this library: `torch.export` programs and ONNX, both checked by running
them."""

from __future__ import annotations

import importlib.util
import inspect
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from uclearn.choices import check_choice
from uclearn.errors import SettingError, UclearnError, UnsupportedLayerError
from uclearn.fields import Fields
from uclearn.networks import arguments
from uclearn.surgery.resize import tensors

Format = Literal["torch", "onnx"]
_BY_SUFFIX: dict[str, Format] = {".pt2": "torch", ".onnx": "onnx"}
TOLERANCE = 1e-4
"""Relative to the largest output: engines add floats in another order."""


def chosen_format(path: str | Path | None, format: Format | None) -> Format | None:
    """The format asked for, or the one that the path's end stands for; None without a path.

    >>> chosen_format("model.onnx", None)
    'onnx'
    """
    if format is not None:
        check_choice("format", format, get_args(Format))
    if path is None:
        return None
    suffix = Path(path).suffix
    if format is None and suffix not in _BY_SUFFIX:
        raise SettingError(
            f"`path` must end in {' or '.join(_BY_SUFFIX)} where no `format` is given, got "
            f"{str(path)!r}."
        )
    kind = format or _BY_SUFFIX[suffix]
    if kind == "onnx":
        _require_onnx()
    return kind


def write(network: nn.Module, path: Path, format: Format | None, example: Any) -> float:
    """Write a plain network, read it back, run it on batches of two sizes and compare.

    The batch size is left open in the file. Nothing is at `path` unless all went well.

    Returns:
        the largest difference between what the file computes and what the network does.
    """
    assert format is not None
    small, large = (_Given.of(example, size) for size in (2, 5))
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".export-") as folder:
        draft = Path(folder) / f"draft{'.pt2' if format == 'torch' else '.onnx'}"
        try:
            with torch.no_grad(), _quiet():
                _write(network, draft, small, format)
        except UclearnError:
            raise
        except Exception as error:  # torch raises dozens of kinds here
            raise UnsupportedLayerError(
                f"This network cannot be written as {format}: {error}. Usually an operation in its "
                "forward pass depends on the data or on the batch size."
            ) from error
        run = _READERS[format](draft)
        difference = max(_difference(network, run, given) for given in (small, large))
        draft.replace(path)
    return difference


class _Given(NamedTuple):
    """What a network is called with: by place and by name."""

    places: tuple[Tensor, ...]
    names: dict[str, Tensor]

    @classmethod
    def of(cls, example: Any, size: int) -> _Given:
        """So many examples."""
        if isinstance(example, Mapping | Fields):
            return cls((), {name: _batch_of(example[name], size) for name in example})
        return cls(tuple(_batch_of(each, size) for each in arguments(example)), {})


Run = Callable[[_Given], list[Tensor]]


def _difference(network: nn.Module, run: Run, given: _Given) -> float:
    with torch.no_grad():
        expected = tensors(network(*given.places, **given.names))
        found = run(given)
    apart = max(float((f - e).abs().max()) for f, e in zip(found, expected, strict=True))
    scale = max(1.0, max(float(e.abs().max()) for e in expected))
    if not apart <= TOLERANCE * scale:
        raise UnsupportedLayerError(
            f"The exported file computes something else: its outputs differ by {apart:.2g} where "
            f"they reach {scale:.2g}. Nothing was written."
        )
    return apart


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch tells itself: a deprecated check of its own, and that torchvision, whose
    operations we do not use, is not installed."""
    registry = logging.getLogger("torch.onnx._internal.exporter._registration")
    level = registry.level
    registry.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)`", FutureWarning)
            yield
    finally:
        registry.setLevel(level)


def _write(network: nn.Module, path: Path, given: _Given, format: Format) -> None:
    network = _with_names(network, tuple(given.names))
    batch = torch.export.Dim("batch", min=1)
    shapes: Any = torch.export.ShapesCollection()
    for tensor in (*given.places, *given.names.values()):  # the first dimension of every input
        shapes[tensor] = {0: batch}
    program = torch.export.export(network, given.places, given.names, dynamic_shapes=shapes)
    if format == "torch":
        torch.export.save(program, path)
    else:
        torch.onnx.export(program, dynamo=True, verbose=False).save(path, external_data=False)  # type: ignore[union-attr]


def _with_names(network: nn.Module, names: tuple[str, ...]) -> nn.Module:
    """The network, called with these names: torch's exporter does not see through `**named`."""
    if set(names) <= inspect.signature(network.forward).parameters.keys():
        return network

    def forward(module: Any, **named: Tensor) -> Any:
        return module.network(**named)

    kind = inspect.Parameter.KEYWORD_ONLY
    own = inspect.Parameter("module", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature = inspect.Signature([own, *(inspect.Parameter(name, kind) for name in names)])
    forward.__signature__ = signature  # type: ignore[attr-defined]
    signed: nn.Module = type("Signed", (nn.Module,), {"forward": forward})()
    signed.network = network
    return signed.eval()


def _read_torch(path: Path) -> Run:
    module = torch.export.load(path).module()
    return lambda given: tensors(module(*given.places, **given.names))


def _read_onnx(path: Path) -> Run:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [entry.name for entry in session.get_inputs()]

    def run(given: _Given) -> list[Tensor]:
        values = given.names or dict(zip(names, given.places, strict=True))
        feed = {name: value.cpu().numpy() for name, value in values.items() if name in names}
        return [torch.from_numpy(output) for output in session.run(None, feed)]

    return run


_READERS = {"torch": _read_torch, "onnx": _read_onnx}


def _batch_of(value: Tensor, size: int) -> Tensor:
    """So many examples, the given ones over and over, not all alike."""
    rows = torch.arange(size, device=value.device) % len(value)
    batch = value[rows]
    if value.is_floating_point():
        batch = batch * (1 + 0.1 * rows.new_tensor(range(size)).view(-1, *[1] * (value.dim() - 1)))
    return batch.contiguous()


def _require_onnx() -> None:
    wanted = ("onnx", "onnxruntime", "onnxscript")
    missing = [name for name in wanted if importlib.util.find_spec(name) is None]
    if missing:
        raise SettingError(
            f"`format='onnx'` needs packages that are not installed: {', '.join(missing)}. "
            'Install them with `pip install "uclearn[onnx]"`, or write `format="torch"`.'
        )
