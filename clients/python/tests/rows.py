"""The conformance rows, read so that no digit of a number is lost."""

import json
import os
from pathlib import Path

OWN = Path(__file__).resolve().parents[3] / "tests" / "conformance"


class Number(str):
    """A number in its own spelling. Equal to the same spelling only, and to no text."""

    def __eq__(self, other):
        return isinstance(other, Number) and str.__eq__(self, other)

    def __ne__(self, other):
        return not self == other

    __hash__ = str.__hash__


def parse(text):
    return json.loads(text, parse_int=Number, parse_float=Number)


def write(value):
    """JSON text of a parsed value."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        members = (f"{json.dumps(key)}:{write(item)}" for key, item in value.items())
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(write(item) for item in value) + "]"
    return json.dumps(value)


def rows(name):
    """The rows of a file, from the project's folder and from the one SURETY_CONFORMANCE_DIR names."""
    other = os.environ.get("SURETY_CONFORMANCE_DIR")
    for folder in [OWN] + ([Path(other)] if other else []):
        path = folder / name
        if path.exists():
            lines = path.read_text(encoding="utf-8").split("\n")
            yield from (parse(line) for line in lines if line.strip())


def same(expected, found):
    """Whether two values are the same; an own rule, as Python's True equals 1."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return expected.keys() == found.keys() and all(same(expected[key], found[key]) for key in expected)
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(same, expected, found))
    return type(expected) is type(found) and expected == found
