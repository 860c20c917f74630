"""Plans a check: its options, and the probe's fixed parameters within its budget. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any

from trimtab.base.error import RefusedError, UsageError
from trimtab.base.plain import as_dict
from trimtab.base.run import ProbeSpec, Run
from trimtab.base.site import LIMITS, Site, SiteLimits
from trimtab.base.units import format_bytes

REPETITION_S = 5.0
"""Shortest credible repetition."""
OVERHEAD_S = 0.5
"""Planned time for starting, flushing and removing, outside the timed region."""
SPACE_LIMIT_BYTES = 64 * 1024**3
FREE_SHARE = 0.05
"""By default a probe takes the smaller of 64 GiB and 5 % of the free space."""
WRITTEN_SHARE = 0.5
"""No write begins that would bring all of a probe to more than this part of the free space."""
KEEP_FACTOR = 4
"""Keep the last block size until four times as much would fit."""
FREE_SHARE_MAXIMUM = 0.9
"""A space budget that was asked for may not fill the file system."""


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """Settings requested for the probe; ``None`` leaves the choice to the plan."""

    benchmark: str = "auto"
    budget_s: float = 60.0
    space_bytes: int | None = None
    repetitions: int | None = None
    tasks: int | None = None
    transfer_size_bytes: int = 1024**2
    block_size_bytes: int | None = None
    direct: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions(CheckRequest):
    """Options of a check; see ``trimtab check --help``."""

    path: str
    store_url: str | None = None
    site: str | None = None
    report: str | None = None
    no_probe: bool = False
    timeout_s: float | None = None
    fullness_limit: float | None = None
    cov_goal: float | None = None
    allocator_statistics: bool = True

    @property
    def limits(self) -> SiteLimits:
        """Limits for the file system, with those that were requested."""
        requested = {"fullness": self.fullness_limit, "cov": self.cov_goal}
        return replace(LIMITS, **{k: v for k, v in requested.items() if v is not None})


def of_site(site: Site, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a check; the site file supplies those that were not given."""
    from_site = {
        "path": site.path,
        "site": options.get("site") or site.name,
        "store_url": options.get("store_url") or site.store.url,
    }
    for name, value in (("fullness_limit", site.limits.fullness), ("cov_goal", site.limits.cov)):
        from_site[name] = value if options.get(name) is None else options[name]
    return {**options, **from_site}


def plan_probe(
    request: CheckRequest,
    *,
    available_bytes: int,
    processors: int,
    earlier: Sequence[ProbeSpec] = (),
) -> ProbeSpec:
    """Return the probe that fits the budget.

    The block size is the largest power of two transfers that fits, unless that of the last run
    still does: free space moves from day to day, and only runs of one probe can be compared.

    Parameters
    ----------
    available_bytes
        Bytes free to users other than root.
    processors
        Processors of this host: two tasks each by default, at most 16.
    earlier
        Settings requested of earlier runs on this site, the latest first.

    Raises
    ------
    UsageError
        The sizes do not fit one another.
    RefusedError
        The file system has too little free space for any probe, or the probe would fill it.

    Examples
    --------
    >>> spec = plan_probe(CheckRequest(), available_bytes=100 * 1024**3, processors=2)
    >>> spec.tasks, spec.repetitions, spec.duration_s, spec.block_size_bytes // 1024**2
    (4, 5, 5.0, 1024)
    """
    space = _space(request, available_bytes)
    transfer = request.transfer_size_bytes
    if transfer <= 0 or (request.direct and transfer % 4096):
        raise UsageError(
            f"transfer size {transfer} is not aligned for O_DIRECT",
            code="transfer-size-unaligned",
            hint="use a multiple of 4096 bytes, or --buffered",
        )
    tasks = request.tasks or min(16, 2 * processors, max(1, space // transfer))
    if tasks < 1:
        raise UsageError("a probe needs at least one task", code="too-few-tasks")
    repetitions, duration_s = _times(request)
    return ProbeSpec(
        name="check",
        benchmark=request.benchmark,
        tasks=tasks,
        transfer_size_bytes=transfer,
        block_size_bytes=_block_size(request, space, tasks, earlier),
        repetitions=repetitions,
        duration_s=duration_s,
        direct=request.direct,
    )


def earlier_specs(runs: Iterable[Run]) -> list[ProbeSpec]:
    """Return the specifications of these runs of the probe, in their order.

    A specification of another version of Trimtab, with other fields, is skipped.
    """
    names = {field.name for field in fields(ProbeSpec)}
    specs = []
    for run in runs:
        recorded = as_dict(run.parameters.get("spec"))
        known = {name: value for name, value in recorded.items() if name in names}
        with suppress(TypeError):
            specs.append(ProbeSpec(repetitions=1, **known))
    return specs


def _space(request: CheckRequest, available_bytes: int) -> int:
    if request.space_bytes is None:
        space = min(SPACE_LIMIT_BYTES, int(available_bytes * FREE_SHARE))
    elif request.space_bytes > available_bytes * FREE_SHARE_MAXIMUM:
        raise RefusedError(
            f"a probe of {format_bytes(request.space_bytes)} would fill the file system: "
            f"{format_bytes(available_bytes)} are free",
            code="space-too-small",
            hint="give --space less than nine tenths of the free space",
        )
    else:
        space = request.space_bytes
    if space < request.transfer_size_bytes:
        raise RefusedError(
            f"too little free space to measure: {format_bytes(available_bytes)} are free, and a "
            f"probe takes at most {format_bytes(space)} of them",
            code="space-too-small",
            hint="free some space, or check without a probe: --no-probe",
        )
    return space


def _block_size(request: CheckRequest, space: int, tasks: int, earlier: Sequence[ProbeSpec]) -> int:
    transfer = request.transfer_size_bytes
    share = space // tasks
    if request.block_size_bytes is not None:
        if request.block_size_bytes % transfer:
            raise UsageError(
                "the block size is not a multiple of the transfer size", code="block-size-unaligned"
            )
        if request.block_size_bytes > share:
            raise UsageError(
                f"{tasks} tasks x {format_bytes(request.block_size_bytes)} exceed the "
                f"space budget of {format_bytes(space)}",
                code="space-budget-exceeded",
                hint="raise --space, or lower --block-size or --tasks",
            )
        return request.block_size_bytes
    transfers = share // transfer
    if transfers < 1:
        raise UsageError(
            f"{tasks} tasks x one transfer of {format_bytes(transfer)} exceed the space "
            f"budget of {format_bytes(space)}",
            code="space-budget-exceeded",
            hint="raise --space, or lower --tasks or --transfer-size",
        )
    largest = transfer * (1 << transfers.bit_length() - 1)
    for last in earlier:
        if _same_but_for_size(request, tasks, last):
            size = last.block_size_bytes
            return size if size <= share and size * KEEP_FACTOR >= largest else largest
    return largest


def _same_but_for_size(request: CheckRequest, tasks: int, earlier: ProbeSpec) -> bool:
    requested = (tasks, request.transfer_size_bytes, request.direct)
    return requested == (earlier.tasks, earlier.transfer_size_bytes, earlier.direct)


def _times(request: CheckRequest) -> tuple[int, float]:
    """Return how many repetitions fit the budget, and the seconds of each write and each read.

    A budget too small for the request gives shorter repetitions, which the verdict then does not
    believe: the figure is shown with the reason.
    """
    share = request.budget_s / (2 * (REPETITION_S + OVERHEAD_S))
    repetitions = request.repetitions or max(1, int(share))
    if repetitions < 1:
        raise UsageError("a probe needs at least one repetition", code="too-few-repetitions")
    possible = request.budget_s / (2 * repetitions) - OVERHEAD_S
    return repetitions, max(0.1, min(REPETITION_S, possible))
