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

SOURCE = Path("src/edgesocket/protocol/kernels.c")
LIBRARY = Path("src/edgesocket/protocol/_kernels.so")
FLAGS = ("-O3", "-std=gnu11", "-fPIC", "-shared")


class KernelsHook(BuildHookInterface[Any]):
    """The build hook of `pyproject.toml`."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002  the hook's signature
        """Compile into the source tree, from where the wheel takes it and an editable install uses it."""
        library = Path(self.root) / LIBRARY
        wanted = os.environ.get("EDGESOCKET_KERNELS", "")
        names = [os.environ["CC"]] if os.environ.get("CC") else ["cc", "gcc", "clang"]
        compiler = next((path for name in names if (path := shutil.which(name))), None)
        if wanted == "no" or (compiler is None and wanted != "required"):
            library.unlink(missing_ok=True)
            return
        if compiler is None:
            raise RuntimeError(f"EDGESOCKET_KERNELS=required, but there is none of the compilers {', '.join(names)}")
        # A file of its own first: another process may have the old one open.
        made = library.with_suffix(f".{os.getpid()}")
        try:
            subprocess.run([compiler, *FLAGS, "-o", made, Path(self.root) / SOURCE], check=True)  # noqa: S603  the builder chose the compiler
            made.replace(library)
        except (OSError, subprocess.CalledProcessError) as error:
            if wanted == "required":
                raise
            library.unlink(missing_ok=True)
            self.app.display_warning(f"the compiled loops are left out, numpy does their work: {error}")
            return
        finally:
            made.unlink(missing_ok=True)
        build_data["artifacts"].append(str(LIBRARY))
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")
