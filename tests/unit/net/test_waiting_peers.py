"""The lobby's rule: 64 peers, 8 an address, the oldest leaves, one deadline for the whole first line."""

from edgesocket.net.waiting_peers import WaitingPeers


def room(capacity: int = 64, per_address: int = 8, patience_s: float = 10.0) -> "WaitingPeers[str]":
    return WaitingPeers(capacity, per_address, patience_s)


def test_there_is_room_until_an_address_has_its_fill() -> None:
    peers = room(per_address=2)
    for name in ("a1", "a2"):
        peers.add(name, "a", 0.0)
        assert peers.too_many("a") is None

    peers.add("a3", "a", 0.0)

    assert peers.too_many("a") == "a1"
    assert peers.too_many("b") is None


def test_the_oldest_of_the_same_address_goes_even_if_another_address_has_waited_longer() -> None:
    peers = room(per_address=1)
    peers.add("b1", "b", 0.0)
    peers.add("a1", "a", 1.0)
    peers.add("a2", "a", 2.0)

    assert peers.too_many("a") == "a1"


def test_the_oldest_of_all_goes_when_the_lobby_is_full() -> None:
    peers = room(capacity=3)
    for name in "abcd":
        peers.add(name, name, 0.0)

    assert peers.too_many("d") == "a"

    peers.remove("a")

    assert peers.too_many("d") is None


def test_a_thousand_newcomers_of_one_address_leave_the_newest_eight() -> None:
    peers = room()
    for n in range(1000):
        peers.add(str(n), "a", 0.0)
        oldest = peers.too_many("a")
        if oldest is not None:
            peers.remove(oldest)

    assert list(peers) == [str(n) for n in range(992, 1000)]


def test_deadlines_count_from_the_arrival() -> None:
    peers = room(patience_s=10.0)
    peers.add("a", "x", 0.0)
    peers.add("b", "x", 4.0)

    assert peers.next_deadline == 10.0
    assert peers.overdue(9.9) == []
    assert peers.overdue(10.0) == ["a"]
    assert peers.overdue(14.0) == ["a", "b"]

    peers.remove("a")

    assert peers.next_deadline == 14.0


def test_an_empty_lobby_has_no_deadline() -> None:
    peers = room()
    peers.add("a", "x", 0.0)
    peers.remove("a")
    peers.remove("a")

    assert len(peers) == 0
    assert peers.next_deadline is None
    assert peers.overdue(1e9) == []
    assert peers.too_many("x") is None
