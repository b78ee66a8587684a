import hashlib
import json
import math
import random
from collections import OrderedDict, defaultdict
from enum import IntEnum
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch
from hypothesis import given

from tests.storage.states import DTYPES, STATES, same, tensors
from uclearn.errors import CheckpointError
from uclearn.storage import container
from uclearn.storage.container import DEEPEST, pack, put_together, take_apart, unpack

STATE = {
    "step": 3,
    "lr": (0.1, float("inf")),
    "weight": torch.arange(6.0).reshape(2, 3),
    "mask": torch.tensor([True, False, True]),
    "half": torch.tensor([1.5], dtype=torch.bfloat16),
}


def packed(state: Any, kind: str = "run") -> bytes:
    return b"".join(pack(state, kind))


@given(STATES)
def test_every_state_comes_back_bit_for_bit(state: Any) -> None:
    assert same(unpack(packed(state), "run", "cpu"), state)


@given(tensors())
def test_every_tensor_comes_back_bit_for_bit(tensor: torch.Tensor) -> None:
    assert same(unpack(packed(tensor), "run", "cpu"), tensor)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_single_element_with_a_stride(dtype: torch.dtype) -> None:
    """Contiguous as torch counts, yet its stride is not 1."""
    tensor = torch.ones(3, dtype=torch.uint8).to(dtype)[1::2]
    assert tensor.stride() == (2,)
    assert tensor.is_contiguous()
    assert same(unpack(packed(tensor), "run", "cpu"), tensor)


@given(STATES)
def test_the_same_state_gives_the_same_bytes(state: Any) -> None:
    assert packed(state) == packed(unpack(packed(state), "run", "cpu"))


def test_the_bytes_have_not_changed() -> None:
    """Golden: version 1 as first released. If this fails, old files are no longer readable; raise
    VERSION and teach `unpack` to read both."""
    digest = hashlib.sha256(packed(STATE)).hexdigest()
    assert digest == "1a415e9fd491134955319a1bd010b2845d6be8c2005fbe47ac0de00c83cea272"


def test_any_safetensors_reader_shows_the_tensors(tmp_path: Any) -> None:
    path = tmp_path / "file.safetensors"
    path.write_bytes(packed(STATE))
    shown = safetensors.torch.load_file(path)
    assert same(shown["0/weight"], STATE["weight"])
    assert same(shown["1/mask"], STATE["mask"])
    assert same(shown["2/half"], STATE["half"])
    with safetensors.safe_open(path, "pt") as file:
        metadata = file.metadata()
    assert metadata["format"] == "uclearn.checkpoint"
    assert metadata["version"] == "1"
    assert metadata["kind"] == "run"


def test_every_tensor_is_aligned_to_its_elements() -> None:
    sizes = [torch.uint8, torch.float64, torch.bool, torch.int16, torch.float32, torch.int64]
    data = packed([torch.ones(3, dtype=dtype) for dtype in sizes])
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    places = {
        name: 8 + length + entry["data_offsets"][0]
        for name, entry in header.items()
        if name != "__metadata__"
    }
    for index, dtype in enumerate(sizes):
        assert places[f"{index}/{index}"] % dtype.itemsize == 0


def test_memory_that_tensors_share_is_copied() -> None:
    base = torch.arange(10)
    state = [base, base, base[2:5], base.flip(0), base[::3], base[:1].expand(4)]
    loaded = unpack(packed(state), "run", "cpu")
    assert same(loaded, [tensor.clone() for tensor in state])
    loaded[0].fill_(-1)
    assert same(loaded[1:], [tensor.clone() for tensor in state[1:]])
    loaded[5][0] = 7
    assert loaded[5].tolist() == [7, 0, 0, 0]


def test_lazily_conjugated_and_negated_tensors_have_their_values() -> None:
    z = torch.tensor([1 + 2j, 3 - 4j])
    contiguous = z[:1].conj().imag
    assert contiguous.is_neg()
    assert contiguous.is_contiguous()
    loaded = unpack(packed([z.conj(), z.conj().imag, contiguous]), "run", "cpu")
    assert loaded[0].tolist() == [1 - 2j, 3 + 4j]
    assert loaded[1].tolist() == [-2.0, 4.0]
    assert loaded[2].tolist() == [-2.0]


def test_parameters_become_plain_tensors() -> None:
    loaded = unpack(packed([torch.nn.Parameter(torch.ones(2))]), "run", "cpu")
    assert type(loaded[0]) is torch.Tensor
    assert not loaded[0].requires_grad


def test_the_device_is_as_asked_for() -> None:
    loaded = unpack(packed([torch.ones(2)]), "run", "meta")
    assert loaded[0].device.type == "meta"


@pytest.mark.parametrize(
    ("tensor", "said"),
    [
        (torch.ones(2, 2).to_sparse(), "got torch.float32, torch.sparse_coo, on cpu"),
        (torch.ones(2, device="meta"), "got torch.float32, torch.strided, on meta"),
        *(
            (torch.empty(2, dtype=getattr(torch, packed)), f"got torch.{packed}")
            for packed in ("float4_e2m1fn_x2",)  # not in older versions of torch
            if hasattr(torch, packed)
        ),
    ],
)
def test_tensors_without_plain_memory_are_refused(tensor: torch.Tensor, said: str) -> None:
    with pytest.raises(CheckpointError, match=rf"Tensor '0/w' must be dense, .*{said}.*Convert it"):
        pack({"w": tensor}, "run")


def test_a_header_no_reader_would_take_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "_LONGEST_HEADER", 1000)
    pack([0] * 100, "run")
    said = r"`state` holds too many values.* takes \d+ bytes, the most is 1000.*into tensors"
    with pytest.raises(CheckpointError, match=said):
        pack([0] * 1000, "run")


def test_a_change_of_any_byte_is_noticed() -> None:
    """All positions: metadata, padding, tensors, the digest itself; three changes at each."""
    data = packed(STATE)
    draw = random.Random(0)
    for position in range(len(data)):
        for change in (0x01, 0x80, draw.randrange(1, 256)):
            damaged = bytearray(data)
            damaged[position] ^= change
            with pytest.raises(CheckpointError):
                unpack(bytes(damaged), "run", "cpu")


def test_every_length_but_the_right_one_is_noticed() -> None:
    data = packed(STATE)
    assert same(unpack(data, "run", "cpu"), STATE)
    for length in range(len(data)):
        with pytest.raises(CheckpointError, match=r"it is (cut short|empty|not a safetensors)"):
            unpack(data[:length], "run", "cpu")
    for added in (b"\0", b" ", data):
        with pytest.raises(CheckpointError, match="do not match their digest: it is damaged"):
            unpack(data + added, "run", "cpu")


def test_blocks_lost_repeated_or_swapped_are_noticed() -> None:
    data = packed({"w": torch.randn(5000)})
    block = 4096
    one, two = data[block : 2 * block], data[2 * block : 3 * block]
    for middle in (bytes(2 * block), one + one, two + one, one + bytes(block)):
        damaged = data[:block] + middle + data[3 * block :]
        with pytest.raises(CheckpointError, match="do not match their digest"):
            unpack(damaged, "run", "cpu")


def with_header(header: object) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "it is empty"),
        (b"PK\x03\x04 a file by torch.save", "it is not a safetensors file"),
        (b"\xff" * 7 + b"\x7f{}", "it is not a safetensors file"),
        (safetensors.torch.save({"w": torch.ones(1)}), "it was not written by uclearn"),
        (safetensors.torch.save({}, {"format": "pt"}), "it was not written by uclearn"),
        (with_header({"__metadata__": 1}), "its header cannot be read"),
        (with_header({"w": {"data_offsets": []}}), "its header cannot be read"),
        (with_header({"w": 1}), "its header cannot be read"),
        (b"\x02" + bytes(7) + b"{]", "its header cannot be read"),
        (
            with_header({"__metadata__": {"format": "uclearn.checkpoint", "version": "2"}}),
            "it has format version 2 and this uclearn reads 1, use the uclearn that wrote it",
        ),
        (packed(1, "method"), "it holds a 'method', not a 'run'"),
    ],
)
def test_the_reason_is_given(data: bytes, reason: str) -> None:
    with pytest.raises(CheckpointError, match=reason):
        unpack(data, "run", "cpu")


class Level(IntEnum):
    LOW = 1


@given(STATES)
def test_put_together_undoes_take_apart(state: Any) -> None:
    assert same(put_together(*take_apart(state)), state)


def test_the_description_of_each_type() -> None:
    """The format, word for word: files written today must mean the same tomorrow."""
    state = {
        "none": None,
        1: (True, [-2, 0.5, "σ"]),
        "special": [math.nan, -math.inf, 2**64, -0.0],
        "tensors": {"a/b": torch.tensor(1), 0: torch.tensor([1j])},
    }
    skeleton, tensors = take_apart(state)
    assert json.loads(skeleton) == {
        "dict": [
            ["none", None],
            [1, {"tuple": [True, [-2, 0.5, "σ"]]}],
            [
                "special",
                [
                    {"float": "7ff8000000000000"},
                    {"float": "fff0000000000000"},
                    {"int": "0x10000000000000000"},
                    -0.0,
                ],
            ],
            [
                "tensors",
                {
                    "dict": [
                        ["a/b", {"tensor": "0/tensors/a/b"}],
                        [0, {"complex": "1/tensors/0"}],
                    ]
                },
            ],
        ]
    }
    assert same(tensors["0/tensors/a/b"], torch.tensor(1))
    assert same(tensors["1/tensors/0"], torch.tensor([[0.0, 1.0]]))


def test_tensors_on_the_same_way_keep_different_names() -> None:
    state = {
        "a/b": torch.zeros(1),
        "a": {"b": torch.ones(1)},
        "1": torch.zeros(2),
        1: torch.ones(2),
    }
    _, tensors = take_apart(state)
    assert list(tensors) == ["0/a/b", "1/a/b", "2/1", "3/1"]


def test_names_are_legal_even_where_keys_are_not() -> None:
    _, tensors = take_apart({"\ud800": torch.zeros(1)})
    assert list(tensors) == ["0/?"]
    assert take_apart({"\ud800": None})[0].isascii()


@pytest.mark.parametrize("mapping", [OrderedDict(b=1, a=2), defaultdict(int, b=1, a=2)])
def test_every_dict_comes_back_as_a_plain_one_in_its_order(mapping: dict[str, int]) -> None:
    assert same(put_together(*take_apart(mapping)), {"b": 1, "a": 2})


@pytest.mark.parametrize(
    ("state", "place", "kind"),
    [
        ({"size": torch.Size([1])}, "`state['size']`", "Size"),
        ([{3: np.float64(0.5)}], "`state[0][3]`", "float64"),
        (Level.LOW, "`state`", "Level"),
        ({"a": (b"bytes",)}, "`state['a'][0]`", "bytes"),
        ({"a": {1, 2}}, "`state['a']`", "set"),
        ([torch.float32], "`state[0]`", "dtype"),
        ([lambda: None], "`state[0]`", "function"),
    ],
)
def test_other_types_are_refused_by_their_place(state: Any, place: str, kind: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        take_apart(state)
    message = str(caught.value)
    assert message.startswith(f"{place} must be a dict, list, tuple, None, bool, int, float, str")
    assert message.endswith(f"of type {kind}. Convert it before saving.")


@pytest.mark.parametrize("key", [True, None, 0.5, (1,)])
def test_other_keys_are_refused(key: Any) -> None:
    said = r"The keys of `state\['a'\]` must be str or int, got .* of type .*Convert it"
    with pytest.raises(CheckpointError, match=said):
        take_apart({"a": {key: 1}})


def test_a_state_that_contains_itself_is_refused() -> None:
    state: dict[str, Any] = {}
    state["me"] = [state]
    said = rf"`state\['me'\]\[0\]\['me'\]` is nested more than {DEEPEST} levels deep"
    with pytest.raises(CheckpointError, match=said):
        take_apart(state)


def test_the_deepest_allowed_state_survives() -> None:
    state: Any = torch.ones(1)
    for level in range(DEEPEST):
        state = {"x": state} if level % 2 else (state,)
    assert same(put_together(*take_apart(state)), state)


@pytest.mark.parametrize(
    "skeleton",
    ["", "{", "{}", '{"set": []}', '{"tensor": "0"}', '{"dict": [[1]]}', '{"float": "00"}',
     '{"int": 1}', '{"tuple": 1, "dict": 2}', '{"dict": [[[], 1]]}', "[" * 100_000],
)  # fmt: skip
def test_descriptions_that_make_no_sense_are_refused(skeleton: str) -> None:
    with pytest.raises(CheckpointError, match="the description of its contents makes no sense"):
        put_together(skeleton, {})
