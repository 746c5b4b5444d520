"""Compiles the loops over every received byte where there is a C compiler; without one the package is pure Python.

EDGESOCKET_KERNELS=no pip install .        leave them out
EDGESOCKET_KERNELS=required pip install .  fail without a compiler
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LIBRARIES = {
    Path("src/edgesocket/protocol/_kernels.so"): Path("src/edgesocket/protocol/kernels.c"),
    Path("src/edgesocket/schema/_flat_rows.so"): Path("src/edgesocket/schema/flat_rows.c"),
}
"""What is compiled, and of what."""
FLAGS = ("-O3", "-std=gnu11", "-fPIC", "-shared")


class KernelsHook(BuildHookInterface[Any]):
    """The build hook of `pyproject.toml`."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002  the hook's signature
        """Compile into the source tree, from where the wheel takes it and an editable install uses it."""
        wanted = os.environ.get("EDGESOCKET_KERNELS", "")
        names = [os.environ["CC"]] if os.environ.get("CC") else ["cc", "gcc", "clang"]
        compiler = next((path for name in names if (path := shutil.which(name))), None)
        if wanted == "no" or (compiler is None and wanted != "required"):
            self._leave_out()
            return
        if compiler is None:
            raise RuntimeError(f"EDGESOCKET_KERNELS=required, but there is none of the compilers {', '.join(names)}")
        try:
            for library, source in LIBRARIES.items():
                self._compile(compiler, Path(self.root) / source, Path(self.root) / library)
        except (OSError, subprocess.CalledProcessError) as error:
            if wanted == "required":
                raise
            self._leave_out()
            self.app.display_warning(f"the compiled loops are left out, Python and numpy do their work: {error}")
            return
        build_data["artifacts"] += map(str, LIBRARIES)
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")

    def _leave_out(self) -> None:
        for library in LIBRARIES:
            (Path(self.root) / library).unlink(missing_ok=True)

    def _compile(self, compiler: str, source: Path, library: Path) -> None:
        # A file of its own first: another process may have the old one open.
        made = library.with_suffix(f".{os.getpid()}")
        try:
            subprocess.run([compiler, *FLAGS, "-o", made, source], check=True)  # noqa: S603  the builder chose the compiler
            made.replace(library)
        finally:
            made.unlink(missing_ok=True)
