"""Where a C compiler is, a wheel carries the library of `uclearn.native`, ready to be loaded.

It is then a wheel for this platform; elsewhere, and with `UCLEARN_NATIVE=0`, it is one for all, and
the library is compiled at its first use.
"""

from __future__ import annotations

import os
import platform
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PrebuiltLibrary(BuildHookInterface[Any]):
    """Compile for every level of processors of this architecture."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Before the wheel is put together."""
        native = runpy.run_path(str(Path(self.root, "src/uclearn/native/build.py")))
        levels = native["LEVELS"].get(platform.machine(), {})
        wanted = os.environ.get(native["SWITCH"]) != "0" and sys.platform.startswith("linux")
        if version == "editable" or not (wanted and levels):
            return
        self._folder = tempfile.TemporaryDirectory()
        try:
            for level in levels:
                name = native["prebuilt_name"](level)
                made = Path(self._folder.name, name)
                native["compile_for"](level, made)
                build_data["force_include"][str(made)] = f"uclearn/native/kernels/{name}"
        except (OSError, subprocess.SubprocessError, native["UnusableError"]) as reason:
            self.app.display_warning(f"a wheel without the native library: {reason}")
            build_data["force_include"].clear()
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-linux_{platform.machine()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """The wheel is made."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()
