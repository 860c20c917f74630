"""``trimtab compare`` over a store: what is named, what is paired, what is said."""

from __future__ import annotations

import itertools
import json
import math
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.judge.history import noise
from tests.support.codes import raises
from tests.support.command import trimtab
from tests.support.narrow import present

from trimtab.base.error import UsageError
from trimtab.base.event import identifier_of
from trimtab.base.run import Run, RunStatus, Sample
from trimtab.base.verdict import Change
from trimtab.judge.comparison import CompareTerms
from trimtab.judge.comparison_result import Basis
from trimtab.probe.compare import CompareRequest, compare_sides
from trimtab.probe.compare_side import is_published, parse_operand, published, published_file
from trimtab.store.store import Store

START = datetime(2026, 3, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)
ASKED = {"tasks": 64, "nodes": 4, "transfer_size_bytes": 2**20, "file_per_process": True}


def run_at(
    at, value, *, site="alpha", probe="hourly", asked=None, status=RunStatus.OK, kind="ior", **more
):
    """A run with one write figure a repetition; a list makes several."""
    values = value if isinstance(value, list) else [value]
    samples = tuple(
        Sample("write_bandwidth", float(one), repetition=number, output=0, line=number + 1)
        for number, one in enumerate(values)
    )
    made = () if status is RunStatus.UNFINISHED else samples
    stamp, why = (START, "not told") if at is None else (at, None)
    asked_too = {"spec": asked or ASKED, "layer": "client", **more}
    name = identifier_of(stamp, site, probe, kind, str(value), str(at), str(asked), str(more))
    return Run(
        name, site, probe, kind, status, at, at_reason=why, parameters=asked_too, samples=made
    )


def hourly(values, *, begin=START, **options):
    return [run_at(begin + index * HOUR, float(v), **options) for index, v in enumerate(values)]


def kept(path, runs):
    with Store.open(path) as store:
        for run in runs:
            store.add_run(run)
    return str(path)


def compared(path, before, after, **more):
    return compare_sides(CompareRequest(before, after, store_url=str(path), **more))


def effect_of(path, before, after, **more):
    """The first effect of the first series of a comparison."""
    return compared(path, before, after, **more).series[0].effects[0]


def counts(effect):
    return effect.before.n, effect.after.n


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Two sites of a fortnight each, the second slower; its second week slower still."""
    path = tmp_path_factory.mktemp("compare") / "t.db"
    week = noise(2, 336, cov=0.03)
    runs = hourly(1e9 * week[0]) + hourly(0.8e9 * week[1], site="beta")
    runs += hourly([1e9] * 3, begin=START - 30 * HOUR, site="beta", probe="other", kind="fio")
    return kept(path, runs)


@pytest.mark.system
def test_two_systems(store):
    result = compared(store, "alpha", "beta")
    (series,) = result.series
    assert (series.probe, series.kind, series.layer) == ("hourly", "ior", "client")
    assert series.differences == result.only_before == ()
    (effect,) = series.effects
    assert (effect.metric, effect.ratio) == ("write_bandwidth", pytest.approx(0.8, abs=0.02))
    assert (effect.change, effect.basis) == (Change.WORSE, Basis.RUNS)
    assert effect.provisional is False
    assert result.only_after == (
        "other (fio): write_bandwidth; requested: tasks 64, nodes 4, transfer_size_bytes 1048576, "
        "file_per_process True",
    )


@pytest.mark.system
def test_two_stretches_of_one_site(store):
    effect = effect_of(store, "alpha@2026-03-02..2026-03-09", "@2026-03-09..", site="alpha")
    assert (counts(effect), effect.change) == ((168, 168), Change.NO_DIFFERENCE)
    assert present(effect.before.to) < datetime(2026, 3, 9, tzinfo=UTC) == effect.after.from_


@pytest.mark.system
def test_the_sites_own_time_zone_cuts_the_stretch(tmp_path):
    path = kept(tmp_path / "t.db", hourly([1.0] * 48, begin=datetime(2026, 3, 1, 23, tzinfo=UTC)))
    with Store.open(path) as opened:
        opened.ensure_site("alpha", timezone="Europe/Zurich")
    effect = effect_of(path, "alpha@2026-03-02..2026-03-03", "alpha@2026-03-03..")
    assert counts(effect) == (24, 24)


@pytest.mark.system
def test_single_runs_by_id(store):
    with Store.open(store) as opened:
        ids = [run.id for run in opened.runs(site="alpha", limit=8)]
    effect = effect_of(store, ",".join(ids[:4]), ",".join(ids[4:]))
    assert counts(effect) == (4, 4)
    assert effect.ratio_interval is not None
    assert effect.provisional is True
    one = effect_of(store, ids[0], ids[1])
    assert (one.basis, one.change) == (Basis.REPETITIONS, Change.CANNOT_TELL)


@pytest.mark.system
def test_runs_without_a_time_can_be_compared_by_id(tmp_path):
    values = [[1.0, 1.1, 1.2, 1.3, 1.4], [2.0, 2.1, 2.2, 2.3, 2.4]]
    runs = [run_at(None, value) for value in values]
    path = kept(tmp_path / "t.db", runs)
    effect = effect_of(path, runs[0].id, runs[1].id)
    assert effect.ratio == pytest.approx(2.2 / 1.2)
    assert effect.ratio_interval is not None
    assert "repetitions of single runs" in effect.reason
    with raises(UsageError, "no-run"):
        compared(path, "alpha@2026-01-01..", "alpha")


@pytest.mark.system
def test_sites_without_a_single_time_can_be_compared_whole(tmp_path):
    """As files are imported that print no time, or one without a zone."""
    runs = [run_at(None, 1.0 + 0.01 * k) for k in range(5)]
    runs += [run_at(None, 2.0 + 0.01 * k, site="beta") for k in range(5)]
    runs.append(run_at(None, 3.0, site="beta", status=RunStatus.UNFINISHED))
    result = compared(kept(tmp_path / "t.db", runs), "alpha", "beta")
    (effect,) = result.series[0].effects
    assert (*counts(effect), effect.after.unfinished) == (5, 6, 1)
    assert (effect.before.middle, effect.provisional) == (pytest.approx(1.02), None)
    assert any("their order is lost" in note for note in result.notes)


@pytest.mark.system
def test_runs_that_do_not_count_are_told(tmp_path):
    runs = hourly([1.0] * 5) + hourly([1.0] * 5, site="beta")
    runs += [run_at(None, 7.0), run_at(START, 1.0, status=RunStatus.FAILED, tries=2)]
    result = compared(kept(tmp_path / "t.db", runs), "alpha", "beta")
    assert result.series[0].effects[0].before.n == 5
    assert any("failed or have no time" in note for note in result.notes)


@pytest.mark.system
def test_two_settings(tmp_path):
    four, eight = ({**ASKED, "nodes": nodes} for nodes in (4, 8))
    runs = hourly(noise(1, 30, cov=0.02)[0], asked=four)
    runs += hourly(1.5 * noise(1, 30, seed=2, cov=0.02)[0], asked=eight, begin=START + 40 * HOUR)
    path = kept(tmp_path / "t.db", runs)
    (series,) = compared(path, "alpha:nodes=4", "alpha:nodes=8").series
    assert [(d.name, d.before, d.after) for d in series.differences] == [("nodes", 4, 8)]
    assert series.effects[0].change is Change.BETTER
    same = effect_of(path, "alpha:nodes=4,transfer_size_bytes=1MiB", "alpha:nodes=8")
    assert same.ratio == series.effects[0].ratio
    with raises(UsageError, "no-runs") as refused:
        compared(path, "alpha:nodes=5", "alpha:nodes=8")
    assert "transfer_size_bytes" in str(refused.value.hint)


@pytest.mark.system
def test_points_of_a_sweep(tmp_path):
    """As `trimtab sweep` keeps them: levels beside what was asked, what was set by hand within."""
    runs = []
    for nps in (1, 4):
        asked, begin = {**ASKED, "settings": {"nps": nps}}, START + nps * 40 * HOUR
        sweep = {"name": "bring-up", "levels": {"nps": nps, "transfer_size": "1MiB"}, "round": 0}
        more = {"asked": asked, "sweep": sweep, "probe": "sweep-bring-up", "begin": begin}
        runs += hourly(noise(1, 20, seed=nps)[0], **more)
    path = kept(tmp_path / "t.db", runs)
    (series,) = compared(path, "alpha:nps=1", "alpha:nps=4,transfer_size=1MiB").series
    assert counts(series.effects[0]) == (20, 20)
    assert [(d.name, d.before, d.after) for d in series.differences] == [("nps", 1, 4)]


@pytest.mark.system
def test_equal_parameters_are_paired_before_those_that_differ(tmp_path):
    runs = []
    for nodes, site in itertools.product((1, 2, 4), ("alpha", "beta")):
        runs += hourly([float(nodes)] * 5, asked={**ASKED, "nodes": nodes}, site=site)
    result = compared(kept(tmp_path / "t.db", runs), "alpha", "beta")
    assert len(result.series) == 3
    assert all(one.effects[0].ratio == 1.0 and not one.differences for one in result.series)


@pytest.mark.system
def test_probes_of_other_names_with_the_same_parameters(tmp_path):
    runs = hourly([1.0] * 5) + hourly([2.0] * 5, site="beta", probe="nightly")
    (series,) = compared(kept(tmp_path / "t.db", runs), "alpha", "beta").series
    assert (series.probe, series.probe_after) == ("hourly", "nightly")


@pytest.mark.system
def test_targets_are_taken_out_and_offered(tmp_path):
    asked = {**ASKED, "tasks": 2048}
    runs = hourly([673.32e9] * 20, asked=asked, told={"targets": 274})
    runs += hourly([673.32e9] * 20, asked=asked, told={"targets": 298}, begin=START + 40 * HOUR)
    path = kept(tmp_path / "t.db", runs)
    stretches = ("alpha@..2026-03-03T12:00", "alpha@2026-03-03T12:00..")
    offered = compared(path, *stretches)
    assert any("--targets 274 298" in note for note in offered.notes)
    assert offered.series[0].effects[0].ratio == 1.0
    taken = compared(path, *stretches, targets=(274, 298))
    effect = taken.series[0].effects[0]
    assert effect.ratio == effect.ratio_measured == 1.0
    assert present(effect.taken_out).remaining == pytest.approx(7 / 8)
    assert not taken.notes
    for rate, ratio in ((2.8e9, 7 / 8), (15e9, 1.0)):
        shown = effect_of(path, *stretches, targets=(274, 298), target_bytes_per_s=rate)
        assert shown.ratio == pytest.approx(ratio)


@pytest.mark.system
def test_unfinished_runs_count_and_failed_ones_do_not(tmp_path):
    runs = hourly([1.0] * 20) + hourly([1.0] * 20, site="beta")
    runs.append(run_at(START + 50 * HOUR, 1.0, site="beta", status=RunStatus.UNFINISHED))
    runs.append(run_at(START + 51 * HOUR, 9.0, site="beta", status=RunStatus.FAILED))
    path = kept(tmp_path / "t.db", runs)
    after = effect_of(path, "alpha", "beta").after
    assert (after.n, after.unfinished) == (21, 1)
    result = compared(path, runs[0].id, f"{runs[1].id},{runs[-1].id}")
    assert any("left out: failed" in note for note in result.notes)


@pytest.mark.system
def test_the_wash_out(store):
    terms = CompareTerms(wash_out_s=86400.0)
    effect = effect_of(store, "alpha@..2026-03-09", "alpha@2026-03-09..", terms=terms)
    assert effect.after.washed_out == 24


@pytest.mark.system
@pytest.mark.parametrize(
    ("before", "after", "more", "code"),
    [
        ("alpha", "nowhere", {}, "site-unknown"),
        ("alpha", "alpha", {}, "sides-overlap"),
        ("alpha", "@2026-03-09..", {}, "site-missing"),
        ("alpha", "alpha@2030-01-01..", {}, "no-run"),
        ("alpha", "alpha@2026-03-09..2026-03-02", {}, "times-reversed"),
        ("alpha", "alpha@soon..", {}, "time-malformed"),
        ("alpha", "beta", {"metric": "speed"}, "metric-unknown"),
        ("alpha", "beta", {"metric": "read_bandwidth"}, "no-common-series"),
        ("alpha", "beta", {"probe": "other"}, "no-run"),
        ("alpha", "1±2/30 s", {}, "sides-differ"),
        ("ffff-ffff", "alpha", {}, "run-unknown"),
        ("..", "alpha", {}, "site-unknown"),
        ("", "alpha", {}, "operand-unknown"),
    ],
)
def test_wrong_use_is_explained(store, before, after, more, code, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with raises(UsageError, code):
        compared(store, before, after, **more)


@pytest.mark.system
def test_nothing_in_common_says_what_each_has(tmp_path):
    runs = hourly([1.0] * 5) + hourly([1.0] * 5, site="beta", kind="fio", probe="x")
    path = kept(tmp_path / "t.db", runs)
    with pytest.raises(UsageError, match=r"first has hourly \(ior\).*second x \(fio\)"):
        compared(path, "alpha", "beta")


def test_the_cost_of_checksums():
    before, after = "673320±31779/240 MB/s", "554012 +- 37846 / 240 MB/s"
    result = compare_sides(CompareRequest(before, after, metric="write_bandwidth"))
    (effect,) = result.series[0].effects
    assert effect.reason.startswith("17.7 % lower")
    assert (effect.before.middle, result.store) == (pytest.approx(673.32e9), None)
    assert "means and deviations alone" in result.notes[0]


@pytest.mark.parametrize(
    ("text", "mean", "unit"),
    [
        ("1±0.1/5 GiB/s", 2**30, "B/s"),
        ("12.5+/-1/5 kIOPS", 12500.0, "1/s"),
        ("3e3±1/5 1/s", 3000.0, "1/s"),
        ("20+-1/5 ms", 0.02, "s"),
        ("5±1/8 MiB/s", 5 * 2**20, "B/s"),
    ],
)
def test_units_of_published_results(text, mean, unit):
    found = published(text)
    assert (found.mean, found.unit) == (pytest.approx(mean), unit)


@pytest.mark.parametrize(
    "text", ["1±1/1 s", "0±1/5 s", "1±1/5 parsec", "1±1 s", "1±1/5 MB/s extra", "±", "1±1/0 s"]
)
def test_published_results_that_are_not(text):
    with pytest.raises(UsageError):
        published(text)


def test_a_metric_in_another_unit_is_refused():
    with raises(UsageError, "unit-mismatch"):
        published("1±1/5 s", "write_bandwidth")


@given(st.text(max_size=60))
def test_any_text_is_named_or_refused(text):
    try:
        parse_operand(text)
        if is_published(text):
            assert math.isfinite(published(text).mean)
    except UsageError:
        pass


def test_a_day_alone_is_that_whole_day():
    operand = parse_operand("scratch:nodes=4@2026-10-25")
    assert (operand.where, operand.levels) == ("scratch", (("nodes", "4"),))
    since, until = operand.stretch("Europe/Zurich")
    assert since == datetime(2026, 10, 24, 22, tzinfo=UTC)
    assert until == datetime(2026, 10, 25, 23, tzinfo=UTC)
    assert parse_operand("@2026-10-25").where is None


@pytest.mark.parametrize("text", ["lab@2026-11-01T12:00", "@2026-11-01 12:00Z"])
def test_a_moment_alone_is_refused_with_what_to_write(text):
    with raises(UsageError, "operand-moment") as refused:
        parse_operand(text)
    assert f"{text.partition('@')[0]}@FROM..TO" in (refused.value.hint or "")


@pytest.mark.parametrize("text", ["me@host", "lab@2026", "user@10.0.0.1", "/mnt/a@b"])
def test_other_words_after_an_at_sign_belong_to_the_name(text):
    assert parse_operand(text).where == text


TABLES = """
[[summary]]
metric = "write_bandwidth"
layer = "client"
mean = {mean}
deviation = 10
n = 100
unit = "GB/s"
window = "{window}"
source = "a paper"

[[summary]]
metric = "read_bandwidth"
mean = 1
deviation = 0.1
n = 10
unit = "GB/s"
"""


def test_files_of_published_results(tmp_path):
    paths = []
    for name, mean, window in (("a", 100, "240h"), ("b", 90, "2d")):
        path = tmp_path / f"{name}.toml"
        path.write_text(TABLES.format(mean=mean, window=window))
        paths.append(str(path))
    result = compare_sides(CompareRequest(paths[0], paths[1]))
    metrics = [one.effects[0].metric for one in result.series]
    assert metrics == ["write_bandwidth", "read_bandwidth"]
    first = result.series[0]
    assert (first.layer, first.effects[0].ratio) == ("client", pytest.approx(0.9))
    assert first.effects[0].provisional is True
    assert len(compare_sides(CompareRequest(*paths, metric="read_bandwidth")).series) == 1


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("mean = 1\n", ""), "missing-key"),
        (("mean = 1\n", "mean = 0\n"), "malformed-value"),
        (("n = 10\n", "n = 1.5\n"), "wrong-type"),
        (("n = 10\n", "n = 1\n"), "out-of-range"),
        (('unit = "GB/s"\nw', 'unit = "miles"\nw'), "malformed-value"),
        (('unit = "GB/s"\nw', 'unit = "IOPS"\nw'), "malformed-value"),
        (("source", "sauce"), "unknown-key"),
        (('"read_bandwidth"', '"speed"'), "unknown-value"),
        (('[[summary]]\nmetric = "read', '[[summary\nmetric = "read'), "not-toml"),
        (("mean = 1\n", 'mean = "1"\n'), "wrong-type"),
        (('layer = "client"', 'layer = "roof"'), "unknown-value"),
    ],
)
def test_wrong_files_name_the_file_and_the_table(tmp_path, change, code):
    path = tmp_path / "a.toml"
    path.write_text(TABLES.format(mean=100, window="1d").replace(*change))
    with raises(UsageError, code) as refused:
        compare_sides(CompareRequest(str(path), str(path)))
    assert re.match(rf"{re.escape(str(path))}:[0-9]+:", refused.value.message)
    assert code == "not-toml" or "[[summary]] " in refused.value.message


def test_a_site_file_has_no_published_results(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text('[site]\nname = "a"\n')
    assert published_file(str(path)) is None


@given(st.binary(max_size=300))
def test_a_file_of_rubbish_is_refused(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "rubbish.toml"
    path.write_bytes(content)
    try:
        found = published_file(str(path))
    except UsageError as error:
        found = error.message
    assert found in (None, ()) or str(path) in str(found)


# The command


@pytest.mark.cli
def test_the_command_on_a_terminal_and_as_json(store, tmp_path):
    ended = trimtab("compare", "alpha", "beta", store=store)
    assert ended.code == 0, ended.stderr
    assert "worse" in ended.stdout
    assert "provisional" not in ended.stdout
    short = trimtab("compare", "alpha@..2026-03-04", "alpha@2026-03-04..", store=store)
    assert "* provisional" in short.stdout
    assert "hourly (ior), layer client" in ended.stdout
    assert "only B has other" in ended.stdout
    (series,) = trimtab("compare", "alpha", "beta", "--json", store=store).document["series"]
    (effect,) = series["effects"]
    assert effect["change"] == "worse"
    assert effect["ratio_interval"][0] < 0.8 < effect["ratio_interval"][1]
    assert json.dumps(effect["before"]["from"]) == '"2026-03-02T00:00:00Z"'


@pytest.mark.cli
def test_the_command_refuses_with_what_to_do(store):
    ended = trimtab("compare", "alpha", "gamma", "--json", store=store)
    assert (ended.code, ended.document["error"]["exit_code"]) == (2, 2)
    assert "nothing is stored for gamma" in ended.stderr
    assert trimtab("compare", "alpha", "beta", "--margin", "0", store=store).code == 2
    assert trimtab("compare", "a", "b", store=store + ".not-there").code == 5


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
    with raises(UsageError, "published-malformed", wrong) as caught:
        published(text)
    with pytest.raises(UsageError) as caught:
        compared(kept(tmp_path / "t.db", hourly([1.0] * 3)), "alpha", text)
    assert wrong in caught.value.message


@pytest.mark.parametrize("text", ["/data/a+-b", "alpha", "alpha@..2026-01-01", "a:b=+-3"])
def test_a_path_or_a_site_is_no_published_number(text):
    assert not is_published(text)
