"""The exact decoder: one payload to one row, or the reason why not. This is what the rules mean.

The rules, strict by intent: the payload is one JSON object (RFC 8259, nothing more), whose fields are matched by
their exact names. A missing field and a null one are null, or the column's default. Other fields are ignored, and of a
repeated one the last counts. A number fits if the type holds it without loss, in whatever spelling and also in quotes.
Texts take numbers, `true`, `false`, objects and arrays as they are written. Nothing else is ever bent to fit.

JSON itself is read by msgspec, which keeps the raw text of a value (`Raw`) until its type is known; so `1.50` in a
text column keeps its zero, and 64-bit numbers and decimals are never seen by a float.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn

import msgspec
import numpy as np

from edgesocket.errors import SchemaMismatchError
from edgesocket.schema import values
from edgesocket.schema.types import (
    INTEGER_BITS,
    ArrayType,
    DecimalType,
    FieldType,
    Kind,
    MapType,
    RowSchema,
    RowType,
    SimpleType,
)
from edgesocket.schema.values import Unfit
from edgesocket.schema.wire import RowClasses

MAX_DEPTH = 256
"""How deep objects and arrays may lie in each other, also in fields that are ignored."""

Converter = Callable[[bytes], Any]
"""Makes a value of the JSON text of one value, null for null. Raises Unfit."""

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_BLANKS = b" \t\r\n"
_ENOUGH_BYTES = 4 * 200
"""Bytes of a value that are sure to hold the 200 characters which a message shows."""

_objects = msgspec.json.Decoder(dict[str, msgspec.Raw])
_arrays = msgspec.json.Decoder(list[msgspec.Raw])
_strings = msgspec.json.Decoder(str)


class ExactDecoder:
    """Decodes payloads one by one, strictly.

    Args:
        schema: the columns.
        classes: makes the class of the rows.
    """

    def __init__(self, schema: RowSchema, classes: RowClasses | None = None) -> None:
        classes = classes or RowClasses()
        self._row = classes.of(schema.row_type)
        self._columns = [(field.name, field.default, converter(field.kind, classes)) for field in schema.fields]

    def decode(self, payload: bytes) -> msgspec.Struct:
        """The row of a payload, its values ready for Arrow (`schema.wire`).

        Raises:
            SchemaMismatchError: it does not fit.
        """
        found = _top_level(payload)
        row = []
        for name, default, convert in self._columns:
            raw = found.get(name)
            try:
                value = None if raw is None else convert(bytes(raw))
            except Unfit as unfit:
                raise mismatch(name, unfit) from None
            row.append(default if value is None else value)
        return self._row(*row)


def _top_level(payload: bytes) -> dict[str, msgspec.Raw]:
    """The fields of the one object that a payload is."""
    start = payload.lstrip(_BLANKS)[:1]
    if start != b"{":
        raise _not_an_object(payload, "" if start else "nothing but blanks" if payload else "empty")
    if too_deep(payload):
        raise _not_an_object(payload, f"nested more than {MAX_DEPTH} deep")
    try:
        payload.isascii() or payload.decode()
        return _objects.decode(payload)
    except UnicodeDecodeError:
        raise _not_an_object(payload, "not UTF-8") from None
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _not_an_object(payload, str(error)) from None


def _not_an_object(payload: bytes, why: str) -> SchemaMismatchError:
    return SchemaMismatchError("", "one JSON object", shown(payload), why)


def mismatch(name: str, unfit: Unfit) -> SchemaMismatchError:
    """The error of a column whose value does not fit."""
    return SchemaMismatchError(name + unfit.path, unfit.expected, unfit.value, unfit.why)


def shown(raw: bytes) -> str:
    """The beginning of a JSON text for a message, in one line."""
    text = raw[:_ENOUGH_BYTES].decode(errors="replace")
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text) or "nothing"


def too_deep(payload: bytes) -> bool:
    """Whether objects and arrays lie in each other deeper than is allowed.

    msgspec would find out too, but later or earlier, depending on how deep our own calls are.
    """
    if payload.count(b"{") + payload.count(b"[") <= MAX_DEPTH:
        return False
    marks = np.frombuffer(_STRING.sub(b"", payload), dtype=np.uint8)
    steps = np.zeros(len(marks) + 1, dtype=np.int32)
    steps[:-1] += (marks == ord("{")) | (marks == ord("["))
    steps[1:] -= (marks == ord("}")) | (marks == ord("]"))
    return int(np.cumsum(steps).max()) > MAX_DEPTH


def converter(kind: FieldType, classes: RowClasses) -> Converter:
    """What makes values of a type, strictly."""
    if isinstance(kind, ArrayType):
        return _array(kind, converter(kind.element, classes))
    if isinstance(kind, MapType):
        return _map(kind, from_text(kind.key), converter(kind.value, classes))
    if isinstance(kind, RowType):
        return _row(kind, classes)
    if kind == SimpleType(Kind.STRING):
        return _text
    return _scalar(kind)


def from_text(kind: FieldType) -> Callable[[str], Any]:
    """What makes a value of a simple type of a text: the content of a JSON string, a key, a default.

    Raises:
        Unfit: by the returned function: the text is not of the type.
    """
    if isinstance(kind, DecimalType):
        precision, scale = kind.precision, kind.scale
        return lambda text: values.exact_decimal(text, precision, scale)
    assert isinstance(kind, SimpleType)
    if kind.kind in INTEGER_BITS:
        limit = 1 << (INTEGER_BITS[kind.kind] - 1)
        return lambda text: values.whole(text, -limit, limit - 1)
    return _FROM_TEXT[kind.kind]


def default_value(kind: FieldType, text: str) -> Any:
    """The value that a default in a job file stands for: a text of it, of a simple type.

    Raises:
        Unfit: the text is not of the type, or the type has no defaults.
    """
    if not isinstance(kind, SimpleType | DecimalType):
        raise Unfit("only columns of simple types have defaults")
    return from_text(kind)(text.lower() if kind == SimpleType(Kind.BOOLEAN) else text)


def _nothing(_: str) -> NoReturn:
    raise Unfit


_FROM_TEXT: dict[Kind, Callable[[str], Any]] = {
    Kind.STRING: values.same,
    Kind.BOOLEAN: values.truth,
    Kind.FLOAT: values.real_32,
    Kind.DOUBLE: values.real,
    Kind.DATE: values.day,
    Kind.TIME: values.time_of_day,
    Kind.TIMESTAMP: values.wall_time,
    Kind.TIMESTAMP_TZ: values.moment,
    Kind.BYTES: values.binary,
    Kind.NULL: _nothing,
}

_NUMBER_STARTS = frozenset(b"-0123456789")
_QUOTE = ord('"')
_TRUTHS = {b"true": True, b"false": False}


def _text(raw: bytes) -> str | None:
    """A text; anything else as it is written."""
    if raw[0] == _QUOTE:
        return _strings.decode(raw)
    return None if raw == b"null" else raw.decode()


def _scalar(kind: SimpleType | DecimalType) -> Converter:
    """A value of any other simple type: which JSON values may become one is told by the type."""
    of_text = from_text(kind)
    is_boolean = kind == SimpleType(Kind.BOOLEAN)
    is_number = isinstance(kind, DecimalType) or kind.kind in (*INTEGER_BITS, Kind.FLOAT, Kind.DOUBLE)
    is_date = kind == SimpleType(Kind.DATE)

    def convert(raw: bytes) -> Any:
        try:
            if raw[0] == _QUOTE and not is_boolean:
                return of_text(_strings.decode(raw))
            if raw[0] in _NUMBER_STARTS and (is_number or is_date):
                return of_text(raw.decode())
            if raw == b"null":
                return None
            if is_boolean and raw in _TRUTHS:
                return _TRUTHS[raw]
            raise Unfit
        except Unfit as unfit:
            raise located(unfit, kind, raw) from None

    return convert


def located(unfit: Unfit, kind: FieldType, raw: bytes) -> Unfit:
    """The same refusal, with the type and the value it is about."""
    unfit.expected = "row" if isinstance(kind, RowType) else kind.text
    unfit.value = shown(raw)
    return unfit


def _array(kind: ArrayType, element: Converter) -> Converter:
    def convert(raw: bytes) -> list[Any] | None:
        if raw[:1] != b"[":
            return None if raw == b"null" else _refuse(kind, raw)
        made = []
        for item in _arrays.decode(raw):
            try:
                made.append(element(bytes(item)))
            except Unfit as unfit:
                unfit.path = f"[{len(made)}]{unfit.path}"
                raise
        return made

    return convert


def _map(kind: MapType, key: Callable[[str], Any], value: Converter) -> Converter:
    def convert(raw: bytes) -> dict[Any, Any] | None:
        if raw[:1] != b"{":
            return None if raw == b"null" else _refuse(kind, raw)
        made = {}
        for name, item in _objects.decode(raw).items():
            try:
                made_key = key(name)
            except Unfit as unfit:
                raise located(unfit, kind.key, name.encode()) from None
            try:
                made[made_key] = value(bytes(item))
            except Unfit as unfit:
                unfit.path = f".{name[:_ENOUGH_BYTES]}{unfit.path}"
                raise
        return made

    return convert


def _row(kind: RowType, classes: RowClasses) -> Converter:
    row = classes.of(kind)
    fields = [(name, converter(inner, classes)) for name, inner in kind.fields]

    def convert(raw: bytes) -> msgspec.Struct | None:
        if raw[:1] != b"{":
            return None if raw == b"null" else _refuse(kind, raw)
        found = _objects.decode(raw)
        made = []
        for name, of in fields:
            item = found.get(name)
            try:
                made.append(None if item is None else of(bytes(item)))
            except Unfit as unfit:
                unfit.path = f".{name}{unfit.path}"
                raise
        return row(*made)

    return convert


def _refuse(kind: FieldType, raw: bytes) -> NoReturn:
    raise located(Unfit(), kind, raw)
