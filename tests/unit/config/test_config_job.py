"""Whole job files: what they become, what is filled in, and everything that can be wrong with them."""

from __future__ import annotations

from typing import Any

import pytest
from config_helpers import KEY, SOURCE, Files, edge_socket, fixes, job, problems

from edgesocket.config.job import load_job
from edgesocket.config.sinks import SINKS, ConsoleOptions, LocalFileOptions, NullOptions
from edgesocket.errors import ConfigError, ExitCode

ALL_SINKS = ", ".join(SINKS)

ENV_LINE = "env { job.mode = STREAMING }\n"
SINK_LINE = "sink { Console {} }\n"

REFERENCE_SNIPPETS = [
    'source {\n  EdgeSocket {\n    port = 9999\n    token = "my-edge-token"\n  }\n}\n',
    'env {\n  job.mode = "STREAMING"\n  tag_filter {\n    edge-ingress = "true"\n  }\n}\n\nsource {\n  EdgeSocket {\n'
    '    port = 10091\n    token = "edge-token"\n    endpoint = "192.168.1.10:10091"\n  }\n}\n',
    'source {\n  EdgeSocket {\n    port = 10091\n    token = "edge-token"\n    local_queue_capacity = 2048\n'
    '    endpoint = "edge-lb.prod.example.com:10091"\n  }\n}\n',
    'source {\n  EdgeSocket {\n    port = 10091\n    token = "edge-token"\n'
    "    # Collector dials this worker's private IP directly; no endpoint needed\n  }\n}\n",
]


class TestGoodJobs:
    @pytest.mark.parametrize("text", REFERENCE_SNIPPETS)
    def test_the_snippets_of_the_reference(self, text: str) -> None:
        assert job(text).sources[0].options.token[0].endswith("edge-token")

    def test_every_part(self) -> None:
        text = (
            "env { job { name = edge, mode = streaming }, checkpoint.interval = 5 minutes, lease_ms = 4 s\n"
            '  tag_filter."edge.ingress" = true }\n'
            "source { edgesocket { port = 9999, token = t, plugin_output = rows } }\n"
            "sink { CONSOLE { log.print.delay.ms = 5 }\n  console { format = JSON }\n"
            '  LocalFile { path = "/x", file_format_type = Text, plugin_input = rows } Null {} }\n'.replace(
                "} Null", "}\n Null"
            )
        )
        spec = job(text, "/jobs/a.conf")

        assert (spec.name, spec.notes, spec.transforms) == ("edge", (), ())
        assert (spec.env.job_mode, spec.env.checkpoint_interval_ms, spec.env.lease_ms) == ("STREAMING", 300_000, 4000)
        assert dict(spec.env.tag_filter) == {"edge.ingress": "true"}
        assert [(source.plugin, source.id, source.location) for source in spec.sources] == [
            ("EdgeSocket", "EdgeSocket", "/jobs/a.conf:3")
        ]
        assert spec.sources[0].options.plugin_output == "rows"
        assert [(sink.plugin, sink.id) for sink in spec.sinks] == [
            ("Console", "Console"),
            ("Console", "Console-2"),
            ("LocalFile", "LocalFile"),
            ("Null", "Null"),
        ]
        assert spec.sinks[0].options == ConsoleOptions(format="text", log_print_data=True, log_print_delay_ms=5)
        files = spec.sinks[2].options
        assert isinstance(files, LocalFileOptions)
        assert (files.path, files.file_format_type, files.tmp_path) == ("/x", "text", None)
        assert (files.row_delimiter, files.field_delimiter, files.batch_size) == ("\n", None, 1_000_000)
        assert spec.sinks[2].plugin_input == ("rows",)
        assert spec.sinks[2].location == "/jobs/a.conf:6"
        assert spec.sinks[3].options == NullOptions()
        assert spec.sinks[1].arguments == {"format": "json", "log_print_data": True, "log_print_delay_ms": 0}

    @pytest.mark.parametrize(
        "text",
        [
            'source = [ { plugin_name = EdgeSocket, port = 9999, token = "my-edge-token" } ]',
            'source += { plugin_name = EdgeSocket, port = 9999, token = "my-edge-token" }',
            'source { Any { plugin_name = EdgeSocket, port = 9999, token = "my-edge-token" } }',
            'x { EdgeSocket { port = 9999, token = "my-edge-token" } }\nsource = ${x}',
            'source->EdgeSocket { port = 9999, token = "my-edge-token" }',
            'x = { port = 9999 }\nsource { EdgeSocket = ${x} { token = "my-edge-token" } }',
        ],
    )
    def test_other_ways_to_write_a_source(self, text: str) -> None:
        options = job(text).sources[0].options

        assert (options.port, options.token) == (9999, ("my-edge-token",))

    def test_json(self) -> None:
        text = (
            '{"env": {"job.mode": "STREAMING", "checkpoint.interval": 200},\n'
            ' "source": [{"plugin_name": "EdgeSocket", "port": 1, "token": "t"}],\n'
            ' "sink": [{"plugin_name": "Null"}, {"plugin_name": "Console"}]}'
        )
        spec = job(text, "dir\\edge.JSON")

        assert (spec.name, spec.env.checkpoint_interval_ms) == ("edge", 200)
        assert [sink.id for sink in spec.sinks] == ["Null", "Console"]
        assert problems(text.replace('"port": 1', '"port": 0'), "j.json") == [
            "j.json:2: source.EdgeSocket.port: 0 is not a TCP port (1..65535)"
        ]

    def test_variables_and_environment(self) -> None:
        text = edge_socket('port = ${?PORT}\ntoken = ${TOKEN}\nendpoint = "${HOST:localhost}:${PORT:1}"')
        spec = job(text, variables={"TOKEN": "a=b$c d"}, environ={"PORT": "12", "TOKEN": "no"})

        assert (spec.sources[0].options.port, spec.sources[0].options.token) == (12, ("a=b$c d",))
        assert spec.sources[0].options.endpoint == "localhost:12"

    def test_an_included_file(self) -> None:
        files = Files({"secrets.conf": 'edge_token = "t"'})
        spec = job('include "secrets.conf"\n' + edge_socket("port = 1\ntoken = ${edge_token}"), read_file=files)

        assert spec.sources[0].options.token == ("t",)

    def test_settings_of_env_at_the_top_level(self) -> None:
        assert job(SOURCE + "env.job.mode = STREAMING\nenv.parallelism = 1").notes == (
            "job.conf: sink is missing, filled in: sink { Console {} }",
        )
        assert job(SOURCE + "env { job.name = a }\nenv.job.name = b").name == "b"
        assert job(SOURCE + "env.job.name = a\nenv { job.name = b }").name == "b"


class TestFilledIn:
    def test_a_missing_env_and_sink_one_note_each(self) -> None:
        spec = job(SOURCE)

        assert spec.notes == (
            "job.conf: env is missing, filled in: env { job.mode = STREAMING }",
            "job.conf: sink is missing, filled in: sink { Console {} }",
        )
        assert (spec.env.job_mode, [sink.plugin for sink in spec.sinks]) == ("STREAMING", ["Console"])

    @pytest.mark.parametrize("sink", ["sink {}", "sink = []", "sink = null"])
    def test_a_sink_block_without_sinks_is_a_missing_one(self, sink: str) -> None:
        assert job(ENV_LINE + SOURCE + sink).notes == ("job.conf: sink is missing, filled in: sink { Console {} }",)

    def test_a_missing_mode(self) -> None:
        assert job("env { parallelism = 1 }\n" + SOURCE + SINK_LINE).notes == (
            "job.conf: env.job.mode is missing, filled in: job.mode = STREAMING",
        )

    def test_strict_makes_them_problems(self) -> None:
        assert problems(SOURCE, strict=True) == ["job.conf:1: env: is missing", "job.conf:1: sink: is missing"]
        assert fixes(SOURCE, strict=True) == ["env { job.mode = STREAMING }", "sink { Console {} }"]
        assert problems("env {}\n" + SOURCE + SINK_LINE, strict=True) == ["job.conf:1: env.job.mode: is missing"]
        assert problems(ENV_LINE + SOURCE + SINK_LINE, strict=True) == []

    @pytest.mark.parametrize(
        ("file", "name"),
        [("edge.conf", "edge"), ("/a/b/edge.v2.conf", "edge.v2"), ("edge", "edge"), ("C:\\x\\edge.conf", "edge")],
    )
    def test_the_name_comes_from_the_file(self, file: str, name: str) -> None:
        assert job(SOURCE, file).name == name

    def test_a_file_whose_name_does_not_do(self) -> None:
        assert problems(SOURCE, "\x07.conf") == [
            "\x07.conf:1: env.job.name: is missing, and the file's name does not do instead: "
            '"\\u0007" cannot be the name of a directory'
        ]
        assert job("env { job.name = a }\n" + SOURCE, "\x07.conf").name == "a"

    def test_notes_about_names_of_other_engines(self) -> None:
        notes = job("env { job.mode = STREAMING, flink.x = 1, execution { parallelism = 1 } }\n" + SOURCE).notes

        assert notes[:2] == (
            "job.conf:1: env.flink.x is ignored: it is for another engine",
            "job.conf:1: env.execution.parallelism is ignored: SeaTunnel no longer reads this name either; "
            "write parallelism",
        )


class TestEnvProblems:
    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            (
                "job.mode = BATCH",
                "job.mode: BATCH does not fit: a batch job ends with its data, and what collectors push has no end",
            ),
            ("job.mode = x", "job.mode: x is not supported, only STREAMING"),
            (
                "parallelism = 2",
                "parallelism: 2 readers cannot share one TCP port, which the EdgeSocket source binds",
            ),
            ("parallelism = 0", "parallelism: 0 is too small: at least 1"),
            ("checkpoint { interval = 5 }", "checkpoint.interval: 5 is too small: at least 10"),
            ("lease_ms = 500", "lease_ms: 500 is too small: at least 2000"),
            ('job.name = ""', "job.name: the name is blank"),
            ('job.name = "a/b"', "job.name: a/b cannot be the name of a directory"),
            ("job.name = ..", "job.name: .. cannot be the name of a directory"),
            (
                "job.name = edge.replay",
                "job.name: a name that ends with .replay is that of the replay of the dead letters of the job edge",
            ),
            ("job.name = " + "x" * 121, "job.name: the name is longer than 120 bytes"),
            ("min-pause = -5", "min-pause: -5 is too small: at least -1"),
            ("shade { identifier = rot13 }", "shade.identifier: this way of encoding secrets is not known"),
            ("read_limit.rows = 5", "read_limit.rows: there is no such option"),
            ("read_limit.rows_per_second = 0", "read_limit.rows_per_second: 0 is too small: at least 1"),
            ("read_limit { bytes_per_second = 1.5 }", "read_limit.bytes_per_second: 1.5 is no whole number of bytes"),
            ("sink.flush.interval = -1", "sink.flush.interval: -1 is too small: at least 0"),
            ("port = 5", "port: is in the wrong place"),
            ("checkpoint.intervall = 5", "checkpoint.intervall: there is no such option"),
        ],
    )  # fmt: skip
    def test_each_with_its_reason(self, line: str, problem: str) -> None:
        assert problems(f"env {{ {line} }}\n{SOURCE}") == [f"job.conf:1: env.{problem}"]

    @pytest.mark.parametrize("line", ["min-pause = -1", "shade.identifier = default", "checkpoint.interval = 200"])
    def test_harmless_values(self, line: str) -> None:
        assert problems(f"env {{ {line} }}\n{SOURCE}") == []

    def test_env_is_a_block(self) -> None:
        assert problems(SOURCE + "env = 5") == ["job.conf:2: env: is a block, not a single value"]
        assert len(problems(SOURCE + "env = ${nope}")) == 1


class TestSourceProblems:
    @pytest.mark.parametrize(
        "text", ["", "# nothing", "\ufeff", ENV_LINE + SINK_LINE, "source {}", "source = []", "source = null"]
    )
    def test_a_job_without_a_source(self, text: str) -> None:
        assert problems(text) == ["job.conf:1: source: the job has no source"]

    def test_it_is_a_configuration_error(self) -> None:
        with pytest.raises(ConfigError) as caught:
            load_job("", "job.conf")

        assert caught.value.exit_code == ExitCode.CONFIG

    @pytest.mark.parametrize(
        "text",
        [
            "source { EdgeSocket { port = 1, token = a } }\nsource { EdgeSocket { port = 2, token = b } }",
            "source { EdgeSocket { port = 1, token = a }\nEdgeSocket { port = 2, token = b } }",
            "source = [{ plugin_name = EdgeSocket, port = 1, token = a },\n"
            "{ plugin_name = edgesocket, port = 2, token = b }]",
        ],
    )
    def test_two_sources_are_refused_naming_both_places(self, text: str) -> None:
        assert problems(text) == [
            "job.conf:2: source.EdgeSocket: a job has one EdgeSocket source, and there is one at job.conf:1 already"
        ]

    @pytest.mark.parametrize(
        ("text", "problem", "fix"),
        [
            ("source { Kafka {} }", "source.Kafka: there is no such source", "the source is EdgeSocket"),
            (
                "source { EdgeSockt {} }",
                "source.EdgeSockt: there is no such source",
                "did you mean EdgeSocket? (the source is EdgeSocket)",
            ),
            (
                "source { port = 1 }",
                "source.port: is a single value, where the block of a plugin was expected",
                'source { EdgeSocket { port = 9999, token = "my-edge-token" } }',
            ),
            (
                "source = EdgeSocket",
                "source: is a block of plugins, not a single value",
                'source { EdgeSocket { port = 9999, token = "my-edge-token" } }',
            ),
            ("source = [{ port = 1 }]", "source: this plugin has no plugin_name", 'plugin_name = "EdgeSocket"'),
            (
                "source = [5]",
                "source: is a single value, where the block of a plugin was expected",
                'source { EdgeSocket { port = 9999, token = "my-edge-token" } }',
            ),
            (
                "source.EdgeSocket.port = 1\n" + SOURCE,
                "source.EdgeSocket.port: source is a block of plugins",
                "write source { PluginName { ... } }, one block inside the other",
            ),
        ],
    )
    def test_other_mistakes(self, text: str, problem: str, fix: str) -> None:
        assert problems(text) == [f"job.conf:1: {problem}"]
        assert fixes(text) == [fix]

    @pytest.mark.parametrize("text", ["source = ${nope}", "source { EdgeSocket = ${nope} }", "source = [${nope}]"])
    def test_a_source_with_a_reported_fault_is_not_missed(self, text: str) -> None:
        assert len(problems(text)) == 1
        assert "has no value" in problems(text)[0]

    def test_a_schema_becomes_the_type_of_the_rows(self) -> None:
        spec = job(edge_socket("port = 1, token = t\nschema { fields { a = int, b.c = string } }"))
        assert spec.sources[0].options.schema.arrow.names == ["a", "b.c"]

    def test_a_faulty_schema_is_a_problem_at_its_line(self) -> None:
        assert problems(edge_socket("port = 1, token = t\nschema = { columns = [] }")) == [
            "job.conf:4: source.EdgeSocket.schema.columns: names no columns"
        ]

    def test_every_fault_of_a_bad_file_in_one_go(self) -> None:
        text = edge_socket(
            'port = 65536\ntoken = "   "\nqueue_backpressure_watermark_ratio = 1.0001\nqueue_full_retry_after_ms = 0\n'
            'max_retries = -2\nendpoint = "h:99999"\npacket_mode = raw\nsecret_key = "AAECAw=="\n'
            "local_queue_capacty = 5\nlocal_queue_capacity = 99.5"
        )

        assert [line.removeprefix("job.conf:").split(":")[:2] for line in problems(text)] == [
            ["3", " source.EdgeSocket.port"],
            ["4", " source.EdgeSocket.token"],
            ["5", " source.EdgeSocket.queue_backpressure_watermark_ratio"],
            ["6", " source.EdgeSocket.queue_full_retry_after_ms"],
            ["7", " source.EdgeSocket.max_retries"],
            ["8", " source.EdgeSocket.endpoint"],
            ["10", " source.EdgeSocket.secret_key"],
            ["11", " source.EdgeSocket.local_queue_capacty"],
            ["12", " source.EdgeSocket.local_queue_capacity"],
        ]
        assert "AAECAw" not in "".join(problems(text))

    def test_syntax_and_values_in_one_go(self) -> None:
        found = problems(edge_socket("port = 0\nsecret_key = AAEC+w==\ntoken = ${nope}"))

        assert [line.partition(" ")[0] for line in found] == ["job.conf:3:", "job.conf:4:18:", "job.conf:5:"]

    def test_an_unquoted_key_is_never_cut(self) -> None:
        assert problems(edge_socket(f"port = 1\ntoken = t\nsecret_key = {KEY}")) == [
            "job.conf:5:57: source.EdgeSocket.secret_key: '=' may not stand in a value without quotes"
        ]

    def test_a_token_is_never_cut_by_a_comment(self) -> None:
        assert problems(edge_socket("port = 1\ntoken = abc#def")) == [
            "job.conf:4: source.EdgeSocket.token: the text ends where a comment begins"
        ]


class TestSinkProblems:
    @pytest.mark.parametrize(
        ("sink", "problem", "fix"),
        [
            ("Doris { topic = x }", "sink.Doris: Doris is not supported yet", f"for now the sinks are {ALL_SINKS}"),
            ("starrocks {}", "sink.starrocks: StarRocks is not supported yet", f"for now the sinks are {ALL_SINKS}"),
            (
                "Localfile2 {}",
                "sink.Localfile2: there is no such sink",
                f"did you mean LocalFile? (the sinks are {ALL_SINKS})",
            ),
            ("Elastic {}", "sink.Elastic: there is no such sink", f"the sinks are {ALL_SINKS}"),
            ("LocalFile { path = x, file_format_type = parquet, compress_codec = zlib }",
             "sink.LocalFile.compress_codec: parquet has no zlib",
             "one of none, snappy, lz4, gzip, brotli, zstd"),
            ("LocalFile { file_format_type = json }", "sink.LocalFile.path: is required, and missing",
             'path = "/var/lib/edge/out"'),
            ("LocalFile { path = x, file_format_type = excel }",
             "sink.LocalFile.file_format_type: excel is not supported yet", "file_format_type = parquet"),
            ("LocalFile { path = x, file_format_type = yaml }",
             "sink.LocalFile.file_format_type: yaml is none of csv, json, text, parquet, orc",
             "file_format_type = parquet"),
            ('LocalFile { path = " ", file_format_type = text }', "sink.LocalFile.path: the path is blank",
             'path = "/var/lib/edge/out"'),
            ('LocalFile { path = "a\\u0000", file_format_type = text }',
             "sink.LocalFile.path: the path holds a NUL character", 'path = "/var/lib/edge/out"'),
            ('LocalFile { path = a, file_format_type = text, row_delimiter = "" }',
             "sink.LocalFile.row_delimiter: an empty text ends no row", 'row_delimiter = "\\n"'),
            ("LocalFile { path = a, file_format_type = text, is_enable_transaction = false }",
             "sink.LocalFile.is_enable_transaction: is not supported yet: files are always published with their "
             "checkpoint", "leave is_enable_transaction out"),
            ("Console { parallelism = 2 }",
             "sink.Console.parallelism: is not supported yet: a job has one source, and its sinks run with it",
             "leave parallelism out"),
            ("Console { port = 2 }", "sink.Console.port: is in the wrong place",
             "move it to source { EdgeSocket { ... } }"),
            ("Console { log { print { data = no } } }", "sink.Console.log.print.data: no is neither true nor false",
             "log.print.data = false"),
        ],
    )  # fmt: skip
    def test_each_with_its_fix(self, sink: str, problem: str, fix: str) -> None:
        text = f"sink {{ {sink} }}\n{SOURCE}"

        assert problems(text) == [f"job.conf:1: {problem}"]
        assert fixes(text) == [fix]

    def test_harmless_options_of_a_file_sink(self) -> None:
        text = (
            'LocalFile { path = "/x", file_format_type = json, is_enable_transaction = true, encoding = UTF-8,\n'
            "compress_codec = none, data_save_mode = APPEND_DATA, batch_size = 10, tmp_path = y, parallelism = 1 }"
        )

        assert problems(f"sink {{ {text} }}\n{SOURCE}") == []

    def test_the_second_sink_of_a_kind_is_named_as_such(self) -> None:
        assert problems(SOURCE + "sink { Console {}\n Console { format = x } }") == [
            "job.conf:3: sink.Console-2.format: x is none of text, json"
        ]

    def test_a_sink_with_a_reported_fault_says_nothing_more(self) -> None:
        assert len(problems(SOURCE + "sink { LocalFile = ${nope} }")) == 1
        assert len(problems(SOURCE + "sink = ${nope}")) == 1


class TestWiring:
    def job_with(self, output: str, *inputs: str) -> str:
        sinks = "\n".join(f"Console {{ {line} }}" for line in inputs)
        return f"source {{ EdgeSocket {{ port = 1, token = t, {output} }} }}\nsink {{\n{sinks}\n}}"

    @pytest.mark.parametrize(
        ("output", "inputs"),
        [
            ("", [""]),
            ("plugin_output = a", ["plugin_input = a", ""]),
            ("plugin_output = a", ["plugin_input = [a]", 'plugin_input = "a"']),
            ("result_table_name = a", ["source_table_name = a", "source_table_name = a"]),
        ],
    )
    def test_names_that_fit(self, output: str, inputs: list[str]) -> None:
        assert problems(self.job_with(output, *inputs)) == []

    def test_with_one_sink_a_wrong_name_is_only_noted(self) -> None:
        spec = job(self.job_with("", "plugin_input = b"))

        assert "job.conf:3: sink.Console.plugin_input names b, which is no output; ignored" in spec.notes

    def test_with_more_sinks_it_is_a_problem(self) -> None:
        text = self.job_with("plugin_output = a", "plugin_input = a", "plugin_input = b")

        assert problems(text) == [
            "job.conf:4: sink.Console-2.plugin_input: b is the output of no source and no transform"
        ]
        assert fixes(text) == ["one of a"]

    def test_a_faulty_input_says_nothing_more(self) -> None:
        assert len(problems(self.job_with("", "plugin_input { a = 1 }", ""))) == 1


class TestTransforms:
    def test_none_is_fine_and_each_is_checked(self) -> None:
        assert problems(SOURCE + "transform {}") == []
        assert problems(SOURCE + "transform {\n Filter { a = 1, include_fields = [b] } }") == [
            "job.conf:3: transform.Filter.a: there is no such option"
        ]
        assert problems(SOURCE + "transform {\n Filtre {} }")[0].startswith(
            "job.conf:3: transform.Filtre: there is no such transform"
        )

    def test_they_stand_in_the_order_rows_take(self) -> None:
        text = """
            source { EdgeSocket { port = 1, token = t, plugin_output = raw } }
            transform {
              Filter { plugin_input = copied, plugin_output = done, include_fields = [value] }
              Copy { plugin_input = raw, plugin_output = copied, fields { again = value } }
            }
            sink { Console { plugin_input = done }, Null { plugin_input = copied } }
        """
        spec = job(text)
        assert [(one.id, one.inputs) for one in spec.transforms] == [("Copy", ("EdgeSocket",)), ("Filter", ("Copy",))]
        assert [sink.inputs for sink in spec.sinks] == [("Filter",), ("Copy",)]


class TestDeadLetter:
    def test_the_block_is_a_sink(self) -> None:
        spec = job(SOURCE + 'dead_letter { DeadLetter { path = "/dead" } }')
        assert spec.dead_letter is not None
        assert (spec.dead_letter.plugin, spec.dead_letter.id) == ("DeadLetter", "dead_letter")

    def test_there_is_one(self) -> None:
        text = SOURCE + 'dead_letter {\n DeadLetter { path = "/dead" }\n Null {}\n }'
        assert problems(text) == [
            "job.conf:4: dead_letter: dead letters go to one sink, and there is one at job.conf:3 already"
        ]


class TestTopLevel:
    @pytest.mark.parametrize(
        ("line", "problem", "fix"),
        [
            ("sinks { Console {} }", "sinks: nothing reads this top-level setting", "did you mean sink?"),
            ("Source { }", "Source: nothing reads this top-level setting", "did you mean source?"),
            ("port = 9", "port: is in the wrong place", "move it into source { EdgeSocket { ... } }"),
            ("job.mode = BATCH", "job.mode: is in the wrong place", "move it into the env block"),
            (
                "dead_letter { }",
                "dead_letter: names no sink",
                'dead_letter { DeadLetter { path = "/var/lib/edge/dead" } }',
            ),
            (
                "unused = 1",
                "unused: nothing reads this top-level setting",
                "delete it, or use it somewhere as ${unused}",
            ),
        ],
    )
    def test_nothing_is_dropped_in_silence(self, line: str, problem: str, fix: str) -> None:
        assert problems(f"{line}\n{SOURCE}") == [f"job.conf:1: {problem}"]
        assert fixes(f"{line}\n{SOURCE}") == [fix]

    @pytest.mark.parametrize(
        "helpers", ["p = 9999", "p = ${?q}\nq = 9999", "a { p = 9999 }", "a.p = 9999", 'include "h.conf"']
    )
    def test_what_a_substitution_reads_may_stay(self, helpers: str) -> None:
        name = "a.p" if helpers.startswith("a") else "p"
        files = Files({"h.conf": "p = 9999"})

        assert problems(f"{helpers}\n{edge_socket(f'port = ${{{name}}}, token = t')}", read_file=files) == []


class TestSecrets:
    @pytest.mark.parametrize("secret", ["hunter2hunter2", "hunter2+/=="])
    @pytest.mark.parametrize(
        "text",
        [
            "port = 0, token = {}",
            'port = 1, token = "{}\\n"',
            "port = 1, token = {}#x",
            "port = 1, token {}",
            "port = 1, token = [[{}]]",
            "port = 1, auth_token = {}",
            "port = 1, token = t, secret_key = {}",
            'port = 1, token = t, secret_key = "{}"',
            "port = 1, token = t, secret_key {{ x = {} }}",
            'port = 1, token = "{}',
            'port = 1, token = """{}',
            "port = 1, token = ${{x}}{}*",
            'port = 1, token = "{}" {{}}',
            "port = 1, token = t, secret_key : {}\n nope = 5",
        ],
    )
    def test_never_reach_a_message(self, text: str, secret: str) -> None:
        found: Any = None
        try:
            load_job(edge_socket(text.format(secret)), "job.conf")
        except ConfigError as error:
            found = str(error)

        assert found is not None
        assert "hunter2" not in found


class TestPace:
    """Reading no faster than wanted, and sinks that send before a checkpoint."""

    def test_there_is_no_limit_and_no_flush_unless_asked_for(self) -> None:
        env = job(f"env {{ job.mode = STREAMING }}\n{SOURCE}").env
        assert (env.rows_per_second, env.bytes_per_second, env.flush_interval_ms) == (0, 0, 0)

    @pytest.mark.parametrize(
        "lines",
        [
            "read_limit.rows_per_second = 5, read_limit.bytes_per_second = 1024, sink.flush.interval = 200",
            "read_limit { rows_per_second = 5, bytes_per_second = 1 KiB }, sink { flush { interval = 200 ms } }",
        ],
    )
    def test_both_spellings_are_read(self, lines: str) -> None:
        env = job(f"env {{ {lines} }}\n{SOURCE}").env
        assert (env.rows_per_second, env.bytes_per_second, env.flush_interval_ms) == (5, 1024, 200)

    @pytest.mark.parametrize(("interval", "noted"), [(0, False), (99, True), (100, False)])
    def test_a_very_short_flush_interval_is_noted(self, interval: int, noted: bool) -> None:
        notes = job(f"env {{ sink.flush.interval = {interval} }}\n{SOURCE}").notes
        assert any("sink.flush.interval" in note for note in notes) is noted


class TestOnBadRecordOfTheCommandLine:
    def test_it_wins_over_the_file_and_is_noted(self) -> None:
        spec = job(edge_socket("port = 1, token = t\non_bad_record = fail"), on_bad_record="reject")
        assert spec.sources[0].options.on_bad_record == "reject"
        assert any("as the command line says" in note for note in spec.notes)

    def test_dead_letters_need_somewhere_to_go(self) -> None:
        assert problems(edge_socket("port = 1, token = t"), on_bad_record="dead_letter") == [
            "job.conf:2: source.EdgeSocket.on_bad_record: the job has no dead_letter block"
        ]
