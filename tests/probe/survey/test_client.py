"""Surveys from a client, whose files lie in a real directory, and ``trimtab survey`` over ssh."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.probe.survey.places import MIB, Place, silent
from tests.support.codes import raises
from tests.support.command import TRIMTAB, Ended, trimtab
from tests.support.documents import misfits
from tests.support.narrow import present
from tests.support.polling import eventually

from trimtab.base.encode import to_json
from trimtab.base.error import Interrupted, RefusedError
from trimtab.base.run import RunStatus
from trimtab.judge import credibility
from trimtab.probe import page_sweep as pages
from trimtab.probe.survey import SurveyRequest, Tools, carry_out, error_of, prepare
from trimtab.probe.survey_plan import Survey, SurveyOutcome, document_of_survey
from trimtab.reach.process import ProcessResult, execute
from trimtab.show.screen_document import print_document
from trimtab.site.path_access import THIS_HOST

pytestmark = pytest.mark.system

ASKED = SurveyRequest(
    way="client", size_bytes=16 * MIB, tasks=2, duration_s=0.3, direct=False, repetitions=1
)


@pytest.fixture(autouse=True)
def _short_measurements_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Believe what ran for less than 5 s, and from the page cache: figures are not the point."""
    monkeypatch.setattr(credibility, "ELAPSED_MINIMUM_S", 0.1)
    monkeypatch.setattr("trimtab.probe.write_read.reason_not_to_believe", lambda facts: None)


def tools(place: Place, **changes: Any) -> Tools:
    """Return tools with the fake's lfs and everything else as it is here."""

    def run(argv: Sequence[str], **options: Any) -> ProcessResult:
        if argv[0] in ("lfs", "lctl"):
            with place.changing() as state:
                return state.execute(argv, **options)
        return execute(argv, **options)

    return replace(place.tools(reach=replace(THIS_HOST, execute=run)), **changes)


def survey(place: Place, asked: SurveyRequest, with_: Tools | None = None) -> Survey:
    driver, with_ = place.driver(), with_ or tools(place)
    prepared = prepare(place.site, driver, asked, with_)
    with place.store() as store:
        return carry_out(prepared, driver, store, progress=silent, tools=with_)


def outcomes(found: Survey) -> dict[str, SurveyOutcome]:
    return {one.result.target: one.result.outcome for one in found.standings}


def left(place: Place) -> list[str]:
    return sorted(path.name for path in Path(place.site.path).iterdir())


def instead_of_writes(place: Place, number: int, act: Callable[..., ProcessResult]) -> Tools:
    """Return tools that do something else in the place of one of the writes."""
    usual, writes = tools(place), itertools.count(1)

    def run(argv: Sequence[str], **options: Any) -> ProcessResult:
        if "--write" in argv and next(writes) == number:
            return act(usual.reach, **options)
        return usual.reach.execute(argv, **options)

    return replace(usual, reach=replace(usual.reach, execute=run))


def test_nothing_is_done_without_being_asked(small: Place) -> None:
    prepared = prepare(small.site, small.driver(), ASKED, tools(small))
    assert [one.target for one in prepared.plan.targets] == [f"OST000{n}" for n in range(4)]
    assert all(len(wave) == 1 for wave in prepared.plan.waves)
    assert left(small) == []
    with small.changing() as state:
        assert state.layouts == {}


def test_each_target_with_files_of_its_own(small: Place) -> None:
    found = survey(small, replace(ASKED, targets=("OST0002", "OST0001")))
    assert (found.run.status, error_of(found)) == (RunStatus.OK, None)
    assert outcomes(found) == {"OST0001": SurveyOutcome.MEASURED, "OST0002": SurveyOutcome.MEASURED}
    for one in found.standings:
        assert set(one.rates) == {"write_bandwidth", "read_bandwidth"}
        assert all(rate > 0 for rate in one.rates.values())
    assert left(small) == []
    with small.changing() as state:
        placed = [indices for path, indices in state.layouts.items() if "/data." in path]
    assert placed == [[2], [2], [1], [1]]


def test_what_is_printed(small: Place, capsys: pytest.CaptureFixture[str]) -> None:
    found = survey(small, replace(ASKED, targets=("OST0002", "OST0001")))
    document = json.loads(to_json(document_of_survey(found, "t.db", None)))
    assert document["applied"]
    names = [target["target"] for target in document["targets"]]
    assert names == [one.result.target for one in found.standings]
    metrics = {rate["metric"] for rate in document["targets"][0]["rates"]}
    assert metrics == {"write_bandwidth", "read_bandwidth"}
    assert document["spreads"][0]["targets"] == 2
    print_document(pages.plan_document(found.plan))
    print_document(pages.survey_document(found))
    text = capsys.readouterr().out
    lines = [line.strip() for line in text.splitlines() if line.startswith("  OST000")]
    assert [line.split()[0] for line in lines] == names
    assert all(line.endswith("measured") for line in lines)


def test_what_is_kept(small: Place) -> None:
    found = survey(small, replace(ASKED, targets=("OST0002", "OST0001")))
    with small.store() as store:
        kept = store.run(found.run.id)
    assert (kept.probe, kept.kind) == ("survey-client", "builtin")
    assert {sample.target for sample in kept.samples} == {"OST0001", "OST0002"}
    labels = [output.label for output in found.run.outputs]
    assert labels == ["OST0002 write 0", "OST0002 read 0", "OST0001 write 0", "OST0001 read 0"]
    for sample in kept.samples:
        assert labels[present(sample.output)].startswith(sample.target or "?")
    assert kept.believed("write_bandwidth") == []  # none is of the whole


def test_a_target_that_is_closed_is_no_other_ones_figure(small: Place) -> None:
    """Known before, it is left out; closed meanwhile, lfs puts its file elsewhere with rc 0."""
    with small.changing() as state:
        for mdt in ("MDT0000", "MDT0001"):
            state.target("OST0001").max_create_count[mdt] = 0
    driver, with_ = small.driver(), tools(small)
    asked = replace(ASKED, targets=("OST0000", "OST0001", "OST0002"))
    prepared = prepare(small.site, driver, asked, with_)
    assert [(one.target, one.closed) for one in prepared.plan.refused] == [("OST0001", True)]
    with small.changing() as state:
        state.target("OST0002").no_create = True
    with small.store() as store:
        found = carry_out(prepared, driver, store, progress=silent, tools=with_)
    closed = dict.fromkeys(("OST0001", "OST0002"), SurveyOutcome.CLOSED)
    assert outcomes(found) == {"OST0000": SurveyOutcome.MEASURED, **closed}
    assert found.run.status is RunStatus.PARTIAL
    assert "OST0002 is not open for creation" in (found.run.problem or "")
    assert {sample.target for sample in found.run.samples} == {"OST0000"}
    assert left(small) == []


def test_a_target_without_room_is_refused(small: Place) -> None:
    asked = replace(ASKED, targets=("OST0001",), size_bytes=4 * 2**30)
    with raises(RefusedError, "survey-refused"):
        prepare(small.site, small.driver(), asked, tools(small))


def test_another_file_system_is_not_surveyed(small: Place) -> None:
    site = replace(small.site, file_system="home")
    driver, with_ = small.driver(), tools(small)
    prepared = replace(prepare(small.site, driver, ASKED, with_), site=site)
    with small.store() as store, pytest.raises(RefusedError, match="scratch, not home"):
        carry_out(prepared, driver, store, progress=silent, tools=with_)
    assert left(small) == []


def test_a_person_stops_it(small: Place) -> None:
    def stop(reach: Any, **options: Any) -> ProcessResult:
        raise Interrupted("stopped by SIGINT")

    asked = replace(ASKED, targets=("OST0000", "OST0001", "OST0002"))
    with pytest.raises(Interrupted):
        survey(small, asked, instead_of_writes(small, 2, stop))
    with small.store() as store:
        (kept,) = store.runs(site="here")
    assert kept.status is RunStatus.PARTIAL
    assert "OST0002: the survey was stopped before its turn" in (kept.problem or "")
    assert left(small) == []


def test_a_generator_that_fails_is_a_result_of_its_target(small: Place) -> None:
    def fail(reach: Any, **options: Any) -> ProcessResult:
        return reach.execute(("false",), **options)

    asked = replace(ASKED, targets=("OST0000", "OST0001"))
    found = survey(small, asked, instead_of_writes(small, 1, fail))
    assert outcomes(found) == {"OST0000": SurveyOutcome.FAILED, "OST0001": SurveyOutcome.MEASURED}
    assert found.run.status is RunStatus.PARTIAL
    assert error_of(found) is not None
    assert left(small) == []


def words(place: Place, *more: str) -> tuple[str, ...]:
    return ("survey", str(place.root / "here.toml"), "--server", "--size", "64MiB", *more)


def typed(place: Place, *arguments: object) -> Ended:
    return trimtab(*arguments, store=place.root / "t.db", PATH=place.installed.path)


@pytest.mark.cli
def test_the_plan_and_its_refusals(small: Place) -> None:
    planned = typed(small, *words(small, "--all", "--json"))
    assert planned.code == 0, planned.stderr
    assert planned.document["applied"] is False
    # One server: one target after the other.
    waves = [[one["target"] for one in wave] for wave in planned.document["waves"]]
    assert waves == [["OST0000"], ["OST0001"], ["OST0002"], ["OST0003"]]
    assert misfits(planned.document, "survey") == []
    screen = typed(small, *words(small, "--all")).stdout
    assert screen.startswith("survey of here on its servers: 4 OSTs\n")
    assert "wave 4: OST0003" in screen
    assert "Nothing was done. Do it with --apply." in screen
    assert "--all shows" not in screen
    with small.changing() as state:
        assert all(target.next_object == 2 for target in state.osts)
        state.target("OST0001").degraded = True
    refused = typed(small, *words(small, "--target", "OST0001", "--apply"))
    assert refused.code == 4
    assert "OST0001: it is degraded" in refused.stderr
    assert not (small.root / "t.db").exists()


@pytest.mark.cli
def test_stopped_by_a_signal_it_cleans_up(small: Place) -> None:
    with small.changing() as state:
        state.survey_s = 120.0
        used = state.target("OST0000").used_bytes
    store = {"PATH": small.installed.path, "TRIMTAB_STORE": str(small.root / "t.db")}
    running = subprocess.Popen(
        [str(TRIMTAB), *words(small, "--target", "OST0000", "--apply")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **store},
    )

    def has_written() -> bool:
        assert running.poll() is None, running.communicate()
        with small.changing() as state:
            return state.target("OST0000").used_bytes > used

    eventually(has_written)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=120)
    assert running.returncode == 130, said
    with small.changing() as state:
        target = state.target("OST0000")
        assert (target.echo_objects, target.used_bytes) == ([], used)
        assert state.servers[0].echo_clients == []
    kept = typed(small, "runs", "--json").document["runs"]
    assert [run["probe"] for run in kept] == ["survey-server"]
