"""What a host of a cluster makes of a job's options."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgesocket.cli.hosted import LEASE_MS, with_lease
from edgesocket.cli.jobs import make_plan
from edgesocket.config.job import load_job
from edgesocket.store.directory import DirectoryPlace
from edgesocket.store.lease import LEASE_MS as LEASE_ELSEWHERE_MS


class Bucket(DirectoryPlace):
    """A place whose scratch is apart from the state."""

    apart = object()  # type: ignore[assignment]


def lease_of(place: DirectoryPlace, env: str = "") -> int:
    spec = load_job(f'env {{ {env} }}\nsource {{ EdgeSocket {{ port = 1, token = "t" }} }}', "a.conf")
    return make_plan(with_lease(spec, place), place).lease_ms


@pytest.mark.parametrize(
    ("kind", "env", "lease_ms"),
    [
        (DirectoryPlace, "", LEASE_MS),
        (DirectoryPlace, "lease_ms = 3000", 3000),
        (DirectoryPlace, "lease_ms = 10 s", 10_000),
        (Bucket, "", LEASE_ELSEWHERE_MS),
    ],
    ids=["shared path", "named, as it is elsewhere", "named", "bucket"],
)
def test_a_job_has_the_lease_it_names_or_that_of_its_place(
    tmp_path: Path, kind: type[DirectoryPlace], env: str, lease_ms: int
) -> None:
    assert lease_of(kind(tmp_path), env) == lease_ms
