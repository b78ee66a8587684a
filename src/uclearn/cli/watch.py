"""`uclearn watch`: runs as they grow, in a page on this machine."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from uclearn.cli import options


def watch(
    folder: Annotated[Path, typer.Argument(help="A folder with runs somewhere below it.")] = (
        options.DEFAULT_OUT
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8765,
) -> None:
    """Show runs in a browser while they are made: curves, time left, certain nodes.

    The page is read from the folders alone, whoever writes them, and is served to this machine
    only. Ctrl-C ends it; the runs do not notice.
    """
    from uclearn.report.watch import HOST, server

    with server(folder, port) as serving:
        typer.echo(f"Open http://{HOST}:{serving.server_address[1]}/ in a browser. Ctrl-C ends.")
        with suppress(KeyboardInterrupt):
            serving.serve_forever()
