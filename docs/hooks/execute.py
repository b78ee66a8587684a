"""Run the notebooks, cell by cell, and keep what they print: `python -m docs.hooks.execute`.

They print and draw nothing else, so no Jupyter is needed for it.
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"


def printed_by(notebook: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Each cell of code in turn, in one namespace, and what it prints; in the present folder."""
    namespace: dict[str, Any] = {"__name__": "notebook"}
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code":
            code = compile("".join(cell["source"]), f"cell {number}", "exec")
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(code, namespace)
            yield cell, printed.getvalue()


def main() -> None:
    """Run all of them in an empty folder and write their output into them."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        notebook = json.loads(path.read_text())
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            for count, (cell, printed) in enumerate(printed_by(notebook), start=1):
                cell["execution_count"] = count
                lines = printed.splitlines(keepends=True)
                stream = {"name": "stdout", "output_type": "stream", "text": lines}
                cell["outputs"] = [stream] if printed else []
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
