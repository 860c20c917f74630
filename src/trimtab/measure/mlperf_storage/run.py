"""Reads one run: its ``summary.json``, and the configuration next to it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from trimtab.errors import DataError
from trimtab.measure.measurement import (
    Measurement,
    Notes,
    concluded,
    doubted,
    first_reason,
    missing,
)
from trimtab.measure.mlperf_storage.document import (
    KIND,
    Document,
    decimal,
    document_of,
    mean_reason,
    settings_of,
    whole,
)
from trimtab.measure.plain import as_dict, as_list, as_number, as_text, as_whole, present
from trimtab.measure.source import Source
from trimtab.message import Message
from trimtab.model.finding import Missing
from trimtab.model.run import Sample
from trimtab.units import GIB, MIB

_UTILIZATION_MINIMUM: Final = {"cosmoflow": 0.70, "dlrm": 0.70, "retinanet": 0.85}
_UTILIZATION_MINIMUM_DEFAULT: Final = 0.90
_CHECKPOINT_KEYS: Final = ("throughput", "duration")


def read_run(source: Source, document: Document) -> Measurement:
    """Return the run of a summary."""
    return _Run(source, document).measurement()


class _Run:
    """State while a summary is read."""

    def __init__(self, source: Source, document: Document) -> None:
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

    def _configuration(self, source: Source) -> dict[str, str]:
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


def _checkpoints(source: Source, warnings: list[str]) -> list[_Checkpoint]:
    """Return the checkpoints in the times of the epochs, in order."""
    for output, (name, content) in enumerate(source.beside.items(), start=1):
        if not name.endswith("per_epoch_stats.json"):
            continue
        try:
            document = document_of(Source(name, content), "times of epochs")
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
