"""Figures of jobs as the HTTP API gives them, for states that are hard to make with real jobs."""

from __future__ import annotations

import itertools
import math
from typing import Any

MARK = 40_000
CAPACITY = 50_000


def node(id_: str, kind: str, plugin: str = "", label: str = "") -> dict[str, str]:
    """One node of a pipeline."""
    return {"id": id_, "kind": kind, "plugin": plugin or id_, "label": label or plugin or id_}


def straight_pipeline(*stations: dict[str, str]) -> dict[str, Any]:
    """A pipeline without a fork: collector, source and queue, then `stations`."""
    nodes = [node("collector", "collector", "Collector"), node("EdgeSocket", "source"), node("queue", "queue", "Queue")]
    nodes += stations
    return {"nodes": nodes, "edges": [[a["id"], b["id"]] for a, b in itertools.pairwise(nodes)]}


def forked_pipeline() -> dict[str, Any]:
    """Two transforms, then three sinks, one of them fed by the first transform."""
    pipeline = straight_pipeline(node("Filter", "transform"), node("Sql", "transform"), node("Kafka", "sink"))
    pipeline["nodes"] += [node("Jdbc", "sink"), node("LocalFile", "sink")]
    pipeline["edges"] += [["Sql", "Jdbc"], ["Filter", "LocalFile"]]
    return pipeline


def busy_job(name: str, tick: int, *, scale: float = 1.0, time: float = 1_790_000_000.0) -> dict[str, Any]:
    """A healthy job after `tick` seconds, with rates that swing a little."""
    swing = 1 + 0.25 * math.sin(tick / 9) + 0.08 * math.sin(tick * 1.7)
    rate = 12_400 * scale * swing
    rows = int(12_400 * scale * (tick + 600))
    queued = int(6_000 * scale * (1 + 0.8 * math.sin(tick / 13))) % MARK
    highest = 1_200_000 + rows
    done = tick // 5
    watermark = 1_200_000 + int(12_400 * scale * (done * 5 + 600)) - queued
    pending = highest - watermark
    return {
        "name": name,
        "state": "running",
        "status": {
            "job": name,
            "state": "running",
            "epoch": 4,
            "pid": 4711,
            "host": "edge-gw-1",
            "rows_written": rows - queued,
            "endpoint": "",
            "restarts": 0,
            "last_error": "",
            "source": {
                "port": 9999,
                "endpoint": "",
                "collector": "10.20.3.17:51512",
                "watermark": watermark,
                "ack_number": watermark,
                "highest_offered": highest,
                "oldest_unconfirmed_s": tick % 5 + 0.7,
                "batches": {
                    "received": queued,
                    "captured": max(0, pending - queued),
                    "held": 0,
                    "settled": 0,
                    "lost": 0,
                },
                "queue": {
                    "records": queued,
                    "bytes": queued * 180,
                    "capacity": CAPACITY,
                    "high_water_mark": MARK,
                    "most_records": 21_870,
                },
                "replies": {"RECEIVED": rows, "ACK": 1800 + tick, "PENDING": 240 + tick // 4, "AUTH_OK": 3},
                "resends": 0,
                "replaced_utf8": 0,
                "reused_ivs": 0,
                "bad_records": 0,
                "dropped_payloads": 0,
                "arrival_log": {"failing_for_s": None, "last_failure": ""},
                "holder": None,
                "listener": {"auth_failures": 0},
            },
            "sinks": {"failing_for_s": None, "last_failure": "", "dead_letters": 0},
            "checkpoints": {
                "completed": done + 100,
                "failed": 0,
                "last_number": done + 100,
                "last_completed_ago_s": tick % 5 + 0.2,
                "last_duration_s": 0.11,
                "last_state_bytes": 1_840_000,
                "large_state": "",
                "failing_for_s": None,
                "last_failure": "",
            },
        },
        "rates": {
            "received_records_per_s": rate,
            "received_bytes_per_s": rate * 184,
            "batches_per_s": rate,
            "written_rows_per_s": rate * (1 + 0.05 * math.sin(tick / 3)),
        },
        "pipeline": straight_pipeline(node("Sql", "transform"), node("LocalFile", "sink")),
        "holds": None,
        "checkpoints": [
            {
                "number": done + 100 - back,
                "started_ms": (time + tick - tick % 5 - back * 5) * 1000,
                "duration_s": 0.09 + 0.05 * abs(math.sin((done - back) * 1.3)),
                "state_bytes": 1_700_000 + back * 900,
                "status": "completed",
                "reason": "",
            }
            for back in range(31, -1, -1)
        ],
        "sessions": [
            {
                "peer": "10.20.3.17:49800",
                "connected_ms": (time - 4000) * 1000,
                "ended_ms": (time - 610) * 1000,
                "reason": "the collector closed the connection",
                "received_bytes": 8_812_345_123,
            },
            {
                "peer": "10.20.3.17:51512",
                "connected_ms": (time - 600) * 1000,
                "ended_ms": None,
                "reason": "",
                "received_bytes": int(rows * 184),
            },
        ],
        "dead_letters": {"count": 0, "can_be_read": True},
        "last_error": "",
        "restarts": 0,
    }


def bare_job(name: str, state: str) -> dict[str, Any]:
    """A job that has not said anything of itself yet."""
    rates = dict.fromkeys(
        ("received_records_per_s", "received_bytes_per_s", "batches_per_s", "written_rows_per_s"), 0.0
    )
    return {
        "name": name, "state": state, "status": {}, "rates": rates, "pipeline": straight_pipeline(node("Null", "sink")),
        "holds": None, "checkpoints": [], "sessions": [], "dead_letters": {"count": 0, "can_be_read": False},
        "last_error": "", "restarts": 0,
    }  # fmt: skip


def hold(job: dict[str, Any], id_: int, state: str, since_s: float) -> dict[str, Any]:
    """Let one id hold the watermark of a job."""
    source = job["status"]["source"]
    source["watermark"] = source["ack_number"] = id_ - 1
    source["batches"]["captured"] = source["highest_offered"] - id_
    if state in ("held", "lost"):
        source["batches"][state] = 1
    source["replies"] |= {"QUEUE_FULL": 812, "RESEND": 44}
    what = f"if the collector will not send it (again), run: edgesocket settle {job['name']} {id_} --reason TEXT"
    job["holds"] = source["holder"] = {"id": id_, "state": state, "since_s": since_s, "what_to_do": what}
    return job


def fill_queue(job: dict[str, Any]) -> dict[str, Any]:
    """Let the queue of a job stand at its mark, behind a sink that fails."""
    source = job["status"]["source"]
    source["queue"] |= {"records": MARK, "bytes": MARK * 180, "most_records": MARK}
    source["replies"] |= {"QUEUE_FULL": 91_204}
    job["status"]["sinks"] |= {"failing_for_s": 41.0, "last_failure": "Kafka: no broker answers at kafka-1:9092"}
    job["rates"]["written_rows_per_s"] = 0.0
    return job


def fail_checkpoints(job: dict[str, Any], reason: str = "No space left on device: /srv/state/job") -> dict[str, Any]:
    """Let the last checkpoints of a job fail."""
    for record in job["checkpoints"][-4:]:
        record |= {"status": "failed", "reason": reason, "duration_s": 0.4}
    job["status"]["checkpoints"] |= {
        "failed": 4,
        "failing_for_s": 19.0,
        "last_failure": reason,
        "last_completed_ago_s": 24.0,
    }
    return job


PLACES = ("berlin", "porto", "gdansk", "lyon", "turku", "ghent", "brno", "bergen", "malmo", "graz")
KINDS = ("meters", "clicks", "alarms", "gps", "audit", "syslog", "orders", "frames", "scans", "doors")


def many_jobs(count: int, tick: int, time: float) -> list[dict[str, Any]]:
    """A process full of jobs, a few of them in trouble."""
    jobs = []
    for at in range(count):
        name = f"{PLACES[at % 10]}-{KINDS[at // 10 % 10]}" + (f"-{at // 100}" if at >= 100 else "")
        job = busy_job(name, tick + at * 7, scale=0.02 + (at * 37 % 100) / 90, time=time - at * 7)
        job["status"]["source"]["port"] = 9000 + at
        if at % 4 == 1:
            job["pipeline"] = forked_pipeline()
        if at % 23 == 5:
            hold(job, job["status"]["source"]["watermark"] + 1, "gap", 93.0 + tick)
        if at % 31 == 8:
            fail_checkpoints(job)
        if at % 41 == 12:
            fill_queue(job)
        if at % 29 == 17:
            job |= {
                "state": "failed",
                "last_error": 'batch 99 cannot be read: field amount should be a number, is "n/a"',
            }
            job["rates"] = dict.fromkeys(job["rates"], 0.0)
        if at % 19 == 3:
            job["status"]["source"]["collector"] = None
            job["rates"] = dict.fromkeys(job["rates"], 0.0)
        jobs.append(job)
    return jobs
