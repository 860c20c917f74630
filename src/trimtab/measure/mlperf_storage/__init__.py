"""MLPerf Storage: how well a file system feeds simulated accelerators. v0.5 to v3.0.

One ``summary.json`` is one run, written by DLIO when it ended. ``MB`` and ``GB`` in it are MiB and
GiB: DLIO divides by 1024 (dlio_benchmark/utils/statscounter.py, ``end_run``; checked against
samples/s times record length in HPE's results). The rate of bytes is not measured apart: it is the
rate of samples times the record length of the configuration, so that is how it is taken for an
epoch too.

A run counts only if its accelerators were busy for a share of the time that the rules name: 90 %,
for CosmoFlow and DLRM 70 %, for RetinaNet 85 % (Submission_guidelines.md of v2, table 1;
configs/dlio/workload of v3.0, ``metric.au``). Below that the storage did not keep up at this number
of accelerators, and the rates are no result.

``mlperf_storage_report.json`` repeats the means of runs. It is read only where their
``summary.json`` do not lie beside it, so that nothing counts twice.
"""

from __future__ import annotations

from typing import Final

from trimtab.errors import DataError
from trimtab.measure.measurement import Measurement
from trimtab.measure.mlperf_storage.document import KIND, document_of
from trimtab.measure.mlperf_storage.report import read_report
from trimtab.measure.mlperf_storage.run import read_run
from trimtab.measure.plain import as_dict
from trimtab.measure.source import Format, Source


def read(source: Source) -> tuple[Measurement, ...]:
    """Return the run that a ``summary.json`` tells of, or those of a report.

    Of a run every epoch is a repetition: ``samples_rate``, ``accelerator_utilization`` (a
    fraction) and ``read_bandwidth``. Every checkpoint that was saved or loaded is one too:
    ``write_bandwidth``, ``read_bandwidth``, ``write_time`` and ``read_time``. Means that the
    summary gives are of statistic ``mean``.

    A report has one result for each run, named as there, with the means of its epochs, and
    ``overall``: the mean of the runs. It does not tell the utilization.

    Raises
    ------
    DataError
        It is not whole JSON, or neither of the two.
    """
    document = document_of(source)
    if as_dict(document.value.get("runs")):
        return read_report(document)
    if not isinstance(document.value.get("metric"), dict):
        raise DataError(
            "no metric and no run in this file of MLPerf Storage", code="no-result", line=1
        )
    return (read_run(source, document),)


_KEYS: Final = ('"num_accelerators"', '"num_files_train"', '"metric"')
_REPORT_KEYS: Final = ('"runs"', '"train_num_accelerators"', '"train_throughput_')


def _recognises(source: Source) -> bool:
    head = source.head
    return head.lstrip()[:1] == "{" and any(
        all(key in head for key in keys) for keys in (_KEYS, _REPORT_KEYS)
    )


def _companions(name: str) -> tuple[str, ...]:
    # configs/ is what v1.0 asked Hydra for, dlio_config/ what mlpstorage (v2) does.
    return (
        *("configs/hydra.yaml", "configs/config.yaml", "configs/overrides.yaml"),
        *("dlio_config/hydra.yaml", "dlio_config/config.yaml", "dlio_config/overrides.yaml"),
        *("per_epoch_stats.json", "0_per_epoch_stats.json"),
    )


def _instead(name: str) -> tuple[str, ...]:
    """Return where the first run may lie that a report repeats: of a directory its runs count.

    The benchmark's rules have ``run-1``; submitters named it otherwise, too.
    """
    if name != "mlperf_storage_report.json":
        return ()
    return tuple(
        f"{above}run{between}1/summary.json"
        for above in ("", "runs/", "results/")
        for between in ("-", "_", "")
    )


FORMAT: Final = Format(KIND, _recognises, read, companions=_companions, instead=_instead)
