"""The options of the Http sink: what is read, refused and noted, without showing a secret."""

from __future__ import annotations

from typing import Any

import pytest

from edgesocket.config.document import Surroundings, no_files, read_document
from edgesocket.config.nodes import ObjectNode, Report
from edgesocket.config.options import ParsedOptions, parse_options
from edgesocket.config.plugins.http import HTTP, HttpOptions, check_http

URL = 'url = "http://127.0.0.1:8080/rows"\n'


def read(text: str) -> tuple[ParsedOptions, Report]:
    report = Report()
    document = read_document(f"x {{ {text} }}", "job.conf", Surroundings(no_files, {}, {}), report)
    block = document.root.fields["x"].node
    assert isinstance(block, ObjectNode)
    parsed = parse_options(HTTP, block, "sink.Http", report)
    check_http(parsed, "sink.Http", report)
    return parsed, report


def options(text: str) -> HttpOptions:
    parsed, report = read(text)
    assert not report.problems
    own = {key: value for key, value in parsed.values.items() if key in HttpOptions.__dataclass_fields__}
    return HttpOptions(**own)


def problems(text: str) -> list[str]:
    return [str(problem) for problem in read(text)[1].sorted_problems("job.conf")]


def test_the_defaults() -> None:
    assert options(URL) == HttpOptions(
        url="http://127.0.0.1:8080/rows",
        headers={},
        retry=3,
        retry_backoff_multiplier_ms=100,
        retry_backoff_max_ms=10_000,
        connect_timeout_ms=12_000,
        socket_timeout_ms=60_000,
        array_mode=False,
        batch_size=1,
        request_interval_ms=0,
    )


def test_everything_can_be_set() -> None:
    text = """url = "https://[::1]/rows?key=1"
      headers { Authorization = "Bearer x", X-Source = edge }
      retry = 0, retry_backoff_multiplier_ms = 1, retry_backoff_max_ms = 2, connect_timeout_ms = 3
      socket_timeout_ms = "4 s", array_mode = true, batch_size = 500, request_interval_ms = 6"""
    made = options(text)
    assert made.headers == {"Authorization": "Bearer x", "X-Source": "edge"}
    assert (made.socket_timeout_ms, made.array_mode, made.batch_size) == (4000, True, 500)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://h/x", "not the URL of an HTTP server"),
        ("h.example/x", "not the URL of an HTTP server"),
        ("http:///x", "not the URL of an HTTP server"),
        ("http://h:0/", "not the URL of an HTTP server"),
        ("http://h:99999/", "not a URL"),
        ("http://[::1/", "not a URL"),
        ("http://h/a b", "a blank"),
        ("http://h/a\\nb", "a blank or a control character"),
        ("http://me:hush@h/x", "are not sent"),
        ("http://zürich.example/", "not ASCII"),
        ("", "not the URL"),
    ],
)
def test_a_url_that_cannot_be_posted_to_is_refused(url: str, said: str) -> None:
    (problem,) = problems(f'url = "{url}"')
    assert said in problem
    assert "hush" not in problem


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ('"bad name" = hush', "cannot be the name"),
        ('Content-Length = "7"', "sets Content-Length itself"),
        ('X-Key = "hush\\nInjected: 1"', "line end"),
        ('X-Key = "hush\u2028"', "cannot carry"),
        ("X-Key = [hush]", "not text"),
    ],
)
def test_a_header_that_cannot_be_sent_is_refused_without_its_value(header: str, said: str) -> None:
    (problem,) = problems(f"{URL} headers {{ {header} }}")
    assert said in problem
    assert "hush" not in problem


def test_neither_headers_nor_url_are_in_a_repr() -> None:
    made = options('url = "http://h/?key=hush"\nheaders { X-Key = hush }')
    assert "hush" not in repr(made)


@pytest.mark.parametrize("params", ["params { a = hush }", 'params.a = "hush"', "params = {}"])
def test_params_are_ignored_with_a_note(params: str) -> None:
    _, report = read(URL + params)
    assert not report.problems
    assert all("never sends them" in note and "hush" not in note for note in report.notes)


def test_batch_size_without_arrays_is_noted() -> None:
    _, report = read(URL + "batch_size = 10")
    assert not report.problems
    assert "no effect without array_mode" in report.notes[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("retry = -1", "at least 0"),
        ("batch_size = 100001", "at most 100000"),
        ("request_interval_ms = 60001", "at most 60000"),
        ("socket_timeout_ms = 0", "at least 1"),
        ("retri = 1", "did you mean retry"),
        ("", ""),
    ],
)
def test_values_out_of_range_are_refused(text: str, said: str) -> None:
    found: Any = problems(URL + text)
    assert (len(found) == 1 and said in found[0]) if said else found == []


def test_url_is_required() -> None:
    assert "is required" in problems("")[0]
