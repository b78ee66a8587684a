"""Notebooks as pages: what is written in them, their code, and what it printed when it last ran."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files


def on_files(files: Files, *, config: Any, **_: Any) -> Files:
    """Called by MkDocs with all files of the site: beside each notebook there is a page of it."""
    for file in list(files):
        if file.src_uri.endswith(".ipynb"):
            page = file.src_uri.removesuffix(".ipynb") + ".md"
            text = as_markdown(Path(str(file.abs_src_path)))
            files.append(File.generated(config, page, content=text))
    return files


def as_markdown(notebook: Path) -> str:
    """All cells of a notebook, with a link to the file itself behind the title."""
    title, *cells = json.loads(notebook.read_text())["cells"]
    link = f"[Download this notebook]({notebook.name})"
    return "\n\n".join(["".join(title["source"]), link, *map(_cell, cells)]) + "\n"


def _cell(cell: dict[str, Any]) -> str:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    printed = "".join(line for each in cell["outputs"] for line in each.get("text", []))
    shown = f'\n\n```text title="prints"\n{printed.rstrip()}\n```' if printed else ""
    return f"```python\n{source}\n```{shown}"
