"""Answers as bytes and back: nothing is lost, and nothing but the declared type is believed."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from polars.testing import assert_frame_equal
from tests.support.codes import raises

from trimtab.errors import ToolError
from trimtab.judge.sweep import MetricQuestion
from trimtab.loop.answers import NotOfType, answer_type, packed, plain_file, unpacked
from trimtab.loop.dask_workers import _read
from trimtab.loop.importing.importer import _Batch
from trimtab.loop.purging.by_shards import SelectPart, TallyPart, TotalsPart
from trimtab.loop.purging.evading import _Counting, _Left
from trimtab.loop.purging.spreading import Part
from trimtab.message import Message, code_of
from trimtab.whatif.reproduce.life import LifeRun
from trimtab.whatif.runs import Run


class Kind(StrEnum):
    A = "a"
    B = "b"


class Pair(NamedTuple):
    first: int
    second: str | None = None


@dataclass(frozen=True, slots=True)
class Value:
    text: str
    number: float
    kind: Kind
    at: datetime | None
    pairs: tuple[Pair, ...]
    levels: Mapping[str, str | int | float | bool]
    of_any: dict[str, object] = field(default_factory=dict)
    access: Literal["read", "write"] = "read"
    content: bytes = b""


VALUES = st.builds(
    Value,
    text=st.text() | st.builds(Message, st.just("a-code"), st.text()),
    number=st.floats(allow_nan=False) | st.integers(),
    kind=st.sampled_from(Kind),
    at=st.none() | st.datetimes(timezones=st.just(UTC)).map(lambda at: at.replace(fold=0)),
    pairs=st.lists(st.builds(Pair, st.integers(), st.none() | st.text())).map(tuple),
    levels=st.dictionaries(
        st.text(), st.text() | st.integers() | st.booleans() | st.floats(allow_nan=False)
    ),
    of_any=st.dictionaries(
        st.text(),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(),
            lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(
                st.text(), inner
            ),
        ),
    ),
    access=st.sampled_from(["read", "write"]),
    content=st.binary(),
)  # fmt: skip


@given(VALUES)
def test_a_value_comes_back_as_it_was(value: Value) -> None:
    again = unpacked(Value, packed(Value, value))
    assert again == value
    assert repr(again) == repr(value)
    assert code_of(again.text) == code_of(value.text)


def test_large_values_come_back_as_they_were() -> None:
    frame = pl.DataFrame(
        {"a": [1, None], "b": [b"\xff", b""]}, schema={"a": pl.UInt32, "b": pl.Binary}
    )
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    kind = tuple[pl.DataFrame, NDArray[np.float32], float]
    again = unpacked(kind, packed(kind, (frame, array, math.nan)))
    assert_frame_equal(again[0], frame)
    assert again[1].dtype == array.dtype
    assert np.array_equal(again[1], array)
    assert math.isnan(again[2])


VALUE = Value("t", 1.5, Kind.A, datetime(2026, 1, 1, tzinfo=UTC), (Pair(1),), {"n": 4})


def damaged() -> list[Any]:
    """Return what stands for no value of `Value`, each in one way."""
    whole, *blobs = packed(Value, VALUE)
    plain = json.loads(whole)
    cases: list[Any] = [None, "x", [], [b"{"], ["x"], [whole], [b"[" * 100_000], 7, [b"null"]]
    changes = [(0, 1), (0, ["m", "No Code", "t"]), (0, ["m"]), (1, "1.5"), (1, True), (2, "C"),
               (3, [0, "today"]), (4, [["1", None]]), (4, [[1]]), (5, [["n", [9, 4]]]),
               (5, [["n", [-1, 4]]]), (6, ["x", []]), (7, "delete"), (8, 5), (8, -1)]  # fmt: skip
    for place, instead in changes:
        cases.append([json.dumps([*plain[:place], instead, *plain[place + 1 :]]).encode(), *blobs])
    cases.append([json.dumps(plain[:-1]).encode(), *blobs])
    return cases


@pytest.mark.parametrize("data", damaged())
def test_what_is_not_of_the_type_is_refused(data: Any) -> None:
    with pytest.raises(NotOfType):
        unpacked(Value, data)


@pytest.mark.parametrize("data", [b"not Arrow", b"", pickle.dumps([1])])
def test_a_table_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(NotOfType):
        unpacked(pl.DataFrame, [b"0", data])
    with pytest.raises(NotOfType):
        unpacked(NDArray[np.float64], [b"[0, 1, 1000000]", data])
    with pytest.raises(NotOfType):
        unpacked(answer_type(TallyPart((), None)), [b"0", data])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "question",
    [
        Run,
        LifeRun,
        TallyPart,
        SelectPart,
        TotalsPart,
        _Counting,
        _Left,
        Part,
        _Batch,
        MetricQuestion,
    ],
)
def test_every_question_has_answers_that_can_be_sent(question: type) -> None:
    with pytest.raises(NotOfType):
        unpacked(answer_type(object.__new__(question)), [b"{}"])


def test_an_error_of_a_worker_shows_nothing_that_steers_a_terminal() -> None:
    said = json.dumps(["ToolError", "\x1b[2J", "a-code", [0, "\x1b"], None, None]).encode()
    with raises(ToolError, "a-code", "\\x1b[2J") as caught:
        _read(SelectPart((), None, 0, "", None), [b"error", said])  # type: ignore[arg-type]
    assert caught.value.hint == "\\x1b"
    for data in ([b"error", b"[]"], [b"other"], [], None, [b"answer", b"7"]):
        with raises(ToolError, "answer-malformed"):
            _read(SelectPart((), None, 0, "", None), data)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "..", ".", "", "a/b", "a\0b", "a\n"])
def test_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    with raises(ToolError, "answer-malformed"):
        plain_file("/d", name)
    assert str(plain_file("/d", "00000001-ab.parquet")) == "/d/00000001-ab.parquet"
