"""Makes the two files of an obdfilter-survey of many OSTs, in the layout that the real ones have.

The rates are drawn, the arithmetic is the tool's own: the summary follows from the times.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

_MIB: Final = 2**20
_START_S: Final = 0.4
"""What starting and ending the threads adds to the survey's own time."""


@dataclass(frozen=True, slots=True)
class SurveyFiles:
    """The files, and the rates that were put in: test to target to bytes per second."""

    summary: bytes
    detail: bytes
    rates: dict[str, dict[str, float]]


def survey_files(
    osts: int = 298,
    *,
    seed: int = 0,
    seconds: int = 12,
    tests: tuple[str, ...] = ("write", "rewrite", "read"),
    objects: int = 1,
    threads: int = 16,
    size_mib: int = 16384,
) -> SurveyFiles:
    """Return a survey of one combination of objects and threads, at about 1.4 GB/s a target."""
    chance = random.Random(seed)
    names = [f"scratch-OST{index:04x}" for index in range(osts)]
    size_kib = size_mib * 1024 * osts
    head = (
        f"ost {osts:2d} sz {size_kib:8d}K rsz 1024K obj {objects * osts:4d}"
        f" thr {threads * osts:4d} "
    )
    lines = [f"=======================> {head}\n"]
    first = chance.randrange(2, 60_000)
    ids = [f"#{number + 1} is object id {first + number:#x}" for number in range(objects)]
    for name in names:
        lines.append(f"=============> Create {objects} on localhost:{name}_ecc\n")
        lines += [f"create: {objects} objects\n", *(f"create: {one}\n" for one in ids)]
    line, rates = head, {}
    for test in tests:
        text, figures, rates[test] = _test(test, names, chance, (seconds, threads, size_mib))
        lines.append(text)
        line += f"{test} {figures}"
    for name in names:
        lines.append(f"=============> Destroy {objects} on localhost:{name}_ecc\n")
        lines += [f"destroy: {objects} objects\n", *(f"destroy: {one}\n" for one in ids)]
    title = "Fri Nov 20 16:14:06 UTC 2026 Obdfilter-survey for case=disk from oss001\n"
    return SurveyFiles(f"{title}{line}\n".encode(), "".join(lines).encode(), rates)


def _test(
    test: str, names: list[str], chance: random.Random, sizes: tuple[int, int, int]
) -> tuple[str, str, dict[str, float]]:
    seconds, threads, size_mib = sizes
    lines: list[str] = []
    rows: list[str] = []
    rates: dict[str, float] = {}
    slowest, fastest, longest_s = float("inf"), 0.0, 0.0
    letter = "r" if test.startswith("re") and test != "rewrite" else "w"
    for number, name in enumerate(names):
        elapsed_s = round(size_mib / chance.gauss(1400, 60), 6)
        within = [chance.gauss(size_mib / elapsed_s, 40) for _ in range(seconds)]
        lines.append(
            f"=============> {test} localhost:{name}_ecc\n"
            "Print status every 1 seconds\n"
            f"--threads: starting {threads} threads on device {49 + number} running"
            f" test_brw {size_mib // threads} {letter}x q 256 {threads}t9 p256\n"
        )
        lines += [f"{threads}/{threads} Total: {rate:.6f}/second\n" for rate in within]
        lines.append(
            f"Total: total {size_mib} threads {threads} sec {elapsed_s:.6f}"
            f" {size_mib / elapsed_s:.6f}/second\n"
        )
        rows.append(f"{seconds} {min(within):.6f} {max(within):.6f}\n")
        slowest, fastest = min(slowest, *within), max(fastest, *within)
        longest_s = max(longest_s, elapsed_s)
        rates[name] = size_mib / elapsed_s * _MIB
    lines += [f"=============> {test} global\n", *rows]
    total = size_mib * len(names) / (longest_s + _START_S)
    return "".join(lines), f"{total:7.2f} [{slowest:7.2f}, {fastest:7.2f}] ", rates
