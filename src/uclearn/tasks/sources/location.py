"""Where the data are."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "UCLEARN_DATA"


def data_folder(given: str | Path | None = None) -> Path:
    """The folder that holds the data sets: `given` (the command line's `--data`), else what the
    environment variable UCLEARN_DATA says, else a place in the platform's cache folder.

    Nothing is created.
    """
    if given is not None:
        return Path(given).expanduser()
    if named := os.environ.get(VARIABLE):
        return Path(named).expanduser()
    return cache_folder() / "data"


def cache_folder() -> Path:
    """uclearn's place in the platform's cache folder (on Linux ~/.cache/uclearn)."""
    # Here, because it costs a tenth of a second that most runs need not pay.
    import pooch

    return Path(pooch.os_cache("uclearn"))
