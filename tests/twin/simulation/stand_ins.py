"""A layout and ceilings that are formulas, so that what the engine adds is worked out by hand."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from trimtab.twin.scenario import Scenario
from trimtab.twin.simulation.engine import Simulation
from trimtab.twin.simulation.job import JobResult
from trimtab.twin.simulation.ost_array import OstRates
from trimtab.twin.simulation.ost_rate import StackRates


class SlowLayout:
    """OSTs that know how much is used and how much drives hold, and nothing of where.

    Copies follow from the part that drives hold valid: each unit written costs live**4 more.
    """

    UNITS = 32768

    def __init__(self, columns: int) -> None:
        self.ost = [self._empty() for _ in range(columns)]
        self.calls: list[tuple] = []

    def _empty(self) -> dict[str, float]:
        names = ("used", "live", "written_units", "copied_units", "requests", "considered_c1")
        return dict.fromkeys((*names, "useless_c1", "free_run_units"), 0.0) | {"discard": False}

    def fill(self, fractions: Sequence[float]) -> None:
        for ost, fraction in zip(self.ost, fractions, strict=True):
            ost["used"] = fraction
            ost["live"] = 1.0

    def advance(self, written, deleted, purged, burst, burst_files, resets) -> None:
        self.calls.append((written, deleted, purged, burst, burst_files, resets))
        for at, ost in enumerate(self.ost):
            host = written[at] + burst[at]
            ost["used"] += written[at] - deleted[at] - purged[at]
            ost["live"] = min(1.0, max(ost["live"] + host * 0.5, ost["used"]))
            if ost["discard"]:
                ost["live"] = ost["used"]
            ost["written_units"] += host * self.UNITS
            ost["copied_units"] += host * self.UNITS * ost["live"] ** 4
            ost["requests"] += host * self.UNITS / 16
            if ost["used"] > 0.75:
                ost["useless_c1"] += host * self.UNITS / 16 * 0.05
                ost["considered_c1"] += host * self.UNITS / 16 * 0.05 * 16
            ost["free_run_units"] = 16.0

    def trim(self, columns: Sequence[int]) -> list[float]:
        given = [self.ost[at]["live"] - self.ost[at]["used"] for at in columns]
        for at in columns:
            self.ost[at]["live"] = self.ost[at]["used"]
        return given

    def reset(self, columns: Sequence[int]) -> None:
        self.calls.append(("reset", list(columns)))

    def configure(self, columns, *, enter=None, discard=None, family=None) -> None:
        for at in columns:
            if discard is not None:
                self.ost[at]["discard"] = discard

    def add(self, columns: int) -> None:
        self.ost += [self._empty() for _ in range(columns)]

    def figures(self, names: Sequence[str]) -> bytes:
        return np.array([[float(ost.get(name, 0)) for ost in self.ost] for name in names]).tobytes()


class NoLayout:
    """Nothing beneath the flow of bytes: for what hangs on placement and policies alone."""

    def __init__(self, columns: int) -> None:
        self._columns = columns

    def fill(self, fractions: Sequence[float]) -> None:
        assert len(fractions) == self._columns

    def advance(self, **_amounts: object) -> None:
        pass

    def trim(self, columns: Sequence[int]) -> list[float]:
        return [0.0] * len(columns)

    def reset(self, columns: Sequence[int]) -> None:
        pass

    def configure(self, columns: Sequence[int], **_settings: object) -> None:
        pass

    def add(self, columns: int) -> None:
        self._columns += columns

    def figures(self, names: Sequence[str]) -> bytes:
        return bytes(8 * self._columns * len(names))


def slow_layout(_scenario, columns, _threads) -> Any:
    return SlowLayout(columns)


class FirstOrder(StackRates):
    """Drives over amplification, a cap of the allocator, and a job as long as its slowest OST."""

    def osts(self, scenario, terms, *, from_clients) -> OstRates:
        raid, drive = scenario.osts.raid, scenario.osts.drive
        data = raid.data / (raid.data + raid.parity)
        factor = np.where(terms.conditions.rebuilding, 0.7, terms.conditions.drive_factor)
        factor = np.where(terms.conditions.silent, 0.0, factor)
        drives = raid.drives * drive.write_bytes_per_s * data * factor / terms.amplification
        cores = terms.walks_per_request * 0.1
        write = np.minimum(drives, scenario.server.cores / (4e-4 + cores) * 2**20)
        return OstRates(write, raid.drives * drive.read_bytes_per_s * factor)

    def survey(self, rates, competing):
        return np.maximum(rates.write - competing.write, rates.write / 4), rates.read

    def job(self, scenario, probe, rates, competing, ost_of_task, *, client_share) -> JobResult:
        each = probe.bytes_written / len(ost_of_task)
        files = np.bincount(ost_of_task, minlength=len(rates.write))
        share = np.maximum(rates.write - competing.write, rates.write / 4)
        of_node = 20e9 * client_share[0]
        task_rate = np.minimum(share / np.maximum(files, 1), of_node / probe.tasks_per_node)
        with np.errstate(divide="ignore"):
            seconds = np.where(files > 0, each / task_rate, 0.0)
        write_s, read_s = float(seconds.max()), float(seconds.max() / 2)
        write, read = probe.bytes_written / write_s, probe.bytes_written / read_s
        of_file = np.where(files > 0, task_rate, 0.0)
        last = np.array([np.argmax(seconds)])
        return JobResult(write, read, write_s, read_s, of_file, 2 * of_file, last, "ost")


def quick(scenario: Scenario) -> Simulation:
    """Return a simulation on these stand-ins."""
    return Simulation(scenario, layout=slow_layout, rates=FirstOrder(), windows=unthrottled)


def unthrottled(scenario: Scenario, amplification: np.ndarray) -> np.ndarray:
    """Return 1: seconds take nothing of what amplification leaves."""
    return np.ones_like(amplification)
