"""What the case is made of: printed where somebody printed it, assumed where nobody did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PB: Final = 10**15
TB: Final = 10**12
CAPACITY_BYTES: Final = 36 * PB
FULLNESS: Final = 0.85
USED_BYTES: Final = round(FULLNESS * CAPACITY_BYTES)
USERS: Final = 10_000
EVEN_USERS: Final = 550
"""Shares fall as 1 / (550 + k): the first of 10,000 then hold about the 20 TB of a quota."""
QUOTA_BYTES: Final = 20 * TB
FIRST_UID: Final = 10_000
GROWTH_BYTES_PER_DAY: Final = 29 * TB
GROWTH_SPREAD: Final = 0.5
GROWTH_DAYS: Final = 90
REREAD_SHARE: Final = 0.33

KEPT_DAYS: Final = (1.0, 4.0, 37.0, 300.0)
WRITTEN_SHARES: Final = (0.60, 0.30, 0.075, 0.025)


@dataclass(frozen=True, slots=True)
class Mix:
    """How old files are: what is left of an even stream of writing.

    Attributes
    ----------
    name, words
        What it is called, and what of it differs from the first.
    shares
        Of the bytes that are written, by how long they are kept.
    kept_days
        How long, on the average, until their owners delete them.
    oldest_days
        Since when there are files.
    reread_share
        Of the directories, that are read again some time after they were written.
    """

    name: str
    words: str
    shares: tuple[float, ...] = WRITTEN_SHARES
    kept_days: tuple[float, ...] = KEPT_DAYS
    oldest_days: float = 1095.0
    reread_share: float = REREAD_SHARE

    @property
    def standing(self) -> tuple[float, ...]:
        """The share of each in what is there: what is kept for long piles up.

        Examples
        --------
        >>> [round(share, 2) for share in Mix("m", "").standing]
        [0.05, 0.1, 0.23, 0.62]
        """
        held = [share * days for share, days in zip(self.shares, self.kept_days, strict=True)]
        return tuple(one / sum(held) for one in held)

    def arguments(self) -> list[str]:
        """Return what the writer of indexes is told."""
        lives = zip(self.standing, self.kept_days, strict=True)
        return [
            "lives=" + ",".join(f"{share:.6f}:{days:g}" for share, days in lives),
            f"oldest={self.oldest_days:g}",
            f"reread={self.reread_share:g}",
        ]


MIXES: Final = (
    Mix("the case", "what the tables above are of"),
    Mix("tidy users", "what is kept for long, kept for 150 days", kept_days=(1, 4, 37, 150)),
    Mix(
        "a second archive",
        "what is kept for long, kept for 900 days",
        kept_days=(1, 4, 37, 900),
    ),
    Mix("young", "opened a year ago", oldest_days=365),
    Mix("read again", "two thirds of the directories are read again", reread_share=0.67),
)
TARGETS: Final = (0.80, 0.75, 0.70, 0.60, 0.50, 0.40)

POLICY: Final = """\
# A scratch of 36 PB, held at 75 %. Every user gets a list once a week.

[policy]
name = "scratch"
root = "{root}"
target = "75%"

[age]
minimum = "8w"

[notice]
period = "7d"                  # what is on a list may go in a week,
valid = "7d"                   # and for a week: then there is the next one
forecast = "7d"
directory = "{notices}"
contact = "the help desk"

[guards]
allow_list = "{top}/purge-roots"
kill_switch = "{top}/purge-stop"
{more}
[[exempt]]
project = 711
until = 2030-06-30
reason = "a data set that a running campaign reads"
"""
SITE: Final = """\
[site]
name = "scratch"
driver = "local"
path = "{root}"
reads_recorded = true
"""
