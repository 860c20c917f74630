"""The whole collection of real outputs, imported as a person would: kinds, statuses, values."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import pytest
from tests.formats.recorded import REAL_DATA
from tests.support.narrow import present

from trimtab.base.run import Sample
from trimtab.probe.imports.import_result import FileStatus, ImportedFile, ImportTerms
from trimtab.probe.imports.importer import import_files
from trimtab.store.store import Store

pytestmark = pytest.mark.system

MIB = 2**20


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ImportedFile]:
    if not REAL_DATA.is_dir():
        pytest.skip("the collection of real outputs is not here")
    terms = ImportTerms(site="all", at=datetime(2026, 11, 20, tzinfo=UTC), timezone="UTC")
    with Store.open(tmp_path_factory.mktemp("store") / "t.db") as store:
        # In this process: others would import for longer than they read (test_importing has them).
        found = list(import_files([str(REAL_DATA)], terms, store, workers=0))
        # Every fifth file of each kind once more.
        by_kind: dict[str | None, list[str]] = {}
        for one in found:
            by_kind.setdefault(one.kind, []).append(one.file)
        once_more = [file for files in by_kind.values() for file in files[::5]]
        again = list(import_files(once_more, terms, store, workers=0))
        assert {one.kind for one in again} == set(by_kind)
        assert not any(result.new for one in again for result in one.results)
        assert store.check().problems == ()
    return {str(Path(one.file).relative_to(REAL_DATA)): one for one in found}


def samples(one: ImportedFile, metric: str, target: str | None = None) -> list[Sample]:
    return [
        sample
        for result in one.results
        for sample in result.samples
        if sample.metric == metric and sample.target == target and sample.statistic == "total"
    ]


def test_every_kind_is_there(files: dict[str, ImportedFile]) -> None:
    found = Counter(one.kind for one in files.values() if one.status is FileStatus.OK)
    for kind in ("ior", "mdtest", "fio", "lnet-selftest", "obdfilter-survey", "darshan", "lfs-df"):
        assert found[kind] >= 2, kind
    assert found["mlperf-storage"] >= 40
    assert all(one.reason for one in files.values() if one.status is not FileStatus.OK)


@pytest.mark.parametrize(
    ("name", "metric", "mib_per_s"),
    [
        ("ior/text_fpp.out", "write_bandwidth", 157.11),
        ("ior/text_fpp.out", "read_bandwidth", 2450.61),
        ("lst/02_brw_write.out", "write_bandwidth", None),
    ],
)
def test_values_are_those_that_a_person_reads(
    files: dict[str, ImportedFile], name: str, metric: str, mib_per_s: float | None
) -> None:
    one = files[f"lustre-2.17/{name}"]
    assert one.status is FileStatus.OK
    text = (REAL_DATA / one.file).read_text().splitlines()
    for sample in samples(one, metric):
        assert sample.value is not None
        assert sample.line is not None
        printed = sample.value / MIB
        assert f"{printed:.2f}" in text[sample.line - 1]
        if mib_per_s is not None:
            assert printed == pytest.approx(mib_per_s)


def test_a_survey_tells_every_ost(files: dict[str, ImportedFile]) -> None:
    place = "lustre-2.17/obdfilter_survey/all4_quick.file.ofs_all4_quick"
    pair = [files[f"{place}.summary"], files[f"{place}.detail"]]
    (one,) = [file for file in pair if file.results]
    assert len(one.results) == 5
    first = one.results[0].samples
    write = {s.target: s.value for s in first if s.metric == "write_bandwidth" and s.target}
    assert write["OST0001"] == pytest.approx(222.869162 * MIB)
    assert set(write) == {"OST0000", "OST0001", "OST0002", "OST0003"}
    total = next(s for s in first if s.metric == "write_bandwidth" and s.target is None)
    assert total.value == pytest.approx(344.67 * MIB)


def test_the_e1000_feeds_56000_samples_a_second(files: dict[str, ImportedFile]) -> None:
    """HPE's MLPerf Storage v1.0 of ResNet-50: one client, 34 emulated H100."""
    place = "Cray_ClusterStor_E1000_10xHDR200_1host/resnet50_h100/"
    runs = [
        one
        for name, one in files.items()
        if place in name and name.endswith("summary.json") and one.results
    ]
    assert len(runs) == 5
    rates = [sample.value or 0.0 for one in runs for sample in samples(one, "samples_rate")]
    assert median(rates) == pytest.approx(56_000, rel=0.005)
    assert sum(rates) / len(rates) == pytest.approx(55_935.28, rel=1e-5)
    for one in runs:  # the rule is on the run, an epoch may be below
        used = [sample.value or 0.0 for sample in samples(one, "accelerator_utilization")]
        assert sum(used) / len(used) >= 0.9


def test_the_slow_ost_is_named_and_the_healthy_log_names_none(
    files: dict[str, ImportedFile],
) -> None:
    bad, good = (files[f"darshan/sample-{which}ost.darshan"] for which in ("bad", "good"))
    times = {
        sample.target: sample.value or 0.0
        for result in bad.results
        for sample in result.samples
        if sample.metric == "write_time" and sample.target
    }
    assert max(times, key=lambda name: times[name]) == "OST000e"
    assert times["OST000e"] > 10 * median(times.values())
    assert good.status is FileStatus.OK


def test_space_of_every_target_is_told(files: dict[str, ImportedFile]) -> None:
    edison = files["lfs-df/edison-lfs-df.txt.gz"]
    assert [result.name for result in edison.results] == [
        "snx11035",
        "snx11036",
        "snx11168",
        "snx11025",
    ]
    first = present(edison.results[0].snapshot)
    (target,) = [one for one in first.targets if one.target.name == "OST0000"]
    assert target.number("capacity_bytes") == 90767651352 * 1024
    assert target.fullness() == pytest.approx(65387344040 / (65387344040 + 24423870832))


def test_what_is_no_result_is_none(files: dict[str, ImportedFile]) -> None:
    assert files["tokio-abc/PROVENANCE.md"].status is FileStatus.UNREADABLE
    assert files["lustre-2.17/ior/enospc.out"].kind == "ior"
    assert files["lustre-2.17/ior/kill_mpirun.out"].status is FileStatus.FAILED
    assert files["lustre-2.17/fio/enospc.out"].status is FileStatus.PARTIAL
    assert files["lustre-2.17/obdfilter_survey/bad_rsz.out"].status is FileStatus.UNREADABLE
    told = sum(len(one.results) for one in files.values() if one.status is FileStatus.UNREADABLE)
    assert told == 0
