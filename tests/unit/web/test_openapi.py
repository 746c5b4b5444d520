"""The OpenAPI document is made from the route table."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest

pytest.importorskip("starlette")

from edgesocket.web.app import ENDPOINTS
from edgesocket.web.endpoint import Access, Endpoint
from edgesocket.web.openapi import document

DOCUMENT: dict[str, Any] = json.loads(msgspec.json.encode(document(ENDPOINTS)))


def operation(endpoint: Endpoint) -> dict[str, Any]:
    return DOCUMENT["paths"][endpoint.path][endpoint.method.lower()]  # type: ignore[no-any-return]


def test_it_is_a_right_document() -> None:
    validator = pytest.importorskip("openapi_spec_validator")
    validator.validate(DOCUMENT)


def test_every_reference_leads_somewhere() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    for name in re.findall(r'"#/components/schemas/(\w+)"', json.dumps(DOCUMENT)):
        assert name in schemas


def test_operations_have_names_of_their_own_and_a_sentence() -> None:
    names = [one.name for one in ENDPOINTS]
    assert len(set(names)) == len(names)
    for one in ENDPOINTS:
        assert one.summary.endswith((".", "?")) or one.summary[-1].isalnum(), one.summary


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda one: one.name)
def test_an_operation_says_its_parameters_and_who_may_ask(endpoint: Endpoint) -> None:
    shown = operation(endpoint)
    in_path = set(re.findall(r"{(\w+)}", endpoint.path))
    parameters = {one["name"]: one for one in shown.get("parameters", ())}
    assert {name for name, one in parameters.items() if one["in"] == "path"} == in_path
    assert all(parameters[name]["required"] for name in in_path)
    expected = {Access.OPEN: None, Access.READ: [{}, {"token": []}], Access.WRITE: [{"token": []}]}
    assert shown.get("security") == expected[endpoint.access]
    assert ("401" in shown["responses"]) is (endpoint.access is not Access.OPEN)
    assert ("requestBody" in shown) is (endpoint.method == "POST")


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda one: one.name)
def test_every_failure_has_the_one_form(endpoint: Endpoint) -> None:
    for status, response in operation(endpoint)["responses"].items():
        if status not in ("200", "503"):
            assert response["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/FailView"}


def test_changing_something_is_always_a_post_that_needs_the_token() -> None:
    for one in ENDPOINTS:
        assert (one.method == "POST") is (one.access is Access.WRITE)
