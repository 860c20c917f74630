"""Documents carry text as it came: file names that are no UTF-8, control characters, all of it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from trimtab.base.error import Message
from trimtab.base.run import RawOutput, Run, RunStatus, Sample
from trimtab.base.verdict import Scope, Trend, TrendDirection, Verdict
from trimtab.explain.status import SeriesStatus, Status, StatusDocument
from trimtab.probe.documents_probe import CheckDocument, CheckResult
from trimtab.show.encode import to_json
from trimtab.store.store import Store
from trimtab.store.store_document import OutputRow, RunsDocument, ShowDocument

ODD = 'caf\udce9\x00\x1b[2J"\\\u2028\u202e\U0001f4be</script>'
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def _run() -> Run:
    output = RawOutput(ODD, ("fio", f"--directory={ODD}"), ODD.encode("utf-8", "surrogateescape"))
    return Run(
        "0190aaaa-0000-7000-8000-000000000000",
        ODD,
        ODD,
        "fio",
        RunStatus.OK,
        NOON,
        tool_version=ODD,
        host=ODD,
        path=ODD,
        problem=ODD,
        parameters={"spec": {"tasks": 4}, ODD: [ODD, {ODD: ODD}]},
        samples=(Sample("write_bandwidth", 2e9, 0, target=ODD, reason=ODD),),
        outputs=(output,),
    )


def _status(full: CheckResult) -> object:
    def odd(verdict: Verdict) -> Verdict:
        return replace(verdict, probe=ODD, target=ODD, reason=Message("goal-met", ODD))

    verdict = odd(next(one for one in full.verdicts if one.scope is Scope.HISTORY))
    trend = Trend(
        "write_bandwidth", "B/s", ODD, TrendDirection.CANNOT_TELL, Message("too-few-days", ODD), 0
    )
    series = SeriesStatus(ODD, ODD, "fio", 7, NOON, 2e9, verdict, trend)
    return StatusDocument(Status(ODD, 172800.0, (ODD,), (series,), (_run(),)))


def _runs(_: CheckResult) -> object:
    return RunsDocument(ODD, (_run(),))


def _check(full: CheckResult) -> object:
    path = replace(full.path, path=ODD, source=ODD, notes=(ODD,), options=(ODD,))
    return CheckDocument(replace(full, site=ODD, path=path, run=_run(), report=ODD))


@pytest.mark.parametrize("document", [_status, _runs, _check])
def test_odd_text_comes_back_from_the_document(
    full: CheckResult, document: Callable[[CheckResult], object]
) -> None:
    text = to_json(document(full))
    assert text.isascii()
    assert text.isprintable()
    assert "\n" not in text
    run = json.loads(text)["runs"][0]
    assert run["site"] == run["path"] == run["samples"][0]["target"] == ODD
    assert run["parameters"][ODD] == [ODD, {ODD: ODD}]
    assert run["outputs"][0]["argv"] == ["fio", f"--directory={ODD}"]
    assert os.fsencode(run["path"]) == ODD.encode("utf-8", "surrogateescape")


def test_odd_text_comes_back_from_the_store_and_show(tmp_path: Path) -> None:
    with Store.open(tmp_path / "caf\udce9.db") as store:
        store.add_run(_run())
        run = store.run("0190")
        outputs = store.outputs(run.id)
        rows = [OutputRow(one, str(store.raw.file(one.stdout_sha256))) for one in outputs]
        text = to_json(ShowDocument(str(store.location), run, tuple(rows)))
    found = json.loads(text)
    assert text.isascii()
    assert found["store"].endswith("caf\udce9.db")
    assert found["run"]["parameters"][ODD] == [ODD, {ODD: ODD}]
    assert found["outputs"][0]["label"] == ODD
    assert found["outputs"][0]["argv"][1] == f"--directory={ODD}"


def test_what_has_no_form_in_json_is_a_bug() -> None:
    for value, kind in ((math.nan, ValueError), (object(), TypeError)):
        with pytest.raises(kind):
            to_json(RunsDocument("s", (replace(_run(), parameters={"x": value}),)))
