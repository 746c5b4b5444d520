"""The OpenAPI document, made from the route table and the types of its answers."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import msgspec

import edgesocket
from edgesocket.web.endpoint import EVENTS, JSON, TEXT, Access, Endpoint, FailView

_ALWAYS = (400, 403, 500, 503)
"""What any request may be answered: it is odd, asks under another name than ours, meets a bug, or one too many."""

_WITH_BODY = (408, 413)

_EVENT: dict[str, Any] = {
    "description": "One of the events.",
    "type": "object",
    "properties": {"event": {"type": "string"}, "data": {"type": "string", "contentMediaType": JSON}},
}
"""Of a stream of events it is each event that has a schema."""


def document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """OpenAPI 3.1."""
    types = [one for endpoint in endpoints for one in (endpoint.answer, endpoint.body, endpoint.unavailable) if one]
    types = list(dict.fromkeys([FailView, *types]))
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    by_type = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, by_type)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "EdgeSocket",
            "version": edgesocket.__version__,
            "description": "What a process that runs jobs shows of them, and what it does for whoever has its token. "
            "Paths outside /api, /healthz, /readyz and /metrics speak as SeaTunnel's REST API v2 does.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": _WHO}},
        },
    }


_WHO = (
    "The token of --http-token-file or $EDGESOCKET_HTTP_TOKEN. Reading needs it where the server listens on an address "
    "that other hosts reach; whatever changes something needs it always."
)


def _operation(endpoint: Endpoint, by_type: dict[Any, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "tags": [endpoint.tag],
        "responses": _responses(endpoint, by_type),
    }
    if endpoint.access is Access.WRITE:
        shown["security"] = [{"token": []}]
    elif endpoint.access is Access.READ:
        shown["security"] = [{}, {"token": []}]
    if endpoint.parameters:
        shown["parameters"] = [
            {
                "name": one.name,
                "in": one.where,
                "required": one.where == "path",
                "description": one.description,
                "schema": one.schema(),
            }
            for one in endpoint.parameters
        ]
    if endpoint.body is not None:
        content: dict[str, Any] = {}
        for media in endpoint.body_media:
            content[media] = {"schema": by_type[endpoint.body] if media == JSON else {"type": "string"}}
        shown["requestBody"] = {"required": True, "content": content}
    return shown


def _responses(endpoint: Endpoint, by_type: dict[Any, Any]) -> dict[str, Any]:
    if endpoint.answer is not None:
        good = by_type[endpoint.answer]
    else:
        good = _EVENT if endpoint.media == (EVENTS,) else {"type": "string"}
    fail = by_type[FailView]
    responses: dict[str, Any] = {"200": _response(200, {media: {"schema": good} for media in endpoint.media})}
    statuses = {*_ALWAYS, *endpoint.fails}
    if endpoint.access is not Access.OPEN:
        statuses.add(401)
    if endpoint.body is not None:
        statuses.update(_WITH_BODY)
    for status in sorted(statuses):
        schema = fail
        if status == 503 and endpoint.unavailable is not None:
            schema = {"anyOf": [by_type[endpoint.unavailable], fail]}
        content: dict[str, Any] = {JSON: {"schema": schema}}
        if status in (400, 503):
            content[TEXT] = {"schema": {"type": "string"}}  # said before a request has come so far as to be routed
        responses[str(status)] = _response(status, content)
    return responses


def _response(status: int, content: dict[str, Any]) -> dict[str, Any]:
    return {"description": HTTPStatus(status).phrase, "content": content}
