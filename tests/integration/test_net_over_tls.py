"""Everything that holds of a plain connection holds of one with TLS: the same tests, with TLS around each collector."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import test_net_conversation
import test_net_election
import test_net_not_recorded
import test_net_stop
from net_harness import Collector, OverTls

from edgesocket.net.options import TlsOptions
from tests.support.tls import Authority, client_context

NOT_HERE = {
    # They hold the receiver thread while others connect, which then cannot shake hands; test_tls.py has its own.
    "test_an_error_of_the_source_ends_conversation_and_server_and_is_reported",
    "test_everyone_in_the_lobby_and_in_the_backlog_is_answered_rejected",
    "test_a_rejected_peer_in_the_middle_of_a_long_write_still_reads_its_reply",
    "test_the_collector_in_a_burst_of_silent_connections_is_heard_before_anyone_is_dropped",
    "test_a_waiting_peer_whose_line_has_come_is_elected_when_its_turn_to_be_dropped_comes",
    "test_a_peer_that_is_gone_before_its_election_is_never_elected",
    "test_a_collector_that_wrote_everything_and_closed_its_writing_side_gets_its_answers",
    # It looks at the count of sent bytes at one instant, and TLS counts larger pieces.
    "test_an_abort_ends_a_conversation_in_which_replies_are_stuck",
    # The same whatever is around the bytes, and slow.
    "test_a_half_open_collector_is_noticed",
    "test_a_quiet_collector_is_never_cut",
    "test_a_pause_inside_a_line_of_many_times_accept_timeout_loses_nothing",
    "test_a_signal_ends_the_tries_to_bind_at_once",
    "test_a_closed_receive_window_is_not_taken_for_a_dead_peer",
    "test_a_handler_that_does_not_come_back_is_left_behind",
    "test_a_thousand_wrong_tokens_leave_nothing_behind",
    "test_five_million_lines_before_the_first_read_get_five_million_replies",
}
for _module in (test_net_conversation, test_net_election, test_net_not_recorded, test_net_stop):
    _tests = {name: found for name, found in vars(_module).items() if name.startswith("test_")}
    globals().update({name: found for name, found in _tests.items() if name not in NOT_HERE})


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(autouse=True)
def over_tls(authority: Authority, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    certificate, key = authority.issue("server", "localhost")
    server = TlsOptions(str(certificate), str(key))
    monkeypatch.setattr(Collector, "over_tls", OverTls(server, client_context(authority.file)))
    yield
