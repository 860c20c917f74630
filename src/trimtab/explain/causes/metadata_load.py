"""`metadata-load`: the metadata servers are busier than usual.

It affects file creation and removal, and the opens and closes of a file-per-task probe; it hardly
affects streaming.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import polars as pl

from trimtab.base.incident import Evidence, Route
from trimtab.base.run import METRIC_UNITS
from trimtab.base.units import format_percent
from trimtab.explain.causes.evidence import UNSEEN, with_circumstance
from trimtab.explain.causes.run_evidence import ratios, typical
from trimtab.explain.context import Cause, Context
from trimtab.explain.contrast import Sign, in_time
from trimtab.explain.telemetry_frame import MDTS, SERVERS, observe

_OPERATIONS: Final = "metadata_operations_total"
_CPU: Final = "server_cpu_fraction"
_MORE: Final = 1.5
"""One and a half times; users' operations vary by that much between day and night."""
_FOLDS: Final = ("sum", "max")
_BUSIER: Final = 0.15
"""Share of an MDS's CPUs."""
_RATES: Final = tuple(
    name for name in METRIC_UNITS if name.startswith(("file_", "directory_", "tree_"))
)
_BANDWIDTHS: Final = ("write_bandwidth", "read_bandwidth")
_APART: Final = 0.1
_FELL: Final = 0.9


def assess(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against load on the metadata servers."""
    seen = (_operations(context), _cpu(context), _rates(context))
    return with_circumstance(seen, _metric(context))


def _operations(context: Context) -> Evidence:
    seen = observe(context)
    subject = "metadata operations per second"
    sign = Sign("metadata-operations", Route.TIME, subject, source=_OPERATIONS, unit="1/s")
    rates = seen.rates(_OPERATIONS, kinds=MDTS)
    if rates.is_empty():
        return sign.not_available(seen.why_not(_OPERATIONS, kinds=MDTS))
    # Users' directories are spread over the MDTs by name: one may be loaded alone [S1, II].
    total, busiest = (in_time(rates, ratio=_MORE, absent=-1.2, over=over) for over in _FOLDS)
    return max(
        sign.of(total, f"{subject}, all MDTs"),
        sign.of(busiest, f"{subject}, the busiest MDT"),
        key=lambda ratio: (ratio.reason is None, ratio.weight),
    )


def _cpu(context: Context) -> Evidence:
    seen = observe(context)
    subject = "CPU of the busiest metadata server"
    sign = Sign("mds-cpu", Route.EXPECTED, subject, source=_CPU, unit="1")
    cpu = seen.values(_CPU, kinds=MDTS)
    if cpu.is_empty():
        cpu = _of_mds(context, seen.values(_CPU, kinds=SERVERS))
    if cpu.is_empty():
        return sign.not_available(seen.why_not(_CPU, kinds=(*MDTS, *SERVERS)))
    contrast = in_time(cpu, by=_BUSIER, ratio=1.2, absent=-0.7, over="max")
    if contrast.reason is not None:
        return sign.not_available(contrast.reason)
    # Another counter on another machine: it adds to the number of operations.
    return sign.counted(f"{subject}: {contrast.in_words('1')}", contrast.weight, contrast)


def _of_mds(context: Context, machines: pl.DataFrame) -> pl.DataFrame:
    names = {server for target, server in context.home.items() if target.startswith("MDT")}
    return machines.filter(pl.col("target").is_in(sorted(names)))


def _rates(context: Context) -> Evidence:
    sign = Sign("metadata-rates", Route.RUNS, "metadata rates compared with bandwidth", unit="1")
    metadata, bandwidth = (typical(ratios(context, names)) for names in (_RATES, _BANDWIDTHS))
    if metadata is None:
        return sign.missing("no-metadata-probe", "no metadata probe ran in both good and bad hours")
    text = f"metadata rates at {format_percent(metadata, 0)} of their usual level"
    if bandwidth is not None:
        text += f", bandwidth at {format_percent(bandwidth, 0)}"
    held = 1.0 if bandwidth is None else bandwidth
    if metadata <= _FELL and metadata <= held - _APART:
        weight = 0.9
    elif metadata > _FELL:
        weight = -1.0
    else:
        weight = -0.2
    return sign.weighed(text, weight, value=metadata, reference=bandwidth)


def _metric(context: Context) -> Evidence:
    """Return whether the incident shows in metadata or in bandwidth."""
    sign = Sign("metric-of-incident", Route.EXPECTED)
    key = context.incident.key
    if key is None:
        return sign.weighed("the incident belongs to no single metric", 0.0)
    if key.metric in _RATES or key.metric == "metadata_time":
        weight = 0.0 if _any(context.incident.moved_with, _BANDWIDTHS) else 0.4
        return sign.weighed(f"the incident shows in {key.metric}", weight)
    weight = -0.2 if _any(context.incident.moved_with, ("file_", "directory_")) else -0.6
    return sign.weighed(f"the incident shows in {key.metric}", weight)


def _any(names: Iterable[str], words: Iterable[str]) -> bool:
    words = tuple(words)
    return any(word in name for name in names for word in words)


CAUSE: Final = Cause(
    id="metadata-load",
    title="load on the metadata servers",
    prior=UNSEEN,  # no case in [S1]: equal to the other unnamed causes
    assess=assess,
    signs=("metadata-operations",),
    measurement=(
        "Find the jobs (lctl get_param mdt.*.job_stats on each MDS) and run mdtest in directories "
        "of the busiest MDT and of a quiet one."
    ),
)
