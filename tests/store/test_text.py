"""Any text goes into a database and comes back."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.base.visible import restored, storable


@given(text=st.text(st.characters(), max_size=50))
def test_any_text_comes_back_and_is_plain_unicode_without_nul(text: str) -> None:
    stored = storable(text)
    assert restored(stored) == text
    assert b"\0" not in stored.encode("utf-8")


@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\x10")))
def test_ordinary_text_is_stored_as_it_is(text: str) -> None:
    assert storable(text) == text


@given(name=st.binary(max_size=50))
def test_any_file_name_comes_back(name: bytes) -> None:
    assert os.fsencode(restored(storable(os.fsdecode(name)))) == name


@pytest.mark.parametrize("text", ["\x10", "\x10dce9", "\x1000100000", "\x10\udce9\x10", "\x10xyz"])
def test_what_looks_escaped_is_not_taken_for_it(text: str) -> None:
    assert restored(storable(text)) == text


def test_json_of_any_text_comes_back() -> None:
    value = {"caf\udce9": ["\0", "\x10", "Ω"]}
    assert json.loads(restored(storable(json.dumps(value, ensure_ascii=False)))) == value
