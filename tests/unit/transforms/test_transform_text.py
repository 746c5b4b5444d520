"""Replace and Split: transforms that work on the text of one column."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from transform_helpers import applied, batch, check_splits, notes, problems, ran, refused, transform

NAMES = batch({"name": ["Joy Ding", None, "Kin Dom", "", "a b c d"], "n": [1, 2, 3, 4, 5]})


def replaced(block: str, *texts: str | None) -> list[Any]:
    step = transform("Replace", f"replace_field = x\n{block}")
    return [row["x"] for row in ran(step, batch({"x": list(texts)}, x=pa.string()))]


class TestReplace:
    def test_a_text_is_replaced_wherever_it_stands(self) -> None:
        assert replaced('pattern = "a."\nreplacement = "$1"', "a.ba.", "ab", None, "") == ["$1b$1", "ab", None, ""]

    def test_replace_first_has_no_effect_on_a_text_and_says_so(self) -> None:
        block = "pattern = a\nreplacement = b\nreplace_first = true"
        assert replaced(block, "aa") == ["bb"]
        assert len(notes("Replace", f"replace_field = x\n{block}")) == 1

    def test_a_regular_expression_is_replaced_everywhere_or_once(self) -> None:
        assert replaced('pattern = "[0-9]+"\nreplacement = "#"\nis_regex = true', "a1b22", "x") == ["a#b#", "x"]
        once = 'pattern = "[0-9]+"\nreplacement = "#"\nis_regex = true\nreplace_first = true'
        assert replaced(once, "a1b22") == ["a#b22"]

    def test_groups_are_named_as_in_java(self) -> None:
        block = r'pattern = "(?<first>\\w+) (\\w+)"' + '\nreplacement = "$2, ${first}"\nis_regex = true'
        assert replaced(block, "Joy Ding", None) == ["Ding, Joy", None]

    def test_a_column_of_another_type_is_replaced_in_as_text_and_becomes_text(self) -> None:
        values = {
            "b": [True, None],
            "i": [-12, 5],
            "d": [Decimal("1.50"), Decimal("-0.05")],
            "t": [dt.datetime(2024, 1, 2, 3, 4, 5), dt.datetime(2024, 1, 2, 3, 4, 5, 120_000)],
            "day": [dt.date(2024, 1, 2), None],
            "c": [dt.time(1, 2, 3), dt.time(1, 2, 3, 5)],
            "f": [1.5, 2.0],
        }
        rows = batch(values, c=pa.time64("us"), t=pa.timestamp("us"))
        shown = {}
        for name in values:
            step = transform("Replace", f'replace_field = {name}\npattern = "#"\nreplacement = "-"')
            assert step.bind(rows.schema).field(name).type == pa.string()
            shown[name] = [row[name] for row in ran(step, rows)]
        assert shown == {
            "b": ["true", None],
            "i": ["-12", "5"],
            "d": ["1.50", "-0.05"],
            "t": ["2024-01-02T03:04:05", "2024-01-02T03:04:05.12"],
            "day": ["2024-01-02", None],
            "c": ["01:02:03", "01:02:03.000005"],
            "f": ["1.5", "2.0"],
        }

    def test_a_column_without_a_text_form_is_refused(self) -> None:
        step = transform("Replace", "replace_field = x\npattern = a\nreplacement = b")
        assert refused(step, pa.schema([("x", pa.list_(pa.int32()))]))[0][1] == (
            "x is list<item: int32>, which has no text to replace in"
        )

    def test_every_fault_is_told_at_once(self) -> None:
        step = transform("Replace", 'replace_field = y\npattern = "("\nreplacement = b\nis_regex = true')
        assert [path for path, _, _ in refused(step, pa.schema([("x", pa.string())]))] == ["replace_field", "pattern"]

    def test_an_empty_pattern_is_refused(self) -> None:
        assert problems("Replace", 'replace_field = x\npattern = ""\nreplacement = b') == [
            "pattern: an empty text is not allowed here"
        ]


def parts(separator: str, outputs: int, *texts: str | None) -> list[list[Any]]:
    names = [f"p{number}" for number in range(outputs)]
    step = transform("Split", f'separator = "{separator}"\nsplit_field = x\noutput_fields = [{", ".join(names)}]')
    rows = ran(step, batch({"x": list(texts)}, x=pa.string()))
    return [[row[name] for name in names] for row in rows]


class TestSplit:
    @pytest.mark.parametrize("separator", [",", "[,]"])
    def test_the_last_part_takes_the_rest_and_missing_parts_are_null(self, separator: str) -> None:
        assert parts(separator, 2, "a,b,c", "a", "", None, ",", "a,") == [
            ["a", "b,c"],
            ["a", None],
            ["", None],
            [None, None],
            ["", ""],
            ["a", ""],
        ]
        assert parts(separator, 3, "a,b,c,d", "a,b") == [["a", "b", "c,d"], ["a", "b", None]]
        assert parts(separator, 1, "a,b", None) == [["a,b"], [None]]

    def test_the_separator_is_a_regular_expression(self) -> None:
        assert parts(r"\\s*;\\s*", 2, "a ;  b", "ab") == [["a", "b"], ["ab", None]]
        assert parts(r"\\|", 2, "a|b") == [["a", "b"]]
        assert parts("(x)|(y)", 3, "axbyc") == [["a", "b", "c"]]

    def test_an_empty_match_at_the_very_beginning_cuts_nothing_off(self) -> None:
        assert parts("(?=[A-Z])", 3, "AbCd", "abCd") == [["Ab", "Cd", None], ["ab", "Cd", None]]

    def test_the_columns_stand_at_the_end_and_the_source_stays(self) -> None:
        step = transform("Split", 'separator = " "\nsplit_field = name\noutput_fields = [first, last]')
        assert ran(step, NAMES)[0] == {"name": "Joy Ding", "n": 1, "first": "Joy", "last": "Ding"}

    def test_an_output_may_take_the_place_of_a_field(self) -> None:
        step = transform("Split", 'separator = " "\nsplit_field = name\noutput_fields = [name, n]')
        assert applied(step, NAMES).schema == pa.schema([("name", pa.string()), ("n", pa.string())])
        assert ran(step, NAMES)[0] == {"name": "Joy", "n": "Ding"}

    def test_a_number_is_cut_in_its_text_form(self) -> None:
        step = transform("Split", 'separator = "."\nsplit_field = x\noutput_fields = [a, b]')
        assert ran(step, batch({"x": ["1.5"]}))[0]["a"] == ""  # a dot is any character
        step = transform("Split", 'separator = "[.]"\nsplit_field = x\noutput_fields = [a, b]')
        assert ran(step, batch({"x": [Decimal("1.50")]}))[0] == {"x": Decimal("1.50"), "a": "1", "b": "50"}

    def test_a_slice_of_rows_is_cut_like_rows_of_their_own(self) -> None:
        step = transform("Split", 'separator = " "\nsplit_field = name\noutput_fields = [a, b]')
        assert [row["a"] for row in ran(step, NAMES.slice(2, 3))] == ["Kin", "", "a"]

    def test_faults_are_told(self) -> None:
        step = transform("Split", 'separator = ","\nsplit_field = x\noutput_fields = [a]')
        assert refused(step, pa.schema([("x", pa.binary())]))[0][1] == "x is binary, which has no text to cut"
        assert problems("Split", 'separator = " "\nsplit_field = y\noutput_fields = [a, ""]') == [
            "output_fields: there is an empty name in the list"
        ]
        step = transform("Split", 'separator = "["\nsplit_field = y\noutput_fields = [a, a]')
        assert [path for path, _, _ in refused(step, NAMES.schema)] == ["split_field", "output_fields", "separator"]
        assert problems("Split", 'separator = " "\nsplit_field = y\noutput_fields = []') == [
            "output_fields: the list is empty"
        ]


@pytest.mark.parametrize(
    ("name", "block"),
    [
        ("Replace", 'replace_field = name\npattern = " "\nreplacement = "_"'),
        ("Replace", 'replace_field = name\npattern = "[A-Z]"\nreplacement = "<$0>"\nis_regex = true'),
        ("Replace", 'replace_field = n\npattern = "1"\nreplacement = "_"'),
        ("Split", 'separator = " "\nsplit_field = name\noutput_fields = [a, b, c]'),
        ("Split", 'separator = "[ ]"\nsplit_field = name\noutput_fields = [a, b]'),
        ("Split", 'separator = " "\nsplit_field = name\noutput_fields = [a]'),
    ],
)
def test_how_rows_are_cut_into_batches_makes_no_difference(name: str, block: str) -> None:
    check_splits(lambda: transform(name, block), NAMES)
