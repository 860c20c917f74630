"""obdfilter-survey: every output that was recorded, and ways in which one can be wrong."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats import of_formats
from tests.formats.of_formats import read_or_none, source, values
from tests.formats.recorded import FIXTURES, REAL_DATA
from tests.formats.survey_files import survey_files
from tests.support.each import for_each
from tests.support.narrow import present

from trimtab.base.error import DataError, code_of
from trimtab.base.run import RunStatus
from trimtab.formats.measurement import Measurement
from trimtab.formats.obdfilter_output import objects_left, read_detail, target_of
from trimtab.formats.obdfilter_survey import FORMAT, read
from trimtab.formats.source import OutputFile

MIB = 2**20
HERE = FIXTURES / "obdfilter_survey" / "2.17"
EMPTY = ("bad-", "netdisk", "bad_")


def results_in(folder: Path) -> list[Path]:
    """Return the files of a folder that hold results."""
    paths = [path for end in ("summary", "detail", "out") for path in folder.glob(f"*.{end}")]
    kept = [path for path in paths if path.stat().st_size and not path.name.startswith(EMPTY)]
    return sorted(path for path in kept if not path.name.startswith(("lfs_", "after_", "default_")))


REAL = results_in(REAL_DATA / "lustre-2.17" / "obdfilter_survey")
ALL = [*results_in(HERE), *REAL]
each = for_each("path", ALL, ids=lambda path: path.name)
each_pair = for_each(
    "path", [path for path in ALL if path.suffix == ".summary"], ids=lambda path: path.name
)


def only(path: Path) -> Measurement:
    (found,) = read(source(path))
    return found


def figures(found: Measurement, *, target: str | None = None) -> dict[tuple[str, str], float]:
    return {
        (sample.metric, sample.statistic): round((sample.value or 0) / MIB, 6)
        for sample in found.samples
        if sample.target == target and sample.believed
    }


def test_a_summary_with_its_detail() -> None:
    one, two = read(source(HERE / "long.summary"))
    assert (one.status, two.status) == (RunStatus.OK, RunStatus.OK)
    assert (one.name, one.layer, one.host) == ("rsz 1024K obj 1 thr 1", "ost", "lustre1")
    assert figures(one) == {
        ("write_bandwidth", "total"): 374.82,
        ("write_bandwidth", "interval_min"): 276.80,
        ("write_bandwidth", "interval_max"): 387.66,
        ("rewrite_bandwidth", "total"): 877.0,
        ("read_bandwidth", "total"): 1135.62,
    }
    assert figures(two, target="OST0001") == {
        ("write_bandwidth", "total"): 302.278842,
        ("rewrite_bandwidth", "total"): 1576.113992,
        ("read_bandwidth", "total"): 1855.965479,
    }
    assert one.began == datetime(2026, 11, 20, 16, 15, 22, tzinfo=UTC)
    assert one.requested == {
        "case": "disk",
        "size_bytes": 1600 * MIB,
        "transfer_size_bytes": MIB,
        "objects_per_target": 1,
        "threads_per_target": 1,
        "tests": ["write", "rewrite", "read"],
        "targets": ["scratch-OST0001"],
    }
    assert one.reported == {"targets": 1, "file_system": "scratch", "short": ["rewrite", "read"]}


def test_two_targets_are_told_for_one_and_each_figure_leads_to_its_line() -> None:
    texts = [(HERE / f"two-targets.{end}").read_text().split("\n") for end in ("summary", "detail")]
    found = only(HERE / "two-targets.summary")
    for sample in found.samples:
        printed = texts[present(sample.output)][present(sample.line) - 1]
        figure = (sample.value or 0) / MIB
        assert f"{figure:.2f}" in printed or f"{figure:.6f}" in printed
    assert {sample.target for sample in found.samples} == {None, "OST0000", "OST0003"}
    assert (found.requested["objects_per_target"], found.requested["threads_per_target"]) == (2, 4)
    assert (found.requested["size_bytes"], found.reported["targets"]) == (32 * MIB, 2)


def asked_targets(osts: int, *, detail: bool = True) -> Any:
    made = survey_files(osts)
    beside = {"x.detail": made.detail} if detail else {}
    (one,) = read(OutputFile("x.summary", made.summary, beside))
    return one.requested["targets"]


def test_which_targets_were_surveyed_is_a_parameter() -> None:
    """Else the deviation of a series would be that of OSTs, not of times."""
    assert asked_targets(2) == ["scratch-OST0000", "scratch-OST0001"]
    assert len(asked_targets(8)) == 8
    many = asked_targets(9)
    assert many["count"] == 9
    assert many == asked_targets(9) != asked_targets(10)
    assert asked_targets(9, detail=False) == 9
    detail = survey_files(9).detail.replace(b"scratch-OST0008", b"home-OST0008")
    (other,) = read(OutputFile("x", detail))
    assert other.requested["targets"] != many


def test_what_it_prints_is_the_same_result_as_its_summary() -> None:
    for case in ("two-targets", "long"):
        printed, kept = (
            [one.identity for one in read(OutputFile("x", (HERE / f"{case}.{end}").read_bytes()))]
            for end in ("out", "summary")
        )
        assert printed == kept
        assert None not in printed
        assert len(set(printed)) == len(printed)


def test_a_line_that_is_not_whole_is_no_copy_of_another() -> None:
    made = survey_files(2)
    for end in range(len(made.summary) - 1):
        for one in read_or_none(FORMAT, OutputFile("x", made.summary[:end])) or ():
            assert one.identity is None


def test_a_detail_alone_has_no_figure_of_all_targets() -> None:
    found = read(OutputFile("long.detail", (HERE / "long.detail").read_bytes()))
    totals = [sample for one in found for sample in one.samples if sample.target is None]
    assert len(totals) == 6
    assert {sample.value for sample in totals} == {None}
    assert {code_of(sample.reason) for sample in totals} == {"companion-missing"}
    assert figures(found[0], target="OST0001")["write_bandwidth", "total"] == 391.980472
    assert {sample.output for one in found for sample in one.samples if sample.target} == {0}


def test_the_two_files_are_one_result() -> None:
    assert FORMAT.companions("a.summary") == ("a.detail",)
    assert (FORMAT.instead("a.detail"), FORMAT.instead("a.summary")) == (("a.summary",), ())
    assert FORMAT.companions("a.out") == ()


def test_a_killed_survey_ends_with_done() -> None:
    first, second = read(source(HERE / "kill-mid.out"))
    assert first.status is second.status is RunStatus.PARTIAL
    assert "run-unfinished" in first.codes
    assert "rewrite" in (first.problem or "")
    assert figures(first)["write_bandwidth", "total"] == 231.65
    assert [s.value for s in first.samples if s.metric == "rewrite_bandwidth"] == [None]
    assert second.name == "rsz 1024K obj 1 thr 1 #2"


@pytest.mark.parametrize("name", ["bad-rsz", "bad-target"])
def test_a_refused_survey_measured_nothing(name: str) -> None:
    refused = source(HERE / f"{name}.out")
    assert FORMAT.recognises(refused)
    with pytest.raises(DataError, match="program exited with error"):
        read(refused)


def test_what_lctl_complained_of_is_not_believed() -> None:
    text = (HERE / "two-targets.detail").read_text()
    hit = "--threads: starting 4 threads on device 50 running test_brw 8 wx q 256 2t10 p256\n"
    assert text.count(hit) == 1
    bad = text.replace(hit, f"error: test_brw: #3 - No space left on device on write\n{hit}")
    line = (HERE / "two-targets.summary").read_text().replace("SHORT", "ERROR", 1)
    (found,) = read(OutputFile("x.summary", line.encode(), {"x.detail": bad.encode()}))
    assert found.status is RunStatus.PARTIAL
    assert "tool-error" in found.codes
    assert "write" in (found.problem or "")
    assert figures(found, target="OST0000")["write_bandwidth", "total"] == 476.907256
    for target in (None, "OST0003"):
        assert "write_bandwidth" not in {metric for metric, _ in figures(found, target=target)}
    (reason,) = (
        one.reason
        for one in found.samples
        if (one.target, one.metric) == ("OST0003", "write_bandwidth")
    )
    assert "No space left on device" in (reason or "")


def test_an_older_layout() -> None:
    line = (
        "Tue Mar 11 10:02:03 PST 2008 Obdfilter-survey for case=disk from oss1\n"
        "ost  2 sz 16777216K rsz 1024 obj    2 thr   32 write  600.12 [ 240.00, 310.50]"
        " read  701.00 [ 330.00, 360.25]\n"
    )
    (found,) = read(OutputFile("a.summary", line.encode()))
    assert figures(found)["write_bandwidth", "interval_max"] == 310.5
    assert found.requested["transfer_size_bytes"] == MIB
    # PST is the Philippines' and the Pacific's: no zone.
    assert found.began == datetime(2008, 3, 11, 10, 2, 3)


@pytest.mark.parametrize(
    ("case", "layer"), [("disk", "ost"), ("network", "network"), ("netdisk", "client")]
)
def test_the_case_tells_the_layer(case: str, layer: str) -> None:
    text = (HERE / "long.summary").read_text().replace("case=disk", f"case={case}")
    assert {found.layer for found in read(OutputFile("a.summary", text.encode()))} == {layer}


@each_pair
def test_figures_of_the_summary_follow_from_the_detail(path: Path) -> None:
    """Slowest and fastest second within rounding; the whole takes longer than any target alone."""
    blocks = read_detail(path.with_suffix(".detail").read_text())
    for one, block in zip(read(source(path)), blocks, strict=True):
        assert block.whole
        of_all = [sample for sample in one.samples if sample.target is None]
        assert all(sample.reason is None for sample in of_all)
        totals = {(sample.metric, sample.statistic): sample.value or 0 for sample in of_all}
        for test, metric in zip(block.tests, dict.fromkeys(m for m, _ in totals), strict=True):
            extremes = present(test.extremes)
            total_s = block.shape.size_kib * 1024 / totals[metric, "total"]
            assert total_s > max(rate.elapsed_s or 0 for rate in test.rates)
            if (metric, "interval_min") in totals:
                low, high = (totals[metric, f"interval_{end}"] for end in ("min", "max"))
                assert low == pytest.approx(extremes.slowest_bytes_per_s, abs=0.0051 * MIB)
                assert high == pytest.approx(extremes.fastest_bytes_per_s, abs=0.0051 * MIB)
            else:
                assert extremes.seconds == 0


@pytest.mark.parametrize(
    ("old", "new", "why"), [("374.82", "974.82", "4.082 s"), ("276.80", "176.80", ".detail")]
)
def test_a_figure_that_the_detail_contradicts_is_not_believed(old: str, new: str, why: str) -> None:
    path = HERE / "long.summary"
    changed = path.read_text().replace(old, new)
    assert changed != path.read_text()
    found = read(OutputFile(path.name, changed.encode(), source(path).beside))[0]
    reason = of_formats.figure(found, "write_bandwidth").reason
    assert code_of(reason) == "figures-disagree"
    assert why in (reason or "")


def test_a_detail_of_another_survey_is_not_used() -> None:
    other = (HERE / "two-targets.detail").read_bytes()
    found = read(OutputFile("a.summary", (HERE / "long.summary").read_bytes(), {"a.detail": other}))
    assert all(sample.target is None for one in found for sample in one.samples)
    assert code_of(found[0].warnings[0]) == "companion-of-another-run"


def test_targets_of_two_file_systems_keep_their_whole_names() -> None:
    summary, detail = (
        (HERE / f"two-targets.{end}").read_bytes().replace(b"scratch-OST0003", b"home-OST0000")
        for end in ("summary", "detail")
    )
    (found,) = read(OutputFile("a.summary", summary, {"a.detail": detail}))
    names = {None, "scratch-OST0000", "home-OST0000"}
    assert {sample.target for sample in found.samples} == names


def test_objects_that_a_killed_survey_left() -> None:
    text = (HERE / "two-targets.detail").read_text()
    assert objects_left(text) == ()
    cut = text[: text.index("=============> Destroy 2 on localhost:scratch-OST0003_ecc")]
    (left,) = objects_left(cut)
    assert (target_of(left.client), left.ids) == ("scratch-OST0003", (0xA, 0xB))
    assert len(objects_left(text[: text.index("=============> write global")])) == 2


def test_many_targets() -> None:
    files = survey_files(298, seed=3)
    (found,) = read(OutputFile("a.summary", files.summary, {"a.detail": files.detail}))
    assert (found.status, found.reported["targets"]) == (RunStatus.OK, 298)
    of_targets = [sample for sample in found.samples if sample.target is not None]
    assert all(sample.reason is None for sample in of_targets)
    assert {(s.metric, s.target): s.value for s in of_targets} == pytest.approx(
        {
            (f"{test}_bandwidth", name.removeprefix("scratch-")): rate
            for test, rates in files.rates.items()
            for name, rate in rates.items()
        },
        rel=1e-6,
    )


@pytest.mark.calibration
@each_pair
def test_a_cut_detail(path: Path) -> None:
    whole = source(path)
    ((name, detail),) = whole.beside.items()
    right = values(read(whole))
    for end in range(0, len(detail), max(1, len(detail) // 200)):
        found = values(read(OutputFile(whole.name, whole.content, {name: detail[:end]})))
        assert {key: right.get(key) for key in found} == found


@given(st.data())
def test_a_changed_digit_gives_no_believed_figure_of_another_size(data: st.DataObject) -> None:
    """One character of a rate, time or count in the detail: the rate of that target is refused."""
    text = (HERE / "two-targets.detail").read_text()
    right = values(read(OutputFile("a.detail", text.encode())))
    lines = [found for found in re.finditer(r"^Total: .*$", text, re.MULTILINE)]
    chosen = data.draw(st.sampled_from(lines))
    digits = [at for at in range(chosen.start(), chosen.end()) if text[at].isdigit()]
    at = data.draw(st.sampled_from(digits))
    digit = data.draw(st.sampled_from([one for one in "0123456789" if one != text[at]]))
    changed = OutputFile("a.detail", f"{text[:at]}{digit}{text[at + 1 :]}".encode())
    for key, value in values(read_or_none(FORMAT, changed) or ()).items():
        assert value == pytest.approx(right[key], rel=1e-4)


@given(st.data())
def test_two_surveys_that_write_into_one_file(data: st.DataObject) -> None:
    """Between any two writes of one survey stand those of another: only figures that are there."""
    text, other = ((HERE / f"{name}.summary").read_text() for name in ("two-targets", "long"))
    right = {round(value) for value in _believed(text) + _believed(other)}
    first, second, third = (data.draw(st.sampled_from(_writes(t))) for t in (text, other, text))
    for value in _believed(text[:first] + other[second:] + text[third:]):
        assert round(value) in right


def _writes(text: str) -> list[int]:
    """Return where one write of the survey ends and the next begins."""
    return [found.end() for found in re.finditer(r"(?<=[A-Za-z0-9\]]) |\n", text)]


def _believed(text: str) -> list[float]:
    found = read_or_none(FORMAT, OutputFile("a.summary", text.encode())) or ()
    samples = [sample for one in found for sample in one.samples if sample.believed]
    return [sample.value for sample in samples if sample.value is not None]
