"""What the acceptance test consists of, what became of each part, and the table it prints."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tests.live.subject import Subject

COLUMNS: Final = ("capability", "checked against", "result", "seconds")


class Wrong(Exception):
    """Trimtab and the witness differ, or Trimtab did not do what it says."""


@dataclass(frozen=True, slots=True)
class Capability:
    """One row of the table.

    Attributes
    ----------
    witness
        The source beside Trimtab that its answer is compared with.
    check
        Does it and returns the figures seen; raises `Wrong`.
    """

    name: str
    witness: str
    check: Callable[[Subject], str]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a row; ``passed`` or what went wrong is in ``text``."""

    passed: bool
    text: str
    elapsed_s: float
    at: str


CAPABILITIES: Final[dict[str, Capability]] = {}


def capability(name: str, witness: str) -> Callable[[Callable[[Subject], str]], Capability]:
    """Declare a row of the table; rows run in the order of their declaration."""

    def declared(check: Callable[[Subject], str]) -> Capability:
        if name in CAPABILITIES:
            raise ValueError(f"two rows are called {name}")
        CAPABILITIES[name] = Capability(name, witness, check)
        return CAPABILITIES[name]

    return declared


def require(holds: object, text: str) -> None:
    """Raise `Wrong` unless it holds."""
    if not holds:
        raise Wrong(text)


class Results:
    """What became of the rows on one commit, kept in a file so that a run can be resumed."""

    def __init__(self, file: Path, key: str) -> None:
        self._file = file
        self._key = key
        self.outcomes: dict[str, Outcome] = {}
        if file.exists():
            kept = json.loads(file.read_text())
            if kept["key"] == key:
                self.outcomes = {name: Outcome(**outcome) for name, outcome in kept["rows"].items()}

    def keep(self, name: str, outcome: Outcome) -> None:
        """Record what became of a row, on disk before this returns."""
        self.outcomes[name] = outcome
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps({"key": self._key, "rows": self.as_rows()}, indent=1) + "\n")
        new.replace(self._file)

    def as_rows(self) -> dict[str, dict[str, Any]]:
        """Return what became of each row, for a file that is kept."""
        return {name: asdict(outcome) for name, outcome in self.outcomes.items()}


def outcomes_of(kept: Mapping[str, Any]) -> dict[str, Outcome]:
    """Return what became of each row, from a file that was kept."""
    return {name: Outcome(**outcome) for name, outcome in kept["rows"].items()}


def run(
    rows: Sequence[Capability], subject: Subject, results: Results, say: Callable[[str], None]
) -> bool:
    """Check every row that did not pass yet; return whether all have passed."""
    for row in rows:
        before = results.outcomes.get(row.name)
        if before is not None and before.passed:
            say(f"{row.name}: passed at {before.at}")
            continue
        say(f"{row.name} ...")
        results.keep(row.name, outcome_of(row, subject))
        after = results.outcomes[row.name]
        say(f"{row.name}: {'passed' if after.passed else 'FAILED'}: {after.text}")
    return all(results.outcomes[row.name].passed for row in rows)


def outcome_of(row: Capability, subject: Subject) -> Outcome:
    """Check one row; whatever goes wrong in it is its outcome."""
    began_s = time.monotonic()
    at = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        passed, text = True, row.check(subject)
    except Wrong as wrong:
        passed, text = False, str(wrong)
    except Exception as error:  # noqa: BLE001 (one row must not keep the others from being run)
        where = traceback.extract_tb(error.__traceback__)[-1]
        passed = False
        text = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
    return Outcome(passed, text, round(time.monotonic() - began_s, 1), at)


def table(rows: Sequence[Capability], outcomes: Mapping[str, Outcome]) -> str:
    """Return the rows as a Markdown table; a row that was not run says so."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---|---|---|---:|"]
    for row in rows:
        outcome = outcomes.get(row.name)
        if outcome is None:
            result, seconds = "not run", ""
        else:
            result = ("" if outcome.passed else "**FAILED** ") + outcome.text
            seconds = f"{outcome.elapsed_s:.0f}"
        cells = (row.name, row.witness, result.replace("|", "\\|").replace("\n", " "), seconds)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
