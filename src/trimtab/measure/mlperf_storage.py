"""MLPerf Storage: how well a file system feeds simulated accelerators. v1.0 and v2.

One ``summary.json`` is one run, written by DLIO when it ended. ``MB`` and ``GB`` in it are MiB and
GiB: DLIO divides by 1024 (dlio_benchmark/utils/statscounter.py, ``end_run``; checked against
samples/s times record length in HPE's results). The rate of bytes is not measured apart: it is the
rate of samples times the record length of the configuration, so that is how it is taken for an
epoch too.

A run counts only if its accelerators were busy for a share of the time that the rules name (90 %,
for CosmoFlow 70 %: Submission_guidelines.md, table 1). Below that the storage did not keep up at
this number of accelerators, and the rates are no result.

``mlperf_storage_report.json`` repeats the means of runs. It is read only where their
``summary.json`` do not lie beside it, so that nothing counts twice.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from trimtab.errors import DataError
from trimtab.measure.measurement import Measurement
from trimtab.measure.plain import as_dict, as_list, as_number, as_whole
from trimtab.measure.source import Format, Source
from trimtab.model.finding import Missing
from trimtab.model.run import RunStatus, Sample

KIND: Final = "mlperf-storage"

_MIB: Final = 2**20
_GIB: Final = 2**30
_UTILIZATION_MINIMUM: Final = {"cosmoflow": 0.70}
_UTILIZATION_MINIMUM_DEFAULT: Final = 0.90
# Means and rates are printed with all digits of a double; adding in another order moves the last.
_TOLERANCE: Final = 1e-9

_CHECKPOINT_KEYS: Final = ("throughput", "duration")

_Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class _Document:
    """A JSON object with the line of each of its figures."""

    value: dict[str, Any]
    lines: dict[_Path, int]

    def number(self, *path: str) -> float | None:
        """Return the figure at a path, ``None`` where there is none."""
        value: Any = self.value
        for key in path:
            value = as_dict(value).get(key)
        return as_number(value)

    def numbers(self, *path: str) -> list[float | None]:
        """Return a list of figures, ``None`` for what is no figure."""
        value: Any = self.value
        for key in path:
            value = as_dict(value).get(key)
        return [as_number(one) for one in as_list(value)]


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
    document = _document(source)
    if as_dict(document.value.get("runs")):
        return _report(document)
    if not isinstance(document.value.get("metric"), dict):
        raise DataError("there is no metric and no run in this file of MLPerf Storage", line=1)
    return (_Run(source, document).measurement(),)


def _report(document: _Document) -> tuple[Measurement, ...]:
    runs = sorted(as_dict(document.value.get("runs")), key=_natural)
    problem = _report_problem(document, runs)
    found = [_reported(document, ("runs", name), problem) for name in runs]
    if as_dict(document.value.get("overall")):
        found.append(_reported(document, ("overall",), problem))
    return tuple(found)


_KEYS: Final = ('"num_accelerators"', '"num_hosts"', '"metric"')
_REPORT_KEYS: Final = ('"runs"', '"train_num_accelerators"', '"train_throughput_')


def _recognises(source: Source) -> bool:
    head = source.head
    return head.lstrip()[:1] == "{" and any(
        all(key in head for key in keys) for keys in (_KEYS, _REPORT_KEYS)
    )


def _companions(name: str) -> tuple[str, ...]:
    # configs/ is what v1.0 asked Hydra for, dlio_config/ what mlpstorage (v2) does.
    return (
        *("configs/config.yaml", "configs/overrides.yaml"),
        *("dlio_config/config.yaml", "dlio_config/overrides.yaml"),
        *("per_epoch_stats.json", "0_per_epoch_stats.json"),
    )


def _instead(name: str) -> str | None:
    """Return where the first run lies that a report repeats: of a directory its runs count."""
    return "run-1/summary.json" if name == "mlperf_storage_report.json" else None


FORMAT: Final = Format(KIND, _recognises, read, companions=_companions, instead=_instead)


class _Run:
    """One summary while it is read."""

    def __init__(self, source: Source, document: _Document) -> None:
        self.document = document
        self.warnings: list[str] = []
        self.problems: list[str] = []
        self.missing: list[Missing] = []
        self.configuration = self._configuration(source)
        self.record_bytes: float | None = None
        self.checkpoints = _checkpoints(source, self.warnings)

    def measurement(self) -> Measurement:
        """Return the run, with the status that its figures show."""
        samples = [*self._training(), *self._checkpointing()]
        began, ended = (_time(self.document.value.get(key)) for key in ("start", "end"))
        if ended is None:
            self.problems.append("the summary does not say that the run ended")
        believed = any(sample.believed for sample in samples)
        low = self._utilization_too_low()
        if low is not None:
            samples = [_doubted(sample, low) for sample in samples]
        status = RunStatus.OK
        if low is not None or not believed:
            status = RunStatus.FAILED
            reasons = [sample.reason for sample in samples if sample.reason]
            self.problems.insert(0, low or (reasons[0] if reasons else "it holds no figures"))
        elif self.problems:
            status = RunStatus.PARTIAL
        self._note_caching()
        return Measurement(
            kind=KIND,
            status=status,
            problem="; ".join(dict.fromkeys(self.problems)) or None,
            layer="application",
            began=began,
            ended=ended,
            host=_word(self.document.value.get("hostname")),
            asked=self._asked(),
            told=self._told(began, ended),
            samples=tuple(samples),
            warnings=tuple(dict.fromkeys(self.warnings)),
            missing=tuple(self.missing),
        )

    def _training(self) -> list[Sample]:
        rates = self.document.numbers("metric", "train_throughput_samples_per_second")
        if not rates:
            return []
        rate_mean = self.document.number("metric", "train_throughput_mean_samples_per_second")
        io_mean = self.document.number("metric", "train_io_mean_MB_per_second")
        reason = self._epochs_reason(rates) or _mean_reason("samples/s", rates, rate_mean)
        samples = self._epochs("samples_rate", "train_throughput_samples_per_second", 1.0, reason)
        samples += self._mean(
            "samples_rate", "train_throughput_mean_samples_per_second", 1.0, reason
        )
        busy = self.document.numbers("metric", "train_au_percentage")
        busy_mean = self.document.number("metric", "train_au_mean_percentage")
        doubt = self._epochs_reason(busy) or _mean_reason("utilization", busy, busy_mean)
        if max((share or 0.0 for share in busy), default=0.0) > 100.0:
            doubt = doubt or "a utilization is over 100 %"
        samples += self._epochs("accelerator_utilization", "train_au_percentage", 0.01, doubt)
        samples += self._mean("accelerator_utilization", "train_au_mean_percentage", 0.01, doubt)
        if rate_mean and io_mean:
            self.record_bytes = io_mean * _MIB / rate_mean
            doubt = reason or self._record_reason()
            key = "train_throughput_samples_per_second"
            samples += self._epochs("read_bandwidth", key, self.record_bytes, doubt)
            samples += self._mean("read_bandwidth", "train_io_mean_MB_per_second", _MIB, doubt)
        return samples

    def _epochs(self, metric: str, key: str, unit: float, reason: str | None) -> list[Sample]:
        return [
            Sample(
                metric=metric,
                value=None if value is None else value * unit,
                repetition=epoch,
                output=0,
                line=self.document.lines.get(("metric", key, epoch)),
                reason=reason or ("the summary has no figure here" if value is None else None),
            )
            for epoch, value in enumerate(self.document.numbers("metric", key))
        ]

    def _mean(self, metric: str, key: str, unit: float, reason: str | None) -> list[Sample]:
        value = self.document.number("metric", key)
        line = self.document.lines.get(("metric", key))
        if value is None:
            return []
        return [Sample(metric, value * unit, statistic="mean", output=0, line=line, reason=reason)]

    def _checkpointing(self) -> list[Sample]:
        """Return every checkpoint beside the summary, and the summary's means."""
        samples = [sample for one in self.checkpoints for sample in one.samples()]
        for verb, metric, time in (
            ("save", "write_bandwidth", "write_time"),
            ("load", "read_bandwidth", "read_time"),
        ):
            rates = [one.rate for one in self.checkpoints if one.verb == verb]
            key = f"{verb}_checkpoint_io_mean_GB_per_second"
            value = self.document.number("metric", key)
            reason = _mean_reason("GB/s", rates, value) if rates else None
            samples = [
                _doubted(sample, reason) if reason and sample.metric in (metric, time) else sample
                for sample in samples
            ]
            samples += self._mean(metric, key, _GIB, reason)
            samples += self._mean(time, f"{verb}_checkpoint_duration_mean_seconds", 1.0, reason)
            if value is not None and not rates:
                reason = "per_epoch_stats.json is not beside the summary"
                self.missing.append(Missing(f"{verb} of each checkpoint", reason))
        return samples

    def _epochs_reason(self, figures: Sequence[float | None]) -> str | None:
        epochs = as_whole(self.document.value.get("epochs"))
        if epochs is not None and epochs != len(figures):
            return f"the summary has {epochs} epochs and {len(figures)} figures"
        return None

    def _record_reason(self) -> str | None:
        told = _decimal(self.configuration.get("workload.dataset.record_length"))
        if told is None:
            told = _decimal(self.configuration.get("workload.dataset.record_length_bytes"))
        if told and self.record_bytes and not math.isclose(told, self.record_bytes, rel_tol=1e-6):
            return (
                f"bytes over samples are {self.record_bytes:.2f} a sample,"
                f" the configuration says {told:.2f}"
            )
        return None

    def _utilization_too_low(self) -> str | None:
        """Return why the run is no result, ``None`` where it is one or was no training."""
        shares = self.document.numbers("metric", "train_au_percentage")
        mean = self.document.number("metric", "train_au_mean_percentage")
        if not shares and mean is None:
            return None
        minimum = self._minimum()
        if mean is not None and minimum is not None and mean < 100.0 * minimum:
            return (
                f"accelerator utilization {mean:.1f} % is under the {100 * minimum:g} % that a run"
                " of MLPerf Storage needs to count: the storage does not feed this many"
                " accelerators"
            )
        said = as_dict(self.document.value["metric"]).get("train_au_meet_expectation")
        if said == "fail":
            return "DLIO says that accelerator utilization did not meet its expectation"
        if mean is None or said != "success":
            return "the summary does not show that accelerator utilization was high enough"
        return None

    def _minimum(self) -> float | None:
        """Return the least utilization, as a fraction; ``None`` where the model is not known."""
        own = _decimal(self.configuration.get("workload.metric.au"))
        if own is not None and 0.0 < own <= 1.0:
            return own
        model = self._model()
        if model is None:
            return None
        return _UTILIZATION_MINIMUM.get(model, _UTILIZATION_MINIMUM_DEFAULT)

    def _note_caching(self) -> None:
        flags = as_list(self.document.value.get("potential_caching"))
        cached = sum(1 for flag in flags if flag in (1, True))
        if cached:
            self.warnings.append(
                f"on {cached} of {len(flags)} hosts the data fits into memory: epochs after the"
                " first may have been read from there"
            )

    def _configuration(self, source: Source) -> dict[str, str]:
        """Return what the configuration beside it says, if it is of this run."""
        values: dict[str, str] = {}
        for name, content in source.beside.items():
            text = content.decode("utf-8-sig", "replace")
            if name.endswith("/config.yaml"):
                values |= _settings(text)
            elif name.endswith("/overrides.yaml"):
                found = re.search(r"^- workload=(\w+)_(\w+)\s*$", text, re.MULTILINE)
                values |= {"accelerator": found[2], "override.model": found[1]} if found else {}
        for key in ("num_files_train", "num_samples_per_file"):
            told = values.get(f"workload.dataset.{key}")
            own = self.document.value.get(key)
            # As numbers: v1.0 prints what DLIO counted, the configuration what was asked for.
            if told is not None and _decimal(told) != as_number(own):
                self.warnings.append(
                    f"the configuration beside it is of another run: {key} is {told} there,"
                    f" {own} here; it is not used"
                )
                return {}
        return values

    def _model(self) -> str | None:
        configuration = self.configuration
        for key in ("override.model", "workload.model", "workload.model.name"):
            if configuration.get(key):
                return configuration[key]
        return None

    def _asked(self) -> dict[str, object]:
        """Return the parameters: what must be equal for two runs to be comparable."""
        settings = self.configuration
        asked: dict[str, object | None] = {
            "model": self._model(),
            "accelerator": settings.get("accelerator"),
            "tasks": as_whole(self.document.value.get("num_accelerators")),
            "nodes": as_whole(self.document.value.get("num_hosts")),
            "files": as_whole(self.document.value.get("num_files_train")),
            "samples_per_file": as_whole(self.document.value.get("num_samples_per_file")),
            "format": settings.get("workload.dataset.format"),
            "batch_size": _whole(settings.get("workload.reader.batch_size")),
            "read_threads": _whole(settings.get("workload.reader.read_threads")),
            "epochs": as_whole(self.document.value.get("epochs")),
            "computation_time_s": _decimal(settings.get("workload.train.computation_time")),
        }
        size = self.document.number("metric", "checkpoint_size_GB")
        if size:
            asked["checkpoint_bytes"] = round(size * _GIB)
        if self.record_bytes is not None:
            asked["record_bytes"] = round(self.record_bytes, 2)
        return {key: value for key, value in asked.items() if value is not None}

    def _told(self, began: datetime | None, ended: datetime | None) -> dict[str, object]:
        document = self.document
        size = as_number(document.value.get("data_size_per_host_GB"))
        told: dict[str, object | None] = {
            "elapsed_s": (ended - began).total_seconds() if began and ended else None,
            "data_bytes_per_host": None if size is None else round(size * _GIB),
            "utilization_minimum": self._minimum(),
            "data_loader": self.configuration.get("workload.reader.data_loader"),
        }
        return {key: value for key, value in told.items() if value is not None}


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    """One checkpoint that was saved or loaded: its rate in GiB/s and its time."""

    verb: str
    repetition: int
    rate: float | None
    elapsed_s: float | None
    output: int
    lines: tuple[int | None, int | None]

    def samples(self) -> Iterator[Sample]:
        """Yield bandwidth and time."""
        access = "write" if self.verb == "save" else "read"
        figures = (None if self.rate is None else self.rate * _GIB, self.elapsed_s)
        metrics = (f"{access}_bandwidth", f"{access}_time")
        for metric, value, line in zip(metrics, figures, self.lines, strict=True):
            reason = "DLIO gave no figure" if value is None else None
            yield Sample(
                metric, value, self.repetition, output=self.output, line=line, reason=reason
            )


def _checkpoints(source: Source, warnings: list[str]) -> list[_Checkpoint]:
    """Return the checkpoints that the times of the epochs tell of, in their order."""
    for output, (name, content) in enumerate(source.beside.items(), start=1):
        if not name.endswith("per_epoch_stats.json"):
            continue
        try:
            document = _document(Source(name, content), "times of epochs")
        except DataError as error:
            warnings.append(f"{name} is not used: {error.message}")
            continue
        found: list[_Checkpoint] = []
        count = {"save": 0, "load": 0}
        for epoch, steps in document.value.items():
            for step, figures in as_dict(steps).items():
                verb = step[:4]
                if not re.match(r"(save|load)_ckpt", step):
                    continue
                # Times are text in some versions, numbers in others.
                values = tuple(_decimal(as_dict(figures).get(key)) for key in _CHECKPOINT_KEYS)
                lines = tuple(document.lines.get((epoch, step, key)) for key in _CHECKPOINT_KEYS)
                found.append(
                    _Checkpoint(
                        verb, count[verb], values[0], values[1], output, (lines[0], lines[1])
                    )
                )
                count[verb] += 1
        return found
    return []


def _reported(document: _Document, path: tuple[str, ...], problem: str | None) -> Measurement:
    """Return what a report says of one run, or of all: there the figures are means of runs."""
    overall = path == ("overall",)
    figures: dict[str, Any] = document.value
    for part in path:
        figures = as_dict(figures.get(part))
    middle = "_mean" if overall else ""
    samples: list[Sample] = []
    for metric, key, unit in (
        ("samples_rate", f"train_throughput{middle}_samples_per_second", 1.0),
        ("read_bandwidth", f"train_throughput{middle}_MB_per_second", _MIB),
    ):
        value = as_number(figures.get(key))
        reason = problem or ("the report has no figure here" if value is None else None)
        samples.append(
            Sample(
                metric=metric,
                value=None if value is None else value * unit,
                repetition=None if overall else 0,
                statistic="mean" if overall else "total",
                output=0,
                line=document.lines.get((*path, key)),
                reason=reason,
            )
        )
    keys = {"model": "model", "accelerator": "accelerator", "files": "num_files_train"}
    keys |= {"samples_per_file": "num_samples_per_file", "tasks": "train_num_accelerators"}
    asked = {name: figures.get(key) for name, key in keys.items()}
    asked["tasks"] = _whole(asked["tasks"])
    failure = next((sample.reason for sample in samples if sample.reason), None)
    reason = "a report has the mean of each run; its epochs are in the summary.json of the run"
    return Measurement(
        kind=KIND,
        status=RunStatus.OK if failure is None else RunStatus.FAILED,
        problem=failure,
        name=path[-1],
        layer="application",
        asked={key: value for key, value in asked.items() if value is not None},
        told={"runs": len(as_dict(document.value.get("runs")))} if overall else {},
        samples=tuple(samples),
        missing=(Missing("accelerator_utilization", reason),),
    )


def _report_problem(document: _Document, runs: list[str]) -> str | None:
    """Return why a report contradicts itself: the overall figures are the means of the runs'."""
    for unit in ("samples_per_second", "MB_per_second"):
        figures = [document.number("runs", name, f"train_throughput_{unit}") for name in runs]
        mean = document.number("overall", f"train_throughput_mean_{unit}")
        reason = _mean_reason(unit, figures, mean)
        if reason is not None:
            return reason
    return None


def _mean_reason(what: str, figures: Sequence[float | None], mean: float | None) -> str | None:
    known = [figure for figure in figures if figure is not None]
    if mean is None or len(known) < len(figures):
        return f"a figure or the mean of {what} is missing"
    own = sum(known) / len(known) if known else 0.0
    if math.isclose(own, mean, rel_tol=_TOLERANCE):
        return None
    return f"the mean of {what} is given as {mean:g}, the figures make {own:g}"


def _doubted(sample: Sample, reason: str) -> Sample:
    return replace(sample, reason=sample.reason or reason)


def _document(source: Source, what: str = "a file of MLPerf Storage") -> _Document:
    try:
        value = json.loads(source.text)
    except json.JSONDecodeError as error:
        raise DataError(
            f"this is not the whole of {what}: {error.msg}", line=error.lineno
        ) from None
    except (ValueError, RecursionError):
        raise DataError(f"this is not {what}: its JSON cannot be read", line=1) from None
    if not isinstance(value, dict):
        raise DataError(f"this is not {what}: it is no JSON object", line=1)
    return _Document(value, _lines(source.text))


_TOKEN: Final = re.compile(r'\n|[{}\[\],:]|"(?:[^"\\\n]|\\.)*"|[^\s{}\[\],:"]+')


def _lines(text: str) -> dict[_Path, int]:
    """Return the line of every value of a JSON text that is known to be right."""
    lines: dict[_Path, int] = {}
    path: list[str | int] = []
    line, key = 1, ""
    for found in _TOKEN.finditer(text):
        token = found[0]
        if token == "\n":
            line += 1
        elif token in "{[":
            lines.setdefault(tuple(path), line)
            path.append("" if token == "{" else 0)
        elif token in "}]":
            path.pop()
        elif token == ",":
            last = path[-1]
            path[-1] = last + 1 if isinstance(last, int) else ""
        elif token == ":":
            path[-1] = json.loads(key)
        else:
            key = token
            lines[tuple(path)] = line
    return lines


def _settings(text: str) -> dict[str, str]:
    """Return the scalars of a YAML file of nested mappings, keyed ``workload.dataset.format``.

    That is all that DLIO's configurations hold of interest; what is in another form is left out.
    """
    values: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in text.splitlines():
        found = re.fullmatch(r"( *)([\w-]+):(?: +(\S.*?))?\s*", line[:1000])
        if found is None:
            continue
        indent = len(found[1])
        while above and above[-1][0] >= indent:
            above.pop()
        above.append((indent, found[2]))
        if found[3] is not None:
            values[".".join(name for _, name in above)] = found[3].strip("'\"")
    return values


def _time(value: object) -> datetime | None:
    """Return the time, naive: DLIO's ``utcnow`` gives the local time of the machine."""
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _decimal(value: object) -> float | None:
    if not isinstance(value, str):
        return as_number(value)
    found = re.fullmatch(r"[0-9]{1,18}(\.[0-9]{1,18})?", value)
    return None if found is None else float(value)


def _whole(value: object) -> int | None:
    if isinstance(value, str):
        return int(value) if re.fullmatch(r"[0-9]{1,18}", value) else None
    return as_whole(value)


def _word(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _natural(name: str) -> tuple[str, int]:
    found = re.fullmatch(r"(.*?)([0-9]{1,9})?", name, re.DOTALL)
    return (name, 0) if found is None else (found[1], int(found[2] or 0))
