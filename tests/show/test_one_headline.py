"""No command calls a site well while another shows a trouble, whatever troubles come together.

What is judged of a series is worked out once; each pair is a site of its own in one store.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import combinations
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
import pytest
from tests.support.small_site import HOUR, START, hour

from trimtab.act.page import plan_answer, plan_document
from trimtab.answers.page import snapshot_document, status_document, targets_document
from trimtab.base.action import Plan
from trimtab.base.error import Message
from trimtab.base.event import JOURNAL, Event, EventKind
from trimtab.base.incident import Explanation, Incident
from trimtab.base.run import Run, RunStatus, Sample
from trimtab.base.series import SeriesJudgement, SeriesKey, SiteJudgement
from trimtab.base.snapshot import HostSnapshot, Reading, Setting, Snapshot, Target, TargetSnapshot
from trimtab.explain.headline import headline, site_troubles, targets_headline, tone_of
from trimtab.explain.incident_detection import find_troubles, with_levels
from trimtab.explain.page import incidents_document
from trimtab.judge.page import judge_document
from trimtab.judge.series_analysis import judge_series
from trimtab.probe.check_result import CheckResult
from trimtab.probe.incident_search import Explained, keep_incidents
from trimtab.probe.page_check import health
from trimtab.probe.site_standing import standing_of, standings_of, whole_standing
from trimtab.probe.site_status import status_of
from trimtab.show.screen_document import print_document
from trimtab.site.place import Place
from trimtab.store.slot import WatchState
from trimtab.store.store import Store
from trimtab.watch.page import alerts_document, slots_document, state_document

RUNS: Final = 240
EVERY_H: Final = 3
END: Final = hour(RUNS * EVERY_H)
CALM: Final = re.compile(
    r"\bhealthy\b|\bsteady\b|\bno (open |lasting )?incident|\bno trouble\b|\bnothing\b"
    r"|\bno findings\b|\bno lasting change\b|\bno loss\b",
    re.IGNORECASE,
)
METRICS: Final = ("write_bandwidth", "read_bandwidth")


def path_of(*levels: tuple[int, float]) -> np.ndarray:
    rng = np.random.default_rng(5)
    values = np.concatenate([np.full(runs, 2e9 * level) for runs, level in levels])
    return values * (1 + 0.02 * rng.standard_normal(len(values)))


def unfinished() -> np.ndarray:
    values = path_of((RUNS, 1.0))
    values[-4:] = np.nan
    return values


SERIES: Final[Mapping[str, Callable[[], np.ndarray]]] = {
    "lasting step": lambda: path_of((80, 1.0), (160, 0.8)),
    "open incident": lambda: path_of((200, 1.0), (40, 0.7)),
    "dip that goes on": lambda: path_of((234, 1.0), (6, 0.3)),
    "recovery in two steps": lambda: path_of((80, 1.0), (40, 0.5), (120, 0.8)),
    "runs do not finish": unfinished,
}


def readings(**values: object) -> tuple[Reading, ...]:
    known = {"used_bytes": 0.4e12, "available_bytes": 0.6e12, "server": "oss1"} | values
    return tuple(Reading(name, value, "test") for name, value in known.items())  # type: ignore[arg-type]


def target(name: str, *more: Reading, settings: str = "", **values: object) -> TargetSnapshot:
    flash = {settings: Setting(settings, "0", "test")} if settings else {}
    return TargetSnapshot(Target(name, "ost", "oss1"), (*readings(**values), *more), flash)


def lost(state: str, name: str) -> TargetSnapshot:
    server = Reading("server", None, None, "no server has it")
    imported = Reading("import_state", state, "lctl", None, "mds1")
    whole = Reading("import_state", state, "lctl")
    return TargetSnapshot(Target(name, "ost", None), (server, imported, whole), {})


TARGETS: Final[Mapping[str, Callable[[str], TargetSnapshot]]] = {
    "over its limit": lambda name: target(name, used_bytes=0.92e12, available_bytes=0.08e12),
    "lost": lambda name: lost("DISCONN", name),
    "inactive": lambda name: lost("INACTIVE", name),
    "read-only": lambda name: target(name, read_only=True),
    "degraded": lambda name: target(name, degraded=True),
    "throttled": lambda name: target(
        name, Reading("wbt_latency_s", 0.002, "sysfs", None, "nvme0n1"), settings="queue/rotational"
    ),
    "inodes used": lambda name: target(name, inodes_total=100, inodes_free=1),
}
SILENT: Final = "server that does not answer"
SLOW: Final = "slow target"
PURGE: Final = "purge that fails"
NO_PURGE: Final = "purge that does not come"
TROUBLES: Final = (*SERIES, *TARGETS, SILENT, SLOW, PURGE, NO_PURGE)
WITH_ALL: Final = {"lasting step", "over its limit", "lost", PURGE}
PAIRS: Final = tuple(
    kinds
    for number, kinds in enumerate(combinations(TROUBLES, 2))
    if WITH_ALL.intersection(kinds) or number % 3 == 0
)
"""Every trouble with each of four, and a third of the other pairs."""


@cache
def judged(kind: str) -> tuple[SeriesJudgement, Sequence[Incident]]:
    """Return a series in trouble as judged, and its incidents."""
    values = SERIES[kind]() if kind in SERIES else path_of((RUNS, 1.0))
    frame = pl.DataFrame(
        {
            "at": [hour(EVERY_H * number) for number in range(len(values))],
            "value": [None if np.isnan(value) else float(value) for value in values],
            "unfinished": [bool(np.isnan(value)) for value in values],
            "run": [str(number) for number in range(len(values))],
        },
        schema_overrides={"value": pl.Float64},
    )
    key = SeriesKey("pair", "hourly", "ior", METRICS[0], "B/s")
    series = judge_series(frame, key)
    none = pl.DataFrame(schema={"at": pl.Datetime("us", "UTC"), "run": pl.String})
    troubles = find_troubles([series], {key: frame}, none, site="pair", now=END)
    return series, with_levels(troubles.incidents, [series])


def explanation(incident: Incident, key: SeriesKey) -> Explanation:
    deciding = Message("look-at-runs", "look at the runs")
    of = f"{key.site} {key.metric}"
    known = replace(incident, site=key.site, id=f"{of} {incident.id}", key=key)
    return Explanation(known, (), (), (), (), unexplained=True, deciding=deciding)


@dataclass
class Pair:
    """A site with two troubles, as it lies in a store."""

    store: Store
    kinds: tuple[str, str]

    def __post_init__(self) -> None:
        self.site = "-".join(kind.replace(" ", "-")[:24] for kind in self.kinds)
        self.place = Place(self.site, None)
        self.store.ensure_site(self.site, driver="lustre", identity=self.site, path="/pair")
        of_series = [kind for kind in self.kinds if kind in SERIES]
        kinds = [*of_series, "calm", "calm"][:2]
        series, explanations = [], []
        for kind, metric in zip(kinds, METRICS, strict=True):
            one, incidents = judged(kind)
            key = replace(one.key, site=self.site, metric=metric)
            series.append(replace(one, key=key))
            explanations += [explanation(incident, key) for incident in incidents]
        self.judgement = SiteJudgement(self.site, START, END, tuple(series))
        self.explanations = tuple(explanations)
        self.store.add_snapshot(self.site, self.snapshot())
        if SLOW in self.kinds:
            self.store.add_runs(list(self.surveys()))
        for event in self.purges():
            self.store.add_event(event)
        place = str(self.store.location)
        keep_incidents(self.store, Explained(self.site, place, END, END, self.explanations))

    def snapshot(self) -> Snapshot:
        targets = [target("OST0000"), target("OST0001")]
        for number, kind in enumerate(self.kinds):
            if kind in TARGETS:
                targets[number] = TARGETS[kind](f"OST000{number}")
        silent = HostSnapshot("oss1", "server", answered=False, problem="timed out")
        hosts = (silent,) if SILENT in self.kinds else ()
        return Snapshot(END, "lustre", not hosts, tuple(targets), hosts)

    def purges(self) -> Iterator[Event]:
        """Yield runs of a daily purge, until the last days where none comes any more."""
        failing, silent = PURGE in self.kinds, NO_PURGE in self.kinds
        for day in range(20 if silent else 30) if failing or silent else ():
            failed = failing and day > 15
            kind = EventKind.PURGE_FAILED if failed else EventKind.PURGE
            at = hour(24 * day)
            yield Event(f"{self.site} {day}", self.site, kind, at, "as planned", JOURNAL, at + HOUR)

    def surveys(self) -> Iterator[Run]:
        rng = np.random.default_rng(3)
        for day in range(12):
            rates = {f"OST000{n}": 5e9 * float(rng.lognormal(0, 0.03)) for n in range(6)}
            rates["OST0005"] *= 0.3 if day > 7 else 1.0
            yield Run(
                id=f"{self.site} {day}", site=self.site, probe="survey", kind="obdfilter-survey",
                status=RunStatus.OK, at=hour(24 * day), until=hour(24 * day) + HOUR,
                parameters={"spec": {"name": "survey"}},
                samples=tuple(Sample("write_bandwidth", rate, 0, target=name)
                              for name, rate in rates.items()),
            )  # fmt: skip

    def first_lines(self, well: CheckResult) -> Iterator[tuple[str, str]]:
        """Yield each command with the line that it begins with."""
        of_judgement = standing_of(self.store, self.place, judgement=self.judgement)
        searched = standing_of(self.store, self.place, explanations=self.explanations)
        live = standing_of(self.store, self.place, snapshot=self.snapshot())
        yield "judge, Overview", headline(of_judgement)
        yield "incidents", headline(searched)
        yield "month", headline(
            standing_of(
                self.store, self.place, judgement=self.judgement,
                explanations=self.explanations, until=END,
            )
        )  # fmt: skip
        yield "status, watch, alerts", headline(whole_standing(self.store, self.place))
        yield "targets", targets_headline(live)
        tone, sentence = health(well, site_troubles(live))
        yield "check", f"{tone}: {sentence}"
        yield "tone of the page", tone_of(of_judgement)
        yield "tune", plan_answer(Plan(self.site, "tunables", END, END), (), site_troubles(live))

    def screens(self) -> Iterator[Callable[[], None]]:
        """Yield what prints each command's screen."""
        where, status = str(self.store.location), status_of(self.store, self.site)
        live = standing_of(self.store, self.place, snapshot=self.snapshot())
        whole = whole_standing(self.store, self.place)
        searched = standing_of(self.store, self.place, explanations=self.explanations)
        both = standing_of(self.store, self.place, judgement=self.judgement)
        watch = WatchState(self.site, where, END, None, ())
        plan = Plan(self.site, "tunables", END, END)
        of_status = status_document(status, standings_of(self.store, status))
        yield partial(print_document, of_status)
        yield partial(print_document, judge_document(self.judgement, {}, None, both))
        yield partial(print_document, incidents_document(self.explanations, (), (), searched))
        yield partial(print_document, targets_document(live))
        yield partial(print_document, snapshot_document("0123456789abc", where, live))
        yield partial(print_document, state_document(watch, (), whole))
        yield partial(print_document, slots_document(where, (), {}, whole))
        yield partial(print_document, alerts_document(whole, ()))
        yield partial(print_document, plan_document(plan, troubles=site_troubles(live)))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store.open(tmp_path_factory.mktemp("pairs") / "t.db") as opened:
        yield opened


def test_no_command_calls_a_site_well_while_another_shows_a_trouble(
    store: Store, healthy: CheckResult
) -> None:
    """Both troubles are on the list, too, with what to do about each."""
    wrong = []
    for kinds in PAIRS:
        pair = Pair(store, kinds)
        for command, line in pair.first_lines(healthy):
            if CALM.search(line):
                wrong.append(f"{' + '.join(kinds)}: {command}: {line}")
        listed = site_troubles(standing_of(store, pair.place))
        if (
            len(listed) < 2
            and "runs do not finish" not in kinds
            and not {PURGE, NO_PURGE} >= set(kinds)
        ):
            wrong.append(f"{' + '.join(kinds)}: only {[each.title for each in listed]}")
        assert all(each.fix.prose for each in listed)
    assert wrong == []


@pytest.mark.parametrize(
    "kinds",
    [
        ("recovery in two steps", "over its limit"),
        ("open incident", "lost"),
        ("throttled", SILENT),
        ("lasting step", SLOW),
        ("degraded", "inodes used"),
        ("calm", PURGE),
        (NO_PURGE, "throttled"),
    ],
)
def test_no_screen_calls_a_site_well_either(
    tmp_path: Path, kinds: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Below the first line, too: but a series or target may be well by itself, in its own row."""
    with Store.open(tmp_path / "t.db") as store:
        pair = Pair(store, kinds)
        first_lines = []
        for screen in pair.screens():
            screen()
            text = capsys.readouterr().out
            assert text
            first_lines.append(text.splitlines()[0])
            assert not CALM.search(text), text
        status, judge, incidents, *_ = first_lines
        titles = [each.title.split()[0] for each in site_troubles(standing_of(store, pair.place))]
        assert {line.split()[0].lower() for line in (status, judge, incidents)} == {
            titles[0].lower()
        }


def test_what_is_well_is_called_so(store: Store, healthy: CheckResult) -> None:
    """The lines would be of no use if they never said it."""
    lines = dict(Pair(store, ("calm", "calm")).first_lines(healthy))
    assert lines["judge, Overview"].startswith(
        "No lasting level change, no open incident, no trouble on 2 targets. 2 series steady."
    )
    assert lines["check"].startswith("healthy: Healthy")
    assert lines["tune"] == "calm-calm: nothing to change."
    assert lines["targets"] == "calm-calm: No open incident, no trouble on 2 targets."
