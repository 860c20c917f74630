"""Makes worlds: plan, simulate with and without each fault, record, and compare."""

from __future__ import annotations

import sys
import zlib
from dataclasses import dataclass, replace
from datetime import timedelta

from tests.worlds.draft import Draft, Planned, with_
from tests.worlds.families import VARIANTS, Variant
from tests.worlds.instruments import measure, moved_by_probes, runs_of, survey, survey_rows
from tests.worlds.physics import speeds
from tests.worlds.site import Site, draw_site, stream, target
from tests.worlds.state import Line, State, base_state, settle
from tests.worlds.telemetry import Snapshots, bad_checksums, telemetry
from tests.worlds.truth import Recorded, noticed_by, told_by
from tests.worlds.world import Fault, LogEntry, World

MACHINES = frozenset({"journal", "policy", "purge"})


@dataclass(frozen=True, slots=True)
class Plan:
    """What a world is made of."""

    site: Site
    variant: Variant
    draft: Draft


def variant_of(family: str, seed: int) -> Variant:
    """Return the variant that a seed has: neighbouring seeds go through all of them."""
    variants = VARIANTS[family]
    return variants[seed % len(variants)]


def make_plan(family: str, seed: int) -> Plan:
    """Return site and faults of a world, before anything is simulated."""
    variant = variant_of(family, seed)
    site = draw_site(
        family, seed, days_least=variant.days_least, busy="plain" not in variant.wishes
    )
    rng = stream("wishes", family, seed)
    for wish in variant.wishes:
        site = with_(site, wish, rng)
    draft = Draft(site, family, variant.name)
    variant.plan(draft)
    return Plan(site, variant, draft)


def record(plan: Plan, without: frozenset[str] = frozenset()) -> Recorded:
    """Return everything measured, leaving out faults by name; the noise is always the same."""
    state = base_state(plan.site)
    for innocent in plan.draft.innocents:
        innocent(state)
    for fault in plan.draft.faults:
        if fault.name not in without:
            fault.apply(state)
    settle(state)
    measured = speeds(state)
    tables = measure(state, measured)
    return Recorded(
        state=state, tables=tables, surveys=survey(state, measured),
        telemetry=telemetry(state, measured, moved_by_probes(state, tables)), log=book(state),
    )  # fmt: skip


def make_world(family: str, seed: int) -> World:
    """Return the record of one site, and the truth."""
    return world_of(make_plan(family, seed))


def world_of(plan: Plan) -> World:
    """Return a plan simulated: the record, and the truth."""
    site, having = plan.site, record(plan)
    runs = runs_of(having.state, having.tables)
    return World(
        family=plan.draft.family, variant=plan.variant.name, seed=site.seed, begin=site.at(0),
        end=site.at(site.hours), every=timedelta(hours=site.main.every_h), site=site.facts(),
        runs=runs, surveys=survey_rows(site, having.surveys),
        snapshots=Snapshots(having.telemetry), events=[_entry(site, line) for line in having.log],
        truth=truth(plan, having), bad_checksums=bad_checksums(having.telemetry),
    )  # fmt: skip


def truth(plan: Plan, having: Recorded) -> list[Fault]:
    """Return every fault with what the record shows of it."""
    faults: list[Fault] = []
    lacking: dict[frozenset[str], Recorded] = {}
    for planned in plan.draft.faults:
        chain = chain_of(plan, planned)
        if chain not in lacking:
            lacking[chain] = record(plan, chain)
        faults.append(_fault(plan, planned, having, lacking[chain]))
    return faults


def chain_of(plan: Plan, planned: Planned) -> frozenset[str]:
    """Return the names of a fault, of what brought it about, and of what it brings about."""
    names = {planned.name}
    for _ in plan.draft.faults:
        for other in plan.draft.faults:
            if other.because_of in names:
                names.add(other.name)
            if other.name in names and other.because_of is not None:
                names.add(other.because_of)
    return frozenset(names)


def _fault(plan: Plan, planned: Planned, having: Recorded, lacking: Recorded) -> Fault:
    site = plan.site
    signs = told_by(planned, having, lacking)
    noticed, effect = noticed_by(planned, having, lacking)
    if planned.mechanism == "bad-checksums":  # nothing is slow: only the counter shows it
        noticed += signs
    roots = [other.mechanism for other in plan.draft.faults if other.name == planned.because_of]
    ends = planned.end is not None and planned.end < site.hours
    return Fault(
        name=planned.name, family=plan.draft.family, variant=plan.variant.name,
        cause=planned.mechanism if signs else None, mechanism=planned.mechanism,
        begin=site.at(planned.begin), end=site.at(planned.end or 0) if ends else None,
        targets=tuple(target(ost) for ost in planned.targets), accepted=planned.accepted,
        told_by=signs, noticed_by=noticed, effect=effect,
        because_of=roots[0] if roots else None,
    )  # fmt: skip


def book(state: State) -> list[Line]:
    """Return the log book as this site keeps it."""
    site = state.site
    people = [line for line in state.log if line.source not in MACHINES]
    only = people[stream("line", site.seed).integers(len(people))] if people else None
    lines = [_written(site, line) for line in state.log if _is_kept(site, line, only)]
    return sorted((line for line in lines if line.hour < site.hours), key=lambda line: line.hour)


def _is_kept(site: Site, line: Line, only: Line | None) -> bool:
    if line.sure or line.source in MACHINES:
        return line.sure or site.journal or line.source == "policy"
    if site.log_book == "unrelated":
        return line.of is None
    return line is only if site.log_book == "one-line" else site.log_book != "none"


def _written(site: Site, line: Line) -> Line:
    """Return a line at the hour at which the book has it."""
    if line.source in MACHINES:
        return line
    rng = stream("written", site.seed, line.detail, zlib.crc32(repr(line.hour).encode()))
    shift = line.lag_h
    if site.log_book == "late":
        shift += float(rng.uniform(1, 30))
    elif site.log_book == "wrong-hour":
        shift += float(rng.choice([-12, -2, -1, 1, 2, 12]))
    until = None if line.until is None else line.until + shift
    return replace(line, hour=max(line.hour + shift, 0.0), until=until)


def _entry(site: Site, line: Line) -> LogEntry:
    return LogEntry(
        kind=line.kind, at=site.at(line.hour),
        until=None if line.until is None else site.at(line.until),
        targets=[target(ost) for ost in line.targets], detail=line.detail, source=line.source,
    )  # fmt: skip


if __name__ == "__main__":
    for one_family in sys.argv[1:]:
        for number, _ in enumerate(VARIANTS[one_family]):
            print(one_family, make_world(one_family, number).truth)
