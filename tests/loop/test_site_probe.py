"""A probe of the site file on a real directory, and what is refused before anything is written."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from trimtab.errors import RefusedError, TrimtabError
from trimtab.launch.process import execute
from trimtab.loop.probe import DIRECTORY_PREFIX
from trimtab.loop.site_probe import SiteProbeRunner, instrument_of, spec_of
from trimtab.loop.watching.probing import RunContext
from trimtab.model.identifier import identifier_of
from trimtab.model.run import RunStatus
from trimtab.model.site import Site, SiteLauncher, SiteProbe

MIB = 1024**2
SMALL = SiteProbe(
    "hourly", benchmark="builtin", tasks_per_node=1, block_size_bytes=4 * MIB, duration_s=0.2,
    direct=False,
)  # fmt: skip


def _now() -> datetime:
    return datetime.now(UTC)


def test_a_scheduled_probe_takes_at_most_a_fifth_of_what_is_free() -> None:
    probe = SiteProbe("hourly", tasks_per_node=4, block_size_bytes=100 * MIB)
    assert spec_of(probe, 2000 * MIB, 2).tasks == 4
    with pytest.raises(RefusedError, match="20%"):
        spec_of(probe, 1999 * MIB, 2)


@pytest.mark.parametrize(
    "change", [{"nodes": 2}, {"target_pinning": True}, {"options": {"fsync": "1"}}]
)
def test_what_there_is_not_yet_is_refused_and_not_left_out(change: dict[str, object]) -> None:
    with pytest.raises(RefusedError, match="not yet"):
        spec_of(replace(SMALL, **change), 10**12, 2)  # type: ignore[arg-type]


def test_a_launcher_of_a_kind_that_there_is_not_yet_is_refused() -> None:
    site = Site("s", "local", "/", launchers=(SiteLauncher("queue", "slurm"),))
    with pytest.raises(RefusedError, match="slurm"):
        instrument_of(replace(SMALL, launcher="queue"), site, execute)
    with pytest.raises(RefusedError, match="does not start builtin"):
        instrument_of(replace(SMALL, launcher="mpi"), site, execute)


def test_a_run_has_the_id_of_its_slot_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    run_id = identifier_of(_now(), "s", "probe:hourly")
    left = tmp_path / "below" / f"{DIRECTORY_PREFIX}{run_id}"
    left.mkdir()
    (left / "of an earlier try").write_bytes(b"x" * 100)
    runner = SiteProbeRunner(Site("s", "local", str(tmp_path)), _now)
    told: list[str] = []
    context = RunContext(run_id, _now(), lambda text, fraction: told.append(text))
    outcome = runner(replace(SMALL, directory="below"), context)
    assert outcome.run.id == run_id
    assert outcome.run.probe == "hourly"
    assert outcome.run.status in {RunStatus.OK, RunStatus.PARTIAL, RunStatus.FAILED}
    assert [one.label for one in outcome.run.outputs] == ["write 0", "read 0"]
    assert outcome.error is None or outcome.run.problem
    assert told
    assert list((tmp_path / "below").iterdir()) == []


def test_what_was_broken_off_is_cleaned_up(tmp_path: Path) -> None:
    runner = SiteProbeRunner(Site("s", "local", str(tmp_path)), _now)
    (tmp_path / f"{DIRECTORY_PREFIX}x").mkdir()
    (tmp_path / f"{DIRECTORY_PREFIX}x" / "data").write_bytes(b"x")
    runner.clean_up(SMALL, "x")
    runner.clean_up(SMALL, "x")  # it is gone, which is fine
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_is_not_there_is_said(tmp_path: Path) -> None:
    runner = SiteProbeRunner(Site("s", "local", str(tmp_path)), _now)
    with pytest.raises(TrimtabError, match="does not exist"):
        runner(replace(SMALL, directory="gone"), RunContext("x", _now(), lambda *_: None))
