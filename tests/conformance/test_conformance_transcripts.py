"""Every transcript, on three levels: the pure conversation, the real listener, and the client.

The transcripts stand in `transcripts/*.txt`; how they are written is told in `conformance_transcript.py`.
"""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from conformance_client import ClientPlayer
from conformance_core import CorePlayer
from conformance_listener import ListenerPlayer, ListeningRig
from conformance_transcript import Transcript, load

from edgesocket.config.edge_socket import TlsSpec
from tests.support.tls import Authority, client_context

TRANSCRIPTS = load()


def on(level: str) -> pytest.MarkDecorator:
    """Every transcript; those that the level cannot play are skipped with their reason."""
    return pytest.mark.parametrize(
        "transcript",
        [
            pytest.param(t, marks=pytest.mark.skip(reason=t.not_on[level]) if level in t.not_on else ())
            for t in TRANSCRIPTS
        ],
        ids=str,
    )


@on("core")
def test_on_the_pure_conversation(transcript: Transcript) -> None:
    CorePlayer(transcript).play(transcript.events)


@on("core")
def test_on_the_pure_conversation_byte_by_byte(transcript: Transcript) -> None:
    CorePlayer(transcript, piece_bytes=1).play(transcript.events)


@on("listener")
def test_on_the_real_listener(transcript: Transcript, tmp_path: Path) -> None:
    with ListeningRig(tmp_path / "job-1", **transcript.options) as rig:
        ListenerPlayer(rig).play(transcript.events)


@pytest.fixture(scope="module")
def over_tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[TlsSpec, ssl.SSLContext]:
    """What the source and its collectors need."""
    authority = Authority(tmp_path_factory.mktemp("tls"))
    certificate, key = authority.issue("server", "localhost")
    spec = TlsSpec(
        cert_file=str(certificate), key_file=str(key), client_ca_file=None, client_names=(), min_version="1.2"
    )
    return spec, client_context(authority.file)


@on("listener")
def test_on_the_real_listener_over_tls(
    transcript: Transcript, tmp_path: Path, over_tls: tuple[TlsSpec, ssl.SSLContext]
) -> None:
    if "the token of 1 is being compared" in str(transcript.events):
        pytest.skip("while the receiver is held there, nobody can shake hands; test_tls.py has its own tests of that")
    spec, context = over_tls
    with ListeningRig(tmp_path / "job-1", **transcript.options, tls=spec) as rig:
        ListenerPlayer(rig, context).play(transcript.events)


@on("client")
def test_on_the_client(transcript: Transcript) -> None:
    ClientPlayer(transcript).play()
