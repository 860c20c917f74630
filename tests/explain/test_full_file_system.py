"""A file system that other jobs fill, end to end: from a scenario to what is said of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.command import trimtab

SCENARIO = """
[scenario]
name = "filled"
title = "a burst of other jobs fills every target"
start = 2026-03-22
length = "14d"
timezone = "UTC"
seed = 4242
[resolution]
classes = "all"
[osts]
count = 16
drive = "pm1733"
per_server = 1
[osts.raid]
drives = 12
data = 8
parity = 2
spares = 1
[mdts]
count = 2
[server]
cores = 32
network = "50 GB/s"
[clients]
nodes = 400
network = "25 GB/s"
[allocator]
family = "classic"
[queue]
writeback_throttling = false
[trim]
every = "24h"
[users]
count = 200
fullness = 0.62
daily_writes = "120TB"
daily_reads = "150TB"
lifetimes = [
  { share = 0.75, mean = "2d" }, { share = 0.23, mean = "20d" },
  { share = 0.02, mean = "until-purged" },
]
[purge]
enabled = true
target = 0.68
[probe.hourly]
kind = "ior"
schedule = "every 1h"
nodes = 16
tasks_per_node = 16
bytes_written = "4TB"
timeout = "30m"
[probe.survey]
kind = "obdfilter-survey"
schedule = "daily at 21:00"
timeout = "1h"
[assumptions]
"users" = "made up"
[[fault]]
at = 2026-04-03T08:00:00
until = 2026-04-03T14:00:00
kind = "burst"
size = "70 GB/s"
detail = "made up"
"""


def told(directory: Path) -> dict[str, Any]:
    """Return the incident of the day on which it was filled."""
    scenario, store = directory / "filled.toml", directory / "life" / "filled.db"
    scenario.write_text(SCENARIO)
    made = trimtab(
        "twin", "run", scenario, "--closed-book", "--snapshots", "2h",
        "--directory", directory / "life", store=store,
    )  # fmt: skip
    assert made.code == 0, made.stderr
    found = trimtab("incidents", directory / "life" / "filled.toml", "--json", store=store)
    (incident,) = (
        each for each in found.document["incidents"] if each["at"].startswith("2026-04-03")
    )
    return incident


@pytest.mark.cli
def test_a_load_that_filled_every_target_is_told_as_a_chain(tmp_path: Path) -> None:
    incident = told(tmp_path)
    full, load = incident["causes"][:2]
    assert (full["id"], full["because_of"]) == ("targets-over-limit", "competing-load")
    assert (load["id"], load["because_of"]) == ("competing-load", None)
    assert (full["confidence"] >= 0.9, incident["unexplained"]) == (True, False)
    stated: dict[str, Any] = {}
    for assessed in (*incident["causes"], *incident["cleared"], *incident["not_assessed"]):
        for piece in assessed["evidence"]:
            if piece["quantity"] and piece["value"] is not None:
                assert stated.setdefault(piece["quantity"], piece["value"]) == piece["value"], piece
    assert stated["fullest-target-at-most"] == pytest.approx(0.992, abs=0.002)
