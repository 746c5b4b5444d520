"""The Sql transform: which queries it takes, what they make of rows, and what they can never reach."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transform_helpers import applied, batch, check_splits, fails_in_batch, notes, problems, ran, refused, transform

from edgesocket.rows import Rows
from edgesocket.transforms import duck as duck_module
from edgesocket.transforms.duck import Duck, DuckError
from edgesocket.transforms.sql import SqlTransform

TS_TZ = pa.struct([("utc", pa.timestamp("us", "UTC")), ("offset_minutes", pa.int16())])
MARK = {b"edgesocket.type": b"timestamp_tz"}
ROWS = batch(
    {
        "id": [1, 2, 3, 4],
        "name": ["a", "bb", None, "dd"],
        "Amount": [Decimal("1.50"), Decimal("2.00"), None, Decimal("-3.25")],
        "info": [{"x": 1, "In": {"y": "p"}}, None, {"x": None, "In": None}, {"x": 4, "In": {"y": "q"}}],
        "tags": [[("k", 1)], [], None, [("k", 4), ("l", 5)]],
        "list": [[1], [2, 3], None, []],
        "odd name": [1, 2, 3, 4],
        "a.b": [5, 6, 7, 8],
    },
    tags=pa.map_(pa.string(), pa.int32()),
    Amount=pa.decimal128(10, 2),
)


def query(text: str, of: pa.RecordBatch = ROWS) -> list[dict[str, Any]]:
    return ran(SqlTransform(query=text), of)


def why_not(text: str, of: pa.RecordBatch = ROWS) -> str:
    found = refused(SqlTransform(query=text), of.schema)
    assert [path for path, _, _ in found] == ["query"]
    return f"{found[0][1]} | {found[0][2]}"


class TestQueries:
    def test_a_star_is_every_column_as_it_is(self) -> None:
        assert query("select * from dual") == ROWS.to_pylist()
        assert query("SELECT *, id AS again FROM t")[0]["again"] == 1

    def test_columns_aliases_and_expressions_in_order(self) -> None:
        made = query("select name n, id + 1 as next, upper(name), t.id from t")
        assert list(made[1].items()) == [("n", "bb"), ("next", 3), ("upper(name)", "BB"), ("id", 2)]

    def test_a_condition_keeps_rows_with_their_ids(self) -> None:
        rows = applied(SqlTransform(query="select id from t where name is not null and id <> 2"), ROWS)
        assert rows is not None
        assert rows.id_array().tolist() == [100, 103]
        assert rows.batch.to_pylist() == [{"id": 1}, {"id": 4}]

    def test_ids_with_gaps_stay_with_their_rows(self) -> None:
        step = SqlTransform(query="select id * 10 as x from t where id > 1")
        step.bind(ROWS.schema)
        everything = Rows.of_batch(ROWS, 7)
        some = everything.taken(pa.array([1, 3]).to_numpy())
        assert some is not None
        made = step.apply(some)
        assert made is not None
        assert (made.id_array().tolist(), made.batch.to_pylist()) == ([8, 10], [{"x": 20}, {"x": 40}])

    def test_no_row_is_none(self) -> None:
        assert applied(SqlTransform(query="select id from t where id > 99"), ROWS) is None
        assert applied(SqlTransform(query="select id + 1 as x from t where 1 = 0"), ROWS) is None

    def test_what_is_neither_true_nor_false_drops_the_row(self) -> None:
        assert [row["id"] for row in query("select id from t where name <> 'a'")] == [2, 4]

    def test_columns_inside_rows_and_maps(self) -> None:
        assert [row["x"] for row in query("select info.x from t")] == [1, None, None, 4]
        assert [row["v"] for row in query("select t.info.In.y as v from t")] == ["p", None, None, "q"]
        assert [row["k"] for row in query("select tags.k from t")] == [1, None, None, 4]
        assert [row["k"] for row in query("select tags['l'] as k from t")] == [None, None, None, 5]
        assert [row["k"] for row in query("select list[1] as k from t")] == [1, 2, None, None]
        assert [row["id"] for row in query("select id from t where info.x = 4")] == [4]

    def test_odd_names_in_quotes_and_letter_case(self) -> None:
        assert query('select `odd name`, "odd name" as o, a.b, ID, AMOUNT from t')[0] == {
            "odd name": 1,
            "o": 1,
            "a.b": 5,
            "id": 1,
            "Amount": Decimal("1.50"),
        }
        assert query("select ID + 1 as x from t")[0] == {"x": 2}

    def test_names_that_differ_in_case_only_are_different_columns(self) -> None:
        rows = batch({"x": [1], "X": [2]})
        assert query("select x + 10 as a, X + 10 as b from t", rows) == [{"a": 11, "b": 12}]

    def test_a_column_called_like_a_function_without_brackets_is_the_column(self) -> None:
        assert query("select current_date as d from t", batch({"current_date": [5]})) == [{"d": 5}]

    def test_case_in_between_like_and_their_opposites(self) -> None:
        def ids(condition: str) -> list[int]:
            return [row["id"] for row in query(f"select id from t where {condition}")]

        assert ids("id in (1, 3)") == [1, 3]
        assert ids("id not in (1, 3)") == [2, 4]
        assert ids("id between 2 and 3") == [2, 3]
        assert ids("id not between 2 and 3") == [1, 4]
        assert ids("name like 'b%' or name like '_d'") == [2, 4]
        assert ids("name not like '%b%'") == [1, 4]
        assert ids("name like 'b!b' escape '!'") == [2]
        assert ids("not (id = 1 or id = 2)") == [3, 4]
        assert ids("name is null") == [3]
        assert ids("case when id > 2 then true else false end") == [3, 4]

    def test_a_text_with_quotes_and_backslashes_is_itself(self) -> None:
        assert query(r"select 'it''s \n; drop -- x' as x from t")[0] == {"x": r"it's \n; drop -- x"}

    def test_a_query_may_go_over_lines_and_have_comments(self) -> None:
        assert len(query("select id -- the key\n  from t /* all */\n  where id > 1;")) == 3

    def test_whole_numbers_and_decimals_are_compared_exactly(self) -> None:
        big = 2**53 + 1
        rows = batch({"n": [big, big - 1], "d": [Decimal(f"{big}.01"), Decimal(f"{big}.02")]})
        assert query(f"select n from t where n = {big}", rows) == [{"n": big}]
        assert query(f"select n from t where n > {big - 1}.0", rows) == [{"n": big}]
        assert query(f"select n from t where d > {big}.01", rows) == [{"n": big - 1}]

    def test_nan_is_the_greatest_number(self) -> None:
        rows = batch({"d": [math.nan, 1.0]})
        assert len(query("select d from t where d > 5.0", rows)) == 1

    def test_the_result_has_types_that_rows_have(self) -> None:
        step = SqlTransform(
            query="select 1 as a, 'x' as b, null as c, 12345678901234567890 as d, 1.50 as e, true as f, id / 2 as g,"
            " info as h, list as i, DATE '2024-01-01' as j, length(name) as k from t"
        )
        assert step.bind(ROWS.schema).types == [
            pa.int32(),
            pa.string(),
            pa.string(),
            pa.decimal128(38, 0),
            pa.decimal128(3, 2),
            pa.bool_(),
            pa.int64(),
            ROWS.schema.field("info").type,
            ROWS.schema.field("list").type,
            pa.date32(),
            pa.int64(),
        ]
        assert ran(step, ROWS)[0]["d"] == 12345678901234567890

    def test_a_computed_list_row_and_map_have_our_types(self) -> None:
        text = "select coalesce(list, list) as l, coalesce(info, info) as s, coalesce(tags, tags) as m from t"
        step = SqlTransform(query=text)
        assert step.bind(ROWS.schema).types == [ROWS.schema.field(name).type for name in ("list", "info", "tags")]
        assert [row["l"] for row in ran(step, ROWS)] == [[1], [2, 3], None, []]

    def test_a_timestamp_with_a_zone_is_selected_as_it_is_and_not_computed_with(self) -> None:
        moment = {"utc": dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "offset_minutes": 60}
        fields = pa.schema([pa.field("ts", TS_TZ, metadata=MARK), pa.field("id", pa.int32())])
        rows = pa.RecordBatch.from_arrays(
            [pa.array([moment, None], TS_TZ), pa.array([1, 2], pa.int32())], schema=fields
        )
        step = SqlTransform(query="select ts as t, id + 1 as x from t where id < 2")
        assert step.bind(fields).field("t").metadata == MARK
        assert ran(step, rows) == [{"t": moment, "x": 2}]
        assert "cannot" not in why_not("select id from t where ts is null", rows)
        assert "can be selected as it is" in why_not("select id from t where ts is null", rows)

    def test_columns_that_no_expression_reads_are_not_copied(self) -> None:
        made = applied(SqlTransform(query="select id, upper(name) as n from t"), ROWS)
        assert made is not None
        assert made.batch.column(0).buffers()[1].address == ROWS.column(0).buffers()[1].address

    def test_a_part_of_a_batch_is_queried_alone(self) -> None:
        assert [row["x"] for row in query("select id + 1 as x, name from t", ROWS.slice(1, 2))] == [3, 4]

    def test_a_table_may_have_an_alias(self) -> None:
        assert query("select e.id, e.info.x as x from edge e where e.id = 1") == [{"id": 1, "x": 1}]
        assert query("select e.* from edge as e") == ROWS.to_pylist()

    def test_a_field_whose_case_leaves_a_doubt_is_refused(self) -> None:
        assert "no field" in why_not("select aB from t", batch({"ab": [1], "AB": [2]}))

    def test_a_query_can_be_bound_again(self) -> None:
        step = SqlTransform(query="select id + 1 as x from t")
        step.bind(ROWS.schema)
        assert ran(step, batch({"id": [5]})) == [{"x": 6}]


class TestRefused:
    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("select id from t order by id", "ORDER BY is not supported"),
            ("select id from t limit 1", "LIMIT is not supported"),
            ("select distinct id from t", "DISTINCT is not supported"),
            ("select id from t group by id", "GROUP BY is not supported"),
            ("select id from t group by all", "GROUP BY is not supported"),
            ("select 1 as x from t having true", "HAVING is not supported"),
            ("select id from t qualify true", "QUALIFY is not supported"),
            ("select sum(id) as x from t", "nothing to aggregate"),
            ("select count(*) as x from t", "nothing to aggregate"),
            ("select row_number() over () as x from t", "a window function is not supported"),
            ("select t.id from t join u on t.id = u.id", "a join, or a second table"),
            ("select id from t, u", "a join, or a second table"),
            ("select id from (select 1 as id)", "a subquery is not supported"),
            ("select (select 1) as x from t", "a subquery is not supported"),
            ("select id from t where exists (select 1)", "a subquery is not supported"),
            ("select id from t where id in (select 1)", "a subquery is not supported"),
            ("with q as (select 1 as id) select id from q", "WITH is not supported"),
            ("select id from t union select 1", "UNION is not supported"),
            ("values (1)", "VALUES is not supported"),
            ("select 1 as x", "there is no FROM"),
            ("select id from t; select id from t", "there are 2 statements"),
            ("", "there are 0 statements"),
            ("drop table t", "only SELECT is supported"),
            ("create table x as select 1", "only SELECT is supported"),
            ("copy t to '/tmp/x'", "only SELECT is supported"),
            ("set threads = 4", "only SELECT is supported"),
            ("select * from read_csv('/etc/passwd')", "a table function is not supported"),
            ("select * from range(5)", "a table function is not supported"),
            ("select * exclude (id) from t", "only a plain *"),
            ("select * replace (1 as id) from t", "only a plain *"),
            ("select columns('i.*') from t", "only a plain *"),
            ("select u.* from t", 'no table "u"'),
            ("select id from t using sample 10%", "SAMPLE is not supported"),
            ("select id from t tablesample 10%", "SAMPLE is not supported"),
            ("select id from t as u(a)", "only a name can stand behind FROM"),
            ("select list[1:2] as x from t", "not supported"),
            ("select id is distinct from 1 as x, name glob 'a' as y from t", "not supported"),
            ("select concat(distinct name) as x from t", "extra words"),
            ("select ? as x from t", "a parameter is not supported"),
            ("select list_transform(list, x -> x) as y from t", "no function list_transform"),
            ("select name collate nocase as x from t", "COLLATE is not supported"),
            ("select id & 1 as x from t", "the operator & is not supported"),
            ("select id from t where name ilike 'a'", "ILIKE is not supported"),
            ("select id + 1 from t", "give it one with AS"),
            ("select id, name as id from t", 'two columns are called "id"'),
            ("select ide from t", "did you mean id?"),
            ("select info.z from t", 'info has no field "z"; it has x, In'),
            ("select id.z as x from t", "id is int64"),
            ("select uper(name) as x from t", "did you mean UPPER?"),
            ("select system.main.upper(name) as x from t", "no function"),
            ("select id + name as x from t where", "it cannot be read"),
            ("select upper(id, 1) as x from t", "takes 1 arguments, not 2"),
            ("select info + 1 as x from t", "does not fit the fields"),
            ("select id from t where id = DATE '2024-01-01'", "does not fit the fields"),
            ("select DATE '2024-01-02' - DATE '2024-01-01' + ts as x from t", "no field"),
            (
                "select TIMESTAMP '2024-01-02 00:00:00' - TIMESTAMP '2024-01-01 00:00:00' as x from t",
                "would be a INTERVAL",
            ),
            ("select interval 1 day as x from t", "no function to_days"),
            ("select * from t lateral view explode(list) as x", "LATERAL VIEW"),
            ("select substr(uuid(), i, 2) as x from t", "no field"),
            ("select substr(uuid(), -2) as x from t", "UUID inside SUBSTRING is not supported"),
            ("select locate('1', uuid(), 3) as x from t", "UUID inside LOCATE is not supported"),
            ("select cast(uuid() as int) as x from t", "UUID inside CAST is not supported"),
            ("select 10 / cast(rand() * 3 as int) as x from t", "RAND inside / is not supported"),
            ("select " + "substring(" * 8 + "name" + ", id, 1)" * 8 + " as x from t", "too long"),
            ("select " + "(" * 300 + "id" + ")" * 300 + " + 1 as x from t", ""),
            ("select " + "-" * 0 + "not " * 300 + "true as x from t", "nested more than"),
        ],
    )
    def test_a_query_that_asks_for_more_is_refused_with_the_reason(self, text: str, reason: str) -> None:
        if not reason:  # brackets alone are no nesting
            assert query(text)[0] == {"x": 2}
            return
        assert reason in why_not(text)

    def test_there_is_one_dialect(self) -> None:
        assert problems("Sql", 'query = "select 1 from t"\nengine = INTERNAL') == [
            "engine: INTERNAL is not supported, only ZETA"
        ]
        assert problems("Sql", 'query = " "') == ["query: the query is blank"]
        assert problems("Sql", f'query = "{"x" * 100_001}"') == ["query: the query has more than 100000 characters"]
        assert problems("Sql", "") == ["query: is required, and missing"]

    def test_another_table_than_the_input_only_gives_a_note(self) -> None:
        block = 'plugin_input = edge\nquery = "select id from {}"'
        assert notes("Sql", block.format("edge")) == []
        assert notes("Sql", block.format("DUAL")) == []
        assert notes("Sql", block.format("`other`")) == [
            "job.conf:2: Sql.query names the table other; it gets the rows of edge all the same"
        ]
        assert ran(transform("Sql", block.format("other")), ROWS)[0] == {"id": 1}


class TestFailures:
    def test_the_first_row_that_fails_is_named_by_its_batch(self) -> None:
        rows = batch({"x": [*range(1, 60), 0, 7, 0]})
        batch_id, reason = fails_in_batch(SqlTransform(query="select 10 / x as y from t"), rows)
        assert (batch_id, reason) == (159, "the query fails: division by zero")

    def test_a_row_that_the_condition_drops_cannot_fail(self) -> None:
        rows = batch({"x": [1, 0, 2]})
        assert query("select case when x <> 0 then 10 / x end as y from t", rows)[1] == {"y": None}

    def test_a_reason_is_short(self) -> None:
        rows = batch({"x": ["z" * 1000]})
        _, reason = fails_in_batch(SqlTransform(query="select cast(x as date) as y from t"), rows)
        assert len(reason) < 300

    def test_a_row_that_needs_too_much_memory_is_a_bad_record(self) -> None:
        rows = batch({"x": ["z" * 1_000_000]})
        batch_id, _ = fails_in_batch(SqlTransform(query="select repeat(x, 2000) as y from t"), rows)
        assert batch_id == 100

    @pytest.mark.parametrize("condition", ["", " where id % 2 = 0"])
    def test_rows_that_need_too_much_memory_together_are_computed_in_parts(
        self, monkeypatch: pytest.MonkeyPatch, condition: str
    ) -> None:
        monkeypatch.setitem(duck_module._SETTINGS, "memory_limit", "32MB")
        rows = batch({"id": list(range(64)), "x": ["z" * 1000] * 64})
        step = SqlTransform(query=f"select repeat(x, 1000) as y, id from t{condition}")
        made = applied(step, rows)
        assert made is not None
        kept = [number for number in range(64) if not condition or number % 2 == 0]
        assert made.id_array().tolist() == [100 + number for number in kept]
        assert made.batch.column(1).to_pylist() == kept
        assert {len(text) for text in made.batch.column(0).to_pylist()} == {1_000_000}


class TestLockedDown:
    @pytest.mark.parametrize(
        "statement",
        [
            "select * from read_text('/etc/passwd')",
            "select * from '/etc/passwd'",
            "select * from read_csv('http://127.0.0.1/x.csv')",
            "copy (select 1) to '/tmp/edgesocket-escape'",
            "attach '/tmp/edgesocket-escape.db'",
            "install httpfs",
            "load httpfs",
            "set enable_external_access = true",
            "set lock_configuration = false",
            "set memory_limit = '99GB'",
            "set threads = 8",
            "export database '/tmp/edgesocket-escape'",
        ],
    )
    def test_the_connection_itself_can_do_nothing_but_compute(self, statement: str) -> None:
        duck = Duck()
        with pytest.raises(DuckError):
            duck.computed(statement)
        duck.close()

    def test_python_variables_are_no_tables(self) -> None:
        secret = pa.table({"x": [1]})
        duck = Duck()
        with pytest.raises(DuckError):
            duck.computed("select * from secret")
        duck.close()
        assert secret.num_rows == 1


@pytest.mark.parametrize(
    "text",
    [
        "select * from t",
        "select id, upper(name) as n from t",
        "select id from t where id > 2",
        "select id + 1 as x, info from t where name is not null",
        "select info.x, tags from t where id in (2, 3)",
        "select soundex(name) as s, Amount * 2 as d from t",
        "select 1 as one from t where id = 3",
    ],
)
def test_how_rows_are_cut_into_batches_makes_no_difference(text: str) -> None:
    check_splits(lambda: SqlTransform(query=text), ROWS)


NUMBERS = st.sampled_from(["id", "info.x", "1", "2.5", "-3", "Amount", "length(name)", "cast(id as int)"])
EXPRESSIONS = st.recursive(
    NUMBERS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner).map(lambda of: f"{of[0]} {of[1]} {of[2]}"),
        inner.map(lambda one: f"({one})"),
        inner.map(lambda one: f"- {one}"),
        inner.map(lambda one: f"coalesce({one}, 7)"),
        st.tuples(inner, inner).map(lambda of: f"case when {of[0]} > {of[1]} then {of[0]} else {of[1]} end"),
    ),
    max_leaves=6,
)
CONDITIONS = st.recursive(
    st.tuples(EXPRESSIONS, st.sampled_from(["=", "<>", "<", ">=", "!="]), EXPRESSIONS).map(" ".join),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(" ".join),
        inner.map(lambda one: f"not {one}"),
        inner.map(lambda one: f"({one})"),
        inner.map(lambda one: f"({one}) is null"),
    ),
    max_leaves=4,
)


@settings(max_examples=25, deadline=None)
@given(EXPRESSIONS, CONDITIONS)
def test_the_query_written_anew_means_what_the_query_says(expression: str, condition: str) -> None:
    duck = Duck()
    duck.load(ROWS)
    try:
        said = duck.computed(f"select {expression} as x, {condition} as y from edgesocket_input").to_pylist()
    except DuckError:
        said = None  # a value too large for its type, say
    finally:
        duck.close()
    if said is not None:
        assert query(f"select {expression} as x, {condition} as y from t") == said
        assert len(query(f"select id from t where {condition}")) == sum(row["y"] is True for row in said)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=50), st.integers(-5, 5))
def test_a_condition_on_whole_numbers_is_what_python_says(values: list[int | None], limit: int) -> None:
    rows = batch({"n": values, "place": list(range(len(values)))}, n=pa.int64())
    made = query(f"select place from t where n >= {limit}", rows)
    assert [row["place"] for row in made] == [at for at, n in enumerate(values) if n is not None and n >= limit]
