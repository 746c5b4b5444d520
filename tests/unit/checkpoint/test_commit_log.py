"""The procedures of the commit log, one situation each; the orders of steps are in tests/property."""

import pytest

from edgesocket.checkpoint.commit_log import Log, append, claim, prune, read_log, refresh
from edgesocket.checkpoint.effects import Create, List, Read, Wait
from edgesocket.checkpoint.entries import (
    AFTER_DAMAGED,
    FIRST,
    Accept,
    Claim,
    Commit,
    Damage,
    Ended,
    Settle,
    Started,
    encode_entry,
    entry_name,
)
from edgesocket.checkpoint.log_view import COMMITS_IN_MEMORY
from edgesocket.errors import DamagedStateError, FencedError, StoreError
from edgesocket.testing.memory_store import Fault, MemoryStore


def a_claim(token="t", host="edge-1", pid=1):
    return Claim(0, 0, token, host, "boot", pid, "orders", "EdgeSocket", ("Console",), "hash", "host:10091")


def a_settle(reason="broken pump", id_=1):
    return Settle(0, 0, ((id_, id_),), reason, "root")


def new_owner(store, token="t", commits=0):
    """The log of an incarnation that has claimed, started, and committed `commits` times."""
    log = store.run(read_log())
    store.run(claim(log, a_claim(token)))
    store.run(append(log, Started(log.epoch, 0, None, 0, "edge-1", "boot")))
    last = log.last(Commit)
    first = last[1].n + 1 if last else 1
    for n in range(first, first + commits):
        commit(store, log, n)
    return log


def commit(store, log, n, time_ms=0):
    return store.run(append(log, Commit(log.epoch, time_ms, n, {"n": n})))


def prune_all(store, log, commits=1, **arguments):
    given = {"operator_through": log.head, "now_ms": 1, "keep_at_least": 0, "keep_age_ms": 0} | arguments
    return store.run(prune(log, log.keep_from(commits), **given))


def go_on(store, procedure, result):
    """Drive a procedure that has begun: `result` is what its last effect gave."""
    try:
        while True:
            result = store.perform(procedure.send(result))
    except StopIteration as end:
        return end.value


def damage(store, index, data=b"????"):
    store.files[entry_name(index)] = data


def effects_since(store, position):
    return [type(effect) for effect in store.effects[position:]]


class Blind(MemoryStore):
    """Every name is taken, and nothing can be seen."""

    def perform(self, effect):
        return False if isinstance(effect, Create) else None if isinstance(effect, Read) else []


class TestReading:
    def test_an_empty_log_has_no_head_and_no_entries(self):
        log = MemoryStore().run(read_log())
        assert (log.head, log.epoch, log.highest_epoch, log.entries, log.damaged) == (0, 0, 0, [], [])
        assert log.last(Commit) is None
        assert log.keep_from(3) == 0

    def test_entries_come_in_order_with_their_index(self):
        store = MemoryStore()
        new_owner(store, commits=2)
        log = store.run(read_log())
        assert [placed.index for placed in log.entries] == [1, 2, 3, 4]
        assert [type(placed.entry) for placed in log.entries] == [Claim, Started, Commit, Commit]
        assert log.last(Commit) == (4, Commit(1, 0, 2, {"n": 2}))
        assert log.all(Commit)[0] == (3, Commit(1, 0, 1, {"n": 1}))
        assert (log.head, log.epoch, log.highest_epoch) == (4, 0, 1)

    def test_files_that_are_no_entries_are_passed_over(self):
        store = MemoryStore()
        new_owner(store)
        store.files |= {"log/README": b"", "log/00000000000000000000.json": b"", "log/9.json": b""}
        assert store.run(read_log()).head == 2

    def test_damaged_entries_are_reported_and_hide_nothing(self):
        store = MemoryStore()
        new_owner(store, commits=3)
        damage(store, 4)
        log = store.run(read_log())
        assert log.damaged == [Damage(4, entry_name(4), "checksum does not match")]
        assert [placed.index for placed in log.entries] == [1, 2, 3, 5]
        assert log.head == 5

    def test_what_the_store_calls_damaged_is_reported_too(self):
        """An unreadable file, a directory: the store refuses to read it, the log goes on."""
        store = MemoryStore()
        new_owner(store, commits=1)

        class Unreadable(MemoryStore):
            def perform(self, effect):
                if effect == Read(entry_name(3)):
                    raise DamagedStateError(entry_name(3), "cannot be read: Is a directory")
                return store.perform(effect)

        log = Unreadable().run(read_log())
        assert log.damaged == [Damage(3, entry_name(3), "cannot be read: Is a directory")]

    def test_a_store_that_fails_is_no_damage(self):
        store = MemoryStore()
        new_owner(store)
        store.faults[len(store.effects) + 1] = Fault.REFUSED
        with pytest.raises(StoreError):
            store.run(read_log())

    def test_a_missing_entry_that_hides_every_commit_is_damage(self):
        """Never start empty in silence: entries are there, and what they follow is not."""
        store = MemoryStore()
        log = new_owner(store, commits=2)
        store.run(append(log, Ended(1, 0, clean=True)))
        del store.files[entry_name(4)]
        log = store.run(read_log())
        assert log.damaged == [Damage(4, entry_name(4), "is missing, and no commit record is above it")]
        assert log.last(Commit) is None

    def test_a_missing_entry_below_a_commit_is_history(self):
        store = MemoryStore()
        new_owner(store, commits=3)
        del store.files[entry_name(3)]
        log = store.run(read_log())
        assert log.damaged == []
        assert log.last(Commit)[1].n == 3
        assert log.last(Claim)[1].epoch == 1

    def test_entries_that_are_pruned_while_they_are_read_are_listed_again(self):
        store = MemoryStore()
        owner = new_owner(store, commits=8)
        reading = read_log()
        listed = store.perform(next(reading))
        prune_all(store, owner)
        log = go_on(store, reading, listed)
        assert log.damaged == []
        assert log.last(Commit)[1].n == 8
        assert store.effects.count(List("log")) > 2

    def test_litter_read_under_a_listed_name_is_not_taken_for_the_head(self):
        """The reader sleeps between listing and reading; the head it listed is pruned, and a zombie uses its name."""
        store = MemoryStore()
        owner = new_owner(store, commits=1)
        reading = read_log()
        listed = store.perform(next(reading))
        for n in (2, 3, 4, 5):
            commit(store, owner, n)
        prune_all(store, owner)
        store.files[entry_name(3)] = encode_entry(Commit(1, 0, 99, {}), 3, owner.entries[1].crc)
        log = go_on(store, reading, listed)
        assert log.last(Commit)[1].n == 5
        assert [entry.n for _, entry in log.all(Commit)] == [5]

    def test_old_commits_are_not_kept_in_memory(self):
        store = MemoryStore()
        owner = new_owner(store, commits=COMMITS_IN_MEMORY + 5)
        for log in (owner, store.run(read_log())):
            assert len(log.all(Commit)) == COMMITS_IN_MEMORY
            assert log.last(Commit)[1].n == COMMITS_IN_MEMORY + 5
            assert log.damaged == []
        assert len(store.run(read_log(COMMITS_IN_MEMORY + 2)).all(Commit)) == COMMITS_IN_MEMORY + 2

    def test_a_read_that_never_catches_up_is_an_error(self):
        class Restless(MemoryStore):
            def perform(self, effect):
                return [entry_name(1)] if isinstance(effect, List) else None

        with pytest.raises(StoreError, match="changes faster"):
            Restless().run(read_log())


class TestClaim:
    def test_epochs_count_up(self):
        store = MemoryStore()
        assert [new_owner(store, token=str(i)).epoch for i in range(3)] == [1, 2, 3]

    def test_the_claim_returned_is_the_one_in_the_log(self):
        store = MemoryStore()
        log = store.run(read_log())
        made = store.run(claim(log, a_claim()))
        assert made.epoch == log.epoch == 1
        assert log.last(Claim) == (1, made)
        assert store.run(read_log()).last(Claim) == (1, made)

    def test_a_damaged_entry_may_have_been_a_claim_so_its_epoch_is_left_free(self):
        store = MemoryStore()
        new_owner(store, commits=1)
        damage(store, 3)
        log = store.run(read_log())
        assert store.run(claim(log, a_claim("u"))).epoch == 3
        assert log.entries[-1].after == AFTER_DAMAGED
        assert [placed.index for placed in store.run(read_log()).entries] == [1, 2, 4]

    def test_a_directory_in_the_way_is_claimed_behind(self):
        """Something unreadable that came after the log was read: it counts as damage, and its epoch is left free."""
        store = MemoryStore()
        log = store.run(read_log())
        store.files[entry_name(1)] = b""

        class Odd(MemoryStore):
            def perform(self, effect):
                if effect == Read(entry_name(1)):
                    raise DamagedStateError(entry_name(1), "cannot be read: Is a directory")
                return store.perform(effect)

        assert Odd().run(claim(log, a_claim())).epoch == 2
        assert log.last(Claim)[0] == 2
        assert [found.index for found in log.damaged] == [1]

    def test_of_two_claimants_one_has_to_judge_again(self):
        store = MemoryStore()
        one, other = store.run(read_log()), store.run(read_log())
        store.run(claim(one, a_claim("one")))
        with pytest.raises(FencedError, match="same time"):
            store.run(claim(other, a_claim("other")))
        again = store.run(read_log())
        assert store.run(claim(again, a_claim("other"))).epoch == 2

    def test_what_the_old_owner_still_commits_is_known_to_the_new_one(self):
        store = MemoryStore()
        old = new_owner(store, commits=1)
        log = store.run(read_log())
        commit(store, old, 2)
        store.run(append(store.run(read_log()), a_settle()))
        store.run(claim(log, a_claim("new")))
        assert log.last(Commit)[1].n == 2
        assert [entry.reason for _, entry in log.operator_entries()] == ["broken pump"]
        assert store.run(refresh(log)) == []

    def test_a_claim_whose_outcome_was_unknown_is_found_again(self):
        store = MemoryStore()
        log = store.run(read_log())
        store.faults = {len(store.effects): Fault.UNKNOWN}
        assert store.run(claim(log, a_claim())).epoch == 1
        assert store.run(read_log()).head == 1

    def test_a_claim_that_failed_half_way_may_be_repeated_on_the_same_log(self):
        """Made, but the listing failed: the second call finds its own entry."""
        store = MemoryStore()
        log = store.run(read_log())
        store.faults = {len(store.effects) + 1: Fault.REFUSED}
        with pytest.raises(StoreError):
            store.run(claim(log, a_claim()))
        assert store.run(claim(log, a_claim())).epoch == 1
        assert store.run(read_log()).head == 1

    def test_a_claim_that_was_superseded_before_its_listing_has_lost(self):
        store = MemoryStore()
        log = store.run(read_log())
        claiming = claim(log, a_claim("slow"))
        made = store.perform(next(claiming))
        new_owner(store, "quick")
        with pytest.raises(FencedError, match="written by the incarnation with epoch 2"):
            go_on(store, claiming, made)

    def test_an_owners_log_cannot_claim_again(self):
        store = MemoryStore()
        log = new_owner(store)
        with pytest.raises(ValueError, match="has an owner"):
            store.run(claim(log, a_claim()))


class TestAppend:
    def test_it_costs_one_create_and_one_listing(self):
        store = MemoryStore()
        log = new_owner(store)
        position = len(store.effects)
        assert commit(store, log, 1) == 3
        assert effects_since(store, position) == [Create, List]

    def test_each_entry_names_the_one_before_it(self):
        store = MemoryStore()
        log = new_owner(store, commits=2)
        assert [placed.after for placed in log.entries] == [FIRST, *(placed.crc for placed in log.entries[:-1])]

    def test_a_newer_claim_fences(self):
        store = MemoryStore()
        old = new_owner(store, commits=1)
        new_owner(store, "new")
        with pytest.raises(FencedError, match="epoch 2 of job orders was claimed by pid 1 on edge-1"):
            commit(store, old, 2)
        assert store.run(read_log()).last(Commit)[1].n == 1

    def test_a_claim_between_create_and_listing_means_that_it_does_not_count(self):
        """The successor has read it, so it is in the history; but it is not acknowledged."""
        store = MemoryStore()
        old = new_owner(store)
        appending = append(old, Commit(1, 0, 1, {}))
        made = store.perform(next(appending))
        new = new_owner(store, "new")
        assert new.last(Commit)[1].n == 1
        with pytest.raises(FencedError):
            go_on(store, appending, made)

    def test_operators_entries_in_the_way_are_taken_in_and_passed(self):
        store = MemoryStore()
        log = new_owner(store)
        for reason in ("first", "second"):
            store.run(append(store.run(read_log()), a_settle(reason)))
        assert commit(store, log, 1) == 5
        assert [(placed.index, placed.entry.reason) for placed in store.run(refresh(log))] == [
            (3, "first"),
            (4, "second"),
        ]
        assert store.run(refresh(log)) == []

    def test_operators_entries_above_do_not_fence(self):
        store = MemoryStore()
        log = new_owner(store)
        appending = append(log, Commit(1, 0, 1, {}))
        made = store.perform(next(appending))
        store.run(append(store.run(read_log()), a_settle()))
        assert go_on(store, appending, made) == 3
        assert log.head == 4
        assert [placed.index for placed in store.run(refresh(log))] == [4]
        assert commit(store, log, 2) == 5

    def test_a_damaged_entry_in_the_way_names_its_file(self):
        store = MemoryStore()
        log = new_owner(store)
        damage(store, 3)
        for _ in range(2):
            with pytest.raises(DamagedStateError, match=r"log/00000000000000000003\.json"):
                commit(store, log, 1)

    def test_a_damaged_entry_above_names_its_file(self):
        store = MemoryStore()
        log = new_owner(store)
        damage(store, 4)
        with pytest.raises(DamagedStateError, match=r"log/00000000000000000004\.json"):
            commit(store, log, 1)

    @pytest.mark.parametrize("fault", [Fault.UNKNOWN, Fault.UNSYNCED])
    def test_an_unknown_outcome_is_read_back(self, fault):
        store = MemoryStore()
        log = new_owner(store)
        store.faults = {len(store.effects): fault}
        assert commit(store, log, 1) == 3
        store.lose_power()
        assert store.run(read_log()).last(Commit)[1].n == 1

    def test_a_create_that_did_not_happen_is_the_stores_error(self):
        store = MemoryStore()
        log = new_owner(store)
        store.faults = {len(store.effects): Fault.REFUSED}
        with pytest.raises(StoreError, match="refused"):
            commit(store, log, 1)
        assert commit(store, log, 1) == 3

    @pytest.mark.parametrize("failing", [{0: Fault.UNKNOWN, 1: Fault.REFUSED}, {1: Fault.REFUSED}])
    @pytest.mark.parametrize("poll", [False, True])
    @pytest.mark.parametrize("settles", [0, 2])
    def test_an_append_that_failed_half_way_is_repeated_without_a_second_entry(self, failing, poll, settles):
        """Whether the read back or the listing failed, whether it was polled or an operator came by meanwhile."""
        store = MemoryStore()
        log = new_owner(store)
        store.faults = {len(store.effects) + offset: fault for offset, fault in failing.items()}
        with pytest.raises(StoreError):
            commit(store, log, 1)
        for number in range(settles):
            store.run(append(store.run(read_log()), a_settle(str(number))))
        news = store.run(refresh(log)) if poll else []
        assert commit(store, log, 1) == 3
        assert commit(store, log, 2) == 4 + settles
        news += store.run(refresh(log))
        assert [placed.entry.reason for placed in news] == [str(number) for number in range(settles)]
        assert [entry.n for _, entry in store.run(read_log()).all(Commit)] == [1, 2]

    def test_a_listing_that_does_not_show_the_entry_proves_nothing(self):
        """A shared file system that answers from an old cache must not look like 'nothing is above'."""
        store = MemoryStore()
        log = new_owner(store)
        appending = append(log, Commit(1, 0, 1, {}))
        made = store.perform(next(appending))
        appending.send(made)
        with pytest.raises(StoreError, match="does not show it"):
            appending.send([entry_name(1), entry_name(2)])
        assert store.run(append(log, Commit(1, 0, 1, {}))) == 3

    def test_an_owner_whose_next_name_was_used_and_pruned_is_fenced(self):
        store = MemoryStore()
        old = new_owner(store, commits=1)
        new_owner(store, "second", commits=1)
        prune_all(store, new_owner(store, "third", commits=10))
        with pytest.raises(FencedError):
            commit(store, old, 2)
        assert store.run(read_log()).last(Commit)[1].n == 12

    def test_a_name_that_is_taken_and_cannot_be_read_is_an_error(self):
        """Not a loop without end."""
        log = new_owner(MemoryStore())
        for procedure in (append(log, Commit(1, 0, 1, {})), append(Log(), a_settle()), claim(Log(), a_claim())):
            with pytest.raises(StoreError, match=r"grows faster|does not show it"):
                Blind().run(procedure)

    def test_what_an_owner_makes_in_an_empty_directory_does_not_count(self):
        """The file system below was taken away: a name can be made there, but our own claim is not beside it."""
        log = new_owner(MemoryStore(), commits=2)
        elsewhere = MemoryStore()
        for _ in range(2):
            with pytest.raises(StoreError, match="does not show it"):
                commit(elsewhere, log, 3)

    def test_another_entry_than_the_one_that_failed_is_appended_behind_it(self):
        store = MemoryStore()
        log = new_owner(store)
        store.faults = {len(store.effects) + 1: Fault.REFUSED}
        with pytest.raises(StoreError):
            commit(store, log, 1)
        assert store.run(append(log, Ended(1, 0, clean=True))) == 4

    def test_what_is_above_may_be_pruned_while_it_is_judged(self):
        """Only another incarnation prunes above us."""
        store = MemoryStore()
        log = new_owner(store)
        appending = append(log, Commit(1, 0, 1, {}))
        listing = appending.send(store.perform(next(appending)))
        appending.send([*store.perform(listing), entry_name(9)])
        with pytest.raises(FencedError, match="pruned by another incarnation"):
            appending.send(None)

    def test_operators_entries_above_a_gap_are_not_ours(self):
        store = MemoryStore()
        log = new_owner(store)
        store.files[entry_name(9)] = encode_entry(a_settle(), 9, FIRST)
        with pytest.raises(FencedError, match="went on without this process"):
            commit(store, log, 1)

    def test_only_an_owner_appends_what_is_the_owners(self):
        store = MemoryStore()
        with pytest.raises(ValueError, match="only an owner"):
            store.run(append(store.run(read_log()), Commit(1, 0, 1, {})))
        with pytest.raises(ValueError, match="epoch 5 in the log of epoch 1"):
            store.run(append(new_owner(store), Commit(5, 0, 1, {})))

    def test_an_owner_may_append_what_an_operator_asked_it_for(self):
        store = MemoryStore()
        log = new_owner(store)
        assert store.run(append(log, Settle(1, 0, ((1, 1),), "asked over the web", "root"))) == 3
        assert store.run(refresh(log)) == []
        assert commit(store, log, 1) == 4


class TestOperatorsAppend:
    def test_it_works_on_a_running_and_on_a_stopped_job(self):
        store = MemoryStore()
        new_owner(store, commits=1)
        assert store.run(append(store.run(read_log()), a_settle())) == 4
        assert store.run(append(store.run(read_log()), Accept(0, 0, 1, "root"))) == 5
        assert store.run(read_log()).last(Settle)[1].epoch == 1

    def test_it_is_not_fenced_by_anybody(self):
        store = MemoryStore()
        log = store.run(read_log())
        new_owner(store, commits=1)
        new_owner(store, "other", commits=1)
        assert store.run(append(log, a_settle())) == 7

    def test_an_owner_that_went_on_at_once_has_read_it(self):
        store = MemoryStore()
        owner = new_owner(store)
        appending = append(store.run(read_log()), a_settle())
        made = store.perform(next(appending))
        assert commit(store, owner, 1) == 4
        assert go_on(store, appending, made) == 3

    @pytest.mark.parametrize("commits", [1, 2, 10])
    def test_one_that_slept_through_a_pruning_is_written_again_at_the_head(self, commits):
        store = MemoryStore()
        owner = new_owner(store)
        operator = store.run(read_log())
        for n in range(1, commits + 1):
            commit(store, owner, n)
        prune_all(store, owner)
        index = store.run(append(operator, a_settle()))
        assert index == owner.head + 1
        assert [placed.entry.reason for placed in store.run(refresh(owner))] == ["broken pump"]

    def test_litter_that_follows_litter_does_not_prove_that_it_was_taken_in(self):
        store = MemoryStore()
        owner = new_owner(store, commits=1)
        appending = append(store.run(read_log()), a_settle())
        create = next(appending)
        for n in (2, 3, 4, 5):
            commit(store, owner, n)
        prune_all(store, owner)
        made = store.perform(create)
        zombies = encode_entry(Commit(1, 0, 2, {}), 5, create.data[:8].decode())
        store.files[entry_name(5)] = zombies
        assert go_on(store, appending, made) == owner.head + 1
        assert [placed.entry.reason for placed in store.run(refresh(owner))] == ["broken pump"]


class TestRefresh:
    def test_nothing_new_costs_one_read(self):
        store = MemoryStore()
        log = new_owner(store, commits=1)
        position = len(store.effects)
        assert store.run(refresh(log)) == []
        assert effects_since(store, position) == [Read]

    def test_an_owner_learns_of_its_successor(self):
        store = MemoryStore()
        old = new_owner(store)
        new_owner(store, "new")
        for _ in range(2):
            with pytest.raises(FencedError):
                store.run(refresh(old))

    def test_an_owner_that_slept_through_a_pruning_learns_it_by_listing(self):
        store = MemoryStore()
        old = new_owner(store, commits=1)
        new_owner(store, "second", commits=1)
        prune_all(store, new_owner(store, "third", commits=10))
        assert store.run(refresh(old)) == []
        with pytest.raises(FencedError):
            store.run(refresh(old, thorough=True))

    def test_thorough_is_quiet_when_all_is_well(self):
        store = MemoryStore()
        log = new_owner(store, commits=1)
        store.run(append(store.run(read_log()), a_settle()))
        assert [placed.index for placed in store.run(refresh(log, thorough=True))] == [4]

    def test_thorough_on_an_empty_log(self):
        store = MemoryStore()
        log = store.run(read_log())
        assert store.run(refresh(log, thorough=True)) == []
        assert log.head == 0

    def test_a_reader_sees_everything_and_damage(self):
        store = MemoryStore()
        log = store.run(read_log())
        new_owner(store, commits=1)
        damage(store, 4)
        assert [placed.index for placed in store.run(refresh(log))] == [1, 2, 3]
        assert [found.index for found in log.damaged] == [4]

    @pytest.mark.parametrize("litter", [False, True])
    def test_a_reader_that_slept_through_a_pruning_reads_again(self, litter):
        store = MemoryStore()
        new_owner(store)
        log = store.run(read_log())
        owner = new_owner(store, "new", commits=5)
        prune_all(store, owner)
        if litter:
            # What a zombie left at the name right below the oldest entry that was kept.
            place = owner.head - 1
            store.files[entry_name(place)] = encode_entry(Commit(1, 0, 1, {}), place, "12345678")
            log.head = place - 1
        news = store.run(refresh(log, thorough=True))
        assert owner.head in [placed.index for placed in news]
        assert log.last(Commit) == owner.last(Commit)

    def test_one_procedure_at_a_time(self):
        """A poll while an append is under way does nothing; an append waits for a poll that is under way."""
        store = MemoryStore()
        log = new_owner(store)
        appending = append(log, Commit(1, 0, 1, {}))
        effect = next(appending)
        assert store.run(refresh(log)) == []
        made = store.perform(effect)
        assert store.run(refresh(log)) == []
        go_on(store, appending, made)
        polling = refresh(log)
        next(polling)
        waiting = append(log, Commit(1, 0, 2, {}))
        assert isinstance(next(waiting), Wait)
        assert store.run(prune(log, log.keep_from(1), operator_through=0, now_ms=0)) == 0
        with pytest.raises(StopIteration):
            polling.send(None)
        assert isinstance(waiting.send(None), Create)


class TestPrune:
    def test_it_removes_what_is_below_the_kept_commits_and_keeps_the_owners_start(self):
        store = MemoryStore()
        new_owner(store, "old", commits=3)
        log = new_owner(store, "new", commits=4)
        position = len(store.effects)
        assert prune_all(store, log, commits=2) == 7
        removed = [effect.name for effect in store.effects[position:]]
        assert removed == [entry_name(i) for i in (1, 2, 3, 4, 5, 8, 9)], "oldest first"
        assert sorted(store.files) == [entry_name(i) for i in (6, 7, 10, 11)]
        fresh = store.run(read_log())
        assert [entry.n for _, entry in fresh.all(Commit)] == [6, 7]
        assert fresh.last(Claim)[0] == 6
        assert fresh.last(Started)[0] == 7
        assert fresh.damaged == []

    def test_the_start_of_the_last_owner_is_found_until_the_next_one_has_started(self):
        store = MemoryStore()
        log = new_owner(store, commits=4)
        prune_all(store, log)
        claimant = store.run(read_log())
        store.run(claim(claimant, a_claim("next")))
        fresh = store.run(read_log())
        assert fresh.last(Claim)[1].token == "next"
        assert fresh.last(Started) == (2, Started(1, 0, None, 0, "edge-1", "boot"))

    def test_young_entries_stay(self):
        store = MemoryStore()
        log = new_owner(store)
        for n in range(1, 11):
            commit(store, log, n, time_ms=n * 1000)
        assert prune_all(store, log, now_ms=11_000, keep_age_ms=5_000) == 6
        assert [e.n for _, e in log.all(Commit)] == [7, 8, 9, 10]

    def test_a_minimum_stays_whatever_its_age(self):
        store = MemoryStore()
        log = new_owner(store, commits=10)
        assert prune_all(store, log, keep_at_least=5) == 5
        assert [e.n for _, e in log.all(Commit)] == [6, 7, 8, 9, 10]

    def test_more_than_the_maximum_does_not_stay_however_young(self):
        store = MemoryStore()
        log = new_owner(store, commits=10)
        assert prune_all(store, log, keep_age_ms=10**12, keep_at_most=4) == 6
        assert [e.n for _, e in log.all(Commit)] == [7, 8, 9, 10]

    def test_operators_entries_stay_until_a_record_has_them(self):
        store = MemoryStore()
        log = new_owner(store, commits=2)
        settled = store.run(append(store.run(read_log()), a_settle()))
        for n in (3, 4, 5):
            commit(store, log, n)
        assert prune_all(store, log, operator_through=settled - 1) == 2
        assert [index for index, _ in store.run(read_log()).operator_entries()] == [settled]
        assert prune_all(store, log, operator_through=settled) == 3
        assert store.run(read_log()).operator_entries() == []

    def test_litter_below_is_removed(self):
        store = MemoryStore()
        log = new_owner(store, commits=5)
        prune_all(store, log)
        store.files[entry_name(4)] = b"left by a zombie"
        commit(store, log, 6)
        prune_all(store, log)
        assert entry_name(4) not in store.files

    def test_a_failing_store_is_tried_again_later(self):
        store = MemoryStore()
        log = new_owner(store, commits=5)
        store.faults = {len(store.effects) + 2: Fault.REFUSED}
        with pytest.raises(StoreError):
            prune_all(store, log)
        assert prune_all(store, log) == 2

    def test_it_takes_a_few_hundred_at_a_time(self):
        store = MemoryStore()
        log = new_owner(store, commits=300)
        assert prune_all(store, log) == 256
        assert prune_all(store, log) == 43

    def test_removals_that_a_power_cut_undoes_do_no_harm(self):
        store = MemoryStore()
        log = new_owner(store, commits=10)
        commit(store, log, 11)
        prune_all(store, log)
        store.lose_power(keep=lambda name: name != entry_name(5))
        fresh = store.run(read_log())
        assert fresh.damaged == []
        assert fresh.last(Commit)[1].n == 11
        assert store.run(claim(fresh, a_claim("new"))).epoch == 2

    def test_it_is_for_owners_that_have_started(self):
        store = MemoryStore()
        new_owner(store, commits=2)
        log = store.run(read_log())
        with pytest.raises(ValueError, match="Started"):
            prune_all(store, log)
        store.run(claim(log, a_claim("new")))
        with pytest.raises(ValueError, match="Started"):
            prune_all(store, log)

    def test_it_keeps_from_a_commit(self):
        store = MemoryStore()
        log = new_owner(store, commits=2)
        with pytest.raises(ValueError, match="no commit at index 2"):
            store.run(prune(log, 2, operator_through=0, now_ms=0))


def test_litter_never_gets_into_the_chain():
    """A stale entry right below the kept ones is not the one that the first of them names."""
    store = MemoryStore()
    log = new_owner(store, commits=5)
    prune_all(store, log)
    place = log.head - 1
    store.files[entry_name(place)] = encode_entry(Commit(9, 0, 99, {}), place, FIRST)
    fresh = store.run(read_log())
    assert [e.n for _, e in fresh.all(Commit)] == [5]
    assert [placed.entry.n for placed in fresh.loose if isinstance(placed.entry, Commit)] == [99]
    assert fresh.highest_epoch == 9, "but its epoch is not used again"
    assert fresh.last(Started)[0] == 2
    assert fresh.last(Ended) is None


def test_a_new_log_is_its_own():
    assert Log().take_news() == []
