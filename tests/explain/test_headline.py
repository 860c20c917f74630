"""The sentence that every screen and page begins with, and what a purge adds to its troubles."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

from trimtab.base.error import Message
from trimtab.base.event import JOURNAL, Event, EventKind
from trimtab.base.maintenance_window import AfterMaintenance, MaintenanceWindow
from trimtab.base.series import ChangePoint, ChangeStatus, SeriesJudgement, SeriesKey
from trimtab.base.verdict import Change, Interval
from trimtab.explain.headline import headline, site_troubles, tone_of
from trimtab.explain.purge_trouble import purge_troubles
from trimtab.explain.status import IncidentStatus, PlanSlot, SiteStanding
from trimtab.judge.series_analysis import judge_series
from trimtab.judge.series_level import level_now, onset_text, series_word

# The sentence that every screen and page begins with: the worst that holds now.

RUNS_FROM = datetime(2026, 3, 2, tzinfo=UTC)
UNTESTED = Message("too-few-runs", "too few runs to look for a change (6 of 24)")


def judged(probe: str, levels: list[tuple[int, float]], *, unit: str = "B/s") -> SeriesJudgement:
    """Return the judgement of hourly runs: so many at each level, with a little scatter."""
    values = [level * (1 + 0.01 * (n % 5)) for runs, level in levels for n in range(runs)]
    frame = pl.DataFrame(
        {
            "at": [RUNS_FROM + timedelta(hours=hour) for hour in range(len(values))],
            "value": values,
            "unfinished": [False] * len(values),
            "run": [str(number) for number in range(len(values))],
        }
    )
    more = unit == "B/s"
    metric = "read_bandwidth" if more else "read_time"
    key = SeriesKey("scratch", probe, "ior", metric, unit, more_is_better=more)
    return judge_series(frame, key)


def answer(*series: SeriesJudgement, **facts: object) -> str:
    verdicts = tuple(entry.verdict for entry in series)
    return headline(SiteStanding("scratch", series=series, verdicts=verdicts, **facts))  # type: ignore[arg-type]


def an_incident(**facts: object) -> IncidentStatus:
    known: dict[str, object] = {
        "site": "scratch", "id": "i1", "at": RUNS_FROM + timedelta(hours=72), "state": "lasting",
        "certainty": "confirmed", "effect": 0.5, "summary": "since 2026-03-05 00:00 UTC: shared "
        "read_bandwidth 50 % lower; other read_bandwidth 40 % lower; 2 more", "cause": None,
        "confidence": None,
    }  # fmt: skip
    return IncidentStatus(**(known | facts))  # type: ignore[arg-type]


STEADY = judged("steady", [(120, 1e9)])
WORSE = judged("shared", [(72, 1e9), (72, 0.7e9)])
MUCH_WORSE = judged("single", [(72, 1e9), (72, 0.14e9)])
RECOVERED = judged("back", [(72, 1e9), (72, 0.5e9), (72, 1e9)])
BETTER = judged("tuned", [(72, 1e9), (72, 10e9)])


def test_the_worst_change_that_lasts_comes_first_and_the_others_are_named_and_counted() -> None:
    """A larger change for the better never hides one for the worse."""
    text = answer(STEADY, BETTER, WORSE, MUCH_WORSE, RECOVERED)
    assert text.startswith(
        "single read bandwidth -86 % since 2026-03-05. Also: shared read bandwidth -30 % since "
        "2026-03-05. 3 other series: 1 better, 2 unchanged. COV goal of 8 %: "
    )


def test_what_recovered_is_steady() -> None:
    assert len(RECOVERED.changes) == 2
    assert level_now(RECOVERED) is None
    assert answer(RECOVERED).startswith("No lasting level change. 1 series steady.")


@pytest.mark.parametrize(
    ("levels", "last", "best"),
    [
        ([(96, 1.0), (96, 0.87), (96, 0.5), (96, 0.71)], "-18 %", "-29 %"),
        ([(96, 1.0), (96, 0.5), (96, 0.8)], "-20 %", "-20 %"),
        ([(96, 1.0), (96, 0.5), (96, 0.65), (96, 0.8)], "-20 %", "-20 %"),
        ([(96, 0.7), (96, 1.0), (96, 0.8)], "-20 %", "-20 %"),
        ([(96, 1.0), (96, 0.8), (96, 0.6)], "-25 %", "-40 %"),
    ],
)
def test_a_recovery_in_steps_is_none_while_the_level_is_below_an_earlier_one(
    levels: list[tuple[int, float]], last: str, best: str
) -> None:
    """Told of the first of them before: +42 %, better."""
    text = answer(judged("hourly", [(runs, 1e9 * level) for runs, level in levels]))
    assert text.startswith(f"hourly read bandwidth {last} since ")
    assert (f"{best} from its best level" in text) is (best != last)


def test_times_that_grow_are_worse() -> None:
    slower = judged("latency", [(72, 1.0), (72, 3.0)], unit="s")
    assert answer(slower, BETTER).startswith(
        "latency read time +200 % since 2026-03-05. 1 other series better."
    )


def test_an_improvement_is_told_where_nothing_is_wrong() -> None:
    better = judged("tuned", [(72, 1e9), (72, 1.5e9), (72, 1.47e9)])
    assert answer(better).startswith("tuned read bandwidth +4")


def test_a_loss_under_five_per_cent_is_no_headline() -> None:
    little = judged("hourly", [(300, 1e9), (300, 0.97e9)])
    assert little.changes
    assert series_word(little) == "changed a little"
    assert answer(little).startswith("No loss of 5 % or more. 1 series changed a little.")


def test_steady_is_said_only_of_what_was_tested() -> None:
    few = replace(STEADY, untested=UNTESTED)
    assert answer(few).startswith("1 series: too few runs to look for a change (6 of 24). COV")
    text = answer(few, RECOVERED)
    assert text.startswith(
        "No lasting level change. 2 series: 1 with too few runs to look for a change, 1 steady."
    )


def test_a_change_without_a_direction_is_no_percentage() -> None:
    change = replace(
        WORSE.changes[0], effect=None, reason=Message("direction-not-known", "it moved")
    )
    unknown = replace(WORSE, changes=(change,))
    assert level_now(unknown) is None
    assert answer(unknown).startswith("1 series changed, direction not known. COV goal")


def test_an_onset_in_a_gap_is_the_gap() -> None:
    low, high = datetime(2026, 2, 3, tzinfo=UTC), datetime(2026, 2, 28, tzinfo=UTC)
    change: ChangePoint = replace(WORSE.changes[0], between=(low, high))
    text = answer(replace(WORSE, changes=(change,)))
    assert text.startswith("shared read bandwidth -30 % between 3 and 28 February 2026.")
    assert onset_text(high, (low, high.replace(month=3))) == "between 3 February and 28 March 2026"
    assert onset_text(high, (low.replace(year=2025), high)) == "between 2025-02-03 and 2026-02-28"


def test_without_series_it_says_so() -> None:
    assert answer() == "No run can be judged yet."


@pytest.mark.parametrize("name", ["changes", "regimes"])
def test_without_changes_or_levels_nothing_lasts(name: str) -> None:
    changed: dict[str, Any] = {name: ()}
    assert level_now(replace(WORSE, **changed)) is None


def test_a_lasting_incident_is_told_with_its_cause_and_what_to_do() -> None:
    lasting = an_incident(cause="checksums turned on", confidence=0.95)
    assert answer(STEADY, incidents=(lasting,), searched=True) == (
        "Lasting incident since 2026-03-05 00:00 UTC: shared read_bandwidth 50 % lower, with 3 "
        "others; cause: checksums turned on; next: trimtab explain scratch --at 2026-03-05T00:00Z. "
        f"1 series unchanged. {answer(STEADY).partition('steady. ')[2]}"
    )


def test_a_level_and_its_incident_are_one_trouble() -> None:
    series, level = WORSE, level_now(WORSE)
    lasting = an_incident(probe="shared", metric="read_bandwidth", level_now=level)
    facts = SiteStanding(
        "scratch", series=(series,), verdicts=(series.verdict,), incidents=(lasting,), searched=True
    )
    (trouble,) = site_troubles(facts)
    assert trouble.title == (
        "shared read bandwidth -30 % since 2026-03-05, with 3 others (lasting incident); "
        "cause unknown"
    )
    assert headline(facts).startswith(f"{trouble.title}; next: trimtab explain scratch --at ")
    beside = replace(facts, incidents=(an_incident(),))  # begins with the level: no second one
    assert len(site_troubles(beside)) == 1


def test_of_two_steps_down_each_incident_tells_its_own() -> None:
    """Both told the level after the second step, in two lines of the same words."""
    series = judged("shared", [(96, 1e9), (96, 0.8e9), (96, 0.6e9)])
    known = {"probe": "shared", "metric": "read_bandwidth", "level_now": level_now(series)}
    first = an_incident(
        **known, effect=0.8, at=RUNS_FROM + timedelta(hours=96),
        summary="since 2026-03-06 00:00 UTC: shared read_bandwidth 20 % lower",
    )  # fmt: skip
    second = an_incident(
        **known, id="i2", effect=0.75, at=RUNS_FROM + timedelta(hours=192),
        summary="since 2026-03-10 00:00 UTC: shared read_bandwidth 25 % lower",
    )  # fmt: skip
    text = answer(series, incidents=(first, second), searched=True)
    assert text.startswith("shared read bandwidth -25 % since 2026-03-10, -40 % from its best ")
    assert "Also: lasting incident since 2026-03-06 00:00 UTC: shared read_bandwidth 20 %" in text
    assert answer(series, incidents=(first,), searched=True).startswith(
        "shared read bandwidth -25 % since 2026-03-10"
    )


def test_a_smaller_incident_of_the_same_day_does_not_hide_a_loss() -> None:
    small = an_incident(effect=0.97, summary="since 2026-03-05 00:00 UTC: other 3 % lower")
    text = answer(WORSE, incidents=(small,), searched=True)
    assert text.startswith("shared read bandwidth -30 % since 2026-03-05; next: trimtab explain")


def of_tasks(tasks: int, levels: list[tuple[int, float]]) -> SeriesJudgement:
    """Return a series of a probe that has another one, with other tasks."""
    series = judged("scale", levels)
    key = replace(series.key, comparability=f"{tasks:04}" * 8, apart=f"tasks {tasks:,}")
    return replace(series, key=key)


def test_an_incident_of_one_series_of_a_probe_does_not_hide_the_loss_of_another() -> None:
    """Both were one by probe and metric: the smaller loss was told, the larger one counted."""
    few = of_tasks(512, [(72, 1e9), (72, 0.85e9)])
    many = of_tasks(4096, [(72, 1e9), (72, 0.1e9)])
    known = an_incident(
        effect=0.85, probe="scale", metric="read_bandwidth", level_now=level_now(few),
        series=few.key.id, name="scale read bandwidth (tasks 512)",
        summary="since 2026-03-05 00:00 UTC: scale read_bandwidth (tasks 512) 15 % lower",
    )  # fmt: skip
    text = answer(few, many, STEADY, incidents=(known,), searched=True)
    assert text.startswith("scale read bandwidth (tasks 4,096) -90 % since 2026-03-05; next: ")
    assert "Also: scale read bandwidth (tasks 512) -15 % since 2026-03-05 (lasting inc" in text
    assert "1 other series unchanged" in text
    stored_earlier = replace(known, series=None, name="")
    assert "scale read bandwidth -15 %" in answer(few, incidents=(stored_earlier,))


def test_a_series_that_is_named_anew_is_still_the_one_of_its_incident() -> None:
    few = of_tasks(512, [(72, 1e9), (72, 0.85e9)])
    known = an_incident(
        effect=0.85, probe="scale", metric="read_bandwidth", level_now=level_now(few),
        series=few.key.id, name="scale read bandwidth",
    )  # fmt: skip
    assert "series" not in answer(few, incidents=(known,), searched=True)


def test_series_of_two_sites_are_different_ones() -> None:
    here, there = (replace(WORSE, key=replace(WORSE.key, site=site)) for site in ("alpha", "omega"))
    first = SiteStanding("alpha", series=(here,), verdicts=())
    second = SiteStanding("omega", series=(replace(there, changes=()),), verdicts=())
    assert "1 other series" in headline(first, second)


def test_of_several_sites_the_worst_is_named() -> None:
    small = SiteStanding("alpha", incidents=(an_incident(site="alpha", effect=0.9),), searched=True)
    large = SiteStanding("omega", incidents=(an_incident(site="omega", effect=0.6),), searched=True)
    text = headline(small, large)
    assert text.startswith("omega: lasting incident since")
    assert "Also: alpha: lasting incident" in text


def test_what_was_not_searched_is_not_called_well() -> None:
    assert "Incidents not searched for yet" in answer(STEADY, searched=False)
    assert "no incident" not in answer(STEADY, searched=False).lower()
    assert answer(STEADY, searched=True).startswith(
        "No lasting level change, no open incident. 1 series steady."
    )


def test_a_suspect_is_no_level() -> None:
    suspect = replace(STEADY, changes=(replace(WORSE.changes[0], status=ChangeStatus.SUSPECT),))
    assert "1 series may have changed." in answer(suspect)


# A purge that fails quietly: runs that fail or stop coming, plans that are not made.

START = datetime(2026, 1, 4, 2, tzinfo=UTC)
DAY, WEEK = timedelta(days=1), timedelta(days=7)


def run(at: datetime, *, failed: bool = False, source: str = JOURNAL, lasts_h: float = 3) -> Event:
    kind = EventKind.PURGE_FAILED if failed else EventKind.PURGE
    detail = "it was refused (atime: changed)" if failed else "5 files, 1.00 GB freed"
    until = at + timedelta(hours=lasts_h)
    return Event(f"{at} {kind}", "scratch", kind, at, detail, source, until)


def weekly(count: int) -> list[Event]:
    return [run(START + week * WEEK) for week in range(count)]


def ids(events: list[Event], now: datetime | None, plans: tuple[PlanSlot, ...] = ()) -> list[str]:
    return [trouble.id for trouble in purge_troubles(events, plans, now)]


def test_a_purge_that_comes_as_it_always_did_is_no_trouble() -> None:
    for late in (timedelta(), WEEK, WEEK + 3 * DAY):
        assert ids(weekly(8), START + 7 * WEEK + late) == []


def test_a_weekly_purge_that_stopped_is_told_half_a_week_after_its_time() -> None:
    (trouble,) = purge_troubles(weekly(8), (), START + 7 * WEEK + 11 * DAY)
    assert trouble.id == "purge-overdue"
    assert trouble.text == "no purge has run since 2026-02-22; before that, one ran every 7.0 d"


def test_of_a_purge_that_runs_when_it_must_the_longest_gap_counts() -> None:
    days = (0, 7, 28, 35, 70, 77)
    events = [run(START + day * DAY) for day in days]
    assert ids(events, START + (77 + 52) * DAY) == []
    assert ids(events, START + (77 + 54) * DAY) == ["purge-overdue"]


def test_runs_of_one_night_are_one_and_three_runs_are_no_habit() -> None:
    night = [run(START + timedelta(hours=hours), lasts_h=0.5) for hours in (0, 1, 2, 3, 4)]
    assert ids(night, START + 300 * DAY) == []
    assert ids(weekly(3), START + 300 * DAY) == []
    assert ids(weekly(8), None) == []


@pytest.mark.parametrize("source", [JOURNAL, "person"])
def test_failed_runs_are_told_until_one_is_good_again(source: str) -> None:
    failed = [*weekly(4), run(START + 4 * WEEK, failed=True)]
    (trouble,) = purge_troubles(failed, (), START + 4 * WEEK + DAY)
    assert trouble.text == ("the purge run of 2026-02-01 failed: it was refused (atime: changed)")
    failed.append(run(START + 5 * WEEK, failed=True))
    (trouble,) = purge_troubles(failed, (), START + 20 * WEEK)
    assert trouble.text.startswith("all 2 purge runs since 2026-02-01 failed, the last: it was")
    assert ids([*failed, run(START + 6 * WEEK, source=source)], START + 6 * WEEK + DAY) == []


def test_a_run_that_freed_something_and_failed_has_failed() -> None:
    at = START + 4 * WEEK
    assert ids([*weekly(4), run(at), run(at, failed=True)], at + DAY) == ["purge-failed"]


def test_a_run_that_outlasts_a_failed_start_beside_it_is_good() -> None:
    at = START + 4 * WEEK
    beside = run(at + DAY, failed=True, lasts_h=0)
    assert ids([*weekly(4), run(at, lasts_h=48), beside], at + 3 * DAY) == []


def plan(week: int, state: str, detail: str | None = None) -> PlanSlot:
    return PlanSlot(START + week * WEEK, state, detail)  # type: ignore[arg-type]


@pytest.mark.parametrize(("state", "why"), [("failed", "purge scan: denied"), ("missed", "off")])
def test_a_plan_that_was_not_made_is_told_until_the_next_one_is(state: str, why: str) -> None:
    plans = (plan(0, "done"), plan(1, state, why))
    (trouble,) = purge_troubles((), plans, START + WEEK)
    assert trouble.text == f"the purge plan of 2026-01-11 was not made: {why}"
    assert ids([], START + 2 * WEEK, (*plans, plan(2, "done"))) == []


def test_where_no_plan_is_needed_no_run_is_overdue() -> None:
    plans = [plan(week, "done") for week in range(8)]
    plans += [plan(week, "done", "purge plan: nothing has to go") for week in range(8, 30)]
    assert ids(weekly(8), START + 30 * WEEK, tuple(plans)) == []
    assert ids(weekly(8), START + 32 * WEEK, tuple(plans)) == ["purge-overdue"]


def test_a_maintenance_begins_the_line_and_what_it_changed_is_told() -> None:
    at = RUNS_FROM + timedelta(hours=72)
    window = MaintenanceWindow(
        "w", "scratch", at, at + timedelta(hours=4), "fw\x1b[31m", "person", ()
    )
    slower = AfterMaintenance(
        "w",
        window.end,
        "fw",
        "hourly write bandwidth",
        Change.WORSE,
        0.91,
        Interval(0.88, 0.94),
        24,
    )
    earlier = replace(slower, until=RUNS_FROM, ratio=0.5)
    standing = SiteStanding("scratch", maintenance=window, after=(earlier, slower))
    line = headline(standing)
    assert line.startswith("In maintenance until 2026-03-05 ")
    assert "\x1b" not in line
    told = "ince the maintenance of 5 March: hourly write bandwidth -9 % (-12 to -6, 24 runs)"
    assert told in line
    assert tone_of(standing) == "warning"
    assert "scratch is in maintenance" in headline(standing, SiteStanding("other"))
    grave = answer(WORSE, after=(slower,))
    assert grave.lower().startswith("shared read bandwidth")
    assert told in grave
