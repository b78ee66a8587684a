"""Parquet files, and data sets that Hugging Face `datasets` saved to disk (which are Arrow files):
both are read by pyarrow alone."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from uclearn.errors import DataError, SettingError
from uclearn.tasks.own.columns import Column, Roles, as_examples, columns_for
from uclearn.tasks.own.examples import PER_ROW, Examples, check_memory
from uclearn.tasks.own.pictures import decoded, side_of
from uclearn.tasks.own.text import Choose, Read

if TYPE_CHECKING:
    import pyarrow as pa

_INFO, _STATE, _PARTS = "dataset_info.json", "state.json", "dataset_dict.json"
_PIECE = 20_000  # rows
_BYTES = 4 * 4  # per cell: in the file's own columns, in pieces, joined, and as features
_PART = "split"


def is_saved(path: Path) -> bool:
    """Whether `datasets` saved a data set, or several parts of one, in the folder."""
    return (path / _STATE).exists() or (path / _PARTS).exists()


def saved_files(path: Path) -> list[Path]:
    """All files of a data set that was saved to disk."""
    return [
        file for folder, _ in _folders(path) for file in [folder / _INFO, *_arrow_files(folder)]
    ]


def read_parquet(path: Path, roles: Roles) -> Examples:
    """The rows of a Parquet file."""
    return _as_examples(path, _whole_parquet(path), roles, {}, None, grey=False)


def _whole_parquet(path: Path) -> pa.Table:
    parquet = _imported("pyarrow.parquet")
    try:
        file = parquet.ParquetFile(path)
        about = file.metadata
        needed = about.num_rows * (about.num_columns * _BYTES + PER_ROW)
        check_memory(path, needed, "Keep fewer rows, or `--drop` columns.")
        return file.read()
    except _imported("pyarrow").ArrowException as error:
        raise DataError(f"{path}: expected a whole Parquet file ({error}).") from error


def read_saved(path: Path, roles: Roles, size: int | None, grey: bool) -> Examples:
    """A data set that `datasets.Dataset.save_to_disk` wrote, or a `DatasetDict`, whose parts are
    the split."""
    tables, words = _saved_tables(path)
    whole = _imported("pyarrow").concat_tables(tables, promote_options="default")
    check_memory(path, 2.0 * whole.nbytes, "Keep fewer rows.")
    return _as_examples(path, whole, roles, words, size, grey)


def arrow_columns(
    path: Path, choose: Choose, size: int | None, grey: bool
) -> tuple[Read, NDArray[np.uint8] | None]:
    """The columns that are chosen, those of lists taken apart; and the pictures, if it has any."""
    if path.is_dir():
        tables, words = _saved_tables(path)
    else:
        tables, words = [_whole_parquet(path)], {}
    whole = _imported("pyarrow").concat_tables(tables, promote_options="default")
    check_memory(path, 2.0 * whole.nbytes, "Keep fewer rows.")
    stack = None
    for field in whole.schema:
        if _is_list(field.type):
            whole = _taken_apart(path, whole, field.name)
        elif _is_picture(field.type):
            stack = _stacked(path, whole.column(field.name), size, grey)
            whole = whole.drop_columns([field.name])
    columns = choose(list(whole.column_names))
    for name, column in columns.items():
        _fill(path, column, whole.column(name), words.get(name))
    return Read(list(whole.column_names), columns, 0), stack


def _taken_apart(path: Path, table: pa.Table, name: str) -> pa.Table:
    """With a column for each number of a column of lists, in its place."""
    pa, place = _imported("pyarrow"), table.column_names.index(name)
    block = _matrix(path, name, table.column(name))
    table = table.drop_columns([name])
    for number in range(block.shape[1]):
        table = table.add_column(place + number, f"{name}[{number}]", pa.array(block[:, number]))
    return table


def _saved_tables(path: Path) -> tuple[list[Any], dict[str, list[str]]]:
    """The tables of all parts, each with a column that names its part, and the classes' names."""
    pa = _imported("pyarrow")
    tables: list[Any] = []
    words: dict[str, list[str]] = {}
    for folder, part in _folders(path):
        for file in _arrow_files(folder):
            try:
                with pa.memory_map(str(file)) as source:
                    table = pa.ipc.open_stream(source).read_all()
            except (pa.ArrowException, OSError) as error:
                raise DataError(f"{file}: expected a whole Arrow file ({error}).") from error
            if part is not None and _PART not in table.column_names:
                table = table.append_column(_PART, pa.array([part] * len(table)))
            tables.append(table)
        words |= _class_names(folder)
    if not tables:
        raise DataError(f"{path}: expected Arrow files beside {_STATE}, found none.")
    return tables, words


def _as_examples(
    path: Path,
    table: pa.Table,
    roles: Roles,
    names: dict[str, list[str]],
    size: int | None,
    grey: bool,
) -> Examples:
    roles = roles.found(table.column_names, str(path))
    pictures = [field.name for field in table.schema if _is_picture(field.type)]
    if pictures:  # the picture is what is learned from; other columns only say what it is of
        table = table.select(
            [n for n in table.column_names if n in roles.special() | {pictures[0]}]
        )
        kept = table.drop_columns([pictures[0]])
    else:
        kept = table
    columns = columns_for([n for n in kept.column_names if n not in roles.drop], roles)
    for name, column in columns.items():
        _fill(path, column, table.column(name), names.get(name))
    if pictures:
        columns[pictures[0]] = Column(pictures[0], is_number=True)
        columns[pictures[0]].pieces.append(np.zeros(len(table), np.float32))
    wide = [name for name in columns if _is_list(table.schema.field(name).type)]
    for name in wide:
        columns[name] = Column(name, is_number=True)
        columns[name].pieces.append(np.zeros(len(table), np.float32))
    examples = as_examples(str(path), columns, roles)
    if pictures:
        stack = _stacked(path, table.column(pictures[0]), size, grey)
        return replace(examples, inputs=torch.from_numpy(stack), scaled=None, columns=())
    if wide:
        blocks = [_matrix(path, name, table.column(name)) for name in wide]
        places = [k for k, title in enumerate(examples.columns) if title not in wide]
        assert examples.scaled is not None
        own = examples.inputs[:, places]
        joined = torch.cat([own, *map(torch.from_numpy, blocks)], dim=1)
        scaled = torch.ones(joined.shape[1], dtype=torch.bool)
        scaled[: len(places)] = examples.scaled[places]
        return replace(examples, inputs=joined, scaled=scaled, columns=())
    return examples


def _fill(path: Path, column: Column, values: pa.ChunkedArray, names: list[str] | None) -> None:
    pa = _imported("pyarrow")
    kind = values.type
    if _is_picture(kind) or _is_list(kind):
        return
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    for begin in range(0, len(values), _PIECE):
        piece = values.slice(begin, _PIECE)
        where: Callable[[int], str] = partial(_row, path, begin)
        if numeric and not column.as_words:
            floats = piece.cast(pa.int8()) if pa.types.is_boolean(kind) else piece
            cells = floats.cast(pa.float64(), safe=False).to_numpy()
            column.add_numbers(np.asarray(cells, dtype=np.float64), where)
        elif column.as_words and (numeric or pa.types.is_dictionary(kind) or _is_text(kind)):
            plain = piece.cast(kind.value_type) if pa.types.is_dictionary(kind) else piece
            coded = plain.combine_chunks().dictionary_encode()
            words = [_word(cell, names) for cell in coded.dictionary.to_pylist()]
            codes = coded.indices.fill_null(len(words)).to_numpy(zero_copy_only=False)
            column.add_codes([*words, ""], codes.astype(np.int64))
        elif pa.types.is_dictionary(kind) or _is_text(kind):
            column.add([_word(cell, names) for cell in piece.to_pylist()], where)
        else:
            raise DataError(
                f"{path}, column {column.name}: expected numbers or words, found {kind}. Leave it "
                f"out by `--drop {column.name}`."
            )


def _word(cell: object, names: list[str] | None) -> str:
    if names is not None and isinstance(cell, int) and 0 <= cell < len(names):
        return names[cell]
    return "" if cell is None else str(cell)


def _row(path: Path, begin: int, place: int) -> str:
    return f"{path}, row {begin + place}"


def _matrix(path: Path, name: str, values: pa.ChunkedArray) -> NDArray[np.float32]:
    """(rows, length) of a column of lists."""
    try:
        rows = np.array(values.to_pylist(), dtype=np.float32)
        if not np.isfinite(rows).all():
            raise ValueError("a missing number")
    except (ValueError, TypeError) as error:
        raise DataError(
            f"{path}, column {name}: expected lists of numbers of one length ({error}). Leave it "
            f"out by `--drop {name}`."
        ) from error
    return rows.reshape(len(rows), -1)


def _stacked(
    path: Path, values: pa.ChunkedArray, size: int | None, grey: bool
) -> NDArray[np.uint8]:
    """(rows, channels, side, side) of a column of pictures."""
    cells = values.to_pylist()
    for place, cell in enumerate(cells):
        if not cell or not cell.get("bytes"):
            raise DataError(
                f"{_row(path, 0, place)}: expected the bytes of a picture, found none. Save the "
                "data set with its pictures embedded, or remove the row."
            )
    side, grey = side_of([io.BytesIO(cell["bytes"]) for cell in cells], size, grey, str(path))
    found = []
    for place, cell in enumerate(cells):
        try:
            found.append(decoded(io.BytesIO(cell["bytes"]), side, 1 if grey else 3))
        except (OSError, SyntaxError, EOFError, ValueError) as error:
            raise DataError(
                f"{_row(path, 0, place)}: its picture cannot be read ({error}). Remove the row."
            ) from error
    return np.ascontiguousarray(np.stack(found))


def _folders(path: Path) -> list[tuple[Path, str | None]]:
    """The folders that hold parts, each with the name of its part."""
    if not (path / _PARTS).exists():
        return [(path, None)]
    return [(path / name, name) for name in json.loads((path / _PARTS).read_text())["splits"]]


def _arrow_files(folder: Path) -> list[Path]:
    state = json.loads((folder / _STATE).read_text())
    return [folder / entry["filename"] for entry in state["_data_files"]]


def _class_names(folder: Path) -> dict[str, list[str]]:
    """By column, the words that its numbers stand for."""
    info = folder / _INFO
    features = json.loads(info.read_text()).get("features") or {} if info.exists() else {}
    return {
        name: feature["names"]
        for name, feature in features.items()
        if isinstance(feature, dict) and feature.get("_type") == "ClassLabel"
    }


def _is_picture(kind: Any) -> bool:
    pa = _imported("pyarrow")
    return bool(pa.types.is_struct(kind)) and {"bytes", "path"} <= {field.name for field in kind}


def _is_list(kind: Any) -> bool:
    types = _imported("pyarrow").types
    checks = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    return any(check(kind) for check in checks)


def _is_text(kind: Any) -> bool:
    types = _imported("pyarrow").types
    return any(check(kind) for check in (types.is_string, types.is_large_string, types.is_null))


def _imported(module: str) -> Any:
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError as error:
        raise SettingError(
            "Parquet files and data sets of `datasets` need a package that is not installed "
            "(pyarrow): pip install 'uclearn[arrow]'."
        ) from error
