import subprocess
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.base.error import DataError
from trimtab.purge.plan.deletion_plan import PLAIN, escape, unescape

HOSTILE = [
    b"new\nline",
    b"\x1b[2J\x1b]0;title\x07",
    b"invalid \xff\xfe utf-8",
    b"<script>alert(1)</script>",
    b"-rf",
    b" leading",
    b"trailing ",
    b" ",
    b"back\\slash\\n",
    "right-to-left \u202e gnp.exe".encode(),
    "zero\u200bwidth".encode(),
    "no-break\u00a0space".encode(),
    "line\u2028separator".encode(),
    b"surrogate \xed\xa0\x80",
    b"overlong \xc0\xaf",
    b"tab\tand\rreturn\x00",
    b"$(rm -rf /) `id` 'quoted' \"twice\"",
    b"\\x41",
    b"",
]


@given(st.binary(max_size=60))
def test_every_name_comes_back_from_its_text(name: bytes) -> None:
    assert unescape(escape(name)) == name


@given(st.text(max_size=30))
def test_so_does_every_text(text: str) -> None:
    name = text.encode("utf-8", "surrogatepass")
    assert unescape(escape(name)) == name


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_one_visible_line(name: bytes) -> None:
    text = escape(name)
    assert unescape(text) == name
    assert text.isprintable()
    assert text == text.strip()
    assert text.encode("utf-8").decode("utf-8") == text
    assert all(unicodedata.category(one) != "Cf" for one in text)


def test_an_ordinary_name_is_its_own_text() -> None:
    for name in ("run 1/out.nc", "Übung/データ.h5", "a" * 300, "x"):
        assert escape(name.encode()) == name


@given(st.binary(max_size=40))
def test_the_short_cut_takes_nothing_that_the_long_way_changes(name: bytes) -> None:
    if PLAIN.match(name):
        assert escape(name) == name.decode("ascii")
        assert b"\\" not in name
        assert name.strip(b" ") == name


@pytest.mark.parametrize("text", ["\\", "a\\q", "\\x4", "\\x4G", "\\u202e", "a\\\\\\", "\udcff"])
def test_what_escape_does_not_write_is_refused(text: str) -> None:
    with pytest.raises(DataError):
        unescape(text)


@pytest.mark.system
def test_bash_turns_it_back_as_the_lists_say() -> None:
    for name in HOSTILE:
        if b"\0" in name:  # no file has such a name, and no argument either
            continue
        shown = subprocess.run(
            ["bash", "-c", 'printf %b "$1"', "bash", escape(name)], capture_output=True, check=True
        )
        assert shown.stdout == name
