"""What operators do with the dashboard, on real jobs in real processes."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import Tabs
from tests.browser.real_jobs import HTTP_TOKEN, Feeder, Process, connected, free_ports, write_job
from tests.support.http_server import ScriptedServer, answer, serving
from tests.support.jobs import Wire, edgesocket, rows, wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.slow

expect = pytest.importorskip("playwright.sync_api", reason="Playwright's Python package drives the browser").expect


@pytest.fixture(scope="module")
def ports() -> dict[str, int]:
    """The ports of the jobs in the shared process."""
    return {}


@pytest.fixture(scope="module")
def receiver() -> Iterator[ScriptedServer]:
    """Where the rows of job `full` go: refuses them at first."""
    with serving() as server:
        server.rule = lambda _body: answer(503)
        yield server


@pytest.fixture(scope="module")
def process(
    tmp_path_factory: pytest.TempPathFactory, ports: dict[str, int], receiver: ScriptedServer
) -> Iterator[Process]:
    """One process with a job for each trouble, so that no test waits for a start."""
    directory = tmp_path_factory.mktemp("dashboard")
    for name in ("live", "disk"):
        ports[name] = write_job(directory, name)
    ports["stuck"] = write_job(directory, "stuck", source="batch_id_gaps = hold")
    sink = f'Http {{ url = "{receiver.url}", retry_backoff_max_ms = 100 }}'
    ports["full"] = write_job(directory, "full", source="local_queue_capacity = 20", sink=sink)
    with Process(directory) as process:
        wait_until(
            lambda: all(
                f"[{name}] listener opened" in process.job.log_text() for name in ("live", "stuck", "full", "disk")
            )
        )
        with Wire(ports["stuck"]) as wire:
            assert wire.ask("__BATCH__:1:a", "__BATCH__:2:b", "__BATCH__:4:d") == "RECEIVED RECEIVED RECEIVED"
        yield process


def number(place: Locator) -> int:
    """The number a place of the page shows, 0 while it shows none."""
    text = "".join(filter(str.isdigit, place.inner_text()))
    return int(text) if text else 0


def figure(page: Page, name: str) -> Locator:
    """The value of the figure with this name."""
    return page.locator(".figure", has=page.locator("dt", has_text=name)).locator(".figure-value")


def notice(page: Page, text: str) -> Locator:
    """The notice that says this."""
    return page.locator(".notice", has_text=text)


def give_token(page: Page, token: str = HTTP_TOKEN) -> None:
    """Answer the page when it asks for the token."""
    page.get_by_label("Bearer token of this server").fill(token)
    page.get_by_role("button", name="Use it").click()


def test_rows_that_arrive_are_seen_live(process: Process, ports: dict[str, int], tabs: Tabs) -> None:
    page = tabs.open(process.page("live"))
    expect(page.get_by_text("not connected")).to_be_visible()
    expect(page.get_by_role("heading", name="live")).to_be_visible()
    with Feeder(ports["live"]):
        expect(page.locator(".replies")).to_contain_text("RECEIVED")
        expect(page.locator(".flow:not(.still)").first).to_be_attached()
        expect(figure(page, "Received")).not_to_have_text("0/s")
        confirmed = figure(page, "Confirmed up to")
        before = number(confirmed)
        wait_until(lambda: number(confirmed) > max(before, 10), what="a watermark that moves")
    expect(page.locator(".back-label")).to_contain_text("ACK")


def test_a_collector_that_leaves_and_returns_is_shown(process: Process, ports: dict[str, int], tabs: Tabs) -> None:
    page = tabs.open(process.page("live", "sessions"))
    table = page.get_by_role("table", name="Collector sessions")
    with Wire(ports["live"]):
        expect(table.get_by_text("● connected")).to_have_count(1)
    expect(table.get_by_text("● connected")).to_have_count(0)
    expect(notice(page, "No collector is connected")).to_be_visible()
    ended = table.locator("tbody tr").count()
    with Wire(ports["live"]):
        expect(table.locator("tbody tr")).to_have_count(ended + 1)
        expect(table.locator("tbody tr").first).to_contain_text("● connected")
        expect(notice(page, "No collector is connected")).to_be_hidden()


def test_a_queue_that_fills_to_its_mark_is_shown_until_it_drains(
    process: Process, ports: dict[str, int], receiver: ScriptedServer, tabs: Tabs
) -> None:
    page = tabs.open(process.page("full"))
    with Wire(ports["full"]) as wire:
        replies = [wire.ask(f"__BATCH__:{n}:x") for n in range(1, 60)]
        assert any(reply.startswith("QUEUE_FULL:") for reply in replies)
        expect(notice(page, "The queue is at its mark")).to_be_visible()
        expect(page.locator(".replies")).to_contain_text("QUEUE_FULL")
        expect(notice(page, "A sink has been failing for")).to_be_visible()
        expect(page.locator(".node.kind-queue.warn")).to_be_visible()
        receiver.rule = lambda _body: None
        expect(notice(page, "The queue is at its mark")).to_be_hidden()
        expect(notice(page, "A sink has been failing for")).to_be_hidden()


def test_a_stuck_watermark_is_named_with_what_to_do_and_gone_once_that_is_done(process: Process, tabs: Tabs) -> None:
    page = tabs.open(process.page("stuck"))
    stuck = notice(page, "Batch 3 (gap) has held the watermark")
    expect(stuck).to_be_visible()
    command = shlex.split(stuck.locator("code").inner_text())
    assert command[:4] == ["edgesocket", "settle", "stuck", "3"]
    if "--state-dir" not in command:
        command += ["--state-dir", str(process.state("stuck"))]
    assert edgesocket(*command[1:]).returncode == 0
    expect(stuck).to_be_hidden()
    expect(figure(page, "Confirmed up to")).to_have_text("4")


def test_checkpoints_that_fail_are_shown_and_heal(process: Process, ports: dict[str, int], tabs: Tabs) -> None:
    page = tabs.open(process.page("disk"))
    with Feeder(ports["disk"]):
        expect(page.locator(".bar-group").first).to_be_visible()
        state = process.state("disk") / "state"
        away = state.rename(state.with_name("away"))
        state.write_text("a file where a directory should be")
        expect(notice(page, "Checkpoints have been failing for")).to_be_visible()
        expect(page.locator(".bar-group.failed").first).to_be_attached()
        page.get_by_text("As a table").click()
        expect(page.get_by_role("cell", name="failed:").first).to_be_visible()
        state.unlink()
        away.rename(state)
        expect(notice(page, "Checkpoints have been failing for")).to_be_hidden()


def test_the_log_is_followed_and_filtered(process: Process, ports: dict[str, int], tabs: Tabs) -> None:
    page = tabs.open(process.page("live", "log"))
    log = page.get_by_role("log")
    expect(log).to_contain_text("listener opened")
    page.keyboard.press("/")
    page.keyboard.type("collector")
    expect(log.get_by_text("listener opened").first).to_be_hidden()
    before = log.locator("li:visible").count()
    with Wire(ports["live"]):
        wait_until(lambda: log.locator("li:visible").count() > before, what="a new line")
    page.get_by_label("Level").select_option("ERROR")
    expect(log.locator("li:visible")).to_have_count(0)


def test_rows_in_flight_are_sampled(process: Process, ports: dict[str, int], tabs: Tabs) -> None:
    page = tabs.open(process.page("live", "rows"))
    with Feeder(ports["live"], first=100_000):
        page.get_by_label("Only rows in which").fill("batch_id~100")
        page.get_by_role("button", name="Sample rows").click()
        expect(page.locator("table.rows tbody tr").first).to_contain_text("payload 100")
        expect(page.get_by_text("20 rows. That was the sample.")).to_be_visible()


def test_a_reload_keeps_the_job_its_tab_and_the_filter(process: Process, tabs: Tabs) -> None:
    page = tabs.open(process.url)
    page.get_by_label("Filter jobs").fill("stu")
    expect(page.locator(".job-row")).to_have_count(1)
    page.reload()
    expect(page.locator(".job-row")).to_have_count(1)
    expect(page.get_by_label("Filter jobs")).to_have_value("stu")
    page.get_by_role("link", name="stuck").click()
    page.get_by_role("tab", name="Sessions").click()
    page.reload()
    expect(page.get_by_role("heading", name="stuck")).to_be_visible()
    expect(page.get_by_role("tab", name="Sessions")).to_have_attribute("aria-selected", "true")


def test_everything_is_reached_with_the_keyboard_alone(process: Process, tabs: Tabs) -> None:
    page = tabs.open(process.url)
    expect(page.locator(".job-row")).to_have_count(4)
    press = page.keyboard.press
    press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()
    press("/")
    page.keyboard.type("live")
    expect(page.locator(".job-row")).to_have_count(1)
    press("Escape")
    press("Escape")
    expect(page.locator(".job-row")).to_have_count(4)
    press("j")
    press("j")
    second = page.locator("a.job-link").nth(1).inner_text()
    expect(page.locator("a.job-link").nth(1)).to_be_focused()
    press("Enter")
    expect(page.get_by_role("heading", name=second, exact=True)).to_be_focused()
    press("4")
    expect(page.get_by_role("tab", name="Sessions")).to_have_attribute("aria-selected", "true")
    press("k")
    expect(page.get_by_role("heading", name=second, exact=True)).to_be_hidden()
    expect(page.get_by_role("tab", name="Sessions")).to_have_attribute("aria-selected", "true")
    stop = page.get_by_role("button", name="Stop with a savepoint")
    wait_until(lambda: [press("Tab"), stop.evaluate("node => node === document.activeElement")][1], what="focus")
    press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("a last checkpoint is made")
    press("Escape")
    press("Escape")
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()


def test_a_job_is_stopped_with_a_savepoint_by_who_has_the_token(tmp_path: Path, tabs: Tabs) -> None:
    port = write_job(tmp_path, "one")
    write_job(tmp_path, "two")
    with Process(tmp_path) as process:
        with wait_until(lambda: connected(port)) as wire:
            wire.ask("__BATCH__:1:kept")
        page = tabs.open(process.page("one"))
        page.get_by_role("button", name="Stop with a savepoint").click()
        page.get_by_role("button", name="Stop it").click()
        give_token(page, "not the token of it")
        expect(page.get_by_text("did not accept this token")).to_be_visible()
        give_token(page)
        expect(page.locator(".title-row .badge")).to_have_text("ended")
        assert rows(tmp_path / "one") == ["kept"]
        expect(page.get_by_role("button", name="Stop with a savepoint")).to_be_hidden()
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Not running").click()
        expect(page.locator(".job-row")).to_have_count(1)


def test_a_dead_letter_is_seen_and_replayed_after_the_job_was_mended(tmp_path: Path, tabs: Tabs) -> None:
    letters = f'dead_letter {{ DeadLetter {{ path = "{tmp_path / "dead"}" }} }}'
    sink = f'LocalFile {{ path = "{tmp_path / "out"}", file_format_type = json }}'

    def write(kind: str) -> int:
        source = f"on_bad_record = dead_letter\n schema {{ fields {{ id = {kind} }} }}"
        return write_job(tmp_path, "typed", source=source, sink=sink, more=letters)

    port = write("int")
    with Process(tmp_path) as process:
        page = tabs.open(process.page("typed"))
        with wait_until(lambda: connected(port)) as wire:
            wire.ask('__BATCH__:7:{"id": "seven"}')
        expect(notice(page, "1 dead letter set aside")).to_be_visible()
        page.get_by_role("link", name="Show them").click()
        expect(page.locator("table.letters tbody tr")).to_contain_text("expected int")
        process.job.stop()
    write("string")
    with Process(tmp_path, http=process.url.split("/")[2]):
        expect(page.locator("#pulse")).to_have_text("Live")
        page.get_by_label("Mark the letter of batch 7").check()
        page.get_by_role("button", name="Replay 1 marked").click()
        give_token(page)
        expect(page.get_by_text("1 letter replayed.")).to_be_visible()
        expect(page.locator("table.letters tbody tr")).to_contain_text("✓ replayed")
        assert [json.loads(row) for row in rows(tmp_path / "out")] == [{"id": "seven"}]


def test_a_server_that_is_gone_makes_the_figures_stale_until_it_is_back(tmp_path: Path, tabs: Tabs) -> None:
    write_job(tmp_path, "only")
    # On an address that other hosts reach, looking needs the token too; it is asked for once.
    with Process(tmp_path, http="0.0.0.0:0") as process:
        page = tabs.open(process.url.replace("0.0.0.0", "127.0.0.1"))
        expect(page.get_by_text("This server shows its jobs to those who have its token.")).to_be_visible()
        expect(page.get_by_role("heading", name="only")).to_have_count(0)
        give_token(page)
        expect(page.get_by_role("heading", name="only")).to_be_visible()  # a single job is opened at once
        expect(page.get_by_role("log")).to_contain_text("listener opened")
        expect(page.locator("#pulse")).to_have_text("Live")
        process.job.kill()
        expect(page.locator("#pulse")).to_contain_text("Stale since")
        expect(page.locator("#stale")).to_contain_text("These figures are of")
        expect(page.locator("#stale")).to_contain_text("trying again")
    with Process(tmp_path, http=process.url.split("/")[2]):
        expect(page.locator("#pulse")).to_have_text("Live")
        expect(page.locator("#stale")).to_be_hidden()
        expect(page.locator(".facts")).to_contain_text("run 2")


def test_a_hundred_jobs_are_filtered_sorted_and_opened(tmp_path: Path, tabs: Tabs) -> None:
    ports = free_ports(100)
    for n, port in enumerate(ports):
        write_job(tmp_path, f"site-{n:02}", port, env="checkpoint.interval = 2000", sink="Null {}" if n % 10 else "")
    with Process(tmp_path) as process:
        page = tabs.open(process.url)
        expect(page.locator(".job-row")).to_have_count(100)
        expect(page.get_by_role("button", name="Running 100")).to_be_visible()
        page.get_by_label("Filter jobs").fill("localfile")
        expect(page.locator(".job-row")).to_have_count(10)
        page.get_by_label("Filter jobs").fill("")
        with Feeder(ports[63], pause_s=0.005):
            page.get_by_label("Sort by").select_option("received")
            expect(page.locator("a.job-link").first).to_have_text("site-63")
            page.get_by_role("link", name="site-63").click()
            expect(page.get_by_role("heading", name="site-63")).to_be_visible()
            page.go_back()
            expect(page.locator("a.job-link").first).to_have_text("site-63")


def test_a_filter_and_an_order_set_at_once_both_hold(process: Process, tabs: Tabs) -> None:
    page = tabs.open(f"{process.url}#/")
    expect(page.get_by_label("Filter jobs")).to_be_visible()
    page.evaluate(
        """() => {
            const set = (id, value, event) => {
                const field = document.getElementById(id);
                field.value = value;
                field.dispatchEvent(new Event(event));
            };
            set("filter", "site", "input");
            set("sort", "received", "change");
        }"""
    )
    expect(page).to_have_url(re.compile("q=site"))
    expect(page).to_have_url(re.compile("sort=received"))
