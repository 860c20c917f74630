"""Answers as bytes and back: nothing is lost, and nothing but the declared type is believed."""

from __future__ import annotations

import json
import math
import pickle
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from tests.support.codes import raises

from trimtab.base.error import ToolError
from trimtab.base.plain import NotOfType, answer_type, packed, plain_file, unpacked
from trimtab.purge.index.dask_pieces import SelectPart, TallyPart, TotalsPart
from trimtab.purge.index.scan_workers import ScanPart
from trimtab.reach.dask_worker import _read
from trimtab.twin.whatif.whatif_figure import SimulatedRun


@dataclass(frozen=True, slots=True)
class Pair:
    first: int
    second: str


@dataclass(frozen=True, slots=True)
class Value:
    text: str
    number: float
    other: float | None
    pairs: tuple[Pair, ...]
    levels: Mapping[str, float | None]


VALUES = st.builds(
    Value,
    text=st.text(),
    number=st.floats(allow_nan=False, allow_infinity=False),
    other=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    pairs=st.lists(st.builds(Pair, st.integers(), st.text())).map(tuple),
    levels=st.dictionaries(st.text(), st.none() | st.floats(allow_nan=False, allow_infinity=False)),
)


@given(VALUES)
def test_a_value_comes_back_as_it_was(value: Value) -> None:
    again = unpacked(Value, packed(Value, value))
    assert again == value
    assert repr(again) == repr(value)


def test_large_values_come_back_as_they_were() -> None:
    frame = pl.DataFrame(
        {"a": [1, None], "b": [b"\xff", b""]}, schema={"a": pl.UInt32, "b": pl.Binary}
    )
    kind = answer_type(TotalsPart)
    for again in unpacked(kind, packed(kind, (frame, frame))):
        assert_frame_equal(again, frame)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_figures_that_are_not_finite_come_back(number: float) -> None:
    kind = answer_type(SimulatedRun)
    (again,) = unpacked(kind, packed(kind, {"a": number})).values()
    assert repr(again) == repr(number)


def test_numbers_of_numpy_are_sent_as_those_of_python() -> None:
    kind = tuple[float, int]
    again = unpacked(kind, packed(kind, (np.float64(0.1), np.int64(7))))
    assert [(type(number), number) for number in again] == [(float, 0.1), (int, 7)]


VALUE = Value("t", 1.5, None, (Pair(1, ""),), {"n": 4.0})


def damaged() -> list[Any]:
    """Return what stands for no value of `Value`, each in one way."""
    plain = json.loads(packed(Value, VALUE))
    cases: list[Any] = [None, "x", [], b"{", [b"{}"], b"[" * 100_000, 7, b"null"]
    changes = [("text", 1), ("text", ["t"]), ("number", "1.5"), ("number", True), ("number", None),
               ("other", "C"), ("other", False), ("pairs", [{"first": "1", "second": "x"}]),
               ("pairs", [{"first": 1}]), ("pairs", [{"first": 1, "second": None}]), ("pairs", "x"),
               ("levels", {"n": True}), ("levels", ["n"])]  # fmt: skip
    cases += [json.dumps({**plain, key: instead}).encode() for key, instead in changes]
    del plain["levels"]
    return [*cases, json.dumps(plain).encode()]


@pytest.mark.parametrize("data", damaged())
def test_what_is_not_of_the_type_is_refused(data: Any) -> None:
    with pytest.raises(NotOfType):
        unpacked(Value, data)


@pytest.mark.parametrize("data", [b"not Arrow", b"", pickle.dumps([1])])
def test_a_table_or_tally_that_is_none_is_refused(data: bytes) -> None:
    text = b64encode(data).decode()
    for said in ([text, text], [text], [1, 1], ["?", "?"]):
        with pytest.raises(NotOfType):
            unpacked(answer_type(TotalsPart), json.dumps(said).encode())
    with pytest.raises(NotOfType):
        unpacked(answer_type(TallyPart), json.dumps(text).encode())


@pytest.mark.parametrize("question", [SimulatedRun, TallyPart, SelectPart, TotalsPart, ScanPart])
def test_every_question_has_answers_that_can_be_sent(question: type) -> None:
    with pytest.raises(NotOfType):
        unpacked(answer_type(question), b"7")


def test_an_error_of_a_worker_shows_nothing_that_steers_a_terminal() -> None:
    said = json.dumps(["ToolError", "\x1b[2J", "a-code", "\x1b", None, None]).encode()
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
