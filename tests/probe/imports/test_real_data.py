"""The whole collection of real outputs, imported as a person would: kinds, statuses, every OST."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.formats.recorded import REAL_DATA

from trimtab.probe.imports.import_result import FileStatus, ImportedFile
from trimtab.probe.imports.importer import ImportTerms, import_files
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


def test_every_kind_is_there(files: dict[str, ImportedFile]) -> None:
    found = Counter(one.kind for one in files.values() if one.status is FileStatus.OK)
    for kind in ("ior", "mdtest", "fio", "lnet-selftest", "obdfilter-survey", "darshan", "lfs-df"):
        assert found[kind] >= 2, kind
    assert found["mlperf-storage"] >= 40
    assert all(one.reason for one in files.values() if one.status is not FileStatus.OK)


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


def test_what_is_no_result_is_none(files: dict[str, ImportedFile]) -> None:
    assert files["tokio-abc/PROVENANCE.md"].status is FileStatus.UNREADABLE
    assert files["lustre-2.17/ior/enospc.out"].kind == "ior"
    assert files["lustre-2.17/ior/kill_mpirun.out"].status is FileStatus.FAILED
    assert files["lustre-2.17/fio/enospc.out"].status is FileStatus.PARTIAL
    assert files["lustre-2.17/obdfilter_survey/bad_rsz.out"].status is FileStatus.UNREADABLE
    told = sum(len(one.results) for one in files.values() if one.status is FileStatus.UNREADABLE)
    assert told == 0
