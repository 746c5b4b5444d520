"""`shade.identifier = base64`: secrets that stand in the job file in base64 are decoded before anything reads them.

This hides a secret from a glance, not from a reader. What is decoded: the options of `SHADED` at the top of every
source and sink, and what `shade.options` names besides (paths inside a plugin's block, dots between the names). An
EdgeSocket `secret_key` is base64 itself, so it is encoded twice then.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import replace

from edgesocket.config.nodes import Field, ListNode, Location, Node, ObjectNode, PluginNode, Report, Scalar, splits

SHADED = ("token", "secret_key", "username", "password", "access_key", "auth")
"""Options of a source or sink that are decoded where they occur."""

_IDENTIFIER = "shade.identifier"
_OPTIONS = "shade.options"
_BLOCKS = ("source", "sink")


def unshade(root: ObjectNode, report: Report) -> ObjectNode:
    """Decode the secrets of a job file, if it says that they are encoded.

    Args:
        root: the document, everything looked up.
        report: takes the problems: an unknown identifier, a value that is not base64. None shows a value.

    Returns:
        The document with the plain values; `root` itself where nothing is to be done.
    """
    found = _env_setting(root, _IDENTIFIER)
    if not isinstance(found, Scalar) or found.is_null or found.text.lower() == "default":
        return root
    if found.text.lower() != "base64":
        message = "this way of encoding secrets is not known"
        report.problem(found.location, f"env.{_IDENTIFIER}", message, f'{_IDENTIFIER} = "base64", or leave it out')
        return root
    paths = (*SHADED, *_further_paths(root, report))
    fields = dict(root.fields)
    for kind in _BLOCKS:
        entry = fields.get(kind)
        if entry is not None:
            fields[kind] = entry._replace(node=_plugins(entry.node, kind, paths, report))
    return replace(root, fields=fields)


def _env_setting(root: ObjectNode, name: str) -> Node | None:
    """A setting of the env block under any of its spellings; the one assigned last."""
    hits = list(_hits(root, f"env.{name}"))
    return max(hits, key=lambda hit: hit.order).node if hits else None


def _hits(block: ObjectNode, name: str) -> Iterable[Field]:
    for key, rest in splits(name):
        entry = block.fields.get(key)
        if entry is None:
            continue
        if not rest:
            yield entry
        elif isinstance(entry.node, ObjectNode):
            yield from _hits(entry.node, rest)


def _further_paths(root: ObjectNode, report: Report) -> list[str]:
    node = _env_setting(root, _OPTIONS)
    if node is None or (isinstance(node, Scalar) and node.is_null):
        return []
    if isinstance(node, Scalar):
        return [part.strip() for part in node.text.split(",") if part.strip()]
    if isinstance(node, ListNode) and all(isinstance(item, Scalar) for item in node.items):
        return [item.text for item in node.items if isinstance(item, Scalar)]
    report.problem(node.location, f"env.{_OPTIONS}", "needs a list of option names", f'{_OPTIONS} = ["headers.X-Key"]')
    return []


def _plugins(node: Node, kind: str, paths: tuple[str, ...], report: Report) -> Node:
    if isinstance(node, ListNode):
        return replace(node, items=tuple(_plugin(item, kind, paths, report) for item in node.items))
    if isinstance(node, ObjectNode):  # it came through a substitution: one entry a plugin
        return replace(
            node,
            fields={
                key: entry._replace(node=_plugin(entry.node, f"{kind}.{key}", paths, report))
                for key, entry in node.fields.items()
            },
        )
    return node


def _plugin(node: Node, path: str, paths: tuple[str, ...], report: Report) -> Node:
    if isinstance(node, PluginNode):
        return replace(node, body=_plugin(node.body, f"{path}.{node.name}", paths, report))
    for name in paths:
        node = _decoded(node, name, path, report)
    return node


def _decoded(node: Node, name: str, path: str, report: Report) -> Node:
    """The block with one setting decoded, under each of its spellings."""
    if isinstance(node, ListNode):
        return replace(node, items=tuple(_decoded(item, name, path, report) for item in node.items))
    if not isinstance(node, ObjectNode):
        return node
    for key, rest in splits(name):
        entry = node.fields.get(key)
        if entry is None:
            continue
        below = f"{path}.{key}"
        value = _decoded(entry.node, rest, below, report) if rest else _plain(entry.node, below, report)
        node = replace(node, fields={**node.fields, key: entry._replace(node=value)})
    return node


def _plain(node: Node, path: str, report: Report) -> Node:
    if isinstance(node, ListNode):
        return replace(node, items=tuple(_plain(item, path, report) for item in node.items))
    if not isinstance(node, Scalar) or node.is_null:
        return node
    text = _decode(node.text)
    if text is None:
        return _refused(node, path, node.location, report)
    return replace(node, text=text, quoted=True, cut=False)


def _refused(node: Node, path: str, location: Location, report: Report) -> Node:
    message = "is not base64 of UTF-8 text, and shade.identifier says that it is"
    report.problem(location, path, message, "printf %s SECRET | base64, or leave shade.identifier out")
    return node


def _decode(text: str) -> str | None:
    try:
        return base64.b64decode(text.strip().encode("ascii"), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return None
