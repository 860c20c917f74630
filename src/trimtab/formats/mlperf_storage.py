"""MLPerf Storage, v0.5 to v3.0: how well a file system feeds simulated accelerators.

One ``summary.json`` is one run, written by DLIO at its end; the configuration next to it has its
settings. Its ``MB`` and ``GB`` are MiB and GiB: DLIO divides by 1024
(dlio_benchmark/utils/statscounter.py, ``end_run``; checked against samples/s times record length in
HPE's results). Bytes per second are not measured separately: they are the sample rate times the
configured record length, which is also how they are computed for an epoch here.

A run counts only if its accelerators were busy for the share of time in the rules: 90 %, for
CosmoFlow and DLRM 70 %, for RetinaNet 85 % (Submission_guidelines.md of v2, table 1;
configs/dlio/workload of v3.0, ``metric.au``). Below that the storage could not feed this number of
accelerators, and the rates are not a result.

``mlperf_storage_report.json`` repeats the means of runs. It is read only if their ``summary.json``
files are not next to it, so that nothing counts twice.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import Any, Final

from trimtab.base.error import DataError, Message
from trimtab.base.finding import Missing
from trimtab.base.plain import as_dict, as_list, as_number, as_text, as_whole, present, whole_of
from trimtab.base.run import RunStatus, Sample
from trimtab.base.units import GIB, MIB
from trimtab.formats.measurement import (
    Measurement,
    Notes,
    OutputFile,
    OutputFormat,
    concluded,
    doubted,
    first_reason,
    missing,
)

KIND: Final = "mlperf-storage"
# Means and rates have all digits of a double; the order of addition changes the last one.
_TOLERANCE: Final = 1e-9

_Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class MlperfDocument:
    """A JSON object with the line of each figure."""

    value: dict[str, Any]
    lines: dict[_Path, int]

    def number(self, *path: str) -> float | None:
        """Return the figure at a path, ``None`` if there is none."""
        return as_number(self._at(path))

    def numbers(self, *path: str) -> list[float | None]:
        """Return a list of figures, with ``None`` for other values."""
        return [as_number(number) for number in as_list(self._at(path))]

    def _at(self, path: Sequence[str]) -> object:
        return reduce(lambda value, key: as_dict(value).get(key), path, self.value)


def document_of(source: OutputFile, name: str = "a file of MLPerf Storage") -> MlperfDocument:
    """Return the object in a JSON file.

    Raises
    ------
    DataError
        It is cut, or not an object; with the line of the error.
    """
    try:
        value = json.loads(source.text)
    except json.JSONDecodeError as error:
        problem = f"{name} is cut or damaged: {error.msg}"
        raise DataError(problem, code="json-cut", line=error.lineno) from None
    except (ValueError, RecursionError):
        problem = f"this is not {name}: its JSON cannot be read"
        raise DataError(problem, code="not-this-format", line=1) from None
    if not isinstance(value, dict):
        raise DataError(
            f"this is not {name}: it is not a JSON object", code="not-this-format", line=1
        )
    return MlperfDocument(value, _lines(source.text))


_TOKEN: Final = re.compile(r'\n|[{}\[\],:]|"(?:[^"\\\n]|\\.)*"|[^\s{}\[\],:"]+')


# A summary has a few thousand; a much longer file is not one and not worth the time.
_TOKENS_MAXIMUM: Final = 500_000


def _lines(text: str) -> dict[_Path, int]:
    """Return the line of every value of a valid JSON text."""
    lines: dict[_Path, int] = {}
    path: list[str | int] = []
    line, key = 1, ""
    for token_match in itertools.islice(_TOKEN.finditer(text), _TOKENS_MAXIMUM):
        token = token_match[0]
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


def settings_of(text: str) -> dict[str, str]:
    """Return the scalars of a YAML file of nested mappings, keyed ``workload.dataset.format``.

    DLIO's configurations need no more; other values are omitted.
    """
    values: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in text.splitlines():
        match = re.fullmatch(r"( *)([\w-]+):(?: +(\S.*?))?\s*", line[:1000])
        if match is None:
            continue
        indent = len(match[1])
        while above and above[-1][0] >= indent:
            above.pop()
        above.append((indent, match[2]))
        if match[3] is not None:
            values[".".join(name for _, name in above)] = match[3].strip("'\"")
    return values


def decimal(value: object) -> float | None:
    """Parse a figure that may be quoted; ``None`` for other values."""
    if not isinstance(value, str):
        return as_number(value)
    match = re.fullmatch(r"[0-9]{1,18}(\.[0-9]{1,18})?", value)
    return None if match is None else float(value)


def whole(value: object) -> int | None:
    """Parse an integer that may be quoted; ``None`` for other values."""
    if isinstance(value, str):
        return whole_of(value)
    return as_whole(value)


def mean_reason(name: str, figures: Sequence[float | None], mean: float | None) -> str | None:
    """Return why figures contradict their mean."""
    known = [figure for figure in figures if figure is not None]
    if mean is None or len(known) < len(figures):
        return Message("figures-incomplete", f"a figure or the mean of {name} is missing")
    expected = sum(known) / len(known) if known else 0.0
    if math.isclose(expected, mean, rel_tol=_TOLERANCE):
        return None
    text = f"the mean of {name} is {mean:g}, but its figures give {expected:g}"
    return Message("figures-disagree", text)


def read_report(document: MlperfDocument) -> tuple[Measurement, ...]:
    """Return the runs of a report in the order of their names, then ``overall``."""
    runs = sorted(as_dict(document.value.get("runs")), key=_natural)
    problem = _report_problem(document, runs)
    measurements = [_reported(document, ("runs", name), problem) for name in runs]
    if as_dict(document.value.get("overall")):
        measurements.append(_reported(document, ("overall",), problem))
    return tuple(measurements)


def _reported(document: MlperfDocument, path: tuple[str, ...], problem: str | None) -> Measurement:
    """Return a report's figures for one run, or for all runs (then means of runs)."""
    overall = path == ("overall",)
    figures: dict[str, Any] = document.value
    for part in path:
        figures = as_dict(figures.get(part))
    middle = "_mean" if overall else ""
    samples: list[Sample] = []
    for metric, key, unit in (
        ("samples_rate", f"train_throughput{middle}_samples_per_second", 1.0),
        ("read_bandwidth", f"train_throughput{middle}_MB_per_second", MIB),
    ):
        value, reason = as_number(figures.get(key)), problem
        if value is None:
            reason = problem or Message("no-figure", "the report has no value here")
        rate, line = None if value is None else value * unit, document.lines.get((*path, key))
        repetition, statistic = (None, "mean") if overall else (0, "total")
        samples.append(Sample(metric, rate, repetition, None, statistic, 0, line, reason))
    keys = {"model": "model", "accelerator": "accelerator", "files": "num_files_train"}
    keys |= {"samples_per_file": "num_samples_per_file", "tasks": "train_num_accelerators"}
    requested = {name: figures.get(key) for name, key in keys.items()}
    requested["tasks"] = whole(requested["tasks"])
    failure = next((sample.reason for sample in samples if sample.reason), None)
    reason = "a report has the mean of each run; its epochs are in the summary.json of the run"
    return Measurement(
        kind=KIND,
        status=RunStatus.OK if failure is None else RunStatus.FAILED,
        problems=() if failure is None else (failure,),
        name=path[-1],
        layer="application",
        requested=present(requested),
        reported={"runs": len(as_dict(document.value.get("runs")))} if overall else {},
        samples=tuple(samples),
        missing=(missing("accelerator_utilization", "epochs-elsewhere", reason),),
    )


def _report_problem(document: MlperfDocument, runs: list[str]) -> str | None:
    """Return why a report contradicts itself: the overall figures must be the means of runs."""
    for unit in ("samples_per_second", "MB_per_second"):
        figures = [document.number("runs", name, f"train_throughput_{unit}") for name in runs]
        mean = document.number("overall", f"train_throughput_mean_{unit}")
        reason = mean_reason(unit, figures, mean)
        if reason is not None:
            return reason
    return None


def _natural(name: str) -> tuple[str, int]:
    match = re.fullmatch(r"(.*?)([0-9]{1,9})?", name, re.DOTALL)
    return (name, 0) if match is None else (match[1], int(match[2] or 0))


_UTILIZATION_MINIMUM: Final = {"cosmoflow": 0.70, "dlrm": 0.70, "retinanet": 0.85}
_UTILIZATION_MINIMUM_DEFAULT: Final = 0.90
_CHECKPOINT_KEYS: Final = ("throughput", "duration")


def read_run(source: OutputFile, document: MlperfDocument) -> Measurement:
    """Return the run of a summary."""
    return _MlperfRun(source, document).measurement()


class _MlperfRun:
    """State while a summary is read."""

    def __init__(self, source: OutputFile, document: MlperfDocument) -> None:
        self.document = document
        self.warnings, self.problems = Notes(), Notes()
        self.missing: list[Missing] = []
        self.configuration = self._configuration(source)
        self.record_bytes: float | None = None
        self.checkpoints = _checkpoints(source, self.warnings)

    def measurement(self) -> Measurement:
        """Return the run, with the status that follows from its figures."""
        samples = [*self._training(), *self._checkpointing()]
        began, ended = (_time(self.document.value.get(key)) for key in ("start", "end"))
        if ended is None:
            self.problems.add("end-unknown", "the summary does not show that the run ended")
        low = self._utilization_too_low()
        if low is not None:
            samples = [doubted(sample, low) for sample in samples]
        if not any(sample.believed for sample in samples):
            reason = first_reason(samples, "the file contains no figures")
            self.problems.insert(0, low or reason)
        self._note_caching()
        return concluded(
            KIND,
            samples,
            self.problems,
            None,
            layer="application",
            began=began,
            ended=ended,
            host=as_text(self.document.value.get("hostname")),
            requested=self._requested(),
            reported=self._reported(began, ended),
            warnings=self.warnings,
            missing=tuple(self.missing),
        )

    def _training(self) -> list[Sample]:
        rates = self.document.numbers("metric", "train_throughput_samples_per_second")
        if not rates:
            return []
        rate_mean = self.document.number("metric", "train_throughput_mean_samples_per_second")
        io_mean = self.document.number("metric", "train_io_mean_MB_per_second")
        reason = self._epochs_reason(rates) or mean_reason("samples/s", rates, rate_mean)
        key = "train_throughput_samples_per_second"
        samples = [*self._epochs("samples_rate", key, 1.0, reason)]
        mean_key = "train_throughput_mean_samples_per_second"
        samples += self._mean("samples_rate", mean_key, 1.0, reason)
        busy = self.document.numbers("metric", "train_au_percentage")
        busy_mean = self.document.number("metric", "train_au_mean_percentage")
        doubt = self._epochs_reason(busy) or mean_reason("utilization", busy, busy_mean)
        if max((share or 0.0 for share in busy), default=0.0) > 100.0:
            doubt = doubt or Message("figures-disagree", "a utilization is above 100 %")
        samples += self._epochs("accelerator_utilization", "train_au_percentage", 0.01, doubt)
        samples += self._mean("accelerator_utilization", "train_au_mean_percentage", 0.01, doubt)
        if rate_mean and io_mean:
            self.record_bytes = io_mean * MIB / rate_mean
            doubt = reason or self._record_reason()
            samples += self._epochs("read_bandwidth", key, self.record_bytes, doubt)
            samples += self._mean("read_bandwidth", "train_io_mean_MB_per_second", MIB, doubt)
        return samples

    def _epochs(self, metric: str, key: str, unit: float, reason: str | None) -> Iterator[Sample]:
        for epoch, value in enumerate(self.document.numbers("metric", key)):
            rate, line = None, self.document.lines.get(("metric", key, epoch))
            doubt = reason or Message("no-figure", "the summary has no value here")
            if value is not None:
                rate, doubt = value * unit, reason
            yield Sample(metric, rate, epoch, output=0, line=line, reason=doubt)

    def _mean(self, metric: str, key: str, unit: float, reason: str | None) -> list[Sample]:
        value = self.document.number("metric", key)
        line = self.document.lines.get(("metric", key))
        if value is None:
            return []
        return [Sample(metric, value * unit, statistic="mean", output=0, line=line, reason=reason)]

    def _checkpointing(self) -> list[Sample]:
        """Return every checkpoint in the file next to the summary, and the summary's means."""
        samples = [sample for checkpoint in self.checkpoints for sample in checkpoint.samples()]
        for verb, metric, time in (
            ("save", "write_bandwidth", "write_time"),
            ("load", "read_bandwidth", "read_time"),
        ):
            rates = [checkpoint.rate for checkpoint in self.checkpoints if checkpoint.verb == verb]
            key = f"{verb}_checkpoint_io_mean_GB_per_second"
            value = self.document.number("metric", key)
            reason = mean_reason("GB/s", rates, value) if rates else None
            samples = [
                doubted(sample, reason) if reason and sample.metric in (metric, time) else sample
                for sample in samples
            ]
            samples += self._mean(metric, key, GIB, reason)
            samples += self._mean(time, f"{verb}_checkpoint_duration_mean_seconds", 1.0, reason)
            if value is not None and not rates:
                text = "per_epoch_stats.json is not next to the summary"
                gap = missing(f"{verb} of each checkpoint", "companion-missing", text)
                self.missing.append(gap)
        return samples

    def _epochs_reason(self, figures: Sequence[float | None]) -> str | None:
        epochs = as_whole(self.document.value.get("epochs"))
        if epochs is not None and epochs != len(figures):
            text = f"the summary has {epochs} epochs but {len(figures)} figures"
            return Message("figures-disagree", text)
        return None

    def _configured_record_bytes(self) -> float | None:
        """Return bytes per sample from the configuration; the key has two names."""
        keys = ("workload.dataset.record_length_bytes", "workload.dataset.record_length")
        return next(filter(None, (decimal(self.configuration.get(key)) for key in keys)), None)

    def _record_reason(self) -> str | None:
        reported, computed = self._configured_record_bytes(), self.record_bytes
        if not reported or not computed or math.isclose(reported, computed, rel_tol=1e-6):
            return None
        text = f"bytes over samples give {computed:.2f} per sample, but the configuration has"
        return Message("figures-disagree", f"{text} {reported:.2f}")

    def _utilization_too_low(self) -> str | None:
        """Return why the run does not count, ``None`` if it does or is not a training run."""
        shares = self.document.numbers("metric", "train_au_percentage")
        mean = self.document.number("metric", "train_au_mean_percentage")
        if not shares and mean is None:
            return None
        minimum = self._minimum()
        if mean is not None and minimum is not None and mean < 100.0 * minimum:
            return Message(
                "utilization-too-low",
                f"accelerator utilization {mean:.1f} % is under the {100 * minimum:g} % that a run"
                " of MLPerf Storage needs to count: the storage does not feed this many"
                " accelerators",
            )
        expectation = as_dict(self.document.value["metric"]).get("train_au_meet_expectation")
        if expectation == "fail":
            text = "DLIO reports that accelerator utilization did not meet its expectation"
            return Message("utilization-too-low", text)
        if mean is None or expectation != "success":
            text = "the summary does not show that accelerator utilization was high enough"
            return Message("utilization-unknown", text)
        return None

    def _minimum(self) -> float | None:
        """Return the required utilization as a fraction; ``None`` for an unknown model."""
        configured = decimal(self.configuration.get("workload.metric.au"))
        if configured is not None and 0.0 < configured <= 1.0:
            return configured
        model = self._model()
        if model is None:
            return None
        return _UTILIZATION_MINIMUM.get(
            model.lower().partition("_")[0], _UTILIZATION_MINIMUM_DEFAULT
        )

    def _note_caching(self) -> None:
        if not self.document.numbers("metric", "train_throughput_samples_per_second"):
            return  # checkpoints are not epochs and are always rewritten
        flags = as_list(self.document.value.get("potential_caching"))
        cached = sum(1 for flag in flags if flag in (1, True))
        if cached:
            text = f"on {cached} of {len(flags)} hosts the data fits into memory: epochs after the"
            self.warnings.add("data-fits-memory", f"{text} first may have been read from there")

    def _configuration(self, source: OutputFile) -> dict[str, str]:
        """Return the configuration next to it, if it belongs to this run."""
        values: dict[str, str] = {}
        for name, content in source.beside.items():
            text = content.decode("utf-8-sig", "replace")
            if not name.endswith(".yaml"):
                continue
            if name.endswith("/config.yaml"):
                values |= settings_of(text)
            else:
                # A top-level list in overrides.yaml, nested in hydra.yaml.
                match = re.search(r"^ *- workload=(\w+)_(\w+)\s*$", text, re.MULTILINE)
                values |= {"accelerator": match[2], "override.model": match[1]} if match else {}
        for key in ("num_files_train", "num_samples_per_file"):
            reported = values.get(f"workload.dataset.{key}")
            actual = self.document.value.get(key)
            # Compare as numbers: v1.0 prints what DLIO counted, the configuration what was
            # requested.
            if reported is not None and decimal(reported) != as_number(actual):
                text = f"{key} is {reported} there but {actual} here; it is ignored"
                self.warnings.add(
                    "companion-of-another-run",
                    f"the configuration next to it belongs to another run: {text}",
                )
                return {}
        return values

    def _model(self) -> str | None:
        configuration = self.configuration
        for key in ("override.model", "workload.model", "workload.model.name"):
            if configuration.get(key):
                return configuration[key]
        return as_text(self.document.value.get("model"))  # until v0.5

    def _requested(self) -> dict[str, object]:
        """Return the parameters that must be equal for two runs to be comparable."""
        settings = self.configuration
        size = self.document.number("metric", "checkpoint_size_GB")
        record_bytes = self._configured_record_bytes() or self.record_bytes
        requested: dict[str, object | None] = {
            "model": self._model(),
            "accelerator": settings.get("accelerator"),
            "tasks": as_whole(self.document.value.get("num_accelerators")),
            "nodes": as_whole(self.document.value.get("num_hosts")),
            "files": as_whole(self.document.value.get("num_files_train")),
            "samples_per_file": as_whole(self.document.value.get("num_samples_per_file")),
            "format": settings.get("workload.dataset.format"),
            "batch_size": whole(settings.get("workload.reader.batch_size")),
            "read_threads": whole(settings.get("workload.reader.read_threads")),
            "epochs": as_whole(self.document.value.get("epochs")),
            "computation_time_s": decimal(settings.get("workload.train.computation_time")),
            "checkpoint_bytes": round(size * GIB) if size else None,
            "record_bytes": None if record_bytes is None else round(record_bytes, 2),
        }
        return present(requested)

    def _reported(self, began: datetime | None, ended: datetime | None) -> dict[str, object]:
        document = self.document
        size = as_number(document.value.get("data_size_per_host_GB"))
        reported: dict[str, object | None] = {
            "elapsed_s": (ended - began).total_seconds() if began and ended else None,
            "data_bytes_per_host": None if size is None else round(size * GIB),
            "utilization_minimum": self._minimum(),
            "data_loader": self.configuration.get("workload.reader.data_loader"),
        }
        return present(reported)


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    """One checkpoint saved or loaded: its rate in GiB/s and its time."""

    verb: str
    repetition: int
    rate: float | None
    elapsed_s: float | None
    output: int
    lines: tuple[int | None, ...]

    def samples(self) -> Iterator[Sample]:
        """Yield bandwidth and time."""
        access = "write" if self.verb == "save" else "read"
        figures = (None if self.rate is None else self.rate * GIB, self.elapsed_s)
        metrics = (f"{access}_bandwidth", f"{access}_time")
        for metric, value, line in zip(metrics, figures, self.lines, strict=True):
            reason = Message("no-figure", "DLIO reported no figure") if value is None else None
            yield Sample(metric, value, self.repetition, None, "total", self.output, line, reason)


def _checkpoints(source: OutputFile, warnings: list[str]) -> list[_Checkpoint]:
    """Return the checkpoints in the times of the epochs, in order."""
    for output, (name, content) in enumerate(source.beside.items(), start=1):
        if not name.endswith("per_epoch_stats.json"):
            continue
        try:
            document = document_of(OutputFile(name, content), "times of epochs")
        except DataError as error:
            warnings.append(Message("companion-unreadable", f"{name} is ignored: {error.message}"))
            continue
        checkpoints: list[_Checkpoint] = []
        count = {"save": 0, "load": 0}
        for epoch, steps in document.value.items():
            for step, figures in as_dict(steps).items():
                verb = step[:4]
                if not re.match(r"(save|load)_ckpt", step):
                    continue
                # Times are strings in some versions, numbers in others.
                rate, time_s = (decimal(as_dict(figures).get(key)) for key in _CHECKPOINT_KEYS)
                lines = tuple(document.lines.get((epoch, step, key)) for key in _CHECKPOINT_KEYS)
                checkpoint = _Checkpoint(verb, count[verb], rate, time_s, output, lines)
                checkpoints.append(checkpoint)
                count[verb] += 1
        return checkpoints
    return []


def _time(value: object) -> datetime | None:
    """Return a naive time: DLIO's ``utcnow`` is the machine's local time."""
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def read(source: OutputFile) -> tuple[Measurement, ...]:
    """Return the run of a ``summary.json``, or the runs of a report.

    Every epoch of a run is a repetition: ``samples_rate``, ``accelerator_utilization`` (a
    fraction) and ``read_bandwidth``. Every checkpoint saved or loaded is a repetition too:
    ``write_bandwidth``, ``read_bandwidth``, ``write_time`` and ``read_time``. The summary's means
    have the statistic ``mean``.

    A report has one result for each run, under its name, with the means of its epochs, and
    ``overall``, the mean of the runs. It has no utilization.

    Raises
    ------
    DataError
        It is not complete JSON, or neither of the two.
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


def _recognises(source: OutputFile) -> bool:
    head = source.head
    return head.lstrip()[:1] == "{" and any(
        all(key in head for key in keys) for keys in (_KEYS, _REPORT_KEYS)
    )


def _companions(name: str) -> tuple[str, ...]:
    # configs/ is Hydra's output directory in v1.0, dlio_config/ in mlpstorage (v2).
    return (
        *("configs/hydra.yaml", "configs/config.yaml", "configs/overrides.yaml"),
        *("dlio_config/hydra.yaml", "dlio_config/config.yaml", "dlio_config/overrides.yaml"),
        *("per_epoch_stats.json", "0_per_epoch_stats.json"),
    )


def _instead(name: str) -> tuple[str, ...]:
    """Return where a report's first run may be: then the runs of the directory count.

    The benchmark's rules say ``run-1``; submitters also used other names.
    """
    if name != "mlperf_storage_report.json":
        return ()
    return tuple(
        f"{above}run{between}1/summary.json"
        for above in ("", "runs/", "results/")
        for between in ("-", "_", "")
    )


FORMAT: Final = OutputFormat(KIND, _recognises, read, companions=_companions, instead=_instead)
