"""Text that is safe to show, and commands that are exact to run."""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.base.snapshot import Reading
from trimtab.base.visible import shell_text
from trimtab.show.text import moment_text, one_line, parameter_text, printable, reading_text

ARGUMENTS = st.lists(
    st.binary(max_size=12).map(lambda raw: os.fsdecode(raw.replace(b"\x00", b"'"))),
    min_size=1,
    max_size=4,
)


@given(st.text(st.characters(codec=None), max_size=80))
def test_printable_can_always_be_encoded_and_shown(text: str) -> None:
    shown = printable(text)
    shown.encode("utf-8")
    assert all(character.isprintable() or character in "\n\t" or character.isspace()
               for character in shown)  # fmt: skip
    assert "\n" not in one_line(text)


def test_printable_leaves_ordinary_text_alone() -> None:
    assert printable("Größe 75 % • größer\n\tok") == "Größe 75 % • größer\n\tok"


def test_very_long_text_is_cut_and_says_so() -> None:
    assert printable("x" * 10_000).endswith("… (6,000 more characters)")


@pytest.mark.system
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@settings(max_examples=25, deadline=None)
@given(ARGUMENTS)
def test_a_shown_command_gives_bash_exactly_the_arguments(arguments: list[str]) -> None:
    line = shell_text(["printf", "%s\\0", *arguments])
    assert printable(line) == line
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=True)
    assert done.stdout.split(b"\0")[:-1] == [os.fsencode(one) for one in arguments]


def test_moments_say_their_zone() -> None:
    at = datetime(2026, 11, 20, 17, 38, 2, tzinfo=UTC)
    assert moment_text(at) == "2026-11-20 17:38:02 UTC"
    east = at.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert moment_text(east) == "2026-11-20 23:08:02 +05:30"
    west = at.astimezone(timezone(-timedelta(hours=3, minutes=30)))
    assert moment_text(west) == "2026-11-20 14:08:02 -03:30"
    assert "not known" in moment_text(at.replace(tzinfo=None))
    assert moment_text(None) == "not known"


def test_write_amplification_is_a_factor_and_wear_a_part() -> None:
    assert reading_text(Reading("drive_write_amplification", 1.84)) == "1.84"
    assert reading_text(Reading("drive_percentage_used", 0.03)) == "3.0 %"
    assert reading_text(Reading("errors_total", 0)) == "0 errors"
    assert reading_text(Reading("last_trim_at", None, reason="r")) == "not known"


def test_parameters_take_the_unit_in_their_name() -> None:
    assert parameter_text("bandwidth_bytes_per_s", 2e9) == "2.00 GB/s"
    assert parameter_text("tasks", 8) == "8"
    assert parameter_text("direct", True) == "yes"
    assert parameter_text("flags", None) == "not known"
    assert parameter_text("options", {"b": 1, "a": [2]}) == '{"a": [2], "b": 1}'
