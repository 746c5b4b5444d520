"""A job runs where every tag of its filter is a label with the same text."""

from __future__ import annotations

import pytest

from edgesocket.config.labels import check_tag_filter, parse_environment_labels, parse_labels
from edgesocket.errors import ConfigError, UsageError


def test_a_label_is_cut_at_its_first_equals_sign_and_the_last_of_a_name_counts() -> None:
    assert parse_labels(["a=1=2", "b=", "a = 3"], "--label") == {"a": "3", "b": ""}


@pytest.mark.parametrize("text", ["zone", "=a", "  =a"])
def test_what_is_no_label_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--label"):
        parse_labels([text], "--label")


def test_the_environment_has_labels_with_commas_between_them() -> None:
    assert parse_environment_labels("zone=a, rack=7,") == {"zone": "a", "rack": "7"}
    assert parse_environment_labels("") == {}


def test_every_tag_must_be_a_label_and_further_labels_do_not_matter() -> None:
    assert check_tag_filter("j", {"edge": "true"}, {"edge": "true", "zone": "a"}) == ""
    assert check_tag_filter("j", {}, {"zone": "a"}) == ""


def test_every_missing_label_is_named() -> None:
    with pytest.raises(ConfigError) as refused:
        check_tag_filter("j", {"edge": "true", "zone": "a", "rack": "7"}, {"edge": "TRUE", "zone": "a"})
    paths = [problem.path for problem in refused.value.problems]
    assert paths == ["env.tag_filter.edge", "env.tag_filter.rack"]
    assert "the label here is TRUE" in str(refused.value)


def test_a_place_without_labels_runs_it_with_a_warning() -> None:
    assert "zone=a" in check_tag_filter("j", {"zone": "a"}, {})
