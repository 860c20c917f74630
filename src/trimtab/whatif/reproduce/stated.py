"""Statements of the documents that are shown and not held against a number of the twin's.

With `trimtab.twin.targets` they are every row of the list of what the documents say.
"""

from __future__ import annotations

from typing import Final

from trimtab.twin.calibration import Target
from trimtab.twin.targets.figures import BYTES_PER_S, figure

_MDTEST: Final = "metadata operations are no part of the model; the preset takes them as they are"
_BENCH: Final = "a measurement outside the model"

SHOWN: Final = (
    Target(
        "7-latency",
        "000",
        "drive",
        "latency of the slowest writes while drives collect, over the usual",
        "up by orders of magnitude, few requests, at different times on 12 drives",
        "1",
    ),
    Target(
        "9-collection",
        "001",
        "drive",
        "fullness from which collection hits writes",
        "about 75 %",
        "1",
    ),
    Target(
        "18-thresholds",
        "000",
        "allocator",
        "thresholds c1, c2, c3",
        "25, 15 -> 25, 5",
        "1",
        "input",
        data=True,
    ),
    Target(
        "20-down",
        "003",
        "allocator",
        "ETH, end of the first month: useless loops a request",
        "virtually down; mb_c3_threshold = 40",
        "1",
    ),
    Target(
        "21-reset", "000", "allocator", "mb_last_group set to 0", "every 15 min", "s", "input",
        data=True,
    ),
    Target("25-tail", "001", "OST", "OSTs under 1 GB/s, last month", "gone", "1"),
    Target(
        "27-trimmed", "003", "OST", "ETH, IOR write after the first fstrim", "restored", "1",
        "over the reference of 36 GB/s",
    ),
    Target(
        "40-create-slides", "001", "metadata", "creates", figure(100e3), "1/s", _MDTEST, data=True
    ),
    Target(
        "40-unlink-slides", "001", "metadata", "unlinks", figure(75e3), "1/s", _MDTEST, data=True
    ),
    Target(
        "40-create-sc21", "002", "metadata", "creates, 230 nodes x 6", figure(1.6e6), "1/s",
        _MDTEST, data=True,
    ),
    Target(
        "40-delete-sc21", "002", "metadata", "deletes, 1,382 nodes x 2", figure(1.3e6), "1/s",
        _MDTEST, data=True,
    ),
    Target(
        "45-events", "000", "time", "the timeline of changes",
        "SafeRet, trim, checksums, expansion, weights, 75 % limit, purge", "1",
        "months are printed and scripted, days are assumed", data=True,
    ),
    Target(
        "48-bytes", "000", "policy", "quota of a user", figure(20e12), "B", "input", data=True
    ),
    Target(
        "48-inodes", "000", "policy", "quota of a user, inodes", figure(20e6), "1", "input",
        data=True,
    ),
    Target(
        "50-trim-cost", "000", "policy", "what trim costs applications", "minimal", "1",
        "a trim takes nothing in the twin",
    ),
    Target(
        "partitions", "004", "RAID", "best NUMA and CPT partitions",
        "E1000: NPS 2 for bandwidth, 4 for operations; E2000: NPS 1, CPT 8", "1", _BENCH, data=True,
    ),
    Target(
        "mdtest-unique", "004", "metadata", "unique directories over shared, create and remove",
        "more than twice", "1", _BENCH, data=True,
    ),
    Target(
        "cori-write", "002", "client", "Perlmutter over Cori, write", "2 to 4.7", "1", _BENCH,
        data=True,
    ),
    Target(
        "cori-read", "002", "client", "Perlmutter over Cori, read", "2.3 to 6", "1", _BENCH,
        data=True,
    ),
)  # fmt: skip

FROM_RUNS: Final = (
    Target(
        "33-runs", "001", "client", "hourly IOR runs", figure(5937), "1",
        "since fall 2023, to a talk in May 2024",
    ),
    Target(
        "36-240h", "000", "client", "SafeRet, mean of 240 hourly runs after against before",
        figure(-0.14), "1",
    ),
    Target(
        "37-240h-before", "000", "client", "mean of 240 hourly runs before checksums",
        figure(673_320e6), BYTES_PER_S,
    ),
    Target(
        "37-240h-after", "000", "client", "mean of 240 hourly runs with checksums",
        figure(554_012e6), BYTES_PER_S,
    ),
    Target(
        "37-240h-ratio", "000", "client", "checksums, mean of 240 hourly runs after against before",
        figure(554_012 / 673_320 - 1), "1", "printed as 17 %: the means are 17.7 % apart",
    ),
    Target(
        "37-spread-before", "000", "client", "spread of 240 hourly runs before checksums",
        figure(31_779e6), BYTES_PER_S, "printed with a plus-minus: taken as a standard deviation",
    ),
    Target(
        "37-spread-after", "000", "client", "spread of 240 hourly runs with checksums",
        figure(37_846e6), BYTES_PER_S, "printed with a plus-minus: taken as a standard deviation",
    ),
    Target(
        "44-unexplained", "000", "time", "days over 8 % without a cause, January to March 2024",
        figure(5), "1", "the slides say 4",
    ),
)  # fmt: skip

STATED: Final = (*SHOWN, *FROM_RUNS)
