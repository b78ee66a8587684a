"""The command line. `uclearn --help` says what there is."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command; whatever is refused is one line and an exit code, never a traceback."""
    from uclearn.cli.app import app
    from uclearn.errors import UclearnError

    try:
        app(prog_name="uclearn")
    except UclearnError as error:
        print(f"Error: {' '.join(str(error).split())}", file=sys.stderr)  # noqa: T201
        sys.exit(1)
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)  # noqa: T201
        sys.exit(130)
    except BrokenPipeError:  # `uclearn runs | head`
        sys.stderr.close()
        sys.exit(1)
