"""What SeaTunnel's engine files mean here: defaults of checkpoints, where states lie, labels."""

from __future__ import annotations

from typing import Any

import pytest

from edgesocket.config.job import load_job
from edgesocket.config.nodes import to_python
from edgesocket.config.s3_settings import S3Settings
from edgesocket.config.yaml_files import SeaTunnelYaml, read_hazelcast_yaml, read_seatunnel_yaml
from edgesocket.errors import ConfigError

pytest.importorskip("yaml")

FULL = """\
seatunnel:
  engine:
    history-job-expire-minutes: 1440
    checkpoint:
      interval: 2000
      timeout: 7000
      storage:
        type: hdfs
        max-retained: 5
        plugin-config:
          namespace: /srv/states/
          storage.type: hdfs
          fs.defaultFS: file:///tmp/
    http:
      enable-http: true
      port: 8080
"""
JOB = 'env {{ {env} }}\nsource {{ EdgeSocket {{ port = 1, token = "t" }} }}\nsink {{ Console {{}} }}'


def defaults(file: SeaTunnelYaml) -> dict[str, Any]:
    return {name: to_python(field.node) for name, field in file.env_defaults.items()}


def storage(**settings: str) -> str:
    """A file with these settings of the storage; two underscores are one step down."""
    lines = ["seatunnel:", " engine:", "  checkpoint:", "   storage:"]
    lines += [f"    {name}: {value}" for name, value in settings.items() if not name.startswith("plugin__")]
    lines.append("    plugin-config:")
    lines += [
        f"     {name.removeprefix('plugin__')}: {value}"
        for name, value in settings.items()
        if name.startswith("plugin__")
    ]
    return "\n".join(lines)


def test_a_whole_file() -> None:
    file = read_seatunnel_yaml(FULL, "seatunnel.yaml")
    assert defaults(file) == {"checkpoint.interval": 2000, "checkpoint.timeout": 7000, "checkpoint.max-retained": 5}
    assert file.state_root == "/srv/states/"
    assert file.http == {"enable-http": "true", "port": "8080"}
    assert any("seatunnel.yaml:3" in note and "history-job-expire-minutes" in note for note in file.notes)


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ("job.mode = STREAMING", 2000),
        ("checkpoint.interval = 50", 50),
        ("checkpoint { interval = 60 }", 60),
    ],
)
def test_what_the_job_says_goes_before_what_the_file_says(env: str, expected: int) -> None:
    file = read_seatunnel_yaml(FULL, "seatunnel.yaml")
    job = load_job(JOB.format(env=env), "job.conf", env_defaults=file.env_defaults)
    assert job.env.checkpoint_interval_ms == expected
    assert job.env.checkpoints_kept == 5


def test_a_default_that_cannot_be_is_a_problem_with_its_own_line() -> None:
    text = "seatunnel:\n engine:\n  checkpoint:\n   interval: never\n"
    file = read_seatunnel_yaml(text, "seatunnel.yaml")
    with pytest.raises(ConfigError, match=r"seatunnel.yaml:4: env.checkpoint.interval"):
        load_job(JOB.format(env=""), "job.conf", env_defaults=file.env_defaults)


@pytest.mark.parametrize("text", ["", "# nothing\n", "seatunnel:\n", "a: [1, 2]\n"])
def test_a_file_that_says_nothing_changes_nothing(text: str) -> None:
    file = read_seatunnel_yaml(text, "seatunnel.yaml")
    assert defaults(file) == {}
    assert file.state_root == ""


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"type": "hdfs"}, "hdfs"),
        ({"type": "oss"}, "oss"),
        ({"type": "hdfs", "plugin__fs.defaultFS": "hdfs://host:9000"}, "hdfs"),
        ({"type": "hdfs", "plugin__storage.type": "cos"}, "cos"),
    ],
)
def test_storage_elsewhere_is_refused_by_its_name(settings: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_seatunnel_yaml(storage(**settings), "seatunnel.yaml")
    assert f"cannot be kept in {named}" in str(refused.value)
    assert "localfile" in str(refused.value), "the way out is named"


def test_a_local_directory_is_where_states_lie() -> None:
    text = storage(type="localfile", plugin__namespace="file:///srv/x")
    assert read_seatunnel_yaml(text, "seatunnel.yaml").state_root == "/srv/x"
    with pytest.raises(ConfigError, match="absolute"):
        read_seatunnel_yaml(storage(type="localfile", plugin__namespace="here"), "seatunnel.yaml")


S3 = {"type": "hdfs", "plugin__storage.type": "s3", "plugin__s3.bucket": "s3a://states"}


@pytest.mark.parametrize(
    ("settings", "root"),
    [
        (S3, "s3://states/seatunnel/checkpoint"),
        (S3 | {"plugin__namespace": "/edge/"}, "s3://states/edge"),
        (S3 | {"plugin__s3.bucket": "plain", "plugin__namespace": "/"}, "s3://plain"),
        ({"type": "s3", "plugin__namespace": "s3n://b/x/"}, "s3://b/x"),
        ({"type": "hdfs", "plugin__fs.defaultFS": "s3a://b"}, "s3://b/seatunnel/checkpoint"),
    ],
)
def test_a_bucket_is_where_states_lie(settings: dict[str, str], root: str) -> None:
    file = read_seatunnel_yaml(storage(**settings), "seatunnel.yaml")
    assert file.state_root == root
    assert file.s3 == S3Settings()
    assert file.notes == ()


def test_how_a_bucket_is_reached_and_no_key_is_shown() -> None:
    settings = {
        "plugin__fs.s3a.endpoint": "minio:9000",
        "plugin__fs.s3a.connection.ssl.enabled": "false",
        "plugin__fs.s3a.path.style.access": "true",
        "plugin__fs.s3a.access.key": "AKEY",
        "plugin__fs.s3a.secret.key": "SKEY",
        "plugin__fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    }
    file = read_seatunnel_yaml(storage(**S3, **settings), "seatunnel.yaml")
    assert file.s3 == S3Settings("http://minio:9000", "", "AKEY", "SKEY", path_style=True)
    assert "KEY" not in repr(file)
    aws = {"plugin__fs.s3a.endpoint": "s3.eu-central-1.amazonaws.com"}
    file = read_seatunnel_yaml(storage(**S3, **aws), "seatunnel.yaml")
    assert file.s3 == S3Settings(region="eu-central-1")
    file = read_seatunnel_yaml(storage(**S3, **{"plugin__fs.s3a.endpoint": "minio.example"}), "seatunnel.yaml")
    assert file.s3.endpoint == "https://minio.example"


def test_half_of_what_s3_needs_is_a_problem_that_says_what_is_missing() -> None:
    with pytest.raises(ConfigError, match=r"seatunnel.yaml:\d+: .*s3.bucket: .*no bucket"):
        read_seatunnel_yaml(storage(type="hdfs", **{"plugin__storage.type": "s3"}), "seatunnel.yaml")
    with pytest.raises(ConfigError, match=r"secret[.]key") as refused:
        read_seatunnel_yaml(storage(**S3, **{"plugin__fs.s3a.access.key": "AKEY"}), "seatunnel.yaml")
    assert "AKEY" not in str(refused.value)


def test_broken_yaml_is_a_problem_with_its_line() -> None:
    with pytest.raises(ConfigError, match=r"seatunnel.yaml:2: YAML"):
        read_seatunnel_yaml("a: 1\nb: [ }\n", "seatunnel.yaml")


def test_aliases_that_go_round_in_circles_end() -> None:
    assert read_seatunnel_yaml("a: &a\n  b: *a\n", "seatunnel.yaml").state_root == ""


def test_member_attributes_are_labels_as_text() -> None:
    text = """\
hazelcast:
  cluster-name: seatunnel
  network: {join: {tcp-ip: {enabled: true}}}
  member-attributes:
    edge: {type: boolean, value: true}
    group.name:
      type: string
      value: "7"
"""
    labels, notes = read_hazelcast_yaml(text, "hazelcast.yaml")
    assert labels == {"edge": "true", "group.name": "7"}
    assert notes == ("hazelcast.yaml: only member-attributes is read, not cluster-name, network",)


def test_aliases_that_multiply_are_refused_before_they_fill_the_memory() -> None:
    keys = "abcdefghij"
    lines = ["a0: &a0 {" + ", ".join(f"{key}: 1" for key in keys) + "}"]
    lines += [f"a{n}: &a{n} {{" + ", ".join(f"{key}: *a{n - 1}" for key in keys) + "}" for n in range(1, 12)]
    with pytest.raises(ConfigError, match="more than 10000 values"):
        read_seatunnel_yaml("\n".join(lines), "seatunnel.yaml")
