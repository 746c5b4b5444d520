"""What the verbs of a cluster share: which root of states, which Ray."""

from __future__ import annotations

import argparse
import getpass
import os
import time

from edgesocket.cluster.jobs_of import Jobs
from edgesocket.cluster.ray_cluster import RayCluster
from edgesocket.cluster.rest import is_rest
from edgesocket.errors import UsageError
from edgesocket.store.identity import host_identity
from edgesocket.store.place import root_of

CLUSTER_VARIABLE = "EDGESOCKET_CLUSTER"
"""Environment variable that names the root of a cluster's states."""

ADDRESS_VARIABLE = "RAY_ADDRESS"


def add_cluster_argument(parser: argparse.ArgumentParser) -> None:
    """`--cluster`, for verbs that need no Ray."""
    parser.add_argument(
        "--cluster",
        metavar="ROOT",
        help="where the states of the cluster's jobs lie: a directory that all workers share, or s3://bucket/prefix "
        f"(default: ${CLUSTER_VARIABLE})",
    )


def add_cluster_arguments(parser: argparse.ArgumentParser) -> None:
    """`--cluster` and `--address`."""
    add_cluster_argument(parser)
    parser.add_argument(
        "--address",
        metavar="RAY",
        help="the Ray cluster: HOST:6379 or auto on one of its nodes, http://HEAD:8265 from anywhere "
        f"(default: ${ADDRESS_VARIABLE}, else auto)",
    )


def cluster_text(args: argparse.Namespace) -> str:
    """The root of a cluster's states, as text; "" where none is named, or one job's state is named instead."""
    if getattr(args, "cluster", None):
        return str(args.cluster)
    return "" if getattr(args, "state_dir", None) is not None else os.environ.get(CLUSTER_VARIABLE, "")


def cluster_jobs(args: argparse.Namespace) -> Jobs:
    """The jobs of the cluster that the arguments name. Raises UsageError, StoreError."""
    text = cluster_text(args)
    if not text:
        raise UsageError(f"say which cluster: --cluster ROOT, or set {CLUSTER_VARIABLE}")
    return Jobs(root_of(text))


def address_of_ray(args: argparse.Namespace) -> str:
    """Where Ray is, as given; "" where nothing says so."""
    return args.address or os.environ.get(ADDRESS_VARIABLE, "")


def open_ray(args: argparse.Namespace, jobs: Jobs) -> RayCluster | None:
    """The connection to Ray; None where the address is that of a dashboard, which runs commands only.

    Raises:
        RayUnavailableError: there is no Ray.
    """
    address = address_of_ray(args)
    return None if is_rest(address) else RayCluster(jobs.root.text, address or "auto")


def whoami() -> str:
    """Who orders something, for people."""
    return f"{getpass.getuser()} (pid {os.getpid()} on {host_identity().host})"


def unix_ms() -> int:
    """The time of day."""
    return time.time_ns() // 1_000_000
