"""Conversion between JSON and the classes of `generated`."""

from __future__ import annotations

import dataclasses
import types
import typing
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from typing import Any, Final, TypeVar

T = TypeVar("T")


class OpenEnum(str, Enum):
    """Enum whose answers may have further values. Such a value is kept, and is not `is_known`."""

    @classmethod
    def _missing_(cls, value: object) -> OpenEnum | None:
        if not isinstance(value, str):
            return None
        made = str.__new__(cls, value)
        made._name_ = "UNKNOWN"
        made._value_ = value
        return made

    @property
    def is_known(self) -> bool:
        """Whether this client knows the value."""
        return self._name_ in type(self).__members__

    def __str__(self) -> str:
        return str(self.value)


class Unset(Enum):
    """Type of `UNSET`."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET
"""Value of a field that a change leaves as it is. `None` removes the value."""


def to_json(value: Any) -> Any:
    """JSON of a value. Optional fields that are `None` are left out, except in changes."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return instant(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {wire: to_json(field) for wire, field in _fields_of(value)}
    if isinstance(value, dict):
        return {name: to_json(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(one) for one in value]
    return value


def instant(value: datetime) -> str:
    """Time as RFC 3339 in UTC."""
    if value.tzinfo is None:
        raise ValueError(f"{value!r} has no time zone: use datetime.now(UTC)")
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def from_json(kind: type[T], value: Any) -> T:
    """Value of this type.

    Raises `ValueError`, `TypeError` or `KeyError` if the JSON does not fit. Fields that the type does not have are
    ignored.
    """
    made: T = _read(kind, value)
    return made


def _fields_of(value: Any) -> list[tuple[str, Any]]:
    found = []
    for field in dataclasses.fields(value):
        one = getattr(value, field.name)
        is_absent = one is UNSET or (one is None and field.default is None)
        if not is_absent:
            found.append((field.metadata.get("wire", field.name), one))
    return found


def _read(kind: Any, value: Any) -> Any:
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        arms = [one for one in typing.get_args(kind) if one not in (types.NoneType, Unset)]
        return None if value is None else _read(arms[0], value)
    if kind is Any:
        return value
    if origin is list:
        (item,) = typing.get_args(kind)
        return [_read(item, one) for one in _checked(value, list)]
    if origin is dict:
        _, item = typing.get_args(kind)
        return {name: _read(item, one) for name, one in _checked(value, dict).items()}
    if kind is datetime:
        return datetime.fromisoformat(_checked(value, str))
    if issubclass(kind, OpenEnum):
        return kind(_checked(value, str))
    if dataclasses.is_dataclass(kind):
        return _read_class(kind, _checked(value, dict))
    if kind is float:
        return float(_checked(value, (int, float)))
    return _checked(value, kind)


def _read_class(kind: Any, value: dict[str, Any]) -> Any:
    arguments = {}
    for name, wire, hint, required in _layout(kind):
        if wire in value:
            arguments[name] = _read(hint, value[wire])
        elif required:
            raise KeyError(f"{kind.__name__} has no `{wire}`")
    return kind(**arguments)


@cache
def _layout(kind: Any) -> list[tuple[str, str, Any, bool]]:
    """Fields of a class: name, name in JSON, type, and whether it is required."""
    hints = typing.get_type_hints(kind)
    return [
        (one.name, one.metadata.get("wire", one.name), hints[one.name], one.default is dataclasses.MISSING)
        for one in dataclasses.fields(kind)
    ]


def _checked(value: Any, kind: Any) -> Any:
    # A truth value is an integer of Python, and none of JSON.
    is_other = isinstance(value, bool) and kind is not bool
    if is_other or not isinstance(value, kind):
        raise TypeError(f"{value!r} is no {getattr(kind, '__name__', kind)}")
    return value
