"""The encoder's rules, one by one, and that the schema it makes says the same."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from enum import StrEnum
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from trimtab.base.error import Message
from trimtab.base.units import EpochHour, EpochNs, EpochS
from trimtab.base.verdict import Interval
from trimtab.show.encode import dumps, schema, shape, to_json

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


class Colour(StrEnum):
    """An enumeration."""

    RED = "red"


@dataclass(frozen=True, slots=True)
class Inner:
    """A value in another."""

    size_bytes: int
    hidden: bytes = b""


@dataclass(frozen=True, slots=True)
class Whole:
    """One field for each rule."""

    from_: datetime
    day: date
    colour: Colour
    mean_interval: Interval | None
    cov_interval: Interval | None
    reason: Message | None
    notes: tuple[str, ...]
    detail: str
    counts: dict[str, float]
    inner: Inner | None
    used_s: EpochS | None = 0
    ended_ns: EpochNs = 1_500_000_000
    cut_off_hour: EpochHour | None = None
    name: bytes = b"caf\xe9\n"
    place: Path = Path("/x")
    extra: Any = None


shape(
    Inner,
    omit=["hidden"],
    derive={"double": (int, lambda inner: 2 * inner.size_bytes)},
)
shape(Whole, inline={"inner": ("double",)})


def whole(**changes: Any) -> Whole:
    values: dict[str, Any] = {
        "from_": NOON,
        "day": NOON.date(),
        "colour": Colour.RED,
        "mean_interval": None,
        "cov_interval": Interval(0.1, 0.2, 0.9),
        "reason": Message("too-few-runs", "3 of 24 runs"),
        "notes": ("plain", Message("clock-skewed", "the clocks differ")),
        "detail": "a word",
        "counts": {"a": 1.5},
        "inner": Inner(3),
    }
    return Whole(**(values | changes))


def document(**changes: Any) -> dict[str, Any]:
    value = json.loads(to_json(whole(**changes)))
    jsonschema.Draft202012Validator(schema(Whole)).validate(value)
    return value


def test_each_rule() -> None:
    assert document() == {
        "schema_version": 2,
        "from": "2026-11-20T12:00:00Z",
        "day": "2026-11-20",
        "colour": "red",
        "mean_interval": None,
        "cov_interval": [0.1, 0.2],
        "level": 0.9,
        "reason": "3 of 24 runs",
        "reason_code": "too-few-runs",
        "notes": ["plain", "the clocks differ"],
        "notes_codes": [None, "clock-skewed"],
        "detail": "a word",
        "counts": {"a": 1.5},
        "double": 6,
        "used": "1970-01-01T00:00:00Z",
        "ended": "1970-01-01T00:00:01Z",
        "cut_off": None,
        "name": "caf\\xe9\\n",
        "place": "/x",
        "extra": None,
    }


def test_what_is_absent_is_null() -> None:
    value = document(reason=None, inner=None, cov_interval=None)
    keys = ("reason", "reason_code", "double", "cov_interval", "level")
    assert [value[key] for key in keys] == [None] * 5


def test_text_from_a_store_has_no_code() -> None:
    assert document(reason="3 of 24 runs")["reason_code"] is None


@pytest.mark.parametrize("at_s", [2**62, -(2**62), 253402300800, None])
def test_a_time_that_no_calendar_has_is_null(at_s: int | None) -> None:
    assert document(used_s=at_s)["used"] is None


def test_hours_are_times() -> None:
    assert document(cut_off_hour=49)["cut_off"] == "1970-01-03T01:00:00Z"


def test_a_time_keeps_its_offset() -> None:
    at = NOON.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert document(from_=at)["from"] == "2026-11-20T17:30:00+05:30"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_none_is_an_error(value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_json(whole(extra={"x": value}))


def test_every_key_is_required() -> None:
    rules = schema(Whole)
    assert {"schema_version", "reason_code", "notes_codes"} <= set(rules["required"])
    assert set(rules["properties"]) == set(rules["required"])
    assert rules["additionalProperties"] is False


def test_the_schema_refuses_another_type() -> None:
    validator = jsonschema.Draft202012Validator(schema(Whole))
    for key, value in (("colour", "blue"), ("cov_interval", [0.1]), ("double", 0.5), ("new", 1)):
        assert not validator.is_valid(document() | {key: value}), key


def test_a_shape_that_names_no_field_is_a_bug() -> None:
    @dataclass(frozen=True, slots=True)
    class Bare:
        size_bytes: int

    with pytest.raises(TypeError, match="sise"):
        shape(Bare, omit=["sise"])
    with pytest.raises(TypeError, match="twice"):
        shape(Whole)


def test_a_shape_holds_for_a_type_that_was_written_before() -> None:
    @dataclass(frozen=True)
    class Late:
        cause: str

    assert json.loads(dumps(Late("full"))) == {"cause": "full"}
    shape(Late, omit=["cause"], derive={"id": "cause"})
    assert json.loads(dumps(Late("full"))) == {"id": "full"}
