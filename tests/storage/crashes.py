"""A program that saves checkpoints and dies, for test_checkpoint.py. Torch is loaded once; each
death is that of a forked child."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from uclearn.storage.checkpoint import CHECKPOINT_NAME, load_latest, previous_of, save

SYSTEM_CALLS = ("open", "write", "fsync", "close", "link", "replace", "unlink", "mkdir")
DIED = 9


def state(number: int) -> dict[str, Any]:
    """Complete if all of it says the same number."""
    return {"number": number, "tensor": torch.full((40_000,), number), "list": [number] * 20}


def complete(loaded: dict[str, Any]) -> bool:
    number = loaded["number"]
    return bool((loaded["tensor"] == number).all()) and loaded["list"] == [number] * 20


def save_for_ever(path: Path) -> None:
    """Per line on standard input: fork a child that saves larger and larger numbers, print its
    process id, wait until it is killed, print the number of the last save it finished."""
    number = 0
    for _ in sys.stdin:
        finished, report = os.pipe()
        child = os.fork()
        if child == 0:
            while True:
                number += 1
                save(path, state(number), "run", sync=number % 2 == 0)
                os.write(report, b"%12d" % number)
        os.close(report)
        say(child)
        os.waitpid(child, 0)
        with os.fdopen(finished, "rb") as pipe:
            said = pipe.read()
        number = int(said[-12:] or number)
        say(number)


def say(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def die_at(step: int, *, halfway: bool) -> None:
    """End this process, without any clean-up, instead of its system call number `step`; with
    `halfway`, a write has done half of its work by then."""
    left = [step]

    def dying(call: Callable[..., Any], name: str) -> Callable[..., Any]:
        def wrapper(*arguments: Any, **options: Any) -> Any:
            if left[0] == 0:
                if halfway and name == "write":
                    call(arguments[0], arguments[1][: len(arguments[1]) // 2])
                os._exit(DIED)
            left[0] -= 1
            return call(*arguments, **options)

        return wrapper

    for name in SYSTEM_CALLS:
        setattr(os, name, dying(getattr(os, name), name))


def refuse_links() -> None:
    def link(*arguments: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    os.link = link  # type: ignore[assignment]


def die_at_every_step(folder: Path) -> list[tuple[str, int, bool, int, bool]]:
    """For all ways to begin and all steps of a save of number 3 to die at: what is then found."""
    found = []
    for beginning in ("two sound", "present damaged", "previous damaged", "no links"):
        for halfway in (False, True):
            step, died = 0, True
            while died:
                path = folder / f"{beginning}-{halfway}-{step}" / CHECKPOINT_NAME
                for number in (1, 2):
                    save(path, state(number), "run", sync=False)
                if beginning == "present damaged":
                    path.write_bytes(path.read_bytes()[:-1])
                if beginning == "previous damaged":
                    previous_of(path).write_bytes(b"")
                child = os.fork()
                if child == 0:
                    if beginning == "no links":
                        refuse_links()
                    die_at(step, halfway=halfway)
                    save(path, state(3), "run")
                    os._exit(0)
                died = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == DIED
                loaded, _ = load_latest(path.parent, "run")
                assert complete(loaded)
                found.append((beginning, step, halfway, loaded["number"], died))
                step += 1
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] == "for ever":
        save_for_ever(Path(sys.argv[2]))
    else:
        json.dump(die_at_every_step(Path(sys.argv[2])), sys.stdout)
