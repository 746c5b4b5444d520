"""`json_mode = "lenient"`: the coercions of SeaTunnel's reader, for senders that have come to rely on them.

Whatever strict reading takes is taken, and more: fractions of whole numbers are cut, anything but true is false,
scalars become empty rows and arrays, text behind the first JSON value is not looked at, and a payload of blanks or
`null` makes no row at all. Two things are kept from strict reading: dates and times (any format, any value), and that
no decimal is stored that its column cannot hold exactly.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec

from edgesocket.errors import SchemaMismatchError
from edgesocket.schema import exact, values
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

Convert = Callable[[Any], Any]
"""Makes a value of a JSON value as `_json` reads them. Raises Unfit."""

_SPECIAL = re.compile(r"[+-]?(?:NaN|Infinity)\Z")
_REAL = re.compile(r"[+-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?[fFdD]?\Z")
_WHOLE = re.compile(r"[+-]?[0-9]{1,40}\Z")


class Number(str):
    """A JSON number as written."""

    __slots__ = ()


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


_json = json.JSONDecoder(strict=False, parse_int=Number, parse_float=Number, parse_constant=_refuse)


class LenientDecoder:
    """Decodes payloads one by one, leniently. The same shape as `exact.ExactDecoder`."""

    def __init__(self, schema: RowSchema, classes: RowClasses | None = None) -> None:
        self._coerce = Coercions(schema, classes or RowClasses())
        self._row = self._coerce.classes.of(schema.row_type)
        self._columns = [(field.name, field.default, self._coerce.of(field.kind)) for field in schema.fields]

    def decode(self, payload: bytes) -> msgspec.Struct | None:
        """The row of a payload; None where there is no row in it.

        Raises:
            SchemaMismatchError: it does not fit, even leniently.
        """
        document = _document(payload)
        if document is None:
            return None
        row = []
        for index, (name, default, convert) in enumerate(self._columns):
            value = _member(document, name, index)
            try:
                made = None if value is None else convert(value)
            except Unfit as unfit:
                raise exact.mismatch(name, unfit) from None
            row.append(default if made is None else made)
        return self._row(*row)


def _member(value: Any, name: str, index: int) -> Any:
    """The value of a field of a row: by name in an object, by position in an array, null in anything else."""
    if isinstance(value, dict):
        return value.get(name)
    return value[index] if isinstance(value, list) and index < len(value) else None


def _document(payload: bytes) -> Any:
    """The first JSON value of a payload, numbers as written. None for null, and where there is nothing but blanks."""
    start = payload.lstrip(b" \t\r\n")
    if not start:
        return None
    try:
        if exact.too_deep(start):
            raise ValueError(f"nested more than {exact.MAX_DEPTH} deep")
        document, _ = _json.raw_decode(start.decode(errors="replace"))
    except (ValueError, RecursionError) as error:
        raise SchemaMismatchError("", "one JSON object", exact.shown(payload), str(error)) from None
    return document


class Coercions:
    """What SeaTunnel makes of a JSON value, by type."""

    def __init__(self, schema: RowSchema, classes: RowClasses) -> None:
        self.classes = classes
        # SeaTunnel reads every float of a row exactly, as soon as there is a decimal in it; it shows in texts.
        self._exact_floats = "decimal(" in schema.fingerprint

    def raw(self, kind: FieldType) -> exact.Converter:
        """The same on the JSON text of one value."""
        convert = self.of(kind)

        def of_text(raw: bytes) -> Any:
            value = _document(raw)
            return None if value is None else convert(value)

        return of_text

    def of(self, kind: FieldType) -> Convert:
        """What makes a value of a type of any JSON value but null."""
        if isinstance(kind, ArrayType):
            return self._array(kind)
        if isinstance(kind, MapType):
            return self._map(kind)
        if isinstance(kind, RowType):
            return self._row(kind)
        convert = self._simple(kind)

        def checked(value: Any) -> Any:
            try:
                return convert(value)
            except Unfit as unfit:
                raise exact.located(unfit, kind, _compact(value, str).encode(errors="replace")) from None

        return checked

    def _simple(self, kind: DecimalType | SimpleType) -> Convert:
        if isinstance(kind, DecimalType):
            of_text = exact.from_text(kind)
            return lambda value: of_text(_scalar_text(value))
        if kind.kind in INTEGER_BITS:
            limit = 1 << (INTEGER_BITS[kind.kind] - 1)
            cut = kind.kind in (Kind.INT, Kind.BIGINT)
            return lambda value: _integer(value, limit, cut)
        if kind.kind is Kind.STRING:
            return lambda value: _checked_text(
                str(value) if type(value) is str else _compact(value, self._number, quoted=False)
            )
        if kind.kind is Kind.DATE:
            return lambda value: values.day(_scalar_text(value))
        return _BY_KIND.get(kind.kind) or _of_string(exact.from_text(kind))

    def _array(self, kind: ArrayType) -> Convert:
        element = self.of(kind.element)

        def convert(value: Any) -> list[Any]:
            if not isinstance(value, list):
                return [None] * len(value) if isinstance(value, dict) else []
            made: list[Any] = []
            for item in value:
                try:
                    made.append(None if item is None else element(item))
                except Unfit as unfit:
                    unfit.path = f"[{len(made)}]{unfit.path}"
                    raise
            return made

        return convert

    def _map(self, kind: MapType) -> Convert:
        key, inner = self.of(kind.key), self.of(kind.value)

        def convert(value: Any) -> dict[Any, Any]:
            made: dict[Any, Any] = {}
            for name, item in value.items() if isinstance(value, dict) else ():
                try:
                    made[key(name)] = None if item is None else inner(item)
                except Unfit as unfit:
                    unfit.path = f".{name}{unfit.path}"
                    raise
            return made

        return convert

    def _row(self, kind: RowType) -> Convert:
        row = self.classes.of(kind)
        fields = [(name, self.of(inner)) for name, inner in kind.fields]

        def convert(value: Any) -> msgspec.Struct:
            made = []
            for index, (name, of) in enumerate(fields):
                item = _member(value, name, index)
                try:
                    made.append(None if item is None else of(item))
                except Unfit as unfit:
                    unfit.path = f".{name}{unfit.path}"
                    raise
            return row(*made)

        return convert

    def _number(self, text: str) -> str:
        """A number as the text that SeaTunnel makes of it."""
        if not any(char in text for char in ".eE"):
            return "0" if text == "-0" else text
        if not self._exact_floats:
            return java_double(float(text))
        number = values.any_number(text).normalize(values.EXACT)
        return str(number)


def _scalar_text(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    raise Unfit


def _checked_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Unfit("half a surrogate pair") from None
    return text


def _of_string(of_text: Callable[[str], Any]) -> Convert:
    def convert(value: Any) -> Any:
        if type(value) is not str:
            raise Unfit
        return of_text(value)

    return convert


def _integer(value: Any, limit: int, cut: bool) -> int:
    """A whole number. `cut`: a JSON number may have a fraction, which is lost; never a text."""
    if isinstance(value, Number) and cut and not _WHOLE.match(value):
        number = values.any_number(value)
        if number.adjusted() > 20:
            raise Unfit("out of range")
        whole = int(number) if number.adjusted() >= 0 else 0
    else:
        text = _scalar_text(value).strip()
        if not _WHOLE.match(text):
            raise Unfit
        whole = int(text)
    if not -limit <= whole < limit:
        raise Unfit("out of range")
    return whole


def _real(value: Any) -> float:
    text = _scalar_text(value).strip()
    if _SPECIAL.match(text):
        return float(text)
    if not _REAL.match(text):
        raise Unfit
    return 0.0 if isinstance(value, Number) and text == "-0" else float(text.rstrip("fFdD"))


def _real_32(value: Any) -> float:
    number = _real(value)
    return (
        number if abs(number) < values.FLOAT_LIMIT else math.copysign(math.inf, number) if number == number else number
    )


def _boolean(value: Any) -> bool:
    return value is True or (type(value) is str and value.strip().lower() == "true")


def _binary(value: Any) -> bytes | None:
    return values.binary(value) if type(value) is str else None


_BY_KIND: dict[Kind, Convert] = {
    Kind.FLOAT: _real_32,
    Kind.DOUBLE: _real,
    Kind.BOOLEAN: _boolean,
    Kind.BYTES: _binary,
    Kind.NULL: lambda _: None,
}


def _compact(value: Any, number: Callable[[str], str], *, quoted: bool = True) -> str:
    """A JSON value without blanks, numbers as `number` writes them."""
    if isinstance(value, Number):
        return number(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False) if quoted else value
    if isinstance(value, dict):
        return (
            "{"
            + ",".join(f"{_compact(str(key), number)}:{_compact(item, number)}" for key, item in value.items())
            + "}"
        )
    if isinstance(value, list):
        return "[" + ",".join(_compact(item, number) for item in value) + "]"
    return "null" if value is None else "true" if value else "false"


def java_double(number: float) -> str:
    """A double as Java writes it: 1.5, 3.0E9, 1.0E-5, Infinity."""
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return format(Decimal(repr(number)), "f")
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    assert isinstance(exponent, int)
    rest = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{rest}E{exponent + len(digits) - 1}"
