"""Whole screens as a person reads them; ``--snapshot-update`` keeps the new ones.

What differs between hosts and runs is replaced: identifiers, places, the version of Trimtab.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion
from tests.cli.render.test_targets_table import LONG, printed, target
from tests.incidents.generate import make_world
from tests.incidents.world import START, Incident, Spec
from tests.support.command import trimtab
from tests.support.kept_world import keep_world

from trimtab import __version__

pytestmark = pytest.mark.cli

CHANGED = START + timedelta(days=6.2)
_IDENTIFIER = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with nine days of a small site whose checksums were turned on."""
    change = Incident("configuration-change", 6.1, None, 0.9, "checksums")
    world = make_world(Spec(seed=11, days=9, osts=4, incidents=(change,)))
    return keep_world(world, tmp_path_factory.mktemp("screens") / "t.db")


def screen(*arguments: object, store: Path) -> str:
    """Return what a command that succeeds prints, without what differs from run to run."""
    ended = trimtab(*arguments, store=store, TZ="UTC")
    assert ended.code == 0, ended.stderr
    text = ended.stdout.replace(str(store), "STORE").replace(__version__, "VERSION")
    return _trimmed(_IDENTIFIER.sub("IDENTIFIER", text).splitlines())


def _trimmed(lines: Iterable[str]) -> str:
    return "\n".join(line.rstrip() for line in lines)


@pytest.mark.parametrize("command", ["status", "judge", "incidents"])
def test_a_site_that_changed(kept: Path, command: str, snapshot: SnapshotAssertion) -> None:
    assert screen(command, "world", store=kept) == snapshot


def test_an_incident_explained(kept: Path, snapshot: SnapshotAssertion) -> None:
    assert screen("explain", "world", "--at", CHANGED.isoformat(), store=kept) == snapshot


def test_a_series_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    rates = [100 + hour % 7 if hour < 60 else 80 + hour % 5 for hour in range(120)]
    lines = [
        f"{(START + timedelta(hours=hour)).isoformat()},{rate}" for hour, rate in enumerate(rates)
    ]
    (tmp_path / "series.csv").write_text("\n".join(["time,write_bandwidth", *lines, ""]))
    monkeypatch.chdir(tmp_path)  # a long directory would break the lines elsewhere
    assert screen("judge", "--csv", "series.csv", store=tmp_path / "t.db") == snapshot


def test_targets_in_trouble(snapshot: SnapshotAssertion) -> None:
    targets = [target("OST0000", "oss1"), target("OST0003", "oss2", LONG)]
    assert _trimmed(printed(*targets, width=120)) == snapshot
