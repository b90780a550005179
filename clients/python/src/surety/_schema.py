"""JSON Schema of a function's arguments from its type hints, and values of those types from JSON."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin, is_typeddict

_SCALARS: dict[object, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
}
_LISTS = (list, Sequence)
_MAPPINGS = (dict, Mapping)


class Signature:
    """The arguments of a tool's function."""

    def __init__(self, function: Callable[..., object], given: type) -> None:
        """Reads the hints. A parameter of the type `given` is no argument: it receives what the call is."""
        self._types: dict[str, Any] = {}
        #: The name of the parameter that receives the call, if there is one.
        self.call_name: str | None = None
        properties: dict[str, Any] = {}
        required = []
        hints = typing.get_type_hints(function, include_extras=True)
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise TypeError(f"{parameter} of {function.__qualname__}: a tool has named arguments only")
            if name not in hints:
                raise TypeError(f"{name} of {function.__qualname__} has no type hint for its JSON Schema")
            if hints[name] is given:
                self.call_name = name
                continue
            try:
                properties[name] = _schema(hints[name])
            except TypeError as error:
                raise TypeError(f"{name} of {function.__qualname__}: {error}") from None
            self._types[name] = hints[name]
            if parameter.default is parameter.empty:
                required.append(name)
            else:
                properties[name] = {**properties[name], **_default(parameter.default)}
        self.schema: dict[str, Any] = {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }

    def arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as their types want them. Raises ValueError for what does not fit."""
        unknown = values.keys() - self._types.keys()
        if unknown:
            raise ValueError(f"unknown arguments: {', '.join(sorted(unknown))}")
        return {name: _value(self._types[name], value, name) for name, value in values.items()}


def _default(value: object) -> dict[str, Any]:
    plain = value is None or isinstance(value, str | int | float | bool)
    return {"default": value} if plain else {}


def _schema(hint: Any) -> dict[str, Any]:
    if hint in (Any, object):
        return {}
    if hint in _SCALARS:
        return dict(_SCALARS[hint])
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        found = _schema(args[0])
        for extra in args[1:]:
            found.update({"description": extra} if isinstance(extra, str) else dict(extra))
        return found
    if origin is Literal:
        return {"enum": list(args)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(one) for one in args]}
    if hint in _LISTS or origin in _LISTS:
        return {"type": "array", "items": _schema(args[0]) if args else {}}
    if hint in _MAPPINGS or origin in _MAPPINGS:
        if args and args[0] is not str:
            raise TypeError(f"the keys of {hint} are not text, as in JSON")
        return {"type": "object", "additionalProperties": _schema(args[1]) if args else {}}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [member.value for member in hint]}
    if is_typeddict(hint) or dataclasses.is_dataclass(hint):
        members, required = _members(hint)
        properties = {name: _schema(member) for name, member in members.items()}
        return {"type": "object", "properties": properties, "required": required}
    raise TypeError(
        f"no JSON Schema for {hint!r}; use str, int, float, bool, list, dict, Literal, an Enum, "
        "a TypedDict or a dataclass, or pass the schema"
    )


def _members(hint: Any) -> tuple[dict[str, Any], list[str]]:
    """The members of a TypedDict or a dataclass, and which are required."""
    hints = typing.get_type_hints(hint, include_extras=True)
    if is_typeddict(hint):
        return hints, sorted(hint.__required_keys__)
    missing = dataclasses.MISSING
    fields = [field for field in dataclasses.fields(hint) if field.init]
    required = [f.name for f in fields if f.default is missing and f.default_factory is missing]
    return {field.name: hints[field.name] for field in fields}, required


def _value(hint: Any, value: Any, place: str) -> Any:
    """A JSON value as a type wants it."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _value(args[0], value, place)
    if origin in (Union, types.UnionType):
        for one in args:
            try:
                return _value(one, value, place)
            except ValueError:
                continue
        raise _wrong(hint, place)
    if hint in _SCALARS:
        return _scalar(hint, value, place)
    if origin is Literal:
        if value not in args:
            raise _wrong(hint, place)
        return value
    if hint in _LISTS or origin in _LISTS:
        if not isinstance(value, list):
            raise _wrong(hint, place)
        return [_value(args[0], one, f"{place}[{at}]") for at, one in enumerate(value)] if args else value
    if hint in _MAPPINGS or origin in _MAPPINGS:
        if not isinstance(value, dict):
            raise _wrong(hint, place)
        return {key: _value(args[1], one, f"{place}.{key}") for key, one in value.items()} if args else value
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return hint(value)
    if is_typeddict(hint) or dataclasses.is_dataclass(hint):
        return _object(hint, value, place)
    return value


def _scalar(hint: Any, value: Any, place: str) -> Any:
    # JSON has one kind of numbers, and its true is no number.
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise _wrong(hint, place)
    return value


def _object(hint: Any, value: Any, place: str) -> Any:
    members, required = _members(hint)
    if not isinstance(value, dict) or not value.keys() >= set(required):
        raise _wrong(hint, place)
    known = {
        name: _value(members[name], one, f"{place}.{name}") for name, one in value.items() if name in members
    }
    return hint(**known)


def _wrong(hint: Any, place: str) -> ValueError:
    return ValueError(f"{place} is no {getattr(hint, '__name__', hint)}")
