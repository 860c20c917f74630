"""What each controller does to nine months of Perlmutter on the twin: `make bench-controllers`.

The controllers are those that ship, with the values that NERSC came to (source S1). They decide
each simulated hour on a snapshot of the twin, with a ledger of what they did, and what they decide
is done to the simulation. What the operators did by hand in these months is left out, but for the
row ``as it was``. A column of the simulation, which stands for 17 OSTs, is one target to them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.measured import measured_on  # noqa: E402

from trimtab.act.decide.decision import CONTROLLERS, decided  # noqa: E402
from trimtab.act.decide.site_observed import SiteObserved  # noqa: E402
from trimtab.base.action import Action, ActionKind, Instruction, Outcome  # noqa: E402
from trimtab.base.error import Message  # noqa: E402
from trimtab.base.site import LIMITS, Site  # noqa: E402
from trimtab.base.site_policy import (  # noqa: E402
    AllocatorPolicy,
    Policies,
    TrimPolicy,
    TunablesPolicy,
    parse_window,
)
from trimtab.base.snapshot import Snapshot  # noqa: E402
from trimtab.base.verdict import HistoryPoint  # noqa: E402
from trimtab.judge.rolling import rolling  # noqa: E402
from trimtab.judge.series_frame import frame_of  # noqa: E402
from trimtab.twin.scenario import Scenario  # noqa: E402
from trimtab.twin.scenario_check import replace_keys  # noqa: E402
from trimtab.twin.scenario_file import load_scenario  # noqa: E402
from trimtab.twin.simulated_reading import readings  # noqa: E402
from trimtab.twin.simulated_site import site_layout_of, snapshot_of  # noqa: E402
from trimtab.twin.simulation.engine import Simulation  # noqa: E402
from trimtab.twin.twin_driver import scenario_values  # noqa: E402
from trimtab.twin.whatif.whatif_figure import (  # noqa: E402
    code_version,
    figures_of,
)
from trimtab.twin.whatif.whatif_sweep import seeds_interval  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "controllers_help.json"
CLASSES: Final = 16
VARIANTS: Final[dict[str, tuple[str, ...]]] = {
    "none": (),
    **{policy: (policy,) for policy in CONTROLLERS},
    "all": tuple(CONTROLLERS),
    "as it was": (),
}
BY_HAND: Final[dict[str, object]] = {
    "gating.enabled": False,
    "queue.writeback_throttling": True,
    "allocator.reset": "never",
    "allocator.c2": 0.15,
    "placement.qos_threshold_rr": 0.17,
    "placement.qos_prio_free": 0.91,
}
"""What the scenario's operators change on the way, and a controller would: as it was in July."""
SETTINGS: Final = {
    "wbt_lat_usec": "0",
    "mb_c2_threshold": "25",
    "lod/qos_threshold_rr": "5%",
    "lod/qos_prio_free": "100%",
}
EVERY_H: Final = {"tunables": 6, "allocator": 1, "trim": 1, "balance": 1}
WINDOW: Final = parse_window("01:00-05:00")
MONTH: Final = timedelta(days=30)
KEPT: Final = {
    ActionKind.RESET_ALLOCATOR: timedelta(hours=2),
    ActionKind.TRIM: timedelta(days=3),
}
"""So long the ledger keeps what is over soon: nothing rests on older ones."""


def site() -> Site:
    """Return the site: the defaults of the policies, with NERSC's values and nightly trims."""
    return Site(
        name="perlmutter",
        driver="twin",
        path="/perlmutter",
        timezone="America/Los_Angeles",
        policies=Policies(
            tunables=TunablesPolicy(settings=SETTINGS),
            allocator=AllocatorPolicy(useless_loops=None),
            trim=TrimPolicy(window=WINDOW),
        ),
    )


def scenario_of(variant: str, seed: int) -> Scenario:
    """Return the nine months as they are without what controllers do, or as they were."""
    keys: dict[str, object] = {"resolution.classes": CLASSES, "mdts.count": 2}
    if variant != "as it was":
        keys |= BY_HAND | {"trim.every": "never" if "trim" in VARIANTS[variant] else "30d"}
    return replace(replace_keys(load_scenario("perlmutter"), keys, for_good=True), seed=seed)


class Controlled:
    """A simulation with controllers, each column a target."""

    def __init__(self, simulation: Simulation, policies: tuple[str, ...]) -> None:
        self.simulation = simulation
        self.policies = policies
        self.site = site()
        self.actions: list[Action] = []
        self.done: dict[str, int] = dict.fromkeys(policies, 0)
        self._earlier: Snapshot | None = None

    def run(self) -> None:
        """Let the nine months pass, with a visit of the controllers after each hour."""
        hour, simulation = 0, self.simulation
        while simulation.now < simulation.end:
            simulation.step()
            hour += 1
            due = [policy for policy in self.policies if self._looks(policy, hour)]
            if due:
                self._visit(due)

    def _looks(self, policy: str, hour: int) -> bool:
        """Return whether a controller looks at this hour.

        Where it could plan nothing it need not: outside the window of trims, and where no target is
        over the limit or closed.
        """
        if hour % EVERY_H[policy]:
            return False
        state = self.simulation.state
        if policy == "balance":
            is_over = state.fullness.max() > self.site.limits.fullness
            return bool(is_over or not state.create_enabled.all())
        local = self.simulation.now.astimezone(self.simulation.zone)
        return policy != "trim" or WINDOW.holds(60 * local.hour + local.minute)

    def _visit(self, due: list[str]) -> None:
        now = self.simulation.now
        seen = self._snapshot()
        self.actions = [
            action
            for action in self.actions
            if action.instruction.kind not in KEPT
            or action.at > now - KEPT[action.instruction.kind]
        ]
        for policy in due:
            observed = SiteObserved(
                self.site,
                seen,
                baseline=self._earlier,
                actions=tuple(self.actions),
                busy={
                    target.target.name: Message("target-degraded", "its array is being rebuilt")
                    for target in seen.targets
                    if target.value("degraded") is True
                },
            )
            plan = decided(observed, policy, now)
            for instruction in plan.instructions:
                self._carry_out(instruction)
                self.done[policy] += 1
                number = sum(self.done.values())
                self.actions.append(_action(policy, instruction, now, number))
        self._earlier = seen

    def _snapshot(self) -> Snapshot:
        """Return a snapshot with one target for each column."""
        state = readings(self.simulation)
        columns = len(state.osts)
        layout = replace(site_layout_of(self.simulation.scenario, columns), per_server=1)
        state = replace(state, column=np.arange(columns))
        return snapshot_of(state, layout, devices="md0")

    def _carry_out(self, instruction: Instruction) -> None:
        simulation, number = self.simulation, int(instruction.target[3:], 16)
        is_ost = instruction.target.startswith("OST")
        match instruction.kind:
            case ActionKind.SET:
                values = scenario_values(instruction.setting or "", instruction.value or "")
                simulation.set_alone("ost" if is_ost else "mdt", number, values)
            case ActionKind.TRIM if is_ost:
                simulation.trim(number)
            case ActionKind.TRIM:
                simulation.trim_mdt(number)
            case ActionKind.CLOSE | ActionKind.OPEN:
                simulation.set_creation(number, instruction.kind is ActionKind.OPEN)
            case ActionKind.RESET_ALLOCATOR:
                simulation.reset_allocator(number)
            case ActionKind.MIGRATE:
                raise AssertionError("no controller plans it")


def _action(policy: str, instruction: Instruction, now: datetime, number: int) -> Action:
    return Action(
        f"{now:%Y%m%d%H}-{number}", "perlmutter", policy, "plan", "bench", now, instruction,
        now, Outcome.DONE, instruction.value,
    )  # fmt: skip


def measured(variant: str, seed: int) -> dict[str, Any]:
    """Return the figures of one run."""
    run = Controlled(Simulation(scenario_of(variant, seed), threads=1), VARIANTS[variant])
    run.run()
    simulation = run.simulation
    figures = {key: value for key, value in figures_of(simulation).items() if value is not None}
    return {**figures, **_tails(simulation), **_months(simulation), "actions": run.done}


def _tails(simulation: Simulation) -> Mapping[str, float]:
    """Return what is about single OSTs: by survey, over the limit, and how many take new files."""
    trace, weight = simulation.trace, simulation.columns.weight
    fullness, open_ = trace.of("fullness"), trace.of("open")
    weights = np.where(np.isfinite(fullness), weight, 0.0)
    over = np.where(fullness > LIMITS.fullness, weights, 0.0)
    part_open = np.nansum(open_ * weights, axis=1) / weights.sum(axis=1)
    osts_open = np.nansum(open_ * weights, axis=1)
    return {
        "hours_over": float(over.sum() / weights.sum()),
        "least_open": float(osts_open.min()),
        "least_open_part": float(part_open.min()),
    }


def _months(simulation: Simulation) -> Mapping[str, float]:
    """Return surveys of the first and the last month, and days of 2024 with a COV over the goal."""
    figures: dict[str, float] = {}
    surveys = simulation.trace.surveys
    first, last = surveys[0].at, surveys[-1].at
    for name, chosen in (
        ("first", [run for run in surveys if run.at < first + MONTH]),
        ("last", [run for run in surveys if run.at > last - MONTH]),
        ("whole", surveys),
    ):
        values = np.concatenate([run.write_bytes_per_s for run in chosen])
        values = values[np.isfinite(values)]
        figures[f"survey_{name}_mean"] = float(values.mean())
        figures[f"survey_{name}_p5"] = float(np.percentile(values, 5))
        figures[f"survey_{name}_least"] = float(values.min())
    points = [
        HistoryPoint(job.at, "write_bandwidth", job.write_bytes_per_s or 0.0, job.status != "ok",
                     str(number))
        for number, job in enumerate(simulation.trace.jobs)
        if job.status in ("ok", "unfinished")
    ]  # fmt: skip
    windows = rolling(frame_of(points), goal=LIMITS.cov, window_s=LIMITS.window_s)
    over = {w.at.date() for w in windows if w.at.year == 2024 and (w.cov or 0.0) > LIMITS.cov}
    figures["days_over_cov"] = float(len(over))
    return figures


def main() -> None:
    """Run every variant with every seed that the result lacks, and write it after each run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--result", type=Path, default=RESULT)
    parser.add_argument("--again", action="store_true", help="Forget the runs that are there.")
    options = parser.parse_args()
    result: dict[str, Any] = {}
    if options.result.exists() and not options.again:
        result = json.loads(options.result.read_text())
    if result.get("version") != version():
        result = {"runs": {}, "processor_s": 0.0}
    for seed in range(1, options.seeds + 1):
        for variant in VARIANTS:
            name = f"{variant}, seed {seed}"
            if name in result["runs"]:
                continue
            begun = time.process_time()
            result["runs"][name] = _rounded(measured(variant, seed))
            result["processor_s"] += time.process_time() - begun
            print(name, f"{time.process_time() - begun:.0f} s", file=sys.stderr, flush=True)
            result |= {"version": version(), "classes": CLASSES, **measured_on()}
            result["figures"] = summed(result["runs"])
            write(options.result, result)


def version() -> str:
    """Return which simulation, controllers and figures these are."""
    return code_version()


def summed(runs: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, list[float | None]]]:
    """Return median and interval over seeds: of each figure, and of its difference from none."""
    seeds = [name.removeprefix("none, ") for name in runs if name.startswith("none, ")]
    tables: dict[str, dict[str, list[float | None]]] = {}
    for variant in VARIANTS:
        pairs = [
            (runs[f"{variant}, {seed}"], runs[f"none, {seed}"])
            for seed in seeds
            if f"{variant}, {seed}" in runs
        ]
        if not pairs:
            continue
        table = tables.setdefault(variant, {"seeds": [len(pairs)]})
        for figure, value in pairs[0][0].items():
            if isinstance(value, dict):
                counts = [float(sum(run[figure].values())) for run, _ in pairs]
                table[figure] = _row(counts)
                continue
            table[figure] = _row([run[figure] for run, _ in pairs if figure in run])
            both = [(run[figure], base[figure]) for run, base in pairs if figure in base]
            table[f"{figure} against none"] = _row([one - other for one, other in both])
    return tables


def _row(values: list[float]) -> list[float | None]:
    interval = seeds_interval(values)
    ends = (None, None) if interval is None else (interval.low, interval.high)
    row = (float(np.median(values)), *ends)
    return [None if value is None else float(f"{value:.5g}") for value in row]


def _rounded(figures: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: float(f"{value:.6g}") if isinstance(value, float) else value
        for key, value in figures.items()
    }


def write(path: Path, result: Mapping[str, Any]) -> None:
    """Write the result, a run a line: a change of one is seen as one."""
    text = json.dumps(dict(result))
    path.write_text(text.replace('}, "', '},\n"').replace('], "', '],\n"') + "\n")


if __name__ == "__main__":
    main()
