"""Files of published figures: read whole, and mistakes told with their line."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.codes import raises

from trimtab.base.error import UsageError
from trimtab.base.site_hardware import Figure, Parity
from trimtab.judge.efficiency_ladder import Coverage
from trimtab.probe.question_file import is_ladder, load_ladder, parse_ladder

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
HEAD = '[ladder]\nname = "x"\n'
TEXT = """\
[ladder]
name = "one OSS"
source = "a slide"

[hardware]
drive_write = "3.2 GB/s"
drives = 12
parity = "8+2"
network = "50 GB/s"

[[rung]]
layer = "ost"
write = ["31 GB/s", "30 GB/s", "32 GB/s"]
read_iops = "9600 kIOPS"

[[rung]]
layer = "client"
tool = "IOR"
write = "27 GB/s"
servers = 1
nodes = 20
fullness = "50%"
conditions = { NPS = "1" }

[figures]
walltime = "2900 s"

[[printed]]
what = "kept"
value = "88.4 %"
from = "client.write / hardware.network"
"""


def test_everything_is_read() -> None:
    file = parse_ladder(TEXT, "x.toml")
    ost, client = file.rungs
    assert file.hardware.parity == Parity(8, 2)
    assert [figure.value for figure in ost.figures["write_bandwidth"]] == [31e9, 30e9, 32e9]
    assert ost.figures["read_iops"][0].value == 9.6e6
    assert ost.coverage == Coverage()
    assert client.coverage == Coverage(servers=1)
    assert (client.tool, client.nodes, client.fullness) == ("IOR", 20, 0.5)
    assert client.conditions == {"NPS": "1"}
    assert file.claims[0].formula == "client.write / hardware.network"
    assert file.networked


def test_formulas_find_every_single_figure() -> None:
    figures = parse_ladder(TEXT, "x.toml").figures
    hardware = {f"hardware.{name}" for name in ("drive_write", "drives", "parity", "network")}
    assert set(figures) == hardware | {"ost.read_iops", "client.write", "walltime"}
    assert figures["hardware.parity"].value == 1.25
    assert figures["hardware.network"] == Figure(50e9, "B/s")  # nominal: exact
    assert figures["hardware.drive_write"].step == 1e8  # printed: rounded


OST = '[[rung]]\nlayer = "ost"\n'
TWICE = 'layer = "ost"\nread = "1 GB/s"\n[[rung]]\nlayer = "ost"\nread = "2 GB/s"'
CONTRADICTING = "[hardware]\nosts = 2\ndrives = 5\ndrives_per_ost = 3"


@pytest.mark.parametrize(
    ("text", "line", "place", "code"),
    [
        ("x = 1", 3, "[ladder] x", "unknown-key"),
        ("[[rung]]\nlayer = 'disk'", 4, "[[rung]] 1 layer", "unknown-value"),
        (OST + '\nwrite = "31"', 6, "[[rung]] 1 write", "malformed-value"),
        (OST + "write = 31", 5, "[[rung]] 1 write", "wrong-type"),
        (OST + "write = []", 5, "[[rung]] 1 write", "out-of-range"),
        (OST + 'write = "0 GB/s"', 5, "[[rung]] 1 write", "out-of-range"),
        (OST + 'read = "3,1 GB/s"', 5, "[[rung]] 1 read", "malformed-value"),
        (OST + 'read = "3 kIOPS"', 5, "[[rung]] 1 read", "malformed-value"),
        (OST + "osts = 0", 5, "[[rung]] 1 osts", "out-of-range"),
        (OST + OST + 'writ = "x"', 7, "[[rung]] 2 writ", "unknown-key"),
        ("[[rung]]\n" + TWICE, 8, "[[rung]] 2 read", "figure-twice"),
        ('[figures]\na = "x"', 4, "[figures] a", "malformed-value"),
        ("[[printed]]\nwhat = 'x'", 3, "[[printed]] 1 value", "missing-key"),
        (CONTRADICTING, None, "[hardware] drives_per_ost", "counts-contradict"),
        ("[hardware]\nparity = '8'", 4, "[hardware] parity", "malformed-value"),
        ("name = = 2", 3, "", "not-toml"),
    ],
)
def test_mistakes_are_told_with_their_line(
    text: str, line: int | None, place: str, code: str
) -> None:
    check_mistake(HEAD + text, line, place, code)


@pytest.mark.parametrize(
    ("text", "place", "code"), [("", "[ladder]", "missing-table"), ("[ladder", "", "not-toml")]
)
def test_a_file_that_is_no_ladder_is_told(text: str, place: str, code: str) -> None:
    check_mistake(text, None, place, code)


def check_mistake(text: str, line: int | None, place: str, code: str) -> None:
    with raises(UsageError, code) as caught:
        parse_ladder(text, "x.toml")
    file = "x.toml" if line is None else f"x.toml:{line}"
    assert caught.value.message.startswith(f"{file}:")
    assert not place or f": {place}: " in caught.value.message
    assert "\n" not in caught.value.message


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    for given_text in (text, HEAD + text, HEAD + "[[rung]]\n" + text):
        with contextlib.suppress(UsageError):
            parse_ladder(given_text, "x")


def test_a_ladder_is_told_from_a_site(tmp_path: Path) -> None:
    site = tmp_path / "site.toml"
    site.write_text('[site]\nname = "x"\ndriver = "local"\npath = "/"\n')
    assert not is_ladder(site)
    assert not is_ladder(tmp_path / "nothing.toml")
    assert not is_ladder(tmp_path)
    assert is_ladder(EXAMPLES / "perlmutter.toml")


def test_what_cannot_be_read(tmp_path: Path) -> None:
    large, binary, pipe = (tmp_path / name for name in ("large", "binary", "pipe"))
    large.write_bytes(b"#" * (2**20 + 1))
    binary.write_bytes(b"[ladder]\nname = '\xff'\n")
    os.mkfifo(pipe)
    for path, code in (
        (large, "file-too-large"),
        (binary, "file-not-utf8"),
        (pipe, "file-not-regular"),
        (tmp_path, "file-not-regular"),
        (tmp_path / "nothing", "file-unreadable"),
    ):
        with raises(UsageError, code):
            load_ladder(path)
