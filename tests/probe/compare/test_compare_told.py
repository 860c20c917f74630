"""What `trimtab compare` says of assumptions, of runs that nobody believes, and of bad numbers."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.probe.compare.test_compare import START, compared, hourly, kept, run_at
from tests.support.codes import raises
from tests.support.command import trimtab

from trimtab.base.error import UsageError
from trimtab.base.run import RunStatus, Sample
from trimtab.probe.compare_side import is_published, published


def doubted(run, reason):
    return replace(run, samples=(Sample("write_bandwidth", 1e9, 0, reason=reason),))


@pytest.mark.cli
def test_the_effect_that_was_measured_leads_and_the_assumption_follows(tmp_path):
    kept(tmp_path / "t.db", hourly([1e9] * 20) + hourly([1.2e9] * 20, site="beta"))
    line = ("compare", "alpha", "beta", "--targets", "4", "8", "--files", "8")
    text = " ".join(trimtab(*line, store=tmp_path / "t.db").stdout.split())
    assert "+20.0 %" in text.partition("would remain")[0]
    assert "-40.0 % would remain" in text
    document = json.loads(trimtab(*line, "--json", store=tmp_path / "t.db").stdout)
    (effect,) = document["series"][0]["effects"]
    assert (effect["ratio"], effect["change"]) == (pytest.approx(1.2), "better")
    assert effect["taken_out"]["remaining"] == pytest.approx(0.6)
    assert not effect["taken_out"]["applied"]
    assert effect["taken_out"]["reason_code"] == "limit-unknown"


@pytest.mark.system
def test_runs_that_are_kept_and_not_believed_are_not_called_missing(tmp_path):
    runs = [doubted(run, "served from the page cache") for run in hourly([1e9] * 3, site="tiny")]
    runs.append(doubted(run_at(START, 2e9, site="tiny"), "too short"))
    runs.append(run_at(START, 3e9, site="tiny", status=RunStatus.FAILED, probe="other"))
    path = kept(tmp_path / "t.db", [*runs, *hourly([1e9] * 3)])
    with pytest.raises(UsageError) as caught:
        compared(path, "tiny", "alpha")
    assert caught.value.message == (
        "5 runs stored for tiny, none with a credible figure: "
        "served from the page cache (3 runs), failed (1 run), too short (1 run)"
    )
    with pytest.raises(UsageError, match=r"^1 run stored for tiny,") as caught:
        compared(path, "tiny", "alpha", probe="other")
    assert caught.value.code == "no-credible-figure"
    with pytest.raises(UsageError, match="tiny@2030-01-01") as caught:
        compared(path, "tiny@2030-01-01..", "alpha")
    assert caught.value.code == "no-run"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("673,320±31779/240 MB/s", "mean '673,320' has a comma"),
        ("673320±31,779/240 MB/s", "deviation '31,779' has a comma"),
        ("nan±31779/240 MB/s", "mean 'nan' is not a number"),
        ("inf+-1/240 MB/s", "mean 'inf' is not a number"),
        ("-5±1/240 MB/s", "mean '-5' is not a number"),
        ("673320±nan/240 MB/s", "deviation 'nan' is not a number"),
        ("±3/240 MB/s", "the mean is missing"),
        ("673320±/240 MB/s", "the deviation is missing"),
        ("673320±31779 MB", "deviation '31779 MB' is not a number"),
        ("673320±31779", "the number of runs is missing"),
        ("673320±31779/2,400 MB/s", "'2,400' is no number of runs"),
        ("673320±31779/x MB/s", "'x' is no number of runs"),
        ("673320±31779/240 MB per second", "no unit"),
    ],
)
def test_what_is_wrong_with_a_published_number_is_told(tmp_path, text, wrong):
    assert is_published(text)
    with raises(UsageError, "published-malformed") as caught:
        published(text)
    assert wrong in caught.value.message
    with pytest.raises(UsageError) as caught:
        compared(kept(tmp_path / "t.db", hourly([1.0] * 3)), "alpha", text)
    assert wrong in caught.value.message


@pytest.mark.parametrize("text", ["/data/a+-b", "alpha", "alpha@..2026-01-01", "a:b=+-3"])
def test_a_path_or_a_site_is_no_published_number(text):
    assert not is_published(text)
