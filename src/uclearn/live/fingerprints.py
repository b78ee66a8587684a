"""Examples by a hash of what the network sees of them: has this one been seen before?"""

from __future__ import annotations

from hashlib import blake2b

import torch
from torch import Tensor

from uclearn.errors import DataError
from uclearn.tasks import Data


def hashes(inputs: Tensor) -> Tensor:
    """(examples,) int64: equal for examples of equal bytes, type and shape, else different but for
    one pair in 2^64. Labels do not count: a known input with a new label is known.

    >>> same = hashes(torch.tensor([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0]]))
    >>> bool(same[0] == same[2]), bool(same[0] == same[1])
    (True, False)
    """
    kind = f"{inputs.dtype} {tuple(inputs.shape[1:])}".encode()
    # adding zero turns -0.0 into 0.0, which equals it
    rows = (inputs.detach().cpu() + 0).contiguous().reshape(len(inputs), -1)
    every = rows.view(torch.uint8).numpy() if rows.numel() else rows.numpy()
    found = [blake2b(row.tobytes(), digest_size=8, key=kind[:64]).digest() for row in every]
    return torch.tensor([int.from_bytes(h, "big", signed=True) for h in found], dtype=torch.int64)


def fingerprint(data: Data) -> str:
    """32 hexadecimal digits of all examples with their targets, in order."""
    whole = data.batch(torch.arange(len(data)))
    total = blake2b(digest_size=16)
    total.update(hashes(whole.inputs).numpy().tobytes())
    total.update(whole.targets.detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()


def refuse_overlap(asked: Tensor, others: Tensor, what: str) -> None:
    """Refuse to train on examples of a canary, or to guard by examples that were trained on.

    Args:
        asked: hashes of the examples that were handed in.
        others: hashes of those that must not be among them.
        what: the words between their number and their rows.
    """
    shared = torch.isin(asked, others)
    if bool(shared.any()):
        rows = shared.nonzero().flatten().tolist()
        first = ", ".join(map(str, rows[:3])) + (", ..." if len(rows) > 3 else "")
        raise DataError(
            f"{len(rows)} of the {len(asked)} {what} (rows {first}). A canary that was trained on "
            "notices nothing: leave these rows out."
        )


def set_apart(data: Data, count: int, order: Tensor, seen: Tensor) -> tuple[Data, Data, int]:
    """`data` in two without a common example: the rest, `count` different examples that are not
    among `seen`, and how many copies of those were left out of the rest.

    Args:
        data: all examples.
        count: how many to set apart.
        order: a permutation of their positions, which says which ones come first.
        seen: hashes of what was trained on before.
    """
    own = hashes(data.batch(torch.arange(len(data))).inputs)
    fresh = ~torch.isin(own, seen)
    first: dict[int, int] = {}
    for position in order[fresh[order]].tolist():
        if len(first) == count:
            break
        first.setdefault(int(own[position]), position)
    chosen = torch.tensor(sorted(first.values()), dtype=torch.int64)
    rest = (~torch.isin(own, own[chosen])).nonzero().flatten()
    if not len(chosen) or not len(rest):
        raise DataError(
            f"`data` must hold enough different new examples to set {count} apart as a canary and "
            f"train on the rest; of {len(data)}, {len(own[fresh].unique())} are different and were "
            "not trained on before. Give more, or a canary of your own."
        )
    return data.subset(rest), data.subset(chosen), len(data) - len(rest) - len(chosen)
