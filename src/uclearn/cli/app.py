"""All commands, in the order in which `--help` lists them. Nothing heavy is imported before a
command needs it."""

from __future__ import annotations

import os
import sys
import textwrap
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Annotated, Any, NoReturn

import typer

from uclearn.cli import (
    data,
    doctor,
    learn,
    new_benchmark,
    options,
    params,
    predict,
    presets,
    reproduce,
    rl,
    run,
    runs,
    status,
    sweep,
    tune,
    watch,
)
from uclearn.errors import UclearnError

_HELP = """
Teach a neural network one task after another, and measure what it forgets.

Trained on a new task, a network loses what it knew: it forgets. `ucl` (Uncertainty-based
Continual Learning) keeps track of how sure each neuron is and holds on to what is certain. The
other methods here are there to be compared with it; `finetuning` does nothing against forgetting.

A first look, in less than a minute and without any download:

    uclearn run

Then `uclearn compare split-digits --methods all` and `uclearn report runs`.
"""

LEARN, LOOK, USE, PREPARE = "Learn", "Look at results", "A model in use", "Data and settings"

app = typer.Typer(
    help=_HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from uclearn import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _everything(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    pass


for command, panel in (
    (run.run, LEARN),
    (run.compare, LEARN),
    (run.ablate, LEARN),
    (sweep.sweep, LEARN),
    (tune.tune, LEARN),
    (reproduce.reproduce, LEARN),
    (runs.resume, LEARN),
    (runs.runs, LOOK),
    (runs.report, LOOK),
    (watch.watch, LOOK),
    (params.params, LOOK),
    (learn.learn, USE),
    (predict.predict, USE),
    (status.status, USE),
    (presets.benchmarks, PREPARE),
    (presets.presets, PREPARE),
    (new_benchmark.new_benchmark, PREPARE),
    (doctor.doctor, PREPARE),
):
    spelled_out = options.spelled_out(command)
    app.command(command.__name__.replace("_", "-"), cls=options.Command, rich_help_panel=panel)(
        spelled_out
    )
app.add_typer(rl.app, name="rl", rich_help_panel=LEARN)
app.add_typer(data.app, name="data", rich_help_panel=PREPARE)


def main() -> None:
    """Run the command; whatever is refused is one line and an exit code, never a traceback."""
    try:
        try:
            with _company():
                app(prog_name="uclearn")
        finally:
            sys.stdout.flush()  # here, where a full disk behind it can still be told
    except UclearnError as error:
        _refuse(str(error))
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)  # noqa: T201
        sys.exit(130)
    except BrokenPipeError:  # `uclearn runs | head`
        _let_go_of_output()
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:  # a name that is too long, a folder that may not be read
        if error.filename is None:  # what was said could not be written
            _let_go_of_output()
            _refuse(f"{error.strerror or error}.")
        name = textwrap.shorten(ascii(str(error.filename)), 100, placeholder="...")
        _refuse(f"{error.strerror}: {name}. Check the path.")
    except (MemoryError, RuntimeError) as error:
        if not _is_want_of_memory(error):
            raise
        _refuse(
            "This takes more memory than there is. Ask for less: a narrower network, smaller "
            "batches, fewer or smaller examples."
        )


_LONGEST_WORD, _LONGEST = 300, 2000
"""Characters of a word, and of all that is said about an error."""


def _refuse(text: str) -> NoReturn:
    """One line, however long what was typed."""
    words = (
        word if len(word) <= _LONGEST_WORD else f"{word[:100]}...{word[-100:]}"
        for word in text.split()
    )
    line = " ".join(words)
    if len(line) > _LONGEST:
        line = f"{line[: _LONGEST // 2]} ... {line[-_LONGEST // 2 :]}"
    print(f"Error: {line}", file=sys.stderr)  # noqa: T201
    sys.exit(1)


def _is_want_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or "allocate memory" in str(error)


def _let_go_of_output() -> None:
    """Python writes what is left when it ends; where that cannot be, nobody is to be told twice."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _company() -> AbstractContextManager[Any]:
    """Together with the other processes that torchrun started, if it did."""
    if "WORLD_SIZE" not in os.environ:  # looked at here, since torch takes seconds to load
        return nullcontext()
    from uclearn.ranks import together

    return together()
