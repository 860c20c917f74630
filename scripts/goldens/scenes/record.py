"""A year that was imported, and every command that looks at a record."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from scripts.goldens.facts import normal
from scripts.goldens.place import PLACE, fresh, trimtab
from tests.measure.survey_files import survey_files

FIRST: Final = datetime(2029, 1, 1, tzinfo=UTC)
RECORDING: Final = PLACE / "fixtures" / "ior" / "4.1.0+dev" / "text-fpp.out"


def goldens() -> Iterator[tuple[str, Any]]:
    """Yield what is said of the year."""
    directory = fresh("record")
    _write_year(directory / "files")
    store = ("--store", "year.db")
    commands = {
        "import": ("import", "files", "--site", "year", "--timezone", "UTC", *store),
        "status": ("status", *store),
        "judge": ("judge", "year", "--out", "judge.html", *store),
    }
    for name, words in commands.items():
        yield name, normal(trimtab(*words))


def _write_year(directory: Path) -> None:
    """Write a run of IOR every six hours, slower from June on, and a survey of 12 OSTs a week."""
    directory.mkdir()
    chance = random.Random(1)
    printed = RECORDING.read_text()
    for number in range(4 * 364):
        at = FIRST + number * timedelta(hours=6)
        level = (0.8 if at.month >= 6 else 1.0) * chance.gauss(1, 0.04)
        written = re.sub(
            r"(?m)^((?:Began|Finished)\s*:).*$", rf"\1 {at:%a %b %d %H:%M:%S %Y}", printed
        )
        written = re.sub(r"(?m)^((?:write|read) +)([\d.]+)", lambda match, by=level: f"{match[1]}{float(match[2]) * by:.2f}", written)
        (directory / f"ior-{number:04d}.out").write_text(written)
    for number in range(52):
        survey = survey_files(12, seed=chance.randrange(2**31))
        (directory / f"survey-{number:03d}.detail").write_bytes(survey.detail)
        (directory / f"survey-{number:03d}.summary").write_bytes(survey.summary)
