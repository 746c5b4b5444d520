"""The fields of syslog messages."""

from __future__ import annotations

import json

import pytest

from edgesocket.collector.intake.enveloping import Envelope
from edgesocket.collector.intake.syslog_message import parse_syslog, syslog_json
from edgesocket.collector.intake.syslog_records import SyslogRecords


def test_rfc_5424_with_structured_data() -> None:
    message = (
        b'<165>1 2003-10-11T22:14:15.003Z mymachine.example.com evntslog 4711 ID47 [exampleSDID@32473 iut="3" '
        b'eventSource="Appli\\"cation"][two x="]"] \xef\xbb\xbfAn application event'.replace(b'x="]"', b'x="\\]"')
    )
    assert parse_syslog(message) == {
        "priority": 165,
        "facility": "local4",
        "severity": "notice",
        "version": 1,
        "timestamp": "2003-10-11T22:14:15.003Z",
        "hostname": "mymachine.example.com",
        "app_name": "evntslog",
        "procid": "4711",
        "msgid": "ID47",
        "structured_data": {
            "exampleSDID@32473": {"iut": "3", "eventSource": 'Appli"cation'},
            "two": {"x": "]"},
        },
        "message": "An application event",
    }


def test_rfc_5424_leaves_out_what_is_nil() -> None:
    assert parse_syslog(b"<34>1 - - su - - - 'su root' failed") == {
        "priority": 34,
        "facility": "auth",
        "severity": "crit",
        "version": 1,
        "app_name": "su",
        "message": "'su root' failed",
    }
    assert parse_syslog(b"<34>1 - - - - - -")["message"] == ""


def test_rfc_3164() -> None:
    fields = parse_syslog(b"<13>Oct  1 22:14:15 host app[77]: it works: yes")
    assert fields == {
        "priority": 13,
        "facility": "user",
        "severity": "notice",
        "timestamp": "Oct  1 22:14:15",
        "hostname": "host",
        "app_name": "app",
        "procid": "77",
        "message": "it works: yes",
    }


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b"no priority at all", {"message": "no priority at all"}),
        (b"<999>x", {"message": "<999>x"}),
        (b"<13>just text", {"priority": 13, "facility": "user", "severity": "notice", "message": "just text"}),
        (b"<13>1 too few", {"priority": 13, "facility": "user", "severity": "notice", "message": "1 too few"}),
        (b"", {"message": ""}),
        (b"\xff", {"message": "\ufffd"}),
    ],
)
def test_what_follows_no_form_is_the_message(message: bytes, expected: dict[str, object]) -> None:
    assert parse_syslog(message) == expected


def test_broken_structured_data_is_text() -> None:
    assert parse_syslog(b"<34>1 - - - - - [broken text")["message"] == "1 - - - - - [broken text"


def test_as_json_in_utf_8_on_one_line() -> None:
    line = syslog_json("<13>Oct  1 22:14:15 höst app: a\tb".encode())
    assert b"\n" not in line
    assert json.loads(line)["hostname"] == "höst"


def test_records_plain_parsed_and_in_envelopes() -> None:
    envelope = Envelope("net", "pump-7", lambda: 1_800_000_000.5)
    message = b'<13>say "hi"'
    assert SyslogRecords(parse=False, envelope=None).make([message], "10.0.0.1") == [message]
    wrapped = json.loads(SyslogRecords(parse=False, envelope=envelope).make([message], "10.0.0.1")[0])
    assert wrapped == {
        "message": '<13>say "hi"',
        "input": "net",
        "host": "pump-7",
        "time": "2027-01-15T08:00:00.500Z",
        "peer": "10.0.0.1",
    }
    both = json.loads(SyslogRecords(parse=True, envelope=envelope).make([message], "10.0.0.1")[0])
    assert both["message"] == 'say "hi"'
    assert (both["peer"], both["severity"]) == ("10.0.0.1", "notice")


def test_an_envelope_of_a_file_says_where_each_record_begins() -> None:
    envelope = Envelope("app", "pump-7", lambda: 0.0)
    first, second = (json.loads(line) for line in envelope.wrap_file([b"a", b"\xffb"], "/var/log/a b.log", [0, 2]))
    assert (first["message"], first["file"], first["offset"]) == ("a", "/var/log/a b.log", 0)
    assert (second["message"], second["offset"]) == ("\ufffdb", 2)
