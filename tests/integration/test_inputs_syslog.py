"""Syslog over real sockets: connections, back-pressure, limits."""

from __future__ import annotations

import os
import resource
import socket

import pytest

from edgesocket.collector.intake.syslog_records import SyslogRecords
from edgesocket.collector.intake.syslog_tcp import SyslogTcpInput
from edgesocket.collector.intake.syslog_udp import SyslogUdpInput
from edgesocket.errors import CollectorError
from tests.support.input_kit import Driver

PLAIN = SyslogRecords(parse=False, envelope=None)


def tcp(most: int = 10, max_bytes: int = 1000, port: int = 0) -> SyslogTcpInput:
    return SyslogTcpInput("net", "127.0.0.1", port, PLAIN, max_message_bytes=max_bytes, max_connections=most)


def udp(max_bytes: int = 1000, port: int = 0) -> SyslogUdpInput:
    return SyslogUdpInput("net", "127.0.0.1", port, PLAIN, max_message_bytes=max_bytes, receive_buffer_bytes=1 << 16)


def dial(subject: SyslogTcpInput) -> socket.socket:
    return socket.create_connection(("127.0.0.1", subject.port), timeout=10)


class TestTcp:
    def test_messages_of_several_senders_do_not_mix(self) -> None:
        subject = tcp()
        with Driver(subject) as driver, dial(subject) as one, dial(subject) as two:
            driver.until(lambda: subject.connections == 2)
            one.sendall(b"<1>from ")
            two.sendall(b"<2>from ")
            driver.round()
            one.sendall(b"one\n")
            two.sendall(b"two\n")
            driver.until(lambda: len(driver.records) == 2)
            assert sorted(driver.records) == [b"<1>from one", b"<2>from two"]

    def test_the_end_of_a_connection_ends_its_message_and_frees_its_place(self) -> None:
        subject = tcp()
        with Driver(subject) as driver:
            with dial(subject) as sender:
                sender.sendall(b"<1>last words")
            driver.until(lambda: driver.records)
            assert driver.records == [b"<1>last words"]
            assert subject.connections == 0

    def test_a_connection_too_many_is_closed_and_counted(self) -> None:
        subject = tcp(most=2)
        with Driver(subject) as driver, dial(subject), dial(subject):
            driver.until(lambda: subject.connections == 2)
            with dial(subject) as third:
                driver.until(lambda: subject.counts["connections_refused"] == 1)
                assert third.recv(1) == b""

    def test_nothing_is_read_while_the_spool_is_full_and_all_of_it_later(self) -> None:
        subject = tcp()
        with Driver(subject) as driver, dial(subject) as sender:
            driver.until(lambda: subject.connections == 1)
            sender.setblocking(False)
            line, sent = b"<1>" + b"x" * 96 + b"\n", 0
            while True:
                try:
                    sent += sender.send(line * 100)
                except BlockingIOError:
                    driver.round(full=True)
                    try:
                        sent += sender.send(line * 100)
                    except BlockingIOError:
                        break
            assert driver.records == []
            sender.setblocking(True)
            driver.until(lambda: len(driver.records) >= sent // len(line))
            assert set(driver.records) == {line[:-1]}

    def test_a_read_takes_about_its_budget(self) -> None:
        subject = tcp()
        with Driver(subject) as driver, dial(subject) as one, dial(subject) as two:
            driver.until(lambda: subject.connections == 2)
            for sender in (one, two):
                sender.sendall(b"<1>x\n" * 1000)
            driver.until(lambda: driver.round(budget=1))
            assert 0 < len(driver.records) <= 1000, "one connection's turn, not both"
            driver.until(lambda: len(driver.records) == 2000)

    def test_what_had_begun_is_handed_out_when_it_closes(self) -> None:
        subject = tcp()
        driver = Driver(subject)
        with dial(subject) as sender:
            sender.sendall(b"<1>done\n<2>begun")
            driver.until(lambda: driver.records)
            assert driver.close() == [b"<2>begun"]
            assert sender.recv(1) == b""

    def test_a_message_that_is_too_long_is_counted_also_after_its_connection_is_gone(self) -> None:
        subject = tcp(max_bytes=10)
        with Driver(subject) as driver:
            with dial(subject) as sender:
                sender.sendall(b"<1>" + b"x" * 100 + b"\n")
            driver.until(lambda: driver.records and not subject.connections)
            assert subject.counts["messages_cut"] == 1

    def test_without_descriptors_connections_are_closed_and_counted(self) -> None:
        subject = tcp()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with Driver(subject) as driver, dial(subject) as sender:
            first_free = os.dup(0)
            os.close(first_free)
            resource.setrlimit(resource.RLIMIT_NOFILE, (first_free, hard))
            try:
                driver.round()
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert sender.recv(1) == b""
            assert subject.counts["connections_refused"] == 1
            with dial(subject):
                driver.until(lambda: subject.connections == 1)

    def test_a_port_that_is_taken_is_said(self) -> None:
        subject = tcp()
        with Driver(subject), pytest.raises(CollectorError, match=rf"input net: .*TCP 127.0.0.1:{subject.port}"):
            tcp(port=subject.port).open({}, 0.0)


class TestUdp:
    def test_a_datagram_is_a_message(self) -> None:
        subject = udp(max_bytes=8)
        with Driver(subject) as driver, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for message in (b"<1>one\n", b"<2>a\nb", b"", b"<3>too long"):
                sender.sendto(message, ("127.0.0.1", subject.port))
            driver.until(lambda: len(driver.records) == 3)
            assert driver.records == [b"<1>one", b"<2>a#012"[:8], b"<3>too l"]
            assert subject.counts["messages_cut"] == 2

    def test_what_the_system_drops_meanwhile_is_counted(self) -> None:
        subject = udp()
        with Driver(subject) as driver, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(2000):
                sender.sendto(b"<1>" + b"x" * 500, ("127.0.0.1", subject.port))
            driver.until(lambda: not driver.round())
            sender.sendto(b"<2>later", ("127.0.0.1", subject.port))
            driver.until(lambda: b"<2>later" in driver.records)
            assert len(driver.records) - 1 + subject.counts["datagrams_dropped"] == 2000
            assert subject.counts["datagrams_dropped"] > 0

    def test_a_port_that_is_taken_is_said(self) -> None:
        subject = udp()
        with Driver(subject), pytest.raises(CollectorError, match="UDP"):
            udp(port=subject.port).open({}, 0.0)
