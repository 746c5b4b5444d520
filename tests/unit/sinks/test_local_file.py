"""LocalFileSink: names, manifests, staging, and what it refuses."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgesocket.components.sink import SinkContext
from edgesocket.errors import ComponentError, ConfigError
from edgesocket.rows import Rows, text_schema
from edgesocket.sinks import staging
from edgesocket.sinks.local_file import LocalFileSink
from edgesocket.testing.sink_contract import AWKWARD_PAYLOADS
from edgesocket.testing.sink_story import listed_block, received_block

DATA = Path(__file__).parents[3].parent / "shared" / "data"


def opened(path: Path, *, epoch: int = 1, job: str = "job", prepared=None, **options) -> LocalFileSink:
    sink = LocalFileSink(path=path, **{"file_format_type": "json", **options})
    sink.open(SinkContext(job=job, epoch=epoch, sink_id="LocalFile", prepared=prepared or {}))
    return sink


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir() if not entry.name.startswith((".", "_")))


def staged(path: Path) -> list[str]:
    return sorted(entry.name for entry in (path / ".staged" / "job.LocalFile").iterdir())


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


# Files and names


def test_a_file_is_named_by_epoch_checkpoint_and_number(out: Path) -> None:
    sink = opened(out, epoch=3, batch_size=2)
    sink.write(Rows.of_records(listed_block([b"a", b"b", b"c"])))
    sink.commit(12, sink.prepare(12))
    assert names(out) == ["part-000003-0000000012-00000.json", "part-000003-0000000012-00001.json"]
    assert (out / "part-000003-0000000012-00000.json").read_bytes() == b'{"value": "a"}\n{"value": "b"}\n'


def test_the_manifest_lists_names_rows_and_bytes(out: Path) -> None:
    sink = opened(out, file_format_type="TEXT", batch_size=2)
    sink.write(Rows.of_records(listed_block([b"a", b"bb", b"ccc"])))
    assert sink.prepare(1) == {
        "files": [
            {"staged": "1-0.staged", "final": "part-000001-0000000001-00000.txt", "rows": 2, "bytes": 5},
            {"staged": "1-1.staged", "final": "part-000001-0000000001-00001.txt", "rows": 1, "bytes": 4},
        ]
    }


def test_rows_of_many_blocks_share_a_file_up_to_batch_size(out: Path) -> None:
    sink = opened(out, file_format_type="text", batch_size=100)
    for first in range(0, 250, 5):
        sink.write(Rows.of_records(received_block([b"%d" % n for n in range(first, first + 5)])))
    manifest = sink.prepare(1)
    assert [file["rows"] for file in manifest["files"]] == [100, 100, 50]
    sink.commit(1, manifest)
    assert b"".join((out / name).read_bytes() for name in names(out)) == b"".join(b"%d\n" % n for n in range(250))


def test_a_checkpoint_without_rows_touches_no_file(out: Path) -> None:
    sink = opened(out)
    assert sink.prepare(1) == {}
    sink.commit(1, {})
    assert names(out) == []
    assert staged(out) == []


def test_payload_bytes_lie_in_the_file_as_they_were_sent(out: Path) -> None:
    sink = opened(out, file_format_type="text")
    sink.write(Rows.of_records(received_block(AWKWARD_PAYLOADS * 10)))
    sink.commit(1, sink.prepare(1))
    (name,) = names(out)
    assert (out / name).read_bytes() == b"".join(payload + b"\n" for payload in AWKWARD_PAYLOADS * 10)


@pytest.mark.skipif(not DATA.is_dir(), reason="no test data next to the repository")
@pytest.mark.parametrize("name", ["naughty_strings.txt", "apache_access.log", "kafka_controller_longlines.log"])
def test_real_lines_lie_in_the_file_as_they_were_sent(out: Path, name: str) -> None:
    lines = (DATA / name).read_bytes().split(b"\n")
    sink = opened(out, file_format_type="text")
    sink.write(Rows.of_records(received_block(lines)))
    sink.commit(1, sink.prepare(1))
    assert (out / names(out)[0]).read_bytes() == b"\n".join(lines) + b"\n"


def test_another_row_delimiter_ends_every_row(out: Path) -> None:
    sink = opened(out, file_format_type="text", row_delimiter="\r\n")
    sink.write(Rows.of_records(received_block([b"a"] * 100)))
    sink.commit(1, sink.prepare(1))
    assert (out / names(out)[0]).read_bytes() == b"a\r\n" * 100


def test_a_payload_that_holds_the_delimiter_is_not_escaped(out: Path) -> None:
    sink = opened(out, file_format_type="text", row_delimiter="\r")
    sink.write(Rows.of_records(listed_block([b"a\rb"])))
    sink.commit(1, sink.prepare(1))
    assert (out / names(out)[0]).read_bytes() == b"a\rb\r"


def test_the_column_names_the_json_field(out: Path) -> None:
    sink = LocalFileSink(path=out, file_format_type="json")
    sink.open(SinkContext(job="job", epoch=1, sink_id="s", schema=text_schema('the "line"')))
    sink.write(Rows.of_records(listed_block([b"a"]), text_schema('the "line"')))
    sink.commit(1, sink.prepare(1))
    assert (out / names(out)[0]).read_bytes() == b'{"the \\"line\\"": "a"}\n'


def test_other_users_may_read_final_files_as_the_umask_says(out: Path) -> None:
    before = os.umask(0o027)
    try:
        sink = opened(out)
        sink.write(Rows.of_records(listed_block([b"a"])))
        sink.commit(1, sink.prepare(1))
        assert (out / names(out)[0]).stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(before)


# Names are never used twice


def test_a_name_that_lies_there_already_is_passed_over(out: Path) -> None:
    """The job's state was deleted and it counts from 1 again: the old files stay as they are."""
    for payload in (b"old", b"new"):
        sink = opened(out, epoch=1)
        sink.write(Rows.of_records(listed_block([payload])))
        sink.commit(1, sink.prepare(1))
        sink.close()
    assert names(out) == ["part-000001-0000000001-00000.json", "part-000001-0000000001-00001.json"]
    assert [b"old" in (out / name).read_bytes() for name in names(out)] == [True, False]


def test_a_name_taken_between_prepare_and_commit_is_not_overwritten(out: Path) -> None:
    sink = opened(out)
    sink.write(Rows.of_records(listed_block([b"a"])))
    manifest = sink.prepare(1)
    final = out / manifest["files"][0]["final"]
    final.write_bytes(b"of a stranger")
    for _ in range(2):
        with pytest.raises(ComponentError, match="another file of that name") as caught:
            sink.commit(1, manifest)
        assert str(final) in str(caught.value)
    assert final.read_bytes() == b"of a stranger"
    final.unlink()
    sink.commit(1, manifest)
    assert final.read_bytes() == b'{"value": "a"}\n'


# Commit again


def test_final_there_and_staged_gone_is_done(out: Path) -> None:
    sink = opened(out)
    sink.write(Rows.of_records(listed_block([b"a"])))
    manifest = sink.prepare(1)
    (out / ".staged/job.LocalFile" / manifest["files"][0]["staged"]).rename(out / manifest["files"][0]["final"])
    sink.commit(1, manifest)
    assert len(names(out)) == 1


@pytest.mark.parametrize("again", [False, True], ids=["same run", "after a restart"])
def test_both_missing_is_an_error_that_names_the_file(out: Path, again: bool) -> None:
    sink = opened(out)
    sink.write(Rows.of_records(listed_block([b"a", b"b"])))
    manifest = sink.prepare(1)
    (out / ".staged/job.LocalFile" / manifest["files"][0]["staged"]).unlink()
    if again:
        sink = opened(out, epoch=2, prepared={1: manifest})
    with pytest.raises(ComponentError, match=r"missing.*part-000001-0000000001-00000\.json.*2 rows"):
        sink.commit(1, manifest)


def test_a_final_file_of_another_size_is_not_taken_for_ours(out: Path) -> None:
    sink = opened(out)
    sink.write(Rows.of_records(listed_block([b"a"])))
    manifest = sink.prepare(1)
    (out / ".staged/job.LocalFile" / manifest["files"][0]["staged"]).unlink()
    (out / manifest["files"][0]["final"]).write_bytes(b"of a stranger")
    with pytest.raises(ComponentError, match="13 bytes, not the 15"):
        sink.commit(1, manifest)


def test_a_staged_file_cut_short_is_not_published(out: Path) -> None:
    sink = opened(out)
    sink.write(Rows.of_records(listed_block([b"a"])))
    manifest = sink.prepare(1)
    os.truncate(out / ".staged/job.LocalFile" / manifest["files"][0]["staged"], 3)
    with pytest.raises(ComponentError, match="3 bytes, not the 15"):
        sink.commit(1, manifest)
    assert names(out) == []


def test_a_reader_may_take_final_files_away_before_a_commit_is_repeated(out: Path) -> None:
    sink = opened(out)
    sink.write(Rows.of_records(listed_block([b"a"])))
    manifest = sink.prepare(1)
    sink.commit(1, manifest)
    for name in names(out):
        (out / name).unlink()
    sink.commit(1, manifest)
    opened(out, epoch=2, prepared={1: manifest}).commit(1, manifest)
    assert names(out) == []


def test_a_receipt_of_an_earlier_life_does_not_excuse_missing_files(out: Path) -> None:
    """The state was deleted, checkpoint 1 comes again: that an earlier checkpoint 1 was published says nothing."""
    sink = opened(out)
    sink.write(Rows.of_records(listed_block([b"a"])))
    sink.commit(1, sink.prepare(1))
    sink.close()
    sink = opened(out)
    sink.write(Rows.of_records(listed_block([b"a"])))
    manifest = sink.prepare(1)
    (out / ".staged/job.LocalFile" / manifest["files"][0]["staged"]).unlink()
    with pytest.raises(ComponentError, match="missing"):
        sink.commit(1, manifest)


def test_one_receipt_is_kept(out: Path) -> None:
    sink = opened(out)
    for checkpoint in (1, 2, 5):
        sink.write(Rows.of_records(listed_block([b"a"])))
        sink.commit(checkpoint, sink.prepare(checkpoint))
    assert staged(out) == ["published-5"]


# Staging


def test_open_removes_what_no_prepared_manifest_names_and_commits_nothing(out: Path) -> None:
    sink = opened(out)
    sink.write(Rows.of_records(listed_block([b"kept"])))
    manifest = sink.prepare(1)
    sink.write(Rows.of_records(listed_block([b"thrown away"])))
    opened(out, epoch=2, prepared={1: manifest})
    assert staged(out) == [manifest["files"][0]["staged"]]
    assert names(out) == []


def test_a_new_life_in_the_same_epoch_keeps_off_prepared_files(out: Path) -> None:
    sink = opened(out)
    sink.write(Rows.of_records(listed_block([b"a"])))
    manifest = sink.prepare(1)
    sink.close()
    sink = opened(out, prepared={1: manifest})
    sink.write(Rows.of_records(listed_block([b"b"])))
    sink.commit(1, manifest)
    sink.commit(2, sink.prepare(2))
    assert [(out / name).read_bytes() for name in names(out)] == [b'{"value": "a"}\n', b'{"value": "b"}\n']


def test_staged_files_of_a_later_run_are_refused_and_kept(out: Path) -> None:
    sink = opened(out, epoch=7)
    sink.write(Rows.of_records(listed_block([b"a"])))
    with pytest.raises(ComponentError, match=r"run 7.*this is run 3.*Remove the directory") as caught:
        opened(out, epoch=3)
    assert not caught.value.retryable
    assert staged(out) == ["7-0.staged"]


def test_jobs_stage_apart(out: Path) -> None:
    one, other = opened(out, job="a/b"), opened(out, job="../b", epoch=5)
    one.write(Rows.of_records(listed_block([b"a"])))
    other.write(Rows.of_records(listed_block([b"a"])))
    assert sorted(p.name for p in (out / ".staged").iterdir()) == ["..%2Fb.LocalFile", "a%2Fb.LocalFile"]


def test_close_removes_unprepared_files_and_keeps_prepared_ones(out: Path) -> None:
    sink = opened(out, batch_size=1)
    sink.write(Rows.of_records(listed_block([b"a"])))
    manifest = sink.prepare(1)
    sink.write(Rows.of_records(listed_block([b"b", b"c"])))
    sink.close()
    assert staged(out) == [manifest["files"][0]["staged"]]


def test_the_staging_directory_may_lie_elsewhere_on_the_device(out: Path, tmp_path: Path) -> None:
    sink = opened(out, tmp_path=tmp_path / "tmp")
    sink.write(Rows.of_records(listed_block([b"a"])))
    assert [p.name for p in (tmp_path / "tmp/job.LocalFile").iterdir()] == ["1-0.staged"]
    sink.commit(1, sink.prepare(1))
    assert names(out) == ["part-000001-0000000001-00000.json"]


def test_a_staging_directory_on_another_device_is_refused(out: Path) -> None:
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == out.parent.stat().st_dev:
        pytest.skip("needs a second device")
    elsewhere = tempfile.mkdtemp(dir=memory)
    try:
        with pytest.raises(ComponentError, match=f"{elsewhere}.*different devices") as caught:
            opened(out, tmp_path=elsewhere)
        assert not caught.value.retryable
    finally:
        shutil.rmtree(elsewhere)


def test_a_link_that_cannot_cross_mounts_is_refused(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two mounts of one device look like one device, but a link does not reach across."""

    def cross(self: Path, target: Path) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(staging.Path, "hardlink_to", cross)
    with pytest.raises(ComponentError, match="different devices or mounts"):
        opened(out)
    assert names(out) == []


# Order on the disk


def test_content_and_names_are_durable_before_they_are_relied_on(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """File, then its staged name, before the manifest; the final name before the receipt, that before the unlink."""
    sink = opened(out)
    steps: list[str] = []

    def watch(name: str) -> None:
        real = getattr(os, name)

        def call(*args, **kwargs):
            path = args[0] if not isinstance(args[0], int) else Path(f"/proc/self/fd/{args[0]}").readlink()
            result = real(*args, **kwargs)
            steps.append(f"{name} {Path(path).name}")
            return result

        monkeypatch.setattr(os, name, call)

    for name in ("fsync", "link", "unlink"):
        watch(name)
    sink.write(Rows.of_records(listed_block([b"a"])))
    manifest = sink.prepare(1)
    assert steps == ["fsync 1-0.staged", "fsync job.LocalFile"]
    steps.clear()
    sink.commit(1, manifest)
    manifest_made = ["fsync out", "fsync manifest", "link manifest", "fsync _manifests", "unlink manifest"]
    assert steps == ["link 1-0.staged", "fsync out", *manifest_made, "fsync job.LocalFile", "unlink 1-0.staged"]
    assert staged(out) == ["published-1"]


# Refusals


def test_all_wrong_options_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        LocalFileSink(path="", file_format_type="excel", row_delimiter="", batch_size=0)
    assert [p.path for p in caught.value.problems] == ["path", "file_format_type", "row_delimiter", "batch_size"]
    assert "excel" in str(caught.value)


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A directory that the process may write to as an ordinary user, also where tests run as root."""
    directory = Path(tempfile.mkdtemp())
    if os.geteuid() == 0:
        os.chown(directory, 65534, 65534)
        os.seteuid(65534)
    try:
        yield directory
    finally:
        if os.getuid() == 0:
            os.seteuid(0)
        shutil.rmtree(directory)


def test_a_directory_that_cannot_be_written_to_is_named(unprivileged: Path) -> None:
    unprivileged.chmod(0o555)
    with pytest.raises(ComponentError, match=rf"{unprivileged}/out: Permission denied \(EACCES\)"):
        opened(unprivileged / "out")
    unprivileged.chmod(0o755)
    opened(unprivileged / "out").close()


def test_a_target_directory_that_turns_read_only_publishes_nothing(unprivileged: Path) -> None:
    path = unprivileged / "out"
    sink = opened(path, tmp_path=unprivileged / "tmp", batch_size=1)
    sink.write(Rows.of_records(listed_block([b"a", b"b"])))
    manifest = sink.prepare(1)
    path.chmod(0o555)
    with pytest.raises(ComponentError, match=r"part-000001-0000000001-00000\.json: Permission denied \(EACCES\)"):
        sink.commit(1, manifest)
    assert names(path) == []
    path.chmod(0o755)
    sink.commit(1, manifest)
    assert len(names(path)) == 2


def test_a_path_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"")
    with pytest.raises(ComponentError, match=r"out.*\(E(EXIST|NOTDIR)\)"):
        opened(tmp_path / "out")


def test_a_directory_that_vanished_fails_prepare(out: Path) -> None:
    sink = opened(out)
    sink.write(Rows.of_records(listed_block([b"a"])))
    shutil.rmtree(out)
    for _ in range(2):
        with pytest.raises(ComponentError, match=r"\.staged/job\.LocalFile: No such file or directory \(ENOENT\)"):
            sink.prepare(1)
    sink.close()


def test_a_directory_that_vanished_and_came_back_empty_fails_prepare(out: Path) -> None:
    sink = opened(out)
    sink.write(Rows.of_records(listed_block([b"a"])))
    shutil.rmtree(out)
    (out / ".staged/job.LocalFile").mkdir(parents=True)
    with pytest.raises(ComponentError, match=r"1-0\.staged: No such file or directory"):
        sink.prepare(1)


def test_an_aborted_file_that_vanished_fails_the_next_prepare(out: Path) -> None:
    sink = opened(out)
    sink.write(Rows.of_records(listed_block([b"a"])))
    manifest = sink.prepare(1)
    (out / ".staged/job.LocalFile" / manifest["files"][0]["staged"]).unlink()
    with pytest.raises(ComponentError, match=r"1-0\.staged: No such file or directory"):
        sink.prepare(2)


def test_a_target_directory_that_vanished_leaves_the_staged_file(out: Path, tmp_path: Path) -> None:
    sink = opened(out, tmp_path=tmp_path / "tmp")
    sink.write(Rows.of_records(listed_block([b"a"])))
    manifest = sink.prepare(1)
    out.rmdir()
    with pytest.raises(ComponentError, match=r"part-000001-0000000001-00000\.json: No such file or directory"):
        sink.commit(1, manifest)
    out.mkdir()
    sink.commit(1, manifest)
    assert len(names(out)) == 1
