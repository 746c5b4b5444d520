"""The chaos harness notices what it is there for: a lost line, a doubled one, a broken promise, memory that grows."""

from __future__ import annotations

import json
import random
import socket
from pathlib import Path

import pytest

from chaos.counting import Tape, line_of, number_of, tally
from chaos.docs import put_between, table
from chaos.proxy import Link, Promises
from chaos.rows import ROWS, row_named
from chaos.run import Result
from chaos.slope import Sample, after_warm_up, files_per_hour, rss_per_hour, slope
from chaos.soak_text import problems

MIB = 1 << 20


def test_a_line_carries_its_number() -> None:
    assert [number_of(line_of(number)) for number in (0, 7, 123_456_789)] == [0, 7, 123_456_789]
    assert number_of(line_of(42).encode()) == 42
    with pytest.raises(ValueError, match="no line of this run"):
        number_of("something else")


def test_each_line_once_is_clean_in_any_order() -> None:
    numbers = list(range(100))
    random.Random(1).shuffle(numbers)
    assert tally(100, numbers).is_clean


def test_a_lost_line_is_noticed() -> None:
    end = tally(5, [0, 1, 3, 4])
    assert (end.lost, end.doubled, end.is_clean) == ((2,), (), False)


def test_a_doubled_line_is_noticed() -> None:
    end = tally(5, [0, 1, 2, 3, 4, 3])
    assert (end.lost, end.doubled, end.is_clean) == ((), (3,), False)


def test_a_row_that_nobody_wrote_is_noticed() -> None:
    assert tally(3, [0, 1, 2, 3]).strange == 1
    assert tally(3, [0, 1, 2, -1]).strange == 1


def test_a_tape_counts_like_a_tally() -> None:
    dice = random.Random(2)
    found = [dice.randrange(-2, 1000) for _ in range(900)]
    tape = Tape()
    for number in found:
        tape.count(number)
    end = tally(1000, found)
    assert tape.lost(1000) == len(end.lost)
    assert tape.doubled == sum(found.count(number) - 1 for number in end.doubled)
    assert tape.strange == end.strange
    assert tape.numbers() == sorted({number for number in found if number >= 0})


def test_a_promise_is_what_an_ack_covers() -> None:
    promises = Promises()
    for id_ in (11, 12, 13):
        promises.batch(id_, id_ - 11)
    promises.ack(12)
    assert promises.confirmed() == [0, 1]
    promises.batch(12, 1)  # sent again before the ACK was read
    promises.ack(13)
    assert promises.confirmed() == [0, 1, 2]
    assert promises.count == 3


def test_the_link_reads_along_and_a_cut_breaks_both_ends() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as ingress,
        Link(ingress.getsockname(), random.Random(3)) as link,
        socket.create_connection(("127.0.0.1", link.port), 10) as agent,
        ingress.accept()[0] as job,
    ):
        job.settimeout(10)
        wanted = f"__BATCH__:7:{line_of(0)}\n__BATCH__:8:{line_of(1)}\n".encode()
        agent.sendall(wanted)
        seen = b""
        while len(seen) < len(wanted):
            seen += job.recv(4096)
        assert seen == wanted
        job.sendall(b"RECEIVED\nACK:7\n")
        answer = b""
        while not answer.endswith(b"ACK:7\n"):
            answer += agent.recv(4096)
        assert link.promises.confirmed() == [0]
        link.cut()
        for end in (agent, job):
            with pytest.raises(ConnectionResetError):
                end.recv(1)


def test_a_run_is_good_only_if_everything_is() -> None:
    def result(**more: object) -> Result:
        return Result("cut", "files", 1, written=10, recover_s=1.0, stopped=(0, 0), **more)  # type: ignore[arg-type]

    assert result().is_good
    for bad in ({"lost": 1}, {"broken": 1}, {"doubled": 1}, {"strange": 1}):
        assert not result(**bad).is_good
    assert not Result("cut", "files", 1, written=10, stopped=(0, 0)).is_good, "it never recovered"
    assert not Result("cut", "files", 1, recover_s=1.0, stopped=(0, 70)).is_good
    assert result(ends={"ingress:75": 1}).is_good
    assert not result(ends={"ingress:70": 1}).is_good, "a bug in the product"


def test_the_table_says_how_many_runs_there_are() -> None:
    run = {"strikes": 3, "written": 1000, "lost": 0, "broken": 0, "doubled": 0, "recover_s": 1.5}
    text = table({"cut": [run] * 20, "slow": [run, {**run, "lost": 2, "recover_s": None}]})
    assert "| 20 | 60 | 20,000 | 0 | 0 | 0 | 1.5 s, 1.5 s |" in text
    assert "| only 2 | 6 | 2,000 | 2 | 0 | 0 | 1.5 s, 1.5 s; 1 never |" in text
    assert "not run yet" in text


def test_a_page_keeps_what_is_around_the_table(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("above\n<!-- table -->\nold\n<!-- /table -->\nbelow\n")
    put_between(page, "table", "new\n")
    put_between(page, "table", "newer\n")
    assert page.read_text() == "above\n<!-- table -->\n\nnewer\n\n<!-- /table -->\nbelow\n"
    with pytest.raises(ValueError, match="no part other"):
        put_between(page, "other", "")


def test_names_of_rows_come_once() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    assert row_named("cut").sink == "files"


def test_a_slope_is_found_below_noise() -> None:
    dice = random.Random(4)
    samples = [
        Sample(at, 100 * MIB + int(at / 3600 * 2 * MIB) + dice.randrange(-MIB, MIB), 20 + dice.randrange(3))
        for at in range(0, 3600, 5)
    ]
    assert rss_per_hour(samples) / MIB == pytest.approx(2.0, abs=0.5)
    assert files_per_hour(samples) == pytest.approx(0.0, abs=0.5)


def test_a_slope_of_nothing_is_nothing() -> None:
    assert slope([]) == slope([(1.0, 5.0)]) == slope([(1.0, 5.0), (1.0, 6.0)]) == 0.0
    assert slope([(0.0, 1.0), (2.0, 5.0)]) == 2.0


def test_what_grows_before_the_warm_up_ends_does_not_count() -> None:
    samples = [Sample(float(at), min(at, 100) * MIB, 10) for at in range(0, 400, 5)]
    assert rss_per_hour(samples) > MIB
    assert rss_per_hour(after_warm_up(samples, 100.0)) == 0.0


def test_a_soak_that_grows_or_loses_is_not_good() -> None:
    flat = {"rss_mb_per_hour": 0.2, "files_per_hour": 0.0}
    good = {
        "part": "cycle", "seconds": 3600, "lost": 0, "doubled": 0, "strange": 0, "recovered_s": 1.0,
        "ended_by_itself": {}, "stopped": (0, 0), "processes": {"agent": flat, "ingress": flat},
    }  # fmt: skip
    assert problems(good) == []
    assert json.loads(json.dumps(good))["stopped"] == [0, 0]
    grown = {"agent": flat, "ingress": {**flat, "rss_mb_per_hour": 1.4}}
    assert problems({**good, "processes": grown}) == ["ingress grows by 1.4 MB an hour"]
    assert problems({**good, "lost": 1, "recovered_s": None}) == ["1 lost", "not everything was confirmed in the end"]
    assert problems({**good, "ended_by_itself": {"ingress:75": 1}})
