"""Filter, FieldMapper, Copy, FieldRename and FilterRowKind: transforms that move columns, not values."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from transform_helpers import applied, batch, check_splits, notes, problems, ran, refused, transform

from edgesocket.components import registry
from edgesocket.config.transforms import TRANSFORMS

MARK = {b"edgesocket.type": b"timestamp_tz"}
PEOPLE = batch({"name": ["Joy", None, "Kin"], "age": [20, 21, None], "card": ["1", "2", "3"]})
MARKED = pa.schema([pa.field("ts", pa.int64(), metadata=MARK), pa.field("x", pa.string())])


def test_every_transform_of_the_job_file_is_in_the_registry_and_takes_its_options() -> None:
    assert sorted(TRANSFORMS) == sorted(registry.transforms.names())
    for name in TRANSFORMS:
        assert registry.transforms.factory(name).__name__ == f"{name}Transform"


@pytest.mark.parametrize("name", TRANSFORMS)
def test_every_transform_has_a_page_with_an_example_that_is_right(name: str) -> None:
    module = registry.transforms.factory(name).__module__.rpartition(".")[2]
    page = (Path(__file__).parents[3] / f"docs/transforms/{module}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {name}\n")
    assert f"<!-- options: transform {name} -->\n" in page
    assert "<!-- /options -->" in page
    examples = re.findall(rf"```hocon\ntransform {{\n  {name} {{\n(.*?)\n  }}\n}}\n```", page, re.DOTALL)
    assert examples
    for example in examples:
        assert problems(name, example) == []
        assert notes(name, example) == []


class TestFilter:
    def test_include_fields_keeps_columns_in_its_own_order(self) -> None:
        assert ran(transform("Filter", 'include_fields = ["card", "name"]'), PEOPLE)[0] == {"card": "1", "name": "Joy"}
        assert applied(transform("Filter", "include_fields = [card, name]"), PEOPLE).schema.names == ["card", "name"]

    def test_exclude_fields_keeps_the_others_in_theirs(self) -> None:
        assert applied(transform("Filter", "exclude_fields = [age]"), PEOPLE).schema.names == ["name", "card"]

    def test_fields_is_an_old_name_of_include_fields_and_says_so(self) -> None:
        assert ran(transform("Filter", "fields = [age]"), PEOPLE)[0] == {"age": 20}
        assert notes("Filter", "fields = [age]") == ["job.conf:1: Filter.fields is an old name, write include_fields"]

    def test_one_list_is_needed_and_two_are_too_many(self) -> None:
        assert problems("Filter", "") == ["include_fields: is required, or exclude_fields: one of them"]
        both = "include_fields = [a]\nexclude_fields = [b]"
        assert problems("Filter", both) == [
            "exclude_fields: is given, and so is include_fields: it is one or the other"
        ]

    def test_every_unknown_field_is_named_with_what_was_probably_meant(self) -> None:
        found = refused(transform("Filter", "include_fields = [Name, card, agee]"), PEOPLE.schema)
        assert [(path, fix) for path, _, fix in found] == [
            ("include_fields", "did you mean name?"),
            ("include_fields", "did you mean age?"),
        ]
        assert found[0][1] == 'there is no field "Name"; the fields are name, age, card'

    def test_a_field_twice_and_no_field_at_all_are_refused(self) -> None:
        assert refused(transform("Filter", "include_fields = [age, age]"), PEOPLE.schema)[0][1] == (
            '"age" is in the list twice'
        )
        assert refused(transform("Filter", "exclude_fields = [name, age, card]"), PEOPLE.schema)[0][1] == (
            "no field is left"
        )

    def test_the_mark_of_a_field_stays(self) -> None:
        assert transform("Filter", "include_fields = [ts]").bind(MARKED).field("ts").metadata == MARK

    def test_columns_are_not_copied(self) -> None:
        made = applied(transform("Filter", "include_fields = [age]"), PEOPLE)
        assert made.batch.column(0).buffers()[1].address == PEOPLE.column(1).buffers()[1].address


class TestFieldMapper:
    def test_the_result_has_the_mapped_columns_only_in_the_order_of_the_map(self) -> None:
        step = transform("FieldMapper", "field_mapper { card = id, name = who }")
        assert ran(step, PEOPLE)[0] == {"id": "1", "who": "Joy"}
        assert step.bind(PEOPLE.schema).names == ["id", "who"]

    def test_two_fields_cannot_get_one_name(self) -> None:
        step = transform("FieldMapper", "field_mapper { card = x, name = x, agee = y }")
        assert [message for _, message, _ in refused(step, PEOPLE.schema)] == [
            'there is no field "agee"; the fields are name, age, card',
            'card and name would both be called "x"',
        ]

    def test_an_empty_map_is_refused(self) -> None:
        assert problems("FieldMapper", "field_mapper {}") == ["field_mapper: the map is empty"]
        assert problems("FieldMapper", "") == ["field_mapper: is required, and missing"]

    def test_a_field_needs_a_name(self) -> None:
        assert problems("FieldMapper", 'field_mapper { a = "" }') == ["field_mapper: a field would have no name"]

    def test_the_mark_of_a_field_goes_with_it(self) -> None:
        assert transform("FieldMapper", "field_mapper { ts = t }").bind(MARKED).field("t").metadata == MARK


class TestCopy:
    def test_copies_stand_at_the_end_in_the_order_of_the_map(self) -> None:
        step = transform("Copy", "fields { a = age, b = name }")
        assert ran(step, PEOPLE)[0] == {"name": "Joy", "age": 20, "card": "1", "a": 20, "b": "Joy"}
        assert step.bind(PEOPLE.schema).names == ["name", "age", "card", "a", "b"]

    def test_the_older_form_copies_one_field(self) -> None:
        assert ran(transform("Copy", "src_field = age\ndest_field = a"), PEOPLE)[1]["a"] == 21

    def test_a_copy_takes_the_place_of_a_field_of_its_name(self) -> None:
        step = transform("Copy", "fields { name = age }")
        assert list(ran(step, PEOPLE)[0].items()) == [("name", 20), ("age", 20), ("card", "1")]

    def test_two_fields_change_places(self) -> None:
        assert ran(transform("Copy", "fields { name = card, card = name }"), PEOPLE)[0] == {
            "name": "1",
            "age": 20,
            "card": "Joy",
        }

    def test_it_is_one_form_or_the_other(self) -> None:
        assert problems("Copy", "") == ["fields: is required, and missing"]
        assert problems("Copy", "src_field = a") == ["fields: is required, and missing"]
        assert problems("Copy", "fields { a = b }\nsrc_field = a\ndest_field = b") == [
            "fields: is given, and so is the older form with src_field and dest_field"
        ]

    def test_names_are_not_empty(self) -> None:
        assert problems("Copy", 'fields { "" = b }') == ["fields: a copy would have no name"]
        assert problems("Copy", 'fields = 5\nsrc_field = ""') == [
            "fields: needs a block of names and texts, not a single value",
            "src_field: an empty text is not allowed here",
        ]

    def test_an_unknown_field_is_named_where_it_was_written(self) -> None:
        assert refused(transform("Copy", "fields { a = agee }"), PEOPLE.schema)[0][::2] == (
            "fields",
            "did you mean age?",
        )
        assert refused(transform("Copy", "src_field = x\ndest_field = y"), PEOPLE.schema)[0][0] == "src_field"


class TestFieldRename:
    def renamed(self, block: str, *names: str) -> list[str]:
        return transform("FieldRename", block).bind(pa.schema([(name, pa.int32()) for name in names])).names

    def test_case_then_prefix_and_suffix(self) -> None:
        assert self.renamed("convert_case = upper\nprefix = f_\nsuffix = _s", "id", "Name") == ["f_ID_s", "f_NAME_s"]

    def test_a_rule_matches_the_name_as_it_was_and_its_text_keeps_its_case(self) -> None:
        block = "convert_case = UPPER\nreplacements_with_regex = [{ replace_from = create_time, replace_to = Source }]"
        assert self.renamed(block, "create_time", "x_create_time_y") == ["Source", "X_Source_Y"]

    def test_every_match_of_a_rule_is_replaced_and_the_last_rule_that_matches_counts(self) -> None:
        block = (
            "replacements_with_regex = [{ replace_from = a, replace_to = longer },"
            " { replace_from = b, replace_to = c }]"
        )
        assert self.renamed(block, "xaxa", "ab", "z") == ["xlongerxlonger", "ac", "z"]

    def test_without_regex_a_rule_is_for_a_whole_name(self) -> None:
        block = 'replacements_with_regex = [{ replace_from = "a.c", replace_to = z, is_regex = false }]'
        assert self.renamed(block, "a.c", "abc", "a.cd") == ["z", "abc", "a.cd"]

    def test_a_specific_name_wins_over_every_rule(self) -> None:
        block = "convert_case = UPPER\nprefix = p\nspecific = [{ field_name = a, target_name = b }]"
        assert self.renamed(block, "a", "c") == ["b", "pC"]

    def test_two_fields_cannot_get_one_name(self) -> None:
        step = transform("FieldRename", "convert_case = LOWER")
        schema = pa.schema([("ID", pa.int32()), ("id", pa.int32())])
        assert refused(step, schema)[0][1] == 'ID and id would both be called "id"'

    def test_an_unknown_specific_field_and_a_bad_pattern_are_both_told(self) -> None:
        step = transform(
            "FieldRename",
            "specific = [{ field_name = ag, target_name = b }]\n"
            'replacements_with_regex = [{ replace_from = "[", replace_to = x }]',
        )
        assert [path for path, _, _ in refused(step, PEOPLE.schema)] == [
            "specific",
            "replacements_with_regex[1].replace_from",
        ]

    def test_a_block_without_a_rule_says_that_it_does_nothing(self) -> None:
        assert notes("FieldRename", "") == ["job.conf:1: FieldRename has no rule, so it renames nothing"]

    def test_a_name_cannot_vanish(self) -> None:
        step = transform("FieldRename", 'replacements_with_regex = [{ replace_from = ".+", replace_to = "" }]')
        assert refused(step, pa.schema([("a", pa.int32())]))[0][1] == "a would have no name"

    def test_values_stay_where_they_are(self) -> None:
        assert ran(transform("FieldRename", "prefix = p_"), PEOPLE)[0] == {"p_name": "Joy", "p_age": 20, "p_card": "1"}

    def test_a_letter_that_grows_in_upper_case_does_not_move_a_match(self) -> None:
        block = "convert_case = UPPER\nreplacements_with_regex = [{ replace_from = x, replace_to = y }]"
        assert self.renamed(block, "ßax") == ["ßAy"]


class TestFilterRowKind:
    @pytest.mark.parametrize(
        ("block", "passes"),
        [
            ("include_kinds = [INSERT, DELETE]", True),
            ("include_kinds = [update_after]", False),
            ("exclude_kinds = [DELETE]", True),
            ("exclude_kinds = [insert]", False),
        ],
    )
    def test_every_row_is_an_insert(self, block: str, passes: bool) -> None:
        step = transform("FilterRowKind", block)
        assert len(ran(step, PEOPLE)) == (3 if passes else 0)

    def test_a_block_that_drops_every_row_says_so(self) -> None:
        assert notes("FilterRowKind", "include_kinds = [DELETE]") == [
            "job.conf:1: FilterRowKind drops every row: collectors only send INSERT rows"
        ]
        assert notes("FilterRowKind", "include_kinds = [INSERT]") == []

    def test_unknown_kinds_and_both_lists_are_refused(self) -> None:
        assert problems("FilterRowKind", "include_kinds = [UPSERT]") == [
            "include_kinds: UPSERT is none of INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE"
        ]
        assert len(problems("FilterRowKind", "include_kinds = [INSERT]\nexclude_kinds = [DELETE]")) == 1
        assert len(problems("FilterRowKind", "")) == 1


@pytest.mark.parametrize(
    ("name", "block"),
    [
        ("Filter", "exclude_fields = [age]"),
        ("FieldMapper", "field_mapper { age = a }"),
        ("Copy", "fields { a = age }"),
        ("FieldRename", "suffix = _x"),
        ("FilterRowKind", "include_kinds = [INSERT]"),
        ("FilterRowKind", "include_kinds = [DELETE]"),
    ],
)
def test_how_rows_are_cut_into_batches_makes_no_difference(name: str, block: str) -> None:
    check_splits(lambda: transform(name, block), PEOPLE)
