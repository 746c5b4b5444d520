"""The options about who gets in: tokens, keys, TLS, networks."""

from __future__ import annotations

import ipaddress

import pytest
from config_helpers import edge_socket, job, problems

from edgesocket.config.edge_socket import MAX_TOKENS, EdgeSocketOptions, TlsSpec

KEY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
FILES = "cert_file = a.crt, key_file = a.key"


def good(lines: str) -> EdgeSocketOptions:
    return job(edge_socket(f"port = 1\n{lines}")).sources[0].options


def problem(lines: str) -> str:
    found = problems(edge_socket(f"port = 1\n{lines}"))
    assert len(found) == 1, found
    return found[0].split(" source.EdgeSocket.")[1]


class TestTokens:
    def test_one_or_several(self) -> None:
        assert good("token = a").token == ("a",)
        assert good('token = "a, b"').token == ("a, b",), "a comma is part of a token"
        assert good("token = [a, b, a]").token == ("a", "b")
        assert good('token = ["with, comma", 5]').token == ("with, comma", "5")

    def test_a_file_does_instead_or_besides(self) -> None:
        options = good("token_file = /etc/tokens")
        assert (options.token, options.token_file) == ((), "/etc/tokens")
        assert good("token_file = f, token = a").token == ("a",)

    def test_one_of_the_two_is_needed(self) -> None:
        assert problem("").startswith("token: is required, and missing")

    @pytest.mark.parametrize(
        ("value", "said"),
        [
            ("[]", "token: the list is empty"),
            ('[a, ""]', "token: the token is blank"),
            ("[a, [hunter2]]", "token: needs a text or a list of texts, not a list"),
            ("[a, null]", "token: needs a text or a list of texts, not null"),
            ("{ hunter2 = 1 }", "token: needs a text or a list of texts, not a block"),
            (f"[{', '.join(f't{n}' for n in range(MAX_TOKENS + 1))}]", "token: there are 65 tokens"),
        ],
    )
    def test_what_is_none(self, value: str, said: str) -> None:
        found = problem(f"token = {value}")
        assert found.startswith(said)
        assert "hunter2" not in found


class TestKeys:
    def test_several_with_ids(self) -> None:
        options = good(f'token = t, packet_mode = PACKET, secret_key = ["2026-11:{KEY}", "{KEY}"]')
        assert [(key.id, key.key) for key in options.secret_key] == [
            ("2026-11", bytes(range(32))),
            ("", bytes(range(32))),
        ]

    def test_a_file_is_a_key_for_require_encryption(self) -> None:
        assert good("token = t, packet_mode = PACKET, require_encryption = true, secret_key_file = k").secret_key == ()

    def test_two_with_one_id_are_refused_without_being_shown(self) -> None:
        found = problem(f'token = t, packet_mode = PACKET, secret_key = ["a:{KEY}", "a:{KEY}"]')
        assert found.startswith("secret_key: two keys have the same id")
        assert KEY[:6] not in found


class TestTls:
    def test_its_defaults(self) -> None:
        assert good("token = t").tls is None
        assert good(f"token = t, tls {{ {FILES} }}").tls == TlsSpec(
            cert_file="a.crt", key_file="a.key", client_ca_file=None, client_names=(), min_version="1.2"
        )

    def test_dotted_names_and_all_of_it(self) -> None:
        tls = good(
            f"token = t, tls {{ {FILES} }}, tls.client_ca_file = ca\n"
            'tls.client_names = [a, "*.b"], tls.min_version = 1.3'
        ).tls
        assert tls is not None
        assert (tls.client_ca_file, tls.client_names, tls.min_version) == ("ca", ("a", "*.b"), "1.3")

    @pytest.mark.parametrize(
        ("block", "said"),
        [
            ("{ cert_file = a }", "tls.key_file: is required, and missing"),
            ("{}", "tls.cert_file: is required, and missing"),
            (f"{{ {FILES}, min_version = 1.1 }}", "tls.min_version: 1.1 is none of 1.2, 1.3"),
            (f"{{ {FILES}, client_names = [a] }}", "tls: client_names without client_ca_file"),
            (f'{{ {FILES}, client_ca_file = c, client_names = ["a*b"] }}', "only a leading *. stands for anything"),
            (f"{{ {FILES}, verify = false }}", "tls.verify: there is no such option"),
            ("true", "tls: needs a block"),
        ],
    )
    def test_what_is_off(self, block: str, said: str) -> None:
        found = problems(edge_socket(f"port = 1, token = t\ntls = {block}"))
        assert any(said in one for one in found), found


class TestAllow:
    def test_networks_and_addresses(self) -> None:
        assert good('token = t, allow = ["10.0.0.0/8", "192.168.1.7", "2001:db8::/32"]').allow == (
            ipaddress.ip_network("10.0.0.0/8"),
            ipaddress.ip_network("192.168.1.7/32"),
            ipaddress.ip_network("2001:db8::/32"),
        )

    @pytest.mark.parametrize(
        ("value", "said"),
        [
            ('["10.0.0.1/8"]', "10.0.0.1/8 is an address inside a network, not a network"),
            ('["edge.example.com"]', "edge.example.com is no network"),
            ("[]", "the list is empty, so nobody could connect"),
            ('["10.0.0.0/33"]', "10.0.0.0/33 is no network"),
        ],
    )
    def test_what_is_none(self, value: str, said: str) -> None:
        assert problem(f"token = t\nallow = {value}").startswith(f"allow: {said}")
