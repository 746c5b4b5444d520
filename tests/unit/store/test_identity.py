"""Which running kernel this is, on Linux, on macOS, and where the system does not tell."""

import subprocess

import pytest

from edgesocket.store import identity
from edgesocket.store.identity import HostIdentity, host_identity


def test_it_is_the_same_all_the_time_and_has_a_name():
    assert host_identity() == host_identity()
    assert host_identity().host
    assert host_identity().same_kernel(host_identity().boot)


def test_linux_names_the_boot(tmp_path, monkeypatch):
    boot_id = tmp_path / "boot_id"
    boot_id.write_text("6f2c\n")
    monkeypatch.setattr(identity, "_LINUX_BOOT_ID", boot_id)
    assert identity._boot() == "6f2c"


def test_macos_names_the_boot_by_its_time(tmp_path, monkeypatch):
    monkeypatch.setattr(identity, "_LINUX_BOOT_ID", tmp_path / "no such file")
    answer = subprocess.CompletedProcess([], 0, "{ sec = 1700000000, usec = 123 } Tue Nov 14 22:13:20 2023\n")
    monkeypatch.setattr(subprocess, "run", lambda *args, **kwargs: answer)
    assert identity._boot() == "sec = 1700000000, usec = 123"


@pytest.mark.parametrize("error", [FileNotFoundError(), subprocess.CalledProcessError(1, "sysctl")])
def test_elsewhere_the_boot_is_unknown_and_equals_nothing(tmp_path, monkeypatch, error):
    monkeypatch.setattr(identity, "_LINUX_BOOT_ID", tmp_path / "no such file")

    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(subprocess, "run", fail)
    assert identity._boot() == ""
    assert not HostIdentity("host", "").same_kernel("")
