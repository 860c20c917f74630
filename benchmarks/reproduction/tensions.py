"""Where the documents and the model pull apart: each with figures, none papered over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, lgamma, log, log1p
from typing import Final

from benchmarks.reproduction.statements import SeededRow

from trimtab.twin.amplification import fifo
from trimtab.twin.scenario import Scenario, ost_capacity_bytes
from trimtab.twin.scenario_file import load_scenario

Verdict = str
_FILES: Final = 2048
_HOURS: Final = 24
_ALL: Final = 1.0 - 1e-13


@dataclass(frozen=True, slots=True)
class Tension:
    """A contradiction, and where the twin stands.

    Attributes
    ----------
    verdict
        ``reproduced``, ``missed``, ``arithmetic``, or ``not simulated`` where no run came that far.
    """

    document: str
    title: str
    verdict: Verdict
    text: str


def tensions(document: str, rows: Sequence[SeededRow], throttled: str = "") -> Iterator[Tension]:
    """Yield what a document contradicts, with the figures of its rows.

    Parameters
    ----------
    document
        ``nersc24``, ``sc21``, ``eth21`` or ``hpe25``.
    throttled
        What seconds of an array say of throttled drives; empty where they were not simulated.
    """
    by_id = {row.row.id: row for row in rows}
    if document == "nersc24":
        perlmutter = load_scenario("perlmutter")
        yield _probe_bytes(perlmutter)
        yield _balance()
        yield _throttling(by_id, throttled)
    if document == "eth21":
        yield _nearly_empty(by_id)


def _probe_bytes(scenario: Scenario) -> Tension:
    capacity_bytes = ost_capacity_bytes(scenario.osts) * scenario.osts.count
    both, each = 125e12 * _HOURS, 250e12 * _HOURS
    users = scenario.users.daily_writes_bytes
    text = (
        "The hourly probe moves approximately 250 TB. Written and read together that is "
        f"{both / 1e15:.0f} PB a day, each by itself {each / 1e15:.0f} PB, where users write 2.2 "
        f"to 2.9. With {users / 1e15:.1f} PB of users the OSTs are written over every "
        f"{capacity_bytes / (users + both):.1f} or {capacity_bytes / (users + each):.1f} days: "
        "so the probe halves the "
        "time after which trims must come, or worse, and wears the drives as users do. The "
        'scenario takes 125 TB written; probe.hourly.bytes_written = "250TB" is the other '
        "reading."
    )
    return Tension("nersc24", "The probe writes more than users do", "arithmetic", text)


def balance(files: int, osts: int) -> float:
    """Return what is left of all OSTs' rate when files go around them and the fullest ends last.

    Examples
    --------
    >>> round(balance(2048, 274), 3), round(balance(2048, 298), 3)
    (0.934, 0.982)
    """
    return files / osts / -(-files // osts)


def drawn_balance(files: int, osts: int) -> float:
    """Return the same where each file's OST is drawn: over the mean of the fullest one's files.

    By independent OSTs with binomial counts, which is right to a part in a thousand here.
    """
    return files / osts / _mean_of_most(files, osts)


def _mean_of_most(files: int, osts: int) -> float:
    """Return the mean of the greatest of ``osts`` binomial counts: the sum of P(greatest > k)."""
    upto, mean = 0.0, 0.0
    for count in range(files):
        upto += exp(
            lgamma(files + 1) - lgamma(count + 1) - lgamma(files - count + 1)
            + count * log(1 / osts) + (files - count) * log1p(-1 / osts)
        )  # fmt: skip
        mean += 1.0 - min(upto, 1.0) ** osts
        if upto > _ALL:
            break
    return mean


def _balance() -> Tension:
    before, after = balance(_FILES, 274), balance(_FILES, 298)
    drawn = drawn_balance(_FILES, 298)
    text = (
        f"{_FILES:,} files of the probe over 274 OSTs leave {before:.1%} of their rate, since some "
        f"OSTs hold 8 and some 7; over 298 it is {after:.1%}: {after / before - 1:+.1%} by "
        "arithmetic alone, on top of 8.8 % more OSTs. Where OSTs limit, the expansion of December "
        "looks like a mitigation. The probe is bound by its clients at a fifth of what OSTs give, "
        "so the twin's IOR does not move by it; and the weighted allocator, which came in the same "
        f"month, draws OSTs: {drawn:.1%} would be left, less than before."
    )
    return Tension("nersc24", "More OSTs change the balance of the probe", "arithmetic", text)


def _throttling(rows: Mapping[str, SeededRow], throttled: str) -> Tension:
    throttling_row = rows.get("17-throttling")
    gain = _twin_value(throttling_row)
    gain_text = "" if gain is None else f"; seconds of one array say {gain:+.1%}"
    text = (
        "The paper has writes throttled on drives that do not collect, while the kernel throttles "
        "each drive's queue by that queue's own latency. An operation on the array ends with its "
        "slowest drive, so the others starve for want of requests, which looks alike from outside. "
        f"Printed is a gain of 10 % without throttling{gain_text}. "
        f"{throttled}"
    ).strip()
    return Tension(
        "nersc24", "Throttling of drives that do not collect", _verdict(throttling_row), text
    )


def _nearly_empty(rows: Mapping[str, SeededRow]) -> Tension:
    slow, scenario = rows.get("27-slow"), load_scenario("eth-euler")
    spare = scenario.osts.drive.spare
    written = _twin_value(slow)
    twin = "" if written is None else (
        f" The miniature writes {written:.0%} of the reference in the first days after the "
        "threshold, more later."
    )  # fmt: skip
    text = (
        "29.9 of about 30 TiB of an OST were free when fstrim found writes at 9.5 of 36 GB/s. A "
        "drive that was never trimmed takes every address that was ever written for live: random "
        f"writes then cost an amplification of {fifo(spare):.1f} at the {spare:.0%} of spare that "
        f"are assumed, and {1 / fifo(spare):.0%} of the speed would be left. But ldiskfs writes "
        "nearly empty OSTs in long runs from one end to the other, and superblocks die whole."
        f"{twin} Printed is 26 %. Either their spare is far less than assumed, or what is free for "
        "collection is scattered as by random writes, or the threshold had not mended all. And "
        "161 TB purged in 30 days, where 15 days' data stay, do not leave OSTs empty: both are "
        "printed, and they do not fit, unless the 161 TB were the backlog of the first purges."
    )
    return Tension("eth21", "Nearly empty, and a quarter of the speed", _verdict(slow), text)


def _twin_value(seeded: SeededRow | None) -> float | None:
    return None if seeded is None else seeded.row.twin


def _verdict(seeded: SeededRow | None) -> Verdict:
    if seeded is None or seeded.row.twin is None:
        return "not simulated"
    return "missed" if seeded.row.missed else "reproduced"
