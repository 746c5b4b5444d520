"""A TLS channel whatever bytes come, and however they are cut."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgesocket.net.channel import TlsRefusedError
from edgesocket.net.control import Control
from edgesocket.net.options import TlsOptions
from edgesocket.net.tls import make_context
from edgesocket.net.tls_channel import TlsChannel
from tests.support.tls import Authority, client_context

Contexts = tuple[ssl.SSLContext, ssl.SSLContext]


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> Contexts:
    """Of the server and of its clients."""
    authority = Authority(tmp_path_factory.mktemp("tls"))
    certificate, key = authority.issue("server", "localhost")
    return make_context(TlsOptions(str(certificate), str(key))), client_context(authority.file)


@contextlib.contextmanager
def channel(context: ssl.SSLContext) -> Iterator[tuple[TlsChannel, socket.socket]]:
    """A channel and the other end of its connection."""
    ours, theirs = socket.socketpair()
    control = Control(lambda: True)
    try:
        yield TlsChannel(ours, control, context), theirs
    finally:
        ours.close()
        theirs.close()
        control.wake.close()


def hear(one: TlsChannel, room: memoryview) -> bytes | None:
    """What there is now; None: nothing."""
    try:
        return bytes(room[: one.receive_now(room)])
    except BlockingIOError:
        return None


@given(
    pieces=st.lists(st.binary(max_size=300), max_size=6),
    head=st.sampled_from(
        [b"", bytes((22, 3, 1)), bytes((22, 3, 1, 0, 50, 1, 0, 0, 46, 3, 3)), bytes((21, 3, 3, 0, 2, 2, 0))]
    ),
)
@settings(max_examples=150, deadline=None)
def test_whatever_comes_it_is_refused_or_waited_for(contexts: Contexts, head: bytes, pieces: list[bytes]) -> None:
    room = memoryview(bytearray(4096))
    with channel(contexts[0]) as (one, peer):
        for piece in (head, *pieces):
            peer.sendall(piece)
            try:
                assert not hear(one, room)
            except (TlsRefusedError, OSError):
                break
        peer.shutdown(socket.SHUT_WR)
        with contextlib.suppress(TlsRefusedError, OSError):
            assert not hear(one, room)
        assert not one.established


@given(
    cuts=st.lists(st.integers(1, 400), min_size=1, max_size=5),
    texts=st.lists(st.binary(min_size=1, max_size=40_000), min_size=1, max_size=4),
    room_bytes=st.sampled_from([1, 100, 4096, 70_000]),
    newest=st.booleans(),
    notified=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_a_conversation_does_not_depend_on_how_it_is_cut(
    contexts: Contexts, cuts: list[int], texts: list[bytes], room_bytes: int, newest: bool, notified: bool
) -> None:
    """Text comes out whole and in order, answers go in between, and the end is the end."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    room, got, position = memoryview(bytearray(room_bytes)), b"", 0
    client = contexts[1]
    client.maximum_version = ssl.TLSVersion.TLSv1_3 if newest else ssl.TLSVersion.TLSv1_2
    tls = client.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with channel(contexts[0]) as (one, peer):
        peer.setblocking(False)

        def pump() -> bytes:
            """Carry over what the client has, in pieces, and hear the channel out after each."""
            nonlocal position
            heard = b""
            data = outgoing.read()
            while data:
                size = cuts[position % len(cuts)] if len(data) < 2000 else 16_384
                position += 1
                peer.sendall(data[:size])
                data = data[size:]
                while (piece := hear(one, room)) is not None and piece:
                    heard += piece
            with contextlib.suppress(BlockingIOError):
                incoming.write(peer.recv(1 << 20))
            return heard

        for _ in range(10):
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                got += pump()
        for text in texts:
            tls.write(text)
            got += pump()
            assert one.send(b"RECEIVED\n") == 9
            incoming.write(peer.recv(1 << 20))
            assert tls.read(100) == b"RECEIVED\n"
        if notified:
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.unwrap()
            got += pump()
        peer.shutdown(socket.SHUT_WR)
        assert got == b"".join(texts)
        assert hear(one, room) == b""
        assert one.is_spent()
        assert one.send(b"ACK:1\n") == 6, "the writing side goes on"
