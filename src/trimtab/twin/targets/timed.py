"""The rows that need a simulation, or what a policy and a calendar give."""

from __future__ import annotations

from typing import Final

from trimtab.twin.calibration import Target
from trimtab.twin.targets.figures import BYTES_PER_S, figure

TIMED: Final = (
    Target(
        "6-age",
        "002",
        "drive",
        "write after about 5 full OST writes against fresh",
        figure(-0.10),
        "1",
        "N was not carefully measured, and fullness is not printed",
    ),
    Target("6-trim", "002", "drive", "write after fstrim over fresh", figure(1.0), "1"),
    Target(
        "8-wear",
        "003",
        "drive",
        "life used after 6 months",
        figure(0.01),
        "1",
        "printed as 99 % left; drives count in whole percents",
    ),
    Target(
        "17-throttling",
        "000",
        "RAID",
        "what writes gain without writeback throttling, while drives collect",
        figure(0.10),
        "1",
    ),
    Target(
        "19-knee",
        "000",
        "allocator",
        "fullness from which useless loops cost writes",
        figure(0.75),
        "1",
        "around; an observation, under load",
    ),
    Target(
        "22-slow",
        "000",
        "OST",
        "slow OSTs, write under expected",
        "25 to 50 % slower",
        "1",
        "intermittent; an OST that makes 77 useless loops in 1,000 requests is taken to have half "
        "of its speed",
    ),
    Target(
        "23-first",
        "000",
        "OST",
        "mean survey write, first month",
        figure(15.1e9),
        BYTES_PER_S,
        "all OSTs, busy and failed over too",
    ),
    Target("23-last", "000", "OST", "mean survey write, last month", figure(19.9e9), BYTES_PER_S),
    Target(
        "23-ratio",
        "000",
        "OST",
        "mean survey write, last month against first",
        figure(0.318),
        "1",
        "printed as 30 %: 19.9 / 15.1 is 31.8 % more",
    ),
    Target(
        "24-minimum", "000", "OST", "least survey write, first month", figure(260e6), BYTES_PER_S
    ),
    Target(
        "24-minimum-last",
        "000",
        "OST",
        "least survey write, last month",
        figure(9032e6),
        BYTES_PER_S,
    ),
    Target(
        "25-median",
        "001",
        "OST",
        "median survey write, last month against first",
        figure(0.5),
        "1",
        "nearly 50 %",
    ),
    Target(
        "27-slow",
        "003",
        "OST",
        "ETH, IOR write after the allocator's fix over reference",
        figure(9.5 / 36),
        "1",
        "nearly empty (29.9 TiB of an OST trimmed), never trimmed",
    ),
    Target(
        "27-read",
        "003",
        "OST",
        "ETH, IOR read after the allocator's fix over reference",
        figure(38 / 45),
        "1",
    ),
    Target(
        "28-trimmed", "003", "OST", "ETH, first fstrim of one OST", figure(32_849_356_800_000), "B"
    ),
    Target(
        "41-capacity",
        "000",
        "time",
        "capacity of 274 OSTs",
        figure(33e15),
        "B",
        "SC21 says 35 PB of the same 274",
    ),
    Target("41-expanded", "000", "time", "capacity of 298 OSTs", figure(36e15), "B"),
    Target(
        "42-days",
        "002",
        "time",
        "days for 5 full OST writes, at 2.9 and at 2.2 PB a day",
        "60 to 80",
        "d",
        "5 x 133 TB x 274 OSTs / (2.2 to 2.9 PB a day) is 63 to 83",
    ),
    Target(
        "43-days",
        "000",
        "time",
        "days of January to March 2024 with a COV over 8 %",
        figure(13),
        "1",
        "5 without a cause in the paper, 4 on the slides",
    ),
    Target("46-fullness", "000", "policy", "optimal fullness", figure(0.75), "1"),
    Target(
        "47-horizon",
        "000",
        "policy",
        "purge horizon",
        figure(365 * 86400.0),
        "s",
        "approximately; files are eligible at 8 weeks",
    ),
    Target("49-purged", "003", "policy", "ETH, purged in 30 days over capacity", figure(0.66), "1"),
)
