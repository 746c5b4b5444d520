"""What a syslog message says: the fields of RFC 5424 and of the older RFC 3164, as one JSON object.

Senders take liberties, so nothing is refused: what follows neither form becomes `message` as it is, with the priority
where there is one. Pure.

::

    <34>1 2026-11-30T08:00:00.003Z host app 4711 ID47 [origin ip="10.0.0.1"] text      RFC 5424
    <34>Nov 30 08:00:00 host app[4711]: text                                           RFC 3164
"""

from __future__ import annotations

import json
import re
from typing import Any

FACILITIES = (
    "kern",
    "user",
    "mail",
    "daemon",
    "auth",
    "syslog",
    "lpr",
    "news",
    "uucp",
    "cron",
    "authpriv",
    "ftp",
    "ntp",
    "audit",
    "alert",
    "clock",
    *(f"local{number}" for number in range(8)),
)
SEVERITIES = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")

_PRIORITY = re.compile(rb"<(0|[1-9][0-9]{0,2})>")
_MOST_PRIORITY = 191
_HEADER_5424 = re.compile(rb"([1-9][0-9]{0,2}) (\S{1,64}) (\S{1,255}) (\S{1,48}) (\S{1,128}) (\S{1,32}) ?")
_HEADER_3164 = re.compile(
    rb"([A-Z][a-z]{2} [ 0-3]?[0-9](?: [0-9]{4})? [0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?"
    rb"|[0-9]{4}-[0-9]{2}-[0-9]{2}T\S{5,40}) (\S{1,255}) "
)
_TAG = re.compile(rb"([^\s:\[\]]{1,64})(?:\[([^\]\s]{1,64})\])?: ?")
_ELEMENT = re.compile(rb'\[([^\s="\]]{1,64})((?: [^\s="\]]{1,64}="(?:[^"\\\]]|\\.)*")*)\]')
_PARAMETER = re.compile(rb' ([^\s="\]]+)="((?:[^"\\\]]|\\.)*)"')
_ESCAPED = re.compile(rb'\\(["\\\]])')
_BOM = b"\xef\xbb\xbf"


def parse_syslog(message: bytes) -> dict[str, Any]:
    """The fields of a message; those that it does not have are absent.

    Args:
        message: one message, without its line end.

    Returns:
        `facility` and `severity` as words, `priority`, `timestamp` as written, `hostname`, `app_name`, `procid`,
        `msgid`, `structured_data` (a dict of dicts), and `message`. Bytes that are not UTF-8 become U+FFFD.
    """
    fields: dict[str, Any] = {}
    rest = message
    priority = _PRIORITY.match(message)
    if priority is not None and int(priority[1]) <= _MOST_PRIORITY:
        value = int(priority[1])
        fields |= {"priority": value, "facility": FACILITIES[value >> 3], "severity": SEVERITIES[value & 7]}
        rest = message[priority.end() :]
        header = _HEADER_5424.match(rest)
        if header is not None and _parse_5424(header, rest, fields):
            return fields
    _parse_3164(rest, fields)
    return fields


def syslog_json(message: bytes, **more: Any) -> bytes:
    """A message as a line of JSON. `more`: further fields, before its own."""
    return json.dumps({**more, **parse_syslog(message)}, ensure_ascii=False, separators=(",", ":")).encode()


def _parse_5424(header: re.Match[bytes], rest: bytes, fields: dict[str, Any]) -> bool:
    """Whether it is a message of RFC 5424; only then anything is added."""
    found: dict[str, Any] = {"version": int(header[1])}
    for name, value in zip(("timestamp", "hostname", "app_name", "procid", "msgid"), header.groups()[1:], strict=True):
        if value != b"-":
            found[name] = _text(value)
    at = header.end()
    if rest.startswith(b"[", at):
        elements: dict[str, dict[str, str]] = {}
        while (element := _ELEMENT.match(rest, at)) is not None:
            values = elements.setdefault(_text(element[1]), {})
            for name, value in _PARAMETER.findall(element[2]):
                values[_text(name)] = _text(_ESCAPED.sub(rb"\1", value))
            at = element.end()
        if not elements:
            return False
        found["structured_data"] = elements
    elif rest.startswith(b"-", at):
        at += 1
    elif at < len(rest):
        return False
    fields |= found
    fields["message"] = _text(rest[at:].removeprefix(b" ").removeprefix(_BOM))
    return True


def _parse_3164(rest: bytes, fields: dict[str, Any]) -> None:
    header = _HEADER_3164.match(rest)
    if header is not None:
        fields |= {"timestamp": _text(header[1]), "hostname": _text(header[2])}
        rest = rest[header.end() :]
        tag = _TAG.match(rest)
        if tag is not None:
            fields["app_name"] = _text(tag[1])
            if tag[2] is not None:
                fields["procid"] = _text(tag[2])
            rest = rest[tag.end() :]
    fields["message"] = _text(rest)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
