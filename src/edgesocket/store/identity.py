"""Which running kernel this is."""

from __future__ import annotations

import platform
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_LINUX_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class HostIdentity:
    """A host between two boots.

    Attributes:
        host: its name, for people; two hosts may share one.
        boot: names the running kernel: equal for two processes exactly when a file lock between them works and
            neither can have missed a power cut. Empty where the system does not tell; then it equals nothing.
    """

    host: str
    boot: str

    def same_kernel(self, boot: str) -> bool:
        """Whether `boot` names the kernel that runs here."""
        return bool(self.boot) and self.boot == boot


@cache
def host_identity() -> HostIdentity:
    """This host, as the claims and beats of this process name it."""
    return HostIdentity(platform.node(), _boot())


def _boot() -> str:
    try:
        return _LINUX_BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        pass
    try:
        # macOS: "{ sec = 1700000000, usec = 123456 } ..."; the time of boot names the boot.
        asked = subprocess.run(  # nosec B603 - a fixed command
            ["/usr/sbin/sysctl", "-n", "kern.boottime"], capture_output=True, text=True, timeout=10, check=True
        )
        return asked.stdout.partition("}")[0].strip(" {\n")
    except (OSError, subprocess.SubprocessError):
        return ""
