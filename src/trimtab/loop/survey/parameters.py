"""What is kept of a survey on the servers beside its figures. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from trimtab.measure.obdfilter_survey.commands import SurveySpec
from trimtab.model.run import Sample

_WRITES: Final = frozenset({"write_bandwidth", "rewrite_bandwidth"})
_READS: Final = frozenset({"read_bandwidth"})


def asked_of(spec: SurveySpec, *, together: bool) -> Mapping[str, object]:
    """Return what was asked of each target: surveys that differ in it are never compared.

    ``together`` stands in it only where it is so: targets of one server that are measured at the
    same time take its network and its processors from one another, which is no regression.
    """
    asked: dict[str, object] = {
        "case": "disk",
        "size_bytes": spec.size_bytes,
        "transfer_size_bytes": spec.record_bytes,
        "objects_per_target": spec.objects,
        "threads_per_target": spec.threads,
        "tests": list(spec.tests),
    }
    return asked | {"together": True} if together else asked


def cost_of(
    spec: SurveySpec, samples: Iterable[Sample], *, begun: bool
) -> Mapping[str, int | None]:
    """Return the bytes that a survey moved: of each target, the whole size in every ended test.

    A test that was cut short moved more than nothing, nobody knows how much. So it is a lower
    bound where a survey did not end, and ``None`` where one had ``begun`` and no test ended.
    """
    ended = [
        sample.metric
        for sample in samples
        if sample.target is not None and sample.statistic == "total" and sample.value is not None
    ]
    unknown = None if begun else 0

    def moved(metrics: frozenset[str]) -> int | None:
        return sum(metric in metrics for metric in ended) * spec.size_bytes or unknown

    return {"bytes_written": moved(_WRITES), "bytes_read": moved(_READS)}
