"""``trimtab survey`` as a user runs it, over ssh: what it prints, and how it is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.fake_lustre.state import FakeLustre
from tests.probe.survey.places import Place, make
from tests.support.command import TRIMTAB, trimtab
from tests.support.documents import misfits

pytestmark = pytest.mark.cli

MIB = 2**20


@pytest.fixture
def small(tmp_path: Path) -> Place:
    """Return a file system of four OSTs on one server, with its site file."""
    place = make(tmp_path, FakeLustre.small(mount=str(tmp_path / "scratch")))
    ssh = place.installed.ssh[0]
    (tmp_path / "here.toml").write_text(
        f'[site]\nname = "here"\ndriver = "lustre"\npath = "{place.site.path}"\n'
        f'file_system = "scratch"\n\n[servers]\noss = "lustre1"\nmds = "lustre1"\n\n'
        f'[servers.ssh]\ncommand = "{ssh}"\n'
    )
    return place


def words(place: Place, *more: str) -> tuple[str, ...]:
    return ("survey", str(place.root / "here.toml"), "--server", "--size", "64MiB", *more)


def test_the_plan_and_its_refusals(small: Place) -> None:
    path = small.installed.path
    store = small.root / "t.db"
    planned = trimtab(*words(small, "--all", "--json"), store=store, PATH=path)
    assert planned.code == 0, planned.stderr
    assert planned.document["applied"] is False
    # One server: one target after the other.
    waves = [[one["target"] for one in wave] for wave in planned.document["waves"]]
    assert waves == [["OST0000"], ["OST0001"], ["OST0002"], ["OST0003"]]
    assert misfits(planned.document, "survey") == []
    assert not store.exists()
    screen = trimtab(*words(small, "--all"), store=store, PATH=path).stdout
    assert screen.startswith("survey of here on its servers: 4 OSTs\n")
    assert "wave 4: OST0003" in screen
    assert "Nothing was done. Do it with --apply." in screen
    assert "--all shows" not in screen
    with small.changing() as state:
        assert all(target.next_object == 2 for target in state.osts)
        state.target("OST0001").degraded = True
    refused = trimtab(*words(small, "--target", "OST0001", "--apply"), store=store, PATH=path)
    assert refused.code == 4
    assert "OST0001: it is degraded" in refused.stderr
    assert not store.exists()


def test_stopped_by_a_signal_it_cleans_up(small: Place) -> None:
    with small.changing() as state:
        state.survey_s = 120.0
        used = state.target("OST0000").used_bytes
    running = subprocess.Popen(
        [str(TRIMTAB), *words(small, "--target", "OST0000", "--apply")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PATH": small.installed.path, "TRIMTAB_STORE": str(small.root / "t.db")},
    )
    deadline = time.monotonic() + 60
    while True:
        with small.changing() as state:
            if state.target("OST0000").used_bytes > used:
                break
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=120)
    assert running.returncode == 130, said
    with small.changing() as state:
        target = state.target("OST0000")
        assert (target.echo_objects, target.used_bytes) == ([], used)
        assert state.servers[0].echo_clients == []
    kept = trimtab("runs", "--json", store=small.root / "t.db", PATH=small.installed.path).document[
        "runs"
    ]
    assert [run["probe"] for run in kept] == ["survey-server"]
