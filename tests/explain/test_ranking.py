"""Weights to odds, odds to a list: routes shrunk, chains named, others result away."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime
from importlib import import_module
from inspect import getsource
from itertools import chain, combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.explain.causes.contexts import context as causes_context
from tests.explain.causes.contexts import space
from tests.explain.contexts import hours, plain_context, plain_incident

from trimtab.base.error import Message
from trimtab.base.incident import NAMED, Evidence, IncidentState, Route, Shape
from trimtab.base.series import SeriesKey
from trimtab.explain.causes import TABLE, open_targets
from trimtab.explain.context import Cause
from trimtab.explain.contrast import Sign
from trimtab.explain.explanation import conclude, confidence, explain, rank, ranked_for
from trimtab.explain.sight import View
from trimtab.explain.weighing import weigh


def cause(name: str, *, prior: float = 0.05, brings_about: tuple[str, ...] = ()) -> Cause:
    return Cause(name, name, prior, lambda _: (), f"measure {name}", brings_about)


def piece(weight: float, route: Route = Route.TIME, **more: Any) -> Evidence:
    return Sign("seen", route, view=View.PROBE).weighed("seen", weight, **more)


def test_pieces_of_one_route_count_less_and_less() -> None:
    alone = weigh(cause("a"), [piece(1.0)])
    assert alone.evidence_weight == pytest.approx(1.0)
    assert weigh(cause("a"), [piece(1.0), piece(1.0)]).evidence_weight == pytest.approx(1.5)
    two_routes = [piece(1.0), piece(1.0, Route.LOG)]
    assert weigh(cause("a"), two_routes).evidence_weight == pytest.approx(2.0)
    assert weigh(cause("a"), [piece(1.0), piece(-1.0)]).evidence_weight == pytest.approx(0.0)
    many = weigh(cause("a"), [piece(2.0)] * 9)
    assert many.evidence_weight == pytest.approx(2.5), "one route never convicts by itself"


def test_the_prior_counts() -> None:
    assert weigh(cause("a", prior=0.1), []).log_odds == pytest.approx(-1)


def test_what_was_there_all_along_does_not_explain_what_began() -> None:
    pieces = [piece(0.0, throughout=True), piece(1.5, Route.EXPECTED), piece(1.0, Route.TARGETS)]
    began = weigh(cause("a"), pieces)
    assert (began.evidence_weight, began.throughout) == (0.0, True)
    assert weigh(cause("a"), pieces, has_beginning=False).evidence_weight == pytest.approx(2.5)
    grew = weigh(cause("a"), [*pieces, piece(1.0)])
    assert (grew.evidence_weight, grew.throughout) == (pytest.approx(3.5), False)


def test_a_mitigation_that_is_as_good_as_certain_stands_before_what_is_likelier() -> None:
    beside = weigh(cause("collection"), [piece(2.0), piece(2.0, Route.TARGETS)])
    for weight, first in ((1.8, "gated"), (0.6, "collection")):
        gated = replace(cause("gated"), mitigation=True)
        ranked = rank([beside, weigh(gated, [piece(weight), piece(weight, Route.EXPECTED)])])
        assert ranked[0].cause.id == first


def test_a_chain_is_named_and_its_near_end_stands_first() -> None:
    full = cause("full", brings_about=("gated",))
    near = cause("gated")
    ranked = rank([
        weigh(full, [piece(2.0), piece(2.0, Route.LOG)]), weigh(near, [piece(2.0)]),
    ])  # fmt: skip
    assert [candidate.cause.id for candidate in ranked] == ["gated", "full"]
    assert [candidate.because_of for candidate in ranked] == ["full", None]


@pytest.mark.parametrize(("first", "chained"), [(1, True), (10, True), (20, False)])
def test_what_came_later_brought_nothing_about(first: float, chained: bool) -> None:
    full = cause("full", brings_about=("gated",))
    seen = [piece(2.0, at=hours(first))], [piece(2.0, at=hours(8))]
    ranked = rank([weigh(full, seen[0]), weigh(cause("gated"), seen[1])])
    gated = next(candidate for candidate in ranked if candidate.cause.id == "gated")
    assert gated.because_of == ("full" if chained else None)


def test_a_good_cause_explains_others_away_but_not_its_chain() -> None:
    best, other = weigh(cause("best"), [piece(2.0), piece(2.0, Route.LOG)]), piece(1.5)
    alone = rank([weigh(cause("x"), [other])])[0].log_odds
    beside = next(o for o in rank([best, weigh(cause("x"), [other])]) if o.cause.id == "x")
    assert beside.log_odds == pytest.approx(alone - 0.5, abs=0.02)
    links = cause("x", brings_about=("best",))
    chained = next(o for o in rank([best, weigh(links, [other])]) if o.cause.id == "x")
    assert chained.log_odds == pytest.approx(alone)


def test_what_only_changed_at_the_onset_is_not_told_apart_from_what_changed_as_well() -> None:
    def named(*pieces: Evidence, rival: float) -> float:
        nodes, settings = (
            replace(cause(name), signs=("seen", "told"), coincidences=("seen",))
            for name in ("nodes", "settings")
        )
        ranked = rank([weigh(nodes, pieces), weigh(settings, [piece(rival, Route.EXPECTED)])])
        return confidence(next(o for o in ranked if o.cause.id == "nodes").log_odds)

    both = [
        weigh(replace(cause(name), signs=("seen",), coincidences=("seen",)), [piece(2.0), more])
        for name, more in (("settings", piece(1.0, Route.RUNS)), ("nodes", piece(2.0, Route.RUNS)))
    ]
    assert [each.cause.id for each in rank(both)] == ["nodes", "settings"]
    assert [confidence(each.log_odds) for each in rank(both)] == pytest.approx([0.8, 0.8])
    strong = piece(2.0), piece(0.6, Route.RUNS)
    assert named(*strong, rival=0.0) > NAMED
    # Two that changed in the same interval: neither is named, and the better one stays first.
    assert named(*strong, rival=1.0) == pytest.approx(0.8)
    assert named(*strong, rival=2.0) == pytest.approx(0.8)
    # A sign of its mechanism tells it apart.
    sign = Sign("told", Route.RUNS, view=View.PROBE).weighed("told", 0.6)
    assert named(strong[0], sign, rival=1.0) > NAMED


@given(st.lists(st.floats(-30, 30), min_size=2, max_size=8))
def test_confidence_is_monotone_and_a_probability(odds: list[float]) -> None:
    values = [confidence(odd) for odd in sorted(odds)]
    assert all(0 <= value <= 1 for value in values)
    assert values == sorted(values)
    assert not math.isnan(confidence(math.inf))


_PIECES = st.lists(
    st.builds(
        piece,
        st.floats(-3, 3),
        st.sampled_from(sorted(Route)),
        at=st.one_of(st.none(), st.integers(0, 99).map(hours)),
        throughout=st.booleans(),
    ),
    max_size=5,
)


@pytest.mark.calibration
@given(st.lists(_PIECES, min_size=len(TABLE), max_size=len(TABLE)))
def test_every_cause_is_told_of_exactly_once(evidence: list[list[Evidence]]) -> None:
    gathered = [(row, tuple(pieces)) for row, pieces in zip(TABLE, evidence, strict=True)]
    result = conclude(plain_incident(), gathered)
    listed = [
        candidate.cause for candidate in (*result.causes, *result.cleared, *result.not_assessed)
    ]
    assert sorted(listed) == sorted(row.id for row in TABLE)
    mitigations = {row.id for row in TABLE if row.mitigation}
    # Before all stand mitigations that are as good as certain; in each part the likelier first.
    order = [
        (candidate.cause in mitigations and candidate.confidence >= NAMED, candidate.confidence)
        for candidate in result.causes
    ]
    assert order == sorted(order, reverse=True)
    confidences = [candidate.confidence for candidate in result.causes]
    assert result.unexplained == (not confidences or confidences[0] < NAMED)
    known = {candidate.cause for candidate in result.causes} | {None}
    assert all(isinstance(candidate.because_of, str | None) for candidate in result.causes)
    assert {row.because_of for row in result.causes} <= known | {row.id for row in TABLE}
    assert result.deciding


def unassessed(*reasons: Message, likeliest: Cause | None = None) -> list[Cause]:
    """Return two causes, the likelier of which lacks what it takes."""
    evidence = tuple(Sign("x", Route.TIME, view=View.PROBE).not_available(why) for why in reasons)
    first = likeliest or Cause("a", "the first cause", 0.1, lambda _: (), "look at SITE")
    return [replace(first, assess=lambda _: evidence), cause("b", prior=1e-6)]


def test_without_any_evidence_it_is_unexplained_and_says_what_is_missing() -> None:
    result = explain(plain_context(), table=unassessed(Message("no-survey", "no survey")))
    assert result.unexplained
    assert [candidate.cause for candidate in result.not_assessed] == ["a", "b"]
    assert result.deciding.code == "survey-targets"
    for part in ("the first cause", "no survey", "trimtab survey s"):
        assert part in result.deciding
    assert "look at s" not in result.deciding


MISSING = {
    "snapshots": Message("no-snapshots", "no snapshot in these hours"),
    "names": Message("name-missing", "no snapshot contains used_bytes"),
    "surveys": Message("no-survey", "no surveys of single targets"),
    "log": Message("log-empty", "the log book is empty"),
    "runs": Message("too-few-runs", "too few runs"),
}
COMMANDS = {
    "snapshots": "trimtab watch s", "names": "trimtab watch s", "surveys": "trimtab survey s",
    "log": "trimtab event add s", "runs": "trimtab event add s",
}  # fmt: skip


@pytest.mark.parametrize("likeliest", TABLE, ids=lambda row: row.id)
def test_no_experiment_is_advised_for_a_cause_that_could_not_be_assessed(likeliest: Cause) -> None:
    experiments = [
        text.replace("SITE", "s")
        for row in TABLE
        for text in (row.measurement, *dict(row.measurement_where).values())
    ]
    subsets = chain.from_iterable(combinations(MISSING, count) for count in range(1, 6))
    for missing in subsets:
        reasons = [MISSING[instrument] for instrument in missing]
        table = unassessed(*reversed(reasons), likeliest=likeliest)
        gathered = [(row, row.assess(plain_context())) for row in table]
        for incident in (plain_incident(), plain_incident(**OPEN)):
            deciding = conclude(incident, gathered).deciding
            assert COMMANDS[missing[0]] in deciding, missing
            assert likeliest.title in deciding
            assert not [text for text in experiments if text in deciding]


def test_the_step_serves_most_of_the_causes_that_could_not_be_assessed() -> None:
    sign = Sign("x", Route.TIME, view=View.PROBE)

    def blind(name: str, *missing: str) -> Cause:
        pieces = tuple(sign.not_available(MISSING[instrument]) for instrument in missing)
        return replace(cause(name), assess=lambda _: pieces)

    table = [blind("a", "snapshots"), blind("b", "surveys"), blind("c", "log", "surveys")]
    deciding = explain(plain_context(), table=table).deciding
    assert deciding.code == "survey-targets"
    assert "not assessed: b, c (no surveys of single targets)" in deciding


def test_an_imported_list_of_full_targets_is_no_snapshot_of_the_others() -> None:
    result = explain(causes_context(space(0.6)))
    assert result.deciding.code == "complete-snapshots"
    assert "trimtab watch scratch" in result.deciding
    assert "no snapshot contains" in result.deciding
    assert "See which targets" not in result.deciding


OPEN = {"state": IncidentState.OPEN, "until": None}
SLOW = {"targets": ("OST0002",), **OPEN}


@pytest.mark.parametrize(
    ("incident", "site", "advised"),
    [
        (OPEN, {}, "take snapshots while it lasts: trimtab watch s (trimtab snapshot s takes"),
        ({}, {}, "take snapshots from now on: trimtab watch s; for this one, log what changed"),
        (OPEN, {"has_site_file": False}, "write a site file (trimtab init PATH --out FILE)"),
        ({}, {"has_site_file": False}, "trimtab event add s --kind config-change --at "),
        ({}, {}, "trimtab import FILE"),
        (SLOW, {}, "(trimtab survey s --target OST0002)"),
        (SLOW, {"home": {"OST0002": "oss1"}}, "(trimtab survey s --server --target OST0002)"),
        (SLOW, {}, "server, drives, SMART, rebuild (trimtab targets s OST0002)"),
        (SLOW, {"has_site_file": False}, "raw test (obdfilter-survey); trimtab import FILE"),
    ],
)
def test_what_is_advised_fits_what_the_site_has(
    incident: dict[str, Any], site: dict[str, Any], advised: str
) -> None:
    result = explain(plain_context(incident=plain_incident(**incident), **site))
    assert result.unexplained
    assert advised in result.deciding
    assert "closed targets" not in result.deciding


def test_closed_targets_are_opened_only_where_some_are_closed() -> None:
    sentences = dict(open_targets.FEW_TARGETS_OPEN.measurement_where)
    assert open_targets.FEW_TARGETS_OPEN.deciding([]) not in sentences.values()
    closed = Sign("closed-now", Route.EXPECTED, "closed", view=View.TARGETS).weighed(
        "3 of 8 are closed", 1.0
    )
    assert open_targets.FEW_TARGETS_OPEN.deciding([closed]) == sentences["closed-now"]


def test_the_two_likeliest_are_held_against_each_other() -> None:
    gathered = [(cause("a"), (piece(1.9),)), (cause("b"), (piece(1.5),))]
    assert conclude(plain_incident(), gathered).deciding == "a, or b? measure a"


def test_the_whole_table_on_a_context_that_knows_nothing() -> None:
    result = explain(plain_context())
    assert result.unexplained
    assert not result.causes
    assert len(result.cleared) + len(result.not_assessed) == len(TABLE)


@pytest.mark.calibration
@pytest.mark.parametrize("shape", sorted(Shape))
@pytest.mark.parametrize("until", [hours(84), None])
def test_no_cause_raises_on_an_empty_record(shape: Shape, until: datetime | None) -> None:
    context = plain_context(incident=plain_incident(shape=shape, until=until), bad=(), good=())
    result = explain(context)
    # An incident of integrity is one of bad checksums by its shape.
    assert result.unexplained or [candidate.cause for candidate in result.causes] == [
        "bad-checksums"
    ]


def test_circumstances_without_a_sign_of_the_mechanism_name_no_cause() -> None:
    of_loops = replace(cause("loops"), signs=("loops",))
    circumstances = [piece(0.6), piece(0.9, Route.RUNS), piece(-0.3, Route.LOG)]
    assert weigh(of_loops, circumstances).evidence_weight == pytest.approx(-0.3)
    sign = Sign("loops", Route.TIME, view=View.TARGETS).weighed("loops", 0.5)
    assert weigh(of_loops, [*circumstances, sign]).evidence_weight > 1
    # A standing condition has no beginning: what misses its expectation is listed.
    assert weigh(of_loops, circumstances, has_beginning=False).evidence_weight > 0.5


def test_every_cause_names_signs_that_it_can_give() -> None:
    """A code that was renamed would keep its cause from ever being named."""
    texts = {cause.id: getsource(import_module(cause.assess.__module__)) for cause in TABLE}
    shared = "".join(
        getsource(import_module(f"trimtab.explain.causes.{name}"))
        for name in ("evidence", "trim_history")
    )
    for each in TABLE:
        assert each.signs, each.id
        for code in each.signs:
            source = (texts[each.id] + shared).partition("signs=frozenset")[0] + shared
            composed = 'f"{noun}-of-run"' in source and code.endswith("-of-run")
            assert f'"{code}"' in source or composed, (each.id, code)


def test_a_cause_that_was_not_assessed_ranks_after_every_assessed_one() -> None:
    blind = weigh(cause("blind", prior=0.9), [])
    cleared = weigh(cause("cleared", prior=0.01), [piece(-1.0)])
    assert [each.cause.id for each in rank([blind, cleared])] == ["cleared", "blind"]


def test_what_slows_osts_does_not_slow_operations_on_names() -> None:
    """Where bandwidth fell too, it may have slowed both."""
    of_osts = replace(cause("full"), slows_metadata=False)

    def odds(which: Cause, metric: str, **more: Any) -> float:
        key = SeriesKey("s", "p", "mdtest", metric, "1/s")
        (weighed,) = ranked_for(plain_incident(key=key, **more), [(which, (piece(1.0),))])
        return weighed.log_odds

    usual = odds(of_osts, "write_bandwidth")
    for metric in ("file_creation", "directory_removal", "metadata_rate"):
        assert odds(of_osts, metric) <= usual - 1
        assert odds(of_osts, metric, moved_with=("hourly write_bandwidth",)) == usual
        assert odds(cause("load"), metric) == usual
    assert {cause.id for cause in TABLE if not cause.slows_metadata} == {
        "allocator-loops", "array-degraded", "few-targets-open", "garbage-collection",
        "target-filling", "targets-over-limit", "trim-overdue", "writeback-throttling",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "runs", "faint"),
    [(Shape.DIP, 1, True), (Shape.DIP, 6, False), (Shape.UNSTEADY, 40, False),
     (Shape.STEP, 40, False)],
)  # fmt: skip
def test_a_single_run_has_less_of_a_cause(shape: Shape, runs: int, faint: bool) -> None:
    until = hours(49) if runs == 1 else hours(84)
    of = plain_incident(shape=shape, runs=runs, until=until)
    (weighed,) = ranked_for(of, [(cause("a", prior=0.1), (piece(1.0),))])
    assert weighed.log_odds == pytest.approx(-0.7 if faint else 0.0)


def test_a_slow_run_among_other_signs_is_not_a_single_one() -> None:
    """Surveys show slow targets, or another series is slow at another hour of it."""
    gathered = [(cause("a", prior=0.1), (piece(1.0),))]
    for more in ({"targets": ("OST0001",), "until": hours(49)}, {"until": hours(84)}):
        dip = plain_incident(shape=Shape.DIP, runs=1, **more)
        assert ranked_for(dip, gathered)[0].log_odds == pytest.approx(0.0)


def test_what_is_in_force_is_not_advised() -> None:
    loops = next(each for each in TABLE if each.id == "allocator-loops")
    skipped = Sign("thresholds-in-force", Route.EXPECTED, view=View.SETTINGS).weighed(
        "c1 25, c2 25, c3 5", -0.6
    )
    assert "Raise mb_c2" in loops.deciding([])
    assert "Raise mb_c2" not in loops.deciding([skipped])
