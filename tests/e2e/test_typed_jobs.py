"""Jobs with a schema from end to end: typed files, dead letters, bad records by every policy, two collectors."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from edgesocket.errors import ExitCode
from tests.support.jobs import TOKEN, Job, Wire, edgesocket, free_port, rows, wait_for_ack, wait_until

SCHEMA = "schema { fields { user_id = int, event = string, ts = long } }"
GOOD_1 = '{"user_id":1,"event":"a","ts":1}'
BAD_2 = '{"user_id":"abc","event":"b","ts":2}'
GOOD_3 = '{"user_id":3,"event":"c","ts":3}'
AT_ONCE_S = 10.0
"""A start and an end of a process on a busy machine; a loop of restarts takes longer."""


def _write(directory: Path, port: int, policy: str, rest: str, name: str = "job") -> Path:
    conf = directory / f"{name}.conf"
    conf.write_text(
        "env { job.mode = STREAMING, checkpoint.interval = 50 }\n"
        f'source {{ EdgeSocket {{ port = {port}, token = "{TOKEN}", plugin_output = raw, on_bad_record = {policy}\n'
        f"  {SCHEMA} }} }}\n{rest}\n"
    )
    return conf


def _json_sink(directory: Path) -> str:
    return f'sink {{ LocalFile {{ path = "{directory}", file_format_type = json }} }}'


def _objects(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(row) for row in rows(directory)]


def _users(directory: Path) -> list[int]:
    return sorted(row["user_id"] for row in _objects(directory))


def _dead(directory: Path) -> list[dict[str, Any]]:
    files = sorted(directory.glob("dead-*.jsonl"))
    return [json.loads(line) for path in files for line in path.read_text(encoding="utf-8").splitlines()]


class TestDeadLetters:
    TRANSFORMS = """
    transform {
      Sql { plugin_input = raw, plugin_output = small
            query = "select user_id, upper(event) as event from raw where user_id < 10" }
      Filter { plugin_input = raw, plugin_output = times, include_fields = [ts] }
    }
    """

    def test_rows_go_two_ways_and_what_does_not_fit_goes_to_the_dead_letters(self, tmp_path: Path) -> None:
        port, parquet, times, dead = free_port(), tmp_path / "parquet", tmp_path / "times", tmp_path / "dead"
        sinks = f"""
        sink {{
          LocalFile {{ plugin_input = small, path = "{parquet}", file_format_type = parquet }}
          LocalFile {{ plugin_input = times, path = "{times}", file_format_type = json }}
          Console {{ plugin_input = small, format = json }}
        }}
        dead_letter {{ DeadLetter {{ path = "{dead}" }} }}
        """
        conf = _write(tmp_path, port, "dead_letter", self.TRANSFORMS + sinks)
        payloads = [
            GOOD_1,
            BAD_2,
            '{"user_id":30,"event":"large","ts":9007199254740993}',
            "no json",
            '{"user_id":5,"event":"é"}',
        ]
        with (tmp_path / "stdout").open("wb") as stream, Job(conf, stdout=stream.fileno()) as job:
            assert job.wait_until_listening(), job.log_text()
            with Wire(port) as wire:
                sent = [f"__BATCH__:{number}:{payload}" for number, payload in enumerate(payloads, 1)]
                assert wire.ask(*sent) == " ".join(["RECEIVED"] * 5)
                assert wait_for_ack(wire, 5) == "ACK:5"
                table = pa.concat_tables([pq.read_table(path) for path in sorted(parquet.glob("part-*.parquet"))])
                assert table.schema.remove_metadata() == pa.schema([("user_id", pa.int32()), ("event", pa.string())])
                assert table.to_pylist() == [{"user_id": 1, "event": "A"}, {"user_id": 5, "event": "É"}]
                assert _objects(times) == [{"ts": 1}, {"ts": 9007199254740993}, {"ts": None}]
                assert [(letter["batch_id"], letter["payload"]) for letter in _dead(dead)] == [
                    (2, BAD_2),
                    (4, "no json"),
                ]
            assert job.stop() == ExitCode.OK, job.log_text()
        first, second = _dead(dead)
        assert first["reason"] == 'field user_id: expected int, got "abc"'
        assert "no json" in second["reason"]
        assert first["origin"] == "EdgeSocket"
        printed = [json.loads(line) for line in (tmp_path / "stdout").read_text(encoding="utf-8").splitlines()]
        assert printed == [{"user_id": 1, "event": "A"}, {"user_id": 5, "event": "É"}]

    def test_an_ack_is_given_where_every_record_is_a_dead_letter(self, tmp_path: Path) -> None:
        port, dead = free_port(), tmp_path / "dead"
        rest = f'{_json_sink(tmp_path / "out")}\ndead_letter {{ DeadLetter {{ path = "{dead}" }} }}'
        with Job(_write(tmp_path, port, "dead_letter", rest)) as job:
            assert job.wait_until_listening(), job.log_text()
            with Wire(port) as wire:
                assert wire.ask(f"__BATCH__:2:{BAD_2}") == "RECEIVED"
                assert wait_for_ack(wire, 2) == "ACK:2"
                assert [letter["batch_id"] for letter in _dead(dead)] == [2]
            assert job.stop() == ExitCode.OK
        assert _users(tmp_path / "out") == []


class TestFail:
    def _names_what_is_wrong(self, log: str) -> None:
        assert 'batch 2: field user_id: expected int, got "abc"' in log
        assert "Traceback" not in log

    def _status_names_what_is_wrong(self, conf: Path) -> None:
        ended = json.loads(edgesocket("status", conf, "--format", "json").stdout)["ended"]
        assert (ended["batch_id"], ended["reason"]) == (2, 'field user_id: expected int, got "abc"')
        text = edgesocket("status", conf).stdout
        assert 'field user_id: expected int, got "abc" (batch 2)' in text, text

    def _poisoned(self, tmp_path: Path, *, one_by_one: bool) -> tuple[Path, int, str]:
        """A job that ended on batch 2: its file, its port, and the last reply to a poll for 3."""
        port = free_port()
        conf = _write(tmp_path, port, "fail", _json_sink(tmp_path / "out"))
        replies: list[str] = []
        with Job(conf) as job:
            assert job.wait_until_listening(), job.log_text()
            with Wire(port) as wire:
                if one_by_one:
                    assert wire.ask(f"__BATCH__:1:{GOOD_1}") == "RECEIVED"
                    assert wait_for_ack(wire, 1) == "ACK:1"
                    wire.send(f"__BATCH__:2:{BAD_2}", f"__BATCH__:3:{GOOD_3}")
                else:
                    wire.send(*(f"__BATCH__:{n}:{p}" for n, p in enumerate([GOOD_1, BAD_2, GOOD_3], 1)))
                try:
                    while reply := wire.ask("__COMMIT__:3"):
                        replies.append(reply)
                except OSError:  # the job has gone
                    pass
            assert job.wait() == ExitCode.BAD_DATA, job.log_text()
            self._names_what_is_wrong(job.log_text())
        acks = [int(reply.removeprefix("ACK:")) for reply in replies if reply.startswith("ACK:")]
        assert all(watermark < 2 for watermark in acks), replies
        return conf, port, job.log_text()

    def test_the_job_ends_names_the_record_and_offers_two_ways_on(self, tmp_path: Path) -> None:
        conf, _, log = self._poisoned(tmp_path, one_by_one=True)
        assert _users(tmp_path / "out") == [1]
        assert "edgesocket settle" in log
        assert "on_bad_record = dead_letter" in log
        assert "--on-bad-record dead_letter" in log
        self._status_names_what_is_wrong(conf)
        command = next(line for line in log.splitlines() if "edgesocket settle" in line)
        told = command.partition("edgesocket settle ")[2].partition(" --reason")[0]
        settled = edgesocket("settle", *shlex.split(told), "--reason", "as the log said", cwd=tmp_path.parent)
        assert settled.returncode == ExitCode.OK, settled.stderr

    def test_a_collector_that_sends_it_again_ends_the_job_again(self, tmp_path: Path) -> None:
        conf, port, _ = self._poisoned(tmp_path, one_by_one=False)
        with Job(conf) as job:
            if job.wait_until_listening() and job.process.poll() is None:
                self._resend(job, port)
            assert job.wait(AT_ONCE_S) == ExitCode.BAD_DATA, job.log_text()
            self._names_what_is_wrong(job.log_text())
        assert _users(tmp_path / "out") in ([], [1])

    @staticmethod
    def _resend(job: Job, port: int) -> None:
        try:
            with Wire(port) as wire:
                wire.send(*(f"__BATCH__:{n}:{p}" for n, p in enumerate([GOOD_1, BAD_2, GOOD_3], 1)))
                job.wait(AT_ONCE_S)
        except OSError:  # the job has gone
            pass

    def test_it_ends_with_its_code_also_while_a_checkpoint_is_under_way(self, tmp_path: Path) -> None:
        port = free_port()
        sinks = _json_sink(tmp_path / "out").removesuffix("}") + "\nConsole { log.print.delay.ms = 500 } }"
        with Job(_write(tmp_path, port, "fail", sinks)) as job:
            assert job.wait_until_listening(), job.log_text()
            with Wire(port) as wire:
                assert wire.ask(f"__BATCH__:1:{GOOD_1}") == "RECEIVED"
                # While the sink takes its time over 1, the next checkpoint falls due: it begins, and then 2 is met.
                assert wire.ask(f"__BATCH__:2:{BAD_2}", f"__BATCH__:3:{GOOD_3}") == "RECEIVED RECEIVED"
                assert job.wait() == ExitCode.BAD_DATA, job.log_text()
            self._names_what_is_wrong(job.log_text())
        self._status_names_what_is_wrong(tmp_path / "job.conf")

    def _queued(self, tmp_path: Path) -> tuple[Path, int]:
        """A job that ended on batch 2 while a checkpoint has it in its queue: its file, and its port."""
        port = free_port()
        rest = f'{_json_sink(tmp_path / "out")}\ndead_letter {{ DeadLetter {{ path = "{tmp_path / "dead"}" }} }}'
        conf = _write(tmp_path, port, "fail", rest)
        text = conf.read_text()
        conf.write_text(text.replace("interval = 50", "interval = 50, read_limit.rows_per_second = 1"))
        with Job(conf) as job:
            assert job.wait_until_listening(), job.log_text()
            with Wire(port) as wire:
                assert wire.ask(f"__BATCH__:1:{GOOD_1}", f"__BATCH__:2:{BAD_2}") == "RECEIVED RECEIVED"
                assert wait_for_ack(wire, 1) == "ACK:1"
                assert job.wait() == ExitCode.BAD_DATA, job.log_text()
        return conf, port

    def test_a_start_that_meets_it_in_the_restored_queue_ends_at_once_and_says_the_same(self, tmp_path: Path) -> None:
        conf, _ = self._queued(tmp_path)
        with Job(conf) as job:
            assert job.wait(AT_ONCE_S) == ExitCode.BAD_DATA, job.log_text()
            log = job.log_text()
        self._names_what_is_wrong(log)
        assert "edgesocket settle" in log
        assert "--on-bad-record dead_letter" in log
        assert "starting again" not in log, "a restart cannot help"
        self._status_names_what_is_wrong(conf)

    def test_the_command_line_can_send_it_to_the_dead_letters(self, tmp_path: Path) -> None:
        conf, port = self._queued(tmp_path)
        with Job(conf, "--on-bad-record", "dead_letter") as job:
            assert job.wait_until_listening(), job.log_text()
            with Wire(port) as wire:
                assert wait_for_ack(wire, 2) == "ACK:2"
            assert job.stop() == ExitCode.OK, job.log_text()
        assert [letter["batch_id"] for letter in _dead(tmp_path / "dead")] == [2]

    def test_settle_drops_it_from_the_queue(self, tmp_path: Path) -> None:
        conf, port = self._queued(tmp_path)
        assert edgesocket("settle", conf, "2", "--reason", "not a user").returncode == ExitCode.OK
        with Job(conf) as job:
            assert job.wait_until_listening(), job.log_text()
            with Wire(port) as wire:
                assert wire.ask(f"__BATCH__:3:{GOOD_3}") == "RECEIVED"
                assert wait_for_ack(wire, 3) == "ACK:3"
            assert job.stop() == ExitCode.OK, job.log_text()
        assert _users(tmp_path / "out") == [1, 3]

    def test_settle_lets_it_go_on(self, tmp_path: Path) -> None:
        conf, port, _ = self._poisoned(tmp_path, one_by_one=True)
        settled = edgesocket("settle", conf, "2", "--reason", "not a user")
        assert settled.returncode == ExitCode.OK, settled.stderr
        with Job(conf) as job:
            assert job.wait_until_listening(), job.log_text()
            with Wire(port) as wire:
                assert wire.ask("__COMMIT__:1").startswith("ACK:")
                assert wire.ask(f"__BATCH__:3:{GOOD_3}") == "RECEIVED"
                assert wait_for_ack(wire, 3) == "ACK:3"
            assert job.stop() == ExitCode.OK, job.log_text()
        assert _users(tmp_path / "out") == [1, 3]

    def test_dead_letters_instead_let_it_go_on_too(self, tmp_path: Path) -> None:
        conf, port, _ = self._poisoned(tmp_path, one_by_one=True)
        dead = tmp_path / "dead"
        rest = f'{_json_sink(tmp_path / "out")}\ndead_letter {{ DeadLetter {{ path = "{dead}" }} }}'
        _write(tmp_path, port, "dead_letter", rest)
        with Job(conf) as job:
            assert job.wait_until_listening(), job.log_text()
            with Wire(port) as wire:
                for number, payload in ((2, BAD_2), (3, GOOD_3)):
                    assert wire.ask(f"__BATCH__:{number}:{payload}") == "RECEIVED"
                assert wait_for_ack(wire, 3) == "ACK:3"
            assert job.stop() == ExitCode.OK, job.log_text()
        assert _users(tmp_path / "out") == [1, 3]
        assert [letter["batch_id"] for letter in _dead(dead)] == [2]


def test_reject_answers_at_the_door_and_a_corrected_batch_is_taken(tmp_path: Path) -> None:
    port = free_port()
    with Job(_write(tmp_path, port, "reject", _json_sink(tmp_path / "out"))) as job:
        assert job.wait_until_listening(), job.log_text()
        with Wire(port) as wire:
            sent = [f"__BATCH__:{n}:{payload}" for n, payload in enumerate([GOOD_1, BAD_2, GOOD_3], 1)]
            assert wire.ask(*sent) == "RECEIVED DECODE_FAILED RECEIVED"
            assert wait_for_ack(wire, 3) == "ACK:3"
            corrected = BAD_2.replace('"abc"', "4")
            assert wire.ask(f"__BATCH__:4:{BAD_2}") == "DECODE_FAILED"
            assert wire.ask(f"__BATCH__:4:{corrected}") == "RECEIVED"
            assert wait_for_ack(wire, 4) == "ACK:4"
        assert job.stop() == ExitCode.OK, job.log_text()
    assert _users(tmp_path / "out") == [1, 3, 4]


def test_two_jobs_with_two_collectors_in_one_process(tmp_path: Path) -> None:
    ports = {"a": free_port(), "b": free_port()}
    confs = {name: _write(tmp_path, ports[name], "fail", _json_sink(tmp_path / name), name) for name in ports}
    with Job(confs["a"], str(confs["b"])) as job:
        wait_until(lambda: job.log_text().count("listener opened") >= 2, what="two listeners")
        with Wire(ports["a"]) as a, Wire(ports["b"]) as b:
            assert a.ask(f"__BATCH__:1:{GOOD_1}") == b.ask(f"__BATCH__:7:{GOOD_3}") == "RECEIVED"
            assert wait_for_ack(a, 1) == "ACK:1"
            assert wait_for_ack(b, 7) == "ACK:7"
            b.send(f"__BATCH__:8:{BAD_2}")
            wait_until(lambda: "[b] the job has ended" in job.log_text(), what="the end of b")
            assert a.ask(f"__BATCH__:2:{GOOD_3}") == "RECEIVED", "the bad record of b is no matter of a"
            assert wait_for_ack(a, 2) == "ACK:2"
        assert job.stop() == ExitCode.BAD_DATA, job.log_text()
    assert _users(tmp_path / "a") == [1, 3]
    assert _users(tmp_path / "b") == [3]
    assert "batch 8: field user_id" in job.log_text()


class TestRulesOfAWholeRun:
    SINKS = "sink {{ Assert {{ rules {{ row_rules = [{{ rule_type = MIN_ROW, rule_value = {least} }}] }} }} }}"

    def _run(self, tmp_path: Path, least: int) -> tuple[int, str, Path]:
        port = free_port()
        conf = _write(tmp_path, port, "fail", self.SINKS.format(least=least))
        with Job(conf) as job:
            assert job.wait_until_listening(), job.log_text()
            with Wire(port) as wire:
                assert wire.ask(f"__BATCH__:1:{GOOD_1}") == "RECEIVED"
                assert wait_for_ack(wire, 1) == "ACK:1"
            return job.stop(), job.log_text(), conf

    def test_a_broken_one_ends_the_job_with_bad_data_and_is_named(self, tmp_path: Path) -> None:
        code, log, conf = self._run(tmp_path, 2)
        assert code == ExitCode.BAD_DATA, log
        assert "the rule MIN_ROW 2 is broken: 1 rows came" in log
        assert "the rule MIN_ROW 2 is broken" in edgesocket("status", conf).stdout
        assert "FAILED" in edgesocket("jobs", conf.parent / ".edgesocket").stdout
        restored = json.loads(edgesocket("status", conf, "--format", "json").stdout)
        assert restored["checkpoint"]["watermark"] == 1, "what was confirmed stays confirmed"

    def test_one_that_is_kept_ends_it_well(self, tmp_path: Path) -> None:
        code, log, conf = self._run(tmp_path, 1)
        assert code == ExitCode.OK, log
        assert "ended at" in edgesocket("status", conf).stdout
        assert ", cleanly" in edgesocket("status", conf).stdout
