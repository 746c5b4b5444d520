"""A job knows the values of its secret options, so that they can be taken out of whatever is said of it."""

from __future__ import annotations

import base64

from edgesocket.config.job import load_job
from edgesocket.telemetry.masking import Mask

KEY = base64.b64encode(bytes(range(32))).decode()
OTHER = base64.b64encode(bytes(range(1, 33))).decode()
TEXT = f"""
source {{ EdgeSocket {{ port = 9999, token = ["first-token", "second-token"], packet_mode = PACKET
  secret_key = ["2026-11:{KEY}", "{OTHER}"] }} }}
sink {{ Kafka {{ bootstrap.servers = "broker:9092", topic = rows
  kafka.config = {{ acks = "all", sasl.password = "hush-hush", sasl.username = "collector" }} }} }}
"""


def test_secrets_of_every_form_are_known() -> None:
    secrets = load_job(TEXT, "job.conf").secrets
    assert {"first-token", "second-token", KEY, OTHER, "hush-hush"} <= secrets


def test_plain_settings_beside_a_secret_are_none() -> None:
    assert not {"all", "collector", "rows"} & load_job(TEXT, "job.conf").secrets


def test_they_are_not_in_what_the_job_shows_of_itself() -> None:
    assert "hush-hush" not in repr(load_job(TEXT, "job.conf"))


def test_a_mask_made_of_them_takes_each_out() -> None:
    spec = load_job(TEXT, "job.conf")
    mask = Mask(spec.secrets)
    for secret in ("first-token", "second-token", KEY, OTHER, "hush-hush"):
        assert secret not in mask(f"the driver says {secret} is wrong")


def test_a_job_without_secrets_in_its_text_has_none(tmp_path: object) -> None:
    text = 'source { EdgeSocket { port = 1, token_file = "/run/token" } }\nsink { Null {} }'
    assert load_job(text, "job.conf").secrets == frozenset()
