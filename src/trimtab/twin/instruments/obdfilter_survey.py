"""Simulates obdfilter-survey: prints its summary and detail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np

from trimtab.measure.obdfilter_survey.commands import SurveySpec

_START_S: Final = 0.05
"""Assumed: time from before the threads start until the first byte, included in the survey's clock
but not in each target's."""
_FIRST_OBJECT: Final = 0x27
_FIRST_DEVICE: Final = 49


@dataclass(frozen=True, slots=True)
class SurveyCommand:
    """A command of the survey.

    Attributes
    ----------
    targets
        Lustre's full names, prefixed with host and colon for other hosts.
    """

    spec: SurveySpec
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SurveyResult:
    """The rates of each target.

    Attributes
    ----------
    rates_bytes_per_s
        Test to one rate per target, in order. NaN: ``lctl`` printed an error.
    zone
        Abbreviation as printed by ``date``.
    """

    began: datetime
    rates_bytes_per_s: Mapping[str, np.ndarray]
    host: str = "oss0000"
    zone: str = "UTC"


def print_survey(command: SurveyCommand, result: SurveyResult) -> tuple[bytes, bytes, bytes]:
    """Return a survey's output, summary and detail.

    Raises
    ------
    ValueError
        A test is missing or has another number of rates than there are targets: a bug.
    """
    spec, count = command.spec, len(command.targets)
    for test in spec.tests:
        if len(result.rates_bytes_per_s[test]) != count:
            raise ValueError(f"{test} has not one rate for each target")
    shape = (
        f"ost {count:2d} sz {spec.size_bytes * count // 1024:8d}K"
        f" rsz {spec.record_bytes // 1024:4d}K obj {spec.objects * count:4d}"
        f" thr {spec.threads * count:4d} "
    )
    moment, _, year = result.began.ctime().rpartition(" ")
    title = f"{moment} {result.zone} {year} Obdfilter-survey for case=disk from {result.host}"
    parts = [_part(spec, test, result.rates_bytes_per_s[test]) for test in spec.tests]
    summary = f"{title}\n{shape}{' '.join(parts)} \n"
    printed = f"using LCTL='lctl' lustre_root='' LUSTRE=''\n{summary}done!\n"
    return printed.encode(), summary.encode(), _detail(command, result, shape).encode()


def seconds_of(elapsed_s: float) -> int:
    """Return the number of whole seconds of a target, without the first and last."""
    return max(0, int(elapsed_s) - 1)


def _part(spec: SurveySpec, test: str, rates: np.ndarray) -> str:
    """Return one test of a summary: all bytes over the time of the slowest, and the extremes."""
    known = rates[np.isfinite(rates) & (rates > 0)]
    slowest_s = spec.size_bytes / known.min() if known.size else 0.0
    figure = spec.size_bytes * len(rates) / (slowest_s + _START_S) / 2**20 if known.size else 0.0
    if known.size < len(rates):
        return f"{test} {figure:7.2f} {'ERROR':>17}"
    if seconds_of(spec.size_bytes / known.max()) == 0:
        return f"{test} {figure:7.2f} {'SHORT':>17}"
    # Round the detail's figures first: the summary is computed from its lines.
    low, high = (round(rate / spec.record_bytes, 6) for rate in (known.min(), known.max()))
    scale = spec.record_bytes / 2**20
    return f"{test} {figure:7.2f} [{low * scale:7.2f}, {high * scale:7.2f}]"


def _detail(command: SurveyCommand, result: SurveyResult, shape: str) -> str:
    spec = command.spec
    clients = [name if ":" in name else f"localhost:{name}" for name in command.targets]
    parts = [f"=======================> {shape}\n"]
    created = "".join(
        f"create: #{number + 1} is object id 0x{_FIRST_OBJECT + number:x}\n"
        for number in range(spec.objects)
    )
    for client in clients:
        parts.append(
            f"=============> Create {spec.objects} on {client}_ecc\n"
            f"create: {spec.objects} objects\n{created}"
        )
    for test in spec.tests:
        rates = result.rates_bytes_per_s[test].tolist()
        parts += [
            _of_target(spec, test, client, place, rate)
            for place, (client, rate) in enumerate(zip(clients, rates, strict=True))
        ]
        parts.append(f"=============> {test} global\n")
        parts += [_global(spec, rate) for rate in rates]
    for client in clients:
        parts.append(f"=============> Destroy {spec.objects} on {client}_ecc\n")
        parts.append(f"destroy: {spec.objects} objects\n{created.replace('create', 'destroy')}")
    return "".join(parts)


def _of_target(spec: SurveySpec, test: str, client: str, place: int, rate: float) -> str:
    records, device = spec.size_bytes // spec.record_bytes, _FIRST_DEVICE + place
    pages = spec.record_bytes // 4096
    letter = "r" if test == "read" else "w"
    head = (
        f"=============> {test} {client}_ecc\nPrint status every 1 seconds\n"
        f"--threads: starting {spec.threads} threads on device {device} running test_brw"
        f" {records // spec.threads} {letter}x q {pages}"
        f" {spec.objects}t{_FIRST_OBJECT + spec.objects - 1} p{pages}\n"
    )
    if not (np.isfinite(rate) and rate > 0):
        return f"{head}error: test_brw: #1 - Connection timed out on {test}\n"
    elapsed_s = spec.size_bytes / rate
    second = f"{spec.threads}/{spec.threads} Total: {rate / spec.record_bytes:.6f}/second\n"
    return (
        f"{head}{second * seconds_of(elapsed_s)}"
        f"Total: total {records} threads {spec.threads} sec {elapsed_s:.6f}"
        f" {rate / spec.record_bytes:.6f}/second\n"
    )


def _global(spec: SurveySpec, rate: float) -> str:
    seconds = seconds_of(spec.size_bytes / rate) if np.isfinite(rate) and rate > 0 else 0
    shown = rate / spec.record_bytes if seconds else 0.0
    return f"{seconds} {shown:.6f} {shown:.6f}\n"
