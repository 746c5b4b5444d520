"""Where the HTTP server listens, from flags, environment and seatunnel.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgesocket.errors import UsageError
from edgesocket.web.options import DEFAULT_PORTS, WebOptions, web_options

TOKEN = "a-token-of-some-length"


def options_of(address: str | None = None, environ: dict[str, str] | None = None, **more: Any) -> WebOptions | None:
    return web_options(address, environ=environ or {}, **more)


def test_without_a_word_it_is_the_loopback_address_and_nobody_asked_for_it() -> None:
    assert options_of() == WebOptions("127.0.0.1", DEFAULT_PORTS, asked_for=False)


@pytest.mark.parametrize(
    ("address", "host", "ports"),
    [
        ("127.0.0.1:8090", "127.0.0.1", (8090,)),
        ("localhost:0", "127.0.0.1", (0,)),
        ("8090", "127.0.0.1", (8090,)),
        ("127.0.0.1:8081-8083", "127.0.0.1", (8081, 8082, 8083)),
        ("[::1]:8090", "::1", (8090,)),
    ],
)
def test_an_address_is_read(address: str, host: str, ports: tuple[int, ...]) -> None:
    assert options_of(address) == WebOptions(host, ports, asked_for=True)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "nonsense",
        "127.0.0.1",
        "127.0.0.1:",
        ":8080",
        "host.name:8080",
        "127.0.0.1:65536",
        "127.0.0.1:-1",
        "1.2.3:80",
        "127.0.0.1:9-8",
        "127.0.0.1:1-65535",
        "127.0.0.1:٨٠",
        "127.0.0.1:8 0",
        "::1:80x",
    ],
)
def test_an_address_that_is_none_is_refused_with_the_right_form(address: str) -> None:
    if not address:
        assert options_of(address) == WebOptions(), "an empty flag is no flag"
        return
    with pytest.raises(UsageError, match="ADDRESS:PORT"):
        options_of(address)


def test_off_is_no_server_and_the_flag_wins_over_the_environment() -> None:
    assert options_of("off") is None
    assert options_of(environ={"EDGESOCKET_HTTP": "Off"}) is None
    found = options_of("127.0.0.1:8090", environ={"EDGESOCKET_HTTP": "off"})
    assert found is not None
    assert found.ports == (8090,)


def test_an_address_that_other_hosts_reach_needs_a_token() -> None:
    with pytest.raises(UsageError, match="--http-token-file FILE"):
        options_of("0.0.0.0:8080")
    with pytest.raises(UsageError, match="EDGESOCKET_HTTP "):
        options_of(environ={"EDGESOCKET_HTTP": "[::]:8080"})
    found = options_of("0.0.0.0:8080", environ={"EDGESOCKET_HTTP_TOKEN": TOKEN})
    assert found is not None
    assert (found.token, found.loopback) == (TOKEN, False)
    assert TOKEN not in repr(found)


@pytest.mark.parametrize(
    "token", ["short", "with a blank in it", "tab\tbed-token-of-length", "tökën-tökën-tökën-tökën"]
)
def test_a_token_that_can_be_guessed_or_not_be_sent_is_refused(token: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(token)
    with pytest.raises(UsageError, match="openssl rand") as refused:
        options_of("127.0.0.1:1", token_file=file)
    assert token not in str(refused.value)


def test_a_token_file_is_read_without_its_line_end(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    found = options_of(token_file=file)
    assert found is not None
    assert (found.token, found.token_file, found.asked_for) == (TOKEN, file, True)
    file.write_text("\n")
    with pytest.raises(UsageError, match="holds no token"):
        options_of(token_file=file)
    with pytest.raises(UsageError, match="No such file"):
        options_of(token_file=tmp_path / "none")


def test_a_key_without_a_certificate_is_refused() -> None:
    with pytest.raises(UsageError, match="--http-cert"):
        options_of(key=Path("key.pem"))


@pytest.mark.parametrize(
    ("settings", "ports"),
    [
        ({"enable-http": "true"}, DEFAULT_PORTS),
        ({"enable-http": "true", "port": "8090", "enable-dynamic-port": "false"}, (8090,)),
        ({"port": "8090", "port-range": "2"}, (8090, 8091, 8092)),
        ({"port": "65535"}, (65535,)),
    ],
)
def test_seatunnel_yaml_says_the_port(settings: dict[str, str], ports: tuple[int, ...]) -> None:
    assert options_of(seatunnel=settings) == WebOptions("127.0.0.1", ports, asked_for=True)


def test_seatunnel_yaml_can_switch_it_off_and_a_flag_switches_it_on() -> None:
    assert options_of(seatunnel={"enable-http": "false", "port": "8090"}) is None
    assert options_of("127.0.0.1:8091", seatunnel={"enable-http": "false"}) is not None


@pytest.mark.parametrize("port", ["0", "-1", "65536", "http", "8080.5"])
def test_a_port_of_seatunnel_yaml_that_is_none_is_refused(port: str) -> None:
    with pytest.raises(UsageError, match=r"seatunnel\.engine\.http\.port"):
        options_of(seatunnel={"port": port})


@pytest.mark.parametrize(
    ("options", "url"),
    [
        (WebOptions(), "http://127.0.0.1:80"),
        (WebOptions("0.0.0.0"), "http://127.0.0.1:80"),
        (WebOptions("::"), "http://[::1]:80"),
        (WebOptions("10.0.0.7", certificate=Path("c")), "https://10.0.0.7:80"),
    ],
)
def test_the_url_is_one_that_this_host_reaches(options: WebOptions, url: str) -> None:
    assert options.url(80) == url
