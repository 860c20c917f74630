"""Prepares a survey from a request, carries it out, and keeps its run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from trimtab.base.error import RefusedError, ToolError, UsageError
from trimtab.base.interruption import shielded
from trimtab.base.run import ProbeSpec
from trimtab.base.site import Site
from trimtab.formats.format_table import pinnable
from trimtab.formats.obdfilter_survey import SurveySpec
from trimtab.probe import client_survey, server_survey
from trimtab.probe.client_survey import Here
from trimtab.probe.echo_device import Pause, RunEach, run_each
from trimtab.probe.probe import Progress
from trimtab.probe.server_survey import LOOK_S, OnServers, look_twice
from trimtab.probe.survey_plan import (
    LOAD_LIMIT_BYTES_PER_S,
    Survey,
    Surveyed,
    SurveyLimits,
    SurveyOutcome,
    SurveyPlan,
    Way,
    candidate,
    choose,
    refuse_named,
    standings,
    waves,
)
from trimtab.probe.write_read import ProbeTool
from trimtab.probe.write_read import choose as choose_instrument
from trimtab.reach.lustre.lustre_client import lustre_name
from trimtab.site.lookup import know_site
from trimtab.site.path_access import THIS_HOST, Reach

if TYPE_CHECKING:
    from trimtab.reach.driver_protocol import Driver
    from trimtab.store.store import Store

CLIENT_BYTES: Final = 4 * 2**30
SERVER_BYTES: Final = 16 * 2**30
"""Default of the script itself: more than a server's cache hides."""
_SLOWEST_BYTES_PER_S: Final = 50e6
_START_S: Final = 120.0
_POSITIVE: Final = (
    "size_bytes",
    "objects",
    "threads",
    "deadline_s",
    "tasks",
    "duration_s",
    "repetitions",
)


@dataclass(frozen=True, slots=True)
class SurveyRequest:
    """Options of a survey.

    Attributes
    ----------
    everything
        All OSTs; those that are refused are left out. A named OST that is refused ends the survey.
    size_bytes
        Bytes per target; ``None``: the default of the way.
    deadline_s
        Deadline for one wave on the servers; ``None``: the time a target of 50 MB/s would take.
    """

    way: Way
    targets: tuple[str, ...] = ()
    everything: bool = False
    together: bool = False
    size_bytes: int | None = None
    objects: int = 1
    threads: int = 16
    load_bytes_per_s: float | None = LOAD_LIMIT_BYTES_PER_S
    deadline_s: float | None = None
    benchmark: str = "builtin"
    tasks: int = 4
    duration_s: float = 10.0
    repetitions: int = 1
    direct: bool = True

    def __post_init__(self) -> None:
        """Refuse invalid numbers.

        Raises
        ------
        UsageError
            A number is zero or below, or a deadline under a second.
        """
        for name in _POSITIVE:
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UsageError(
                    f"{name} is {value:g}: it must be greater than 0", code="option-invalid"
                )
        if self.deadline_s is not None and self.deadline_s < 1:
            # timeout(1) takes whole seconds from here, and 0 for no deadline at all.
            raise UsageError(
                f"deadline_s is {self.deadline_s:g}: it must be at least 1 s", code="option-invalid"
            )
        if self.load_bytes_per_s is not None and not self.load_bytes_per_s >= 0:
            raise UsageError(
                f"load_bytes_per_s is {self.load_bytes_per_s:g}: it must be a rate of at least 0",
                code="option-invalid",
            )


@dataclass(frozen=True, slots=True)
class Tools:
    """Means by which a survey reaches the outside; tests supply their own.

    Attributes
    ----------
    run
        Runs commands on the servers; ``None``: as the site file says.
    """

    reach: Reach = THIS_HOST
    run: RunEach | None = None
    pause: Pause = time.sleep
    look_s: float = LOOK_S


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan, and the means to carry it out."""

    site: Site
    asked: SurveyRequest
    plan: SurveyPlan
    limits: SurveyLimits
    on_client: tuple[ProbeSpec, ProbeTool] | None = None
    on_servers: SurveySpec | None = None


def prepare(
    site: Site, driver: Driver, request: SurveyRequest, tools: Tools | None = None
) -> Prepared:
    """Return the plan of a survey; does nothing.

    Raises
    ------
    UsageError
        No OST is selected, or the parameters do not fit together.
    RefusedError
        A named target may not be surveyed, or none may.
    ToolError
        No benchmark can be used.
    """
    tools = tools or Tools()
    on_server = request.way == "server"
    if on_server and not site.servers.names:
        raise UsageError(
            f"{site.name} names no servers",
            code="no-servers",
            hint="add [servers] to its site file",
        )
    size_bytes = request.size_bytes
    if size_bytes is None:
        size_bytes = SERVER_BYTES if on_server else CLIENT_BYTES
    limits = SurveyLimits(size_bytes, request.load_bytes_per_s)
    on_client = None if on_server else _on_client(request, size_bytes, tools.reach)
    on_servers = None
    if on_server:
        on_servers = SurveySpec(size_bytes, request.objects, request.threads)
    plan = _plan(site, driver, request, limits, tools)
    if on_client is not None:
        plan = replace(plan, steps=client_survey.steps_of(*on_client, site))
    elif on_servers is not None:
        plan = replace(plan, steps=server_survey.steps_of(on_servers, limits))
    return Prepared(site, request, plan, limits, on_client, on_servers)


def carry_out(
    prepared: Prepared,
    driver: Driver,
    store: Store,
    *,
    progress: Progress,
    tools: Tools | None = None,
) -> Survey:
    """Carry out a plan and return its outcome; the run is stored before anything is raised.

    Raises
    ------
    Interrupted
        A user or the system stopped it; the measurements so far are stored.
    RefusedError
        Another file system is mounted at the site's path.
    """
    tools = tools or Tools()
    site, plan = prepared.site, prepared.plan
    identity = know_site(store, site)
    if prepared.on_client is not None:
        here = Here(site, identity, driver.clock, tools.reach)
        surveyed = client_survey.survey_from_client(
            plan, *prepared.on_client, here, progress=progress
        )
    else:
        surveyed = _on_servers(prepared, driver, store, progress, tools)
    with shielded():
        store.add_run(surveyed.run)
    if surveyed.interrupted is not None:
        raise surveyed.interrupted
    return Survey(plan, surveyed.run, *standings(surveyed.run, surveyed.results), surveyed.notes)


def error_of(survey: Survey) -> ToolError | RefusedError | None:
    """Return why a survey is incomplete, ``None`` if it is complete.

    Targets that ``--all`` left out from the start were reported before and are no error.
    """
    left_out = {planned.target for planned in survey.plan.refused}
    results = [
        standing.result for standing in survey.standings if standing.result.target not in left_out
    ]
    wrong = [result for result in results if result.reason is not None]
    if not wrong:
        return None
    reasons = "; ".join(f"{result.target}: {result.reason}" for result in wrong[:8])
    refused = all(result.outcome is SurveyOutcome.REFUSED for result in wrong)
    kind = RefusedError if refused else ToolError
    return kind(f"not every target was surveyed as planned: {reasons}", code="survey-incomplete")


def _on_client(
    request: SurveyRequest, size_bytes: int, reach: Reach
) -> tuple[ProbeSpec, ProbeTool]:
    if request.benchmark not in pinnable():
        raise UsageError(
            f"{request.benchmark} cannot write into files that are already placed on their targets",
            code="benchmark-unsuitable",
            hint=f"use {' or '.join(sorted(pinnable()))}",
        )
    spec = ProbeSpec(
        client_survey.PROBE_NAME,
        "auto",
        request.tasks,
        2**20,
        max(2**20, size_bytes // request.tasks // 2**20 * 2**20),
        request.repetitions,
        request.duration_s,
        request.direct,
        target_pinning=True,
    )
    return spec, choose_instrument(request.benchmark, reach)


def _plan(
    site: Site, driver: Driver, request: SurveyRequest, limits: SurveyLimits, tools: Tools
) -> SurveyPlan:
    on_server = request.way == "server"
    if on_server:
        before, now = look_twice(driver, tools.look_s, tools.pause)
    else:
        before = now = driver.snapshot(driver.clock())  # its load is not checked
    names = choose(
        now, request.targets, everything=request.everything or not (on_server or request.targets)
    )
    candidates = [candidate(name, before, now, limits, on_server=on_server) for name in names]
    if request.targets and not request.everything:
        refuse_named(planned for planned in candidates if not planned.closed)
    if all(planned.refusal is not None for planned in candidates):
        refuse_named(candidates)
    if on_server:
        in_waves = waves(candidates, together=request.together)
    else:  # each separately: two at once would share the client's network
        in_waves = tuple((planned,) for planned in candidates if planned.refusal is None)
    return SurveyPlan(
        site.name,
        request.way,
        in_waves,
        tuple(planned for planned in candidates if planned.refusal is not None),
        (),
        _parameters(request, limits),
    )


def _parameters(request: SurveyRequest, limits: SurveyLimits) -> Mapping[str, object]:
    if request.way == "client":
        return {
            "size_bytes": limits.size_bytes,
            "benchmark": request.benchmark,
            "tasks": request.tasks,
            "duration_s": request.duration_s,
            "repetitions": request.repetitions,
        }
    parameters: dict[str, object] = {
        "size_bytes": limits.size_bytes,
        "objects": request.objects,
        "threads": request.threads,
        "load_limit_bytes_per_s": limits.load_bytes_per_s,
        "deadline_s": _deadline(request, limits.size_bytes),
    }
    return parameters | {"together": True} if request.together else parameters


def _deadline(request: SurveyRequest, size_bytes: int) -> float:
    if request.deadline_s is not None:
        return request.deadline_s
    return _START_S + 3 * size_bytes / _SLOWEST_BYTES_PER_S


def _on_servers(
    prepared: Prepared, driver: Driver, store: Store, progress: Progress, tools: Tools
) -> Surveyed:
    site, request = prepared.site, prepared.asked
    assert prepared.on_servers is not None
    on = OnServers(
        site=site,
        file_system=lustre_name(site),
        driver=driver,
        run=tools.run or run_each(site.servers, execute=tools.reach.execute),
        journal=store.add_event,
        recall=lambda: store.events(site=site.name),
        limits=prepared.limits,
        deadline_s=_deadline(request, prepared.limits.size_bytes),
        together=request.together,
        look_s=tools.look_s,
        pause=tools.pause,
    )
    return server_survey.ServerSurvey(prepared.plan, prepared.on_servers, on).carry_out(progress)
