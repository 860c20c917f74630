"""Importing: what is found, recognised and kept once, in parts, and told; the whole collection."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.formats.recorded import REAL_DATA
from tests.formats.survey_files import SurveyFiles, survey_files
from tests.support.documents import misfits
from tests.support.narrow import present

from trimtab.base.error import ToolError, code_of
from trimtab.base.run import RunStatus
from trimtab.formats.format_table import formats
from trimtab.probe import import_reading, importer
from trimtab.probe.import_result import FileStatus, Imported, ImportedFile, ImportTerms, import_json
from trimtab.probe.importer import import_files
from trimtab.store.store import Store

pytestmark = pytest.mark.system

FIXTURES = Path(__file__).parents[2] / "fixtures"
REPORT = (FIXTURES / "ioload" / "0.1.0" / "write-direct.out").read_bytes()
IO500 = FIXTURES / "io500" / "io500-isc21_v2" / "standard"
TERMS = ImportTerms(site="s", timezone="UTC")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made = tmp_path / "files"
    made.mkdir()
    return made


def done(place: Path, store: Store | None, **more: object) -> list[ImportedFile]:
    return list(import_files([str(place)], TERMS, store, **more))  # type: ignore[arg-type]


def put_survey(place: Path, name: str = "x", osts: int = 3, seed: int = 0) -> SurveyFiles:
    """Put the two files of a survey there, and return them."""
    survey = survey_files(osts, seed=seed)
    (place / f"{name}.detail").write_bytes(survey.detail)
    (place / f"{name}.summary").write_bytes(survey.summary)
    return survey


def test_a_file_is_kept_raw_and_each_number_leads_to_its_line(place: Path, store: Store) -> None:
    (place / "report.out").write_bytes(REPORT)
    (one,) = done(place, store)
    assert (one.kind, one.status, one.named) == ("builtin", FileStatus.OK, False)
    (result,) = one.results
    assert result.new
    run = store.run(present(result.run), outputs=True)
    assert (run.site, run.probe, run.kind) == ("s", "imported", "builtin")
    assert (run.status, run.outputs[0].stdout) == (RunStatus.OK, REPORT)
    assert run.samples == result.samples
    assert all(sample.output == 0 and sample.line == 1 for sample in run.samples)
    assert store.check(contents=True).problems == ()


def test_nothing_is_kept_twice_whatever_its_name(place: Path, store: Store) -> None:
    for name in "ab":
        (place / name).write_bytes(REPORT)
    first = done(place, store)
    assert sorted(one.results[0].new for one in first) == [False, True]
    (place / "c").write_bytes(REPORT)
    again = done(place, store)
    assert [one.results[0].new for one in again] == [False] * 3
    assert {one.results[0].run for one in (*first, *again)} == {first[0].results[0].run}
    assert len(store.runs()) == 1


def test_another_site_keeps_its_own(place: Path, store: Store) -> None:
    (place / "a").write_bytes(REPORT)
    done(place, store)
    (other,) = import_files([str(place)], ImportTerms(site="t"), store)
    assert other.results[0].new


def test_a_dry_run_keeps_nothing(place: Path) -> None:
    (place / "a").write_bytes(REPORT)
    (one,) = done(place, None)
    assert one.results[0].samples
    assert not one.results[0].new


def test_parts_of_one_result_are_one_run(place: Path, store: Store) -> None:
    put_survey(place)
    files = done(place, store)
    assert [one.status for one in files] == [FileStatus.OK, FileStatus.OK]
    (run,) = store.runs()
    targets = {sample.target for sample in run.samples if sample.target}
    assert targets == {"OST0000", "OST0001", "OST0002"}
    (part,) = [one for one in files if one.part_of]
    assert part.results == ()
    assert len(store.outputs(run.id)) == 2


def test_a_part_that_is_named_alone_brings_the_other(place: Path, store: Store) -> None:
    put_survey(place)
    for name in ("x.detail", "x.summary"):
        (one,) = done(place / name, store)
        assert len({s.target for s in one.results[0].samples if s.target}) == 3
    assert len(store.runs()) == 1


def test_what_a_survey_prints_is_no_second_run_of_it(place: Path, store: Store) -> None:
    survey = put_survey(place)
    (place / "x.out").write_bytes(b"using LCTL='lctl'\n" + survey.summary + b"done!\n")
    results = [one for file in done(place, store) for one in file.results]
    (run,) = store.runs()
    assert {s.target for s in run.samples} == {None, "OST0000", "OST0001", "OST0002"}
    assert ({one.run for one in results}, sum(one.new for one in results)) == ({run.id}, 1)
    assert not any(one.warnings for one in results)
    assert store.check(contents=True).problems == ()


def test_a_copy_that_tells_more_comes_too_late_and_says_so(place: Path, store: Store) -> None:
    (place / "x.out").write_bytes(survey_files(3).summary + b"done!\n")
    (first,) = done(place, store)
    put_survey(place)
    (late,) = done(place / "x.summary", store)
    assert late.results[0].run == first.results[0].run
    assert not late.results[0].new
    assert "imported before from a file without its targets (3)" in late.results[0].warnings[0]
    assert len(store.runs()) == 1


def put_io500(place: Path, *names: str) -> None:
    for name in names:
        (place / name).write_bytes((IO500 / name).read_bytes())


def test_what_an_io500_prints_is_no_second_run_of_it(place: Path, store: Store) -> None:
    put_io500(place, "io500.out", "result_summary.txt", "result.txt")
    files = done(place, store)
    by_name = {Path(one.file).name: [r.run for r in one.results] for one in files}
    assert by_name["io500.out"] == by_name["result_summary.txt"]
    runs = store.runs()
    assert len(runs) == len(by_name["io500.out"])
    assert all(run.at is not None for run in runs)
    assert not any(result.warnings for file in files for result in file.results if result.new)


def test_an_io500_that_came_without_details_says_what_it_lacks(place: Path, store: Store) -> None:
    put_io500(place, "io500.out")
    done(place, store)
    put_io500(place, "result_summary.txt", "result.txt")
    said = {w for file in done(place, store) for one in file.results for w in one.warnings}
    assert any("imported before from a file without" in one for one in said)


PIECES = {
    "ior": FIXTURES / "ior" / "4.0.0" / "repeat.out",
    "mdtest": FIXTURES / "mdtest" / "4.1.0+dev" / "files.out",
    "fio": FIXTURES / "fio" / "3.1" / "two-jobs.out",
    "obdfilter-survey": FIXTURES / "obdfilter_survey" / "2.17" / "two-targets.out",
    "builtin": FIXTURES / "ioload" / "0.1.0" / "write-direct.out",
    "io500": FIXTURES / "io500" / "io500-isc26" / "standard" / "result_summary.txt",
    "lnet-selftest": FIXTURES / "lnet_selftest" / "2.17" / "brw-read.out",
}


def figures(files: list[ImportedFile]) -> dict[tuple[Any, ...], list]:
    """Return values by metric, repetition, statistic and target, whatever their lines are."""
    found: dict[tuple[Any, ...], list] = {}
    for s in (s for file in files for one in file.results for s in one.samples):
        key = (s.metric, s.repetition, s.statistic, s.target)
        found.setdefault(key, []).append((s.value, s.reason))
    return {key: sorted(values, key=str) for key, values in found.items()}


@pytest.mark.parametrize(
    ("first", "second"), [pair for a, b in pairwise([*PIECES, "ior"]) for pair in ((a, b), (b, a))]
)
def test_a_log_of_several_gives_what_each_alone_gives(place: Path, first: str, second: str) -> None:
    one, two = (PIECES[kind].read_bytes().rstrip() + b"\n" for kind in (first, second))
    (place / "1.out").write_bytes(one)
    (place / "2.out").write_bytes(two)
    apart = done(place, None)
    mixed = place / "mixed"
    mixed.mkdir()
    (mixed / "slurm-7.out").write_bytes(b"loading modules\n" + one + b"next\n" + two + b"end\n")
    (together,) = done(mixed, None)
    assert together.kind == f"{first}, {second}"
    assert figures([together]) == figures(apart)
    assert [r.status for r in together.results] == [r.status for f in apart for r in f.results]
    shift = 2 + one.count(b"\n")
    lines = [s.line for result in apart[1].results for s in result.samples if s.line]
    there = [s.line for result in together.results for s in result.samples if s.line]
    assert [line + shift for line in lines] == there[-len(lines) :]


def test_benchmarks_in_turns_are_all_read(place: Path, store: Store) -> None:
    ior, mdtest = (PIECES[kind].read_bytes() for kind in ("ior", "mdtest"))
    (place / "slurm.out").write_bytes((ior + mdtest) * 2)
    (file,) = done(place, store)
    assert sorted(run.kind for run in store.runs()) == ["ior", "ior", "mdtest", "mdtest"]
    assert file.status is FileStatus.OK
    assert not any(result.new for result in done(place, store)[0].results)


def test_what_of_a_log_is_not_read_is_told(place: Path) -> None:
    ior, mdtest = (PIECES[kind].read_bytes() for kind in ("ior", "mdtest"))
    (place / "slurm.out").write_bytes(ior + mdtest)
    (file,) = done(place, None, kind="ior")
    assert (file.kind, file.status) == ("ior", FileStatus.PARTIAL)
    line = 1 + ior.count(b"\n")
    assert f"output of mdtest from line {line}, which was not read" in str(file.reason)
    (place / "slurm.out").write_bytes(mdtest + b'{\n  "fio version" : "fio-3.33",\n')
    (broken,) = done(place, None)
    assert broken.status is FileStatus.PARTIAL
    assert "fio" in str(broken.reason)
    assert broken.results[0].status is FileStatus.OK


def test_two_surveys_of_the_same_shape_are_two(place: Path, store: Store) -> None:
    for seed in (1, 2):
        (place / f"{seed}.out").write_bytes(survey_files(3, seed=seed).summary)
    assert all(one.results[0].new for one in done(place, store))
    assert len(store.runs()) == 2


def test_archives_are_unpacked_and_links_not_followed(place: Path, store: Store) -> None:
    (place / "a.gz").write_bytes(gzip.compress(REPORT))
    (place / "link").symlink_to(place / "a.gz")
    (place / "loop").symlink_to(place)
    os.mkfifo(place / "pipe")
    (one,) = done(place, store)
    assert one.status is FileStatus.OK


def test_what_is_wrong_with_a_file_is_told_and_stops_nothing(place: Path, store: Store) -> None:
    (place / "1-empty").touch()
    (place / "2-broken.gz").write_bytes(gzip.compress(REPORT)[:-9])
    (place / "3-foreign").write_bytes(b"\x7fELF" + bytes(1000))
    (place / "4-good").write_bytes(REPORT)
    (place / os.fsdecode(b"5-\xff\n\x1b[31m")).write_bytes(b"x")
    files = done(place, store)
    unreadable = FileStatus.UNREADABLE
    assert [one.status for one in files] == [unreadable] * 3 + [FileStatus.OK, unreadable]
    assert files[0].reason == "the file is empty"
    assert "gzip" in str(files[1].reason)
    assert files[2].kind is None


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: None, "there is no such file"),
        (lambda path: path.symlink_to("nowhere"), "a link to nothing"),
        (os.mkfifo, "not a regular file"),
    ],
)
def test_what_is_named_and_cannot_be_read_is_told(place: Path, make: Any, reason: str) -> None:
    make(place / "x")
    (one,) = done(place / "x", None)
    assert (one.named, one.status) == (True, FileStatus.UNREADABLE)
    assert reason in str(one.reason)


def test_a_file_that_is_named_twice_is_read_once(place: Path) -> None:
    (place / "a").write_bytes(REPORT)
    assert len(list(import_files([str(place / "a"), str(place)], TERMS, None))) == 1


def test_workers_give_what_one_process_gives(
    place: Path, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        put_survey(place, f"{number:02}", 2, number)
    monkeypatch.setattr(importer, "BATCH", 7)
    with Store.open(tmp_path / "other" / "t.db") as other:
        one_process = [(f.file, f.status, f.part_of) for f in done(place, other, workers=0)]
        alone = {run.path: run.samples for run in other.runs()}
    assert [(f.file, f.status, f.part_of) for f in done(place, store, workers=2)] == one_process
    assert {run.path: run.samples for run in store.runs()} == alone
    assert len(alone) == 30


def test_a_broken_import_goes_on(
    place: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(10):
        (place / f"{number}.summary").write_bytes(survey_files(2, seed=number).summary)
    monkeypatch.setattr(importer, "BATCH", 2)
    files = import_files([str(place)], TERMS, store)
    for _ in range(3):
        next(files)
    files.close()  # type: ignore[attr-defined]
    assert 0 < len(store.runs()) < 10
    assert sum(one.results[0].new for one in done(place, store)) == 10 - 4
    assert len(store.runs()) == 10


IOR = FIXTURES / "ior" / "4.1.0+dev" / "text-fpp.out"


def result_of(path: Path, terms: ImportTerms, store: Store | None = None) -> Imported:
    """Return the only result of a file that is imported."""
    (file,) = import_files([str(path)], terms, store)
    (result,) = file.results
    return result


def printed() -> datetime:
    """Return the time in the file, which has no zone."""
    return present(result_of(IOR, ImportTerms(timezone="UTC")).at)


def test_a_time_without_a_zone_takes_the_one_that_is_said_and_none_is_guessed() -> None:
    at = result_of(IOR, ImportTerms(timezone="Europe/Zurich")).at
    assert present(at) - printed() == timedelta(hours=-1)
    unknown = result_of(IOR, ImportTerms())
    assert unknown.at is None
    assert "--timezone" in str(unknown.at_reason)


def test_a_time_that_is_said_and_one_that_is_printed_must_be_one() -> None:
    said = result_of(IOR, ImportTerms(at=printed() + timedelta(hours=8, minutes=3)))
    assert said.at == printed() + timedelta(hours=8)  # zones are quarters of hours
    wrong = result_of(IOR, ImportTerms(at=printed() - timedelta(days=30)))
    assert wrong.at is None
    assert "which is not" in str(wrong.at_reason)


def test_a_run_without_a_time_gets_it_when_it_is_imported_with_a_zone(store: Store) -> None:
    name = present(result_of(IOR, ImportTerms(site="s"), store).run)
    assert store.run(name).at is None
    again = result_of(IOR, ImportTerms(site="s", timezone="UTC"), store)
    assert not again.new
    run = store.run(name)
    assert (run.at, run.at_reason) == (again.at, None)
    result_of(IOR, ImportTerms(site="s", timezone="Asia/Tokyo"), store)
    assert store.run(name).at == run.at  # one that is known stays


def test_an_archive_of_several_files_is_told(place: Path) -> None:
    with tarfile.open(place / "x.tgz", "w:gz") as archive:
        archive.add(IOR, "ior.out")
    (one,) = done(place, None)
    assert one.status is FileStatus.UNREADABLE
    assert "tar" in str(one.reason)


def test_the_json_is_whole_also_when_it_was_broken_off(place: Path) -> None:
    (place / "a").write_bytes(REPORT)

    def broken() -> Iterator[ImportedFile]:
        yield from done(place, None)
        raise ToolError("no more")

    pieces: list[str] = []
    with pytest.raises(ToolError):
        pieces.extend(import_json(broken(), store=None, site="s"))
    value = json.loads("".join(pieces))
    error = {"message": "no more", "code": "tool-failed", "hint": None, "exit_code": 3}
    assert (value["error"], len(value["files"])) == (error, 1)


def test_the_json_is_one_object_of_its_schema(place: Path, store: Store) -> None:
    (place / "a").write_bytes(REPORT)
    put_survey(place, "b", 2)
    (place / "c").write_bytes(b"x")
    files = import_files([str(place)], TERMS, store)
    value = json.loads("".join(import_json(files, store="x", site="s")))
    assert misfits(value, "import") == []
    assert [one["status"] for one in value["files"]] == ["ok", "ok", "ok", "unreadable"]
    sample = value["files"][0]["samples"][0]
    assert (sample["metric"], sample["unit"], sample["line"]) == ("write_bandwidth", "B/s", 1)


def test_a_number_that_counts_nothing_costs_no_other_file(place: Path, store: Store) -> None:
    text = IOR.read_text()
    (place / "a").write_text(text.replace("tasks               : 2", f"tasks : {'9' * 20}"))
    (place / "b").write_text(text.replace("   0   \n", f"   {'9' * 5000}   \n"))
    (place / "c").write_bytes(REPORT)
    assert done(place, store)[-1].status is FileStatus.OK
    assert len(store.runs()) >= 1


def test_a_bug_costs_no_other_file(
    place: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(source: object) -> bool:
        raise ZeroDivisionError("odd")

    (place / "a").write_bytes(IOR.read_bytes())
    form = dataclasses.replace(formats()[0], recognises=broken)
    monkeypatch.setattr(import_reading, "formats", lambda: (form,))
    (one,) = done(place, store)
    assert one.status is FileStatus.UNREADABLE
    assert "ZeroDivisionError: odd" in str(one.reason)


def test_a_link_beside_a_file_is_not_followed(place: Path, store: Store, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("root alone may read this")
    (place / "x.summary").write_bytes(survey_files(3).summary)
    (place / "x.detail").symlink_to(tmp_path / "secret")
    (one,) = done(place / "x.summary", store)
    assert one.status is FileStatus.UNREADABLE
    assert "not followed" in str(one.reason)
    assert store.runs() == ()


def test_a_link_that_a_person_names_is_followed(place: Path, tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(REPORT)
    (place / "link").symlink_to(tmp_path / "there")
    assert done(place / "link", None)[0].status is FileStatus.OK


def test_what_is_mounted_below_is_named_and_not_entered(place: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    inner = place / "inner"
    inner.mkdir()
    (place / "z").write_bytes(REPORT)
    subprocess.run(["mount", "-t", "tmpfs", "none", str(inner)], check=True)
    try:
        (inner / "report").write_bytes(REPORT)
        files = done(place, None)
        named = list(import_files([str(inner)], TERMS, None))
    finally:
        subprocess.run(["umount", str(inner)], check=True)
    assert [one.status for one in files] == [FileStatus.UNREADABLE, FileStatus.OK]
    assert "another file system is mounted there" in str(files[0].reason)
    assert [one.status for one in named] == [FileStatus.OK]


def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    files = tmp_path / "many"
    files.mkdir()
    survey = survey_files(60)
    for number in range(400):
        (files / f"{number}.detail").write_bytes(survey.detail + b"\n" * number)
    argv = [sys.executable, "-m", "trimtab.cli", "import", str(files), "--dry-run"]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    workers: list[str] = []
    end_s = time.monotonic() + 30
    while len(workers) < 3 and time.monotonic() < end_s and process.poll() is None:
        workers = children.read_text().split()
        time.sleep(0.02)
    process.kill()
    process.wait()
    spawned = [pid for pid in workers if _is_worker(pid)]
    while any(_is_worker(pid) for pid in spawned) and time.monotonic() < end_s:
        time.sleep(0.05)
    assert not any(_is_worker(pid) for pid in spawned)


def _is_worker(pid: str) -> bool:
    try:
        return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def test_retention_leaves_what_was_imported(store: Store) -> None:
    name = present(result_of(IOR, TERMS, store).run)
    now = datetime(2030, 1, 1, tzinfo=UTC)
    store.prune("s", now, now=now)
    assert store.run(name, outputs=True).outputs[0].stdout == IOR.read_bytes()


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


def test_a_result_that_another_file_holds_too_is_told_and_counts_once(
    place: Path, store: Store
) -> None:
    """A copy with a job's greeting before it has other bytes, and every line is another."""
    text = (FIXTURES / "ior" / "3.3.0" / "text-shared.out").read_bytes()
    (place / "a.out").write_bytes(text)
    (first,) = done(place, store)
    (place / "b of windows.out").write_bytes(text.replace(b"\n", b"\r\n"))
    (place / "c.log").write_bytes(b"Welcome to this cluster\n\n" + text)
    _, same, copy = done(place, store)
    (before,), (of_windows,), (of_log,) = first.results, same.results, copy.results
    assert (of_windows.new, of_windows.run, of_windows.warnings) == (
        False, before.run, before.warnings,
    )  # fmt: skip
    assert of_log.new
    (warning,) = set(of_log.warnings) - set(before.warnings)
    assert code_of(warning) == "same-result"
    assert present(before.run)[:13] in warning
    assert len(store.runs()) == 2
    assert len(list(store.runs_between("s"))) == 1
    # Importing it again tells nothing new.
    assert not any(
        code_of(text) == "same-result" for text in done(place, store)[2].results[0].warnings
    )
