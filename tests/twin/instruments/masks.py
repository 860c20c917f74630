"""What two outputs of one benchmark have alike when their figures are left out."""

from __future__ import annotations

import re
from pathlib import Path

FIXTURES = Path(__file__).parents[2] / "fixtures"
_FIGURE = re.compile(r"-?\d+(?:\.\d+)?")


def masked(text: str) -> list[str]:
    """Return the lines of a text with one # for each figure, and with its blanks as they are."""
    return [_FIGURE.sub("#", line) for line in text.splitlines()]


def squeezed(text: str) -> list[str]:
    """Return the lines as `masked`, with runs of blanks as one: figures differ in their length."""
    return [re.sub(r" +", " ", line) for line in masked(text)]
