"""The classes of rows: one msgspec struct for every row type, made when a schema is known.

A row is an object with the attributes `f0`, `f1`, ... in column order. Values in it are kept ready for Arrow
(`schema.values`), nested rows are such objects too, an array is a list and a map a dict.

The annotations say what msgspec may decode by itself because it decodes exactly that as the exact rules do:
whole numbers in range, numbers, true and false, texts, and arrays, maps by text and rows of those. Dates, times and
bytes come as text, and everything else as raw JSON, to be converted afterwards.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from edgesocket.schema.types import INTEGER_BITS, ArrayType, FieldType, Kind, MapType, RowType, SimpleType
from edgesocket.schema.values import FLOAT_LIMIT

RAW = msgspec.Raw
_FLOAT = Annotated[float, msgspec.Meta(gt=-FLOAT_LIMIT, lt=FLOAT_LIMIT)]
_NATIVE: dict[Kind, Any] = {
    Kind.STRING: str,
    Kind.BOOLEAN: bool,
    Kind.FLOAT: _FLOAT,
    Kind.DOUBLE: float,
}
_TEXT = (Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ, Kind.BYTES)


def _plain(name: str) -> bool:
    """Whether msgspec takes this as the name of a field."""
    return not any(char in '"\\' or char < " " for char in name)


def is_number(kind: FieldType) -> bool:
    """Whether msgspec makes the values of this type of JSON numbers."""
    return isinstance(kind, SimpleType) and (kind.kind in INTEGER_BITS or kind.kind in (Kind.FLOAT, Kind.DOUBLE))


class RowClasses:
    """The class of every row type of one schema, made once."""

    def __init__(self) -> None:
        self._made: dict[RowType, type[msgspec.Struct]] = {}

    def of(self, kind: RowType) -> type[msgspec.Struct]:
        """The class of a row type: `f0`, `f1`, ..., None where nothing is given."""
        made = self._made.get(kind)
        if made is None:
            made = self._made[kind] = self._class(kind, [self._annotation(inner) for _, inner in kind.fields])
        return made

    def quoted(self, kind: RowType) -> type[msgspec.Struct]:
        """A class for the same rows, in which msgspec leaves a text where a number should be."""
        annotations = [self._annotation(inner) for _, inner in kind.fields]
        for index, (_, inner) in enumerate(kind.fields):
            if is_number(inner):
                annotations[index] = annotations[index] | str
        return self._class(kind, annotations)

    def _class(self, kind: RowType, annotations: list[Any]) -> type[msgspec.Struct]:
        fields = [(f"f{index}", annotation, None) for index, annotation in enumerate(annotations)]
        names = {f"f{index}": name for index, (name, _) in enumerate(kind.fields)} if self.decodable(kind) else None
        return msgspec.defstruct("Row", fields, rename=names, gc=False)

    @staticmethod
    def decodable(kind: RowType) -> bool:
        """Whether msgspec can find the fields of such a row by name."""
        return all(_plain(name) for name, _ in kind.fields)

    def comes_as(self, kind: FieldType) -> type | None:
        """How a column of this type comes out of msgspec: `str`, `Raw`, or None where it is the value already."""
        if isinstance(kind, SimpleType) and kind.kind in _TEXT:
            return str
        return None if self._native(kind) is not None else RAW

    def _annotation(self, kind: FieldType) -> Any:
        how = self.comes_as(kind)
        if how is RAW:
            return RAW
        return (str if how is str else self._native(kind)) | None

    def _native(self, kind: FieldType) -> Any:
        """The annotation under which msgspec makes the very value, or None."""
        if isinstance(kind, SimpleType):
            if kind.kind in INTEGER_BITS:
                limit = 1 << (INTEGER_BITS[kind.kind] - 1)
                return Annotated[int, msgspec.Meta(ge=-limit, le=limit - 1)]
            return _NATIVE.get(kind.kind)
        if isinstance(kind, ArrayType):
            inner = self._native(kind.element)
            return None if inner is None else list[inner | None]  # type: ignore[valid-type]
        if isinstance(kind, MapType):
            inner = self._native(kind.value) if kind.key == SimpleType(Kind.STRING) else None
            return None if inner is None else dict[str, inner | None]  # type: ignore[valid-type]
        if isinstance(kind, RowType) and self.decodable(kind):
            return self.of(kind) if all(self._native(inner) is not None for _, inner in kind.fields) else None
        return None
