"""A table of many runs of several file systems: sites, probes, snapshots, events, each once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.measure.recorded import FIXTURES
from tests.support.narrow import present

from trimtab.loop.importing.importer import import_files
from trimtab.loop.importing.storing import Terms
from trimtab.model.event import EventKind
from trimtab.model.imported import FileStatus, ImportedFile
from trimtab.model.run import RunStatus
from trimtab.record.store import Store

pytestmark = pytest.mark.system

TABLE = FIXTURES / "tokio_abc" / "unnamed-index" / "summaries.csv"
ONE_SITE = FIXTURES / "tokio_abc" / "fraction" / "summaries.csv"
SITES = {"sample-scratch1", "sample-scratch2"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "t.db") as opened:
        yield opened


def imported(store: Store | None, path: Path, terms: Terms | None = None) -> ImportedFile:
    (found,) = import_files([str(path)], terms or Terms(), store)
    return found


def counts(store: Store) -> dict[str, tuple[int, int, int]]:
    """Return site to its runs, snapshots and events."""
    return {
        site.name: (
            len(store.runs(site=site.name)),
            len(store.snapshots(site.name)),
            len(store.events(site=site.name)),
        )
        for site in store.sites()
    }


def test_each_file_system_is_a_site_of_its_own(store: Store) -> None:
    found = imported(store, TABLE)
    assert found.status is FileStatus.PARTIAL
    assert len(found.results) == 40
    # A row without figures tells nothing of the targets either.
    assert counts(store) == {"sample-scratch1": (20, 20, 1), "sample-scratch2": (20, 19, 0)}
    assert {run.probe for run in store.runs()} == {"ior-shared-write", "dbscan_read"}
    assert {one.comparability for one in store.series("sample-scratch1")} != set()
    assert len(store.series("sample-scratch1")) == 2, "a broken run is no series of its own"


def test_again_adds_nothing(store: Store) -> None:
    imported(store, TABLE)
    before = counts(store)
    again = imported(store, TABLE)
    assert not any(one.new for one in again.results)
    assert all(not one.warnings for one in again.results)
    assert counts(store) == before
    assert store.integrity(contents=True) == ()


def test_a_longer_table_adds_what_is_new(store: Store, tmp_path: Path) -> None:
    lines = TABLE.read_text().splitlines(keepends=True)
    shorter = tmp_path / "until-day-4.csv"
    shorter.write_text("".join(lines[:21]))
    imported(store, shorter)
    whole = imported(store, TABLE)
    assert sum(one.new for one in whole.results) == 20
    assert {site: found[0] for site, found in counts(store).items()} == dict.fromkeys(SITES, 20)


def test_the_history_leaves_out_what_is_no_run_of_the_probe(store: Store) -> None:
    imported(store, TABLE)
    (series,) = (one for one in store.series("sample-scratch1") if one.probe == "dbscan_read")
    assert series.runs == 10
    points = store.history("sample-scratch1", series.comparability, metric="read_bandwidth")
    assert len(points) == 8
    statuses = Counter(run.status for run in store.runs(site="sample-scratch1"))
    assert statuses[RunStatus.INVALID_WORKLOAD] == 2


def test_what_did_not_finish_counts_as_nothing_done(store: Store) -> None:
    imported(store, ONE_SITE)
    (series,) = store.series("sample-fs1")
    points = store.history("sample-fs1", series.comparability, metric="write_bandwidth")
    assert [one.value for one in points if one.unfinished] == [0.0]
    assert len(points) == 9


def test_an_event_stands_once_with_its_stretch(store: Store) -> None:
    imported(store, TABLE)
    (event,) = store.events(site="sample-scratch1")
    assert event.kind is EventKind.FAILOVER
    assert present(event.until) > event.at
    assert event.source == "tokio-abc: fshealth_ost_overloaded_ost_count"


def test_a_person_names_one_file_system_and_begins_the_names_of_several(
    store: Store,
) -> None:
    imported(store, ONE_SITE, Terms(site="mine", probe="daily"))
    imported(store, TABLE, Terms(site="lab"))
    names = {site.name for site in store.sites()}
    assert names == {"mine", "lab-sample-scratch1", "lab-sample-scratch2"}
    assert {run.probe for run in store.runs(site="mine")} == {"daily: hacc_io_write"}


def test_a_dry_run_keeps_nothing_and_tells_the_same(store: Store) -> None:
    dry = imported(None, TABLE)
    kept = imported(store, TABLE)
    assert [one.name for one in dry.results] == [one.name for one in kept.results]
    assert [one.site for one in dry.results] == [one.site for one in kept.results]
    assert not any(one.new for one in dry.results)


def test_many_reasons_are_summed_up(tmp_path: Path) -> None:
    lines = TABLE.read_text().splitlines(keepends=True)
    place = lines[0].split(",").index("darshan_tot_bytes_written_posix") + 1
    odd = []
    for number, line in enumerate(lines[1:]):
        fields = line.split(",")
        if "ior" in line and number < 18:
            fields[place] = "1048576.0"
        odd.append(",".join(fields))
    path = tmp_path / "odd.csv"
    path.write_text("".join([lines[0], *odd]))
    found = imported(None, path)
    assert found.reason is not None
    assert "results, the first sample-scratch1 ior-shared-write" in found.reason
    assert len(found.reason) < 1000
