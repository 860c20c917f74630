"""A demo: nine coarse months of Perlmutter on the twin, and what each page of the dashboard shows.

::

    this process     simulate ──> measure a sweep on the twin ──> search incidents
    a worker         ask the twin what if ──> a list of files ──> an index ──> its horizon

Both run at once: with two processors the demo is complete within ten seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trimtab.base.error import UnreadableError
from trimtab.base.event import utc_now
from trimtab.purge.horizon.horizon_answer import HorizonResult
from trimtab.reach.worker_process import worker_pool
from trimtab.store.kept import add_result, results_of
from trimtab.twin.scenario import Scenario
from trimtab.twin.scenario_file import load_scenario, to_toml
from trimtab.twin.whatif.whatif_sweep import WhatIfResult, whatif_result

if TYPE_CHECKING:
    from trimtab.base.site import Site

Progress = Callable[[str, float], None]

SCENARIO: Final = "perlmutter"
CLASSES: Final = 4
"""Classes of OSTs that are simulated one by one; each represents many OSTs."""
EPOCH_S: Final = 8 * 3600.0
"""Step of the simulation and of gating, and time between two runs of the probe."""
SNAPSHOT_S: Final = 4 * 86400.0
_PARTS: Final = {"simulating nine months": 0.6, "measuring a sweep": 0.75, "searching": 1.0}
"""Progress of the demo at the end of each step."""
_POLICIES: Final = "trim=never,nightly"
_SEEDS: Final = 5
_ASKED_S: Final = 28 * 86400.0
_FACTORS: Final = {"nodes": (8, 16, 32, 64), "tasks_per_node": (16, 64)}
_FILES: Final = 20_000
"""Files in the list: each represents many."""
_OWNERS: Final = 40
_TARGET: Final = 0.6
_HINT: Final = "free some memory, remove the directory and start it again"


def scenario_of_demo() -> Scenario:
    """Return the scenario of Perlmutter, simulated coarsely."""
    scenario = load_scenario(SCENARIO)
    probes = tuple(
        replace(probe, schedule=f"every {EPOCH_S / 3600:.0f}h") if probe.kind == "ior" else probe
        for probe in scenario.probes
    )
    return replace(
        scenario,
        resolution=replace(scenario.resolution, classes=CLASSES, epoch_s=EPOCH_S),
        gating=replace(scenario.gating, every_s=EPOCH_S),
        probes=probes,
    )


def site_file_of(directory: Path) -> Path:
    """Return the site file of the demo in a directory; it may not be there yet."""
    return directory.absolute() / f"{SCENARIO}.toml"


def is_prepared(directory: Path) -> bool:
    """Return whether a directory holds a demo that was prepared to its end."""
    from trimtab.site.lookup import open_site, open_store

    if not site_file_of(directory).exists():
        return False
    site = open_site(str(site_file_of(directory))).site
    try:
        with open_store(site.store.url) as store:
            return bool(results_of(store, site.name, HorizonResult).held)
    except UnreadableError:
        return False


def prepare_demo(directory: Path, progress: Progress, *, until_s: float | None = None) -> None:
    """Make a site, with its store, in a directory, and results of commands in the store.

    Parameters
    ----------
    until_s
        Simulated time; ``None``: all nine months.

    Raises
    ------
    RefusedError
        The directory holds a site already, or one that was not prepared to its end.
    UnreadableError
        Something could not be written.
    ToolError
        A worker was killed.
    """
    from trimtab.site.lookup import open_site, open_store
    from trimtab.twin.twin_run import TwinRequest, run_twin

    scenario = scenario_of_demo()
    wanted = TwinRequest(
        scenario, directory, None, until_s, snapshot_every_s=SNAPSHOT_S, truth=False
    )
    with worker_pool(1, hint=_HINT) as pool:
        answers = pool.submit(_answers, scenario, str(directory.absolute()))
        run_twin(wanted, progress=_part(progress, "simulating nine months"))
        site = open_site(str(site_file_of(directory))).site
        _measure_sweep(site, _part(progress, "measuring a sweep"))
        _search_incidents(site, _part(progress, "searching"))
        with open_store(site.store.url) as store:
            for result in answers.result():
                add_result(store, site.name, result, utc_now())


def _part(progress: Progress, step: str) -> Progress:
    """Return a callback that reports the progress of one step as a part of the whole."""
    steps = list(_PARTS)
    before = 0.0 if step == steps[0] else _PARTS[steps[steps.index(step) - 1]]
    share = _PARTS[step] - before
    return lambda _, fraction: progress(step, before + fraction * share)


def _measure_sweep(site: Site, progress: Progress) -> None:
    from trimtab.probe.probe_now import probe_of
    from trimtab.probe.question_file import Sweep
    from trimtab.probe.site_probe import runner_of
    from trimtab.probe.sweep import SweepWork
    from trimtab.site.lookup import open_store, reach_of

    sweep = Sweep("nodes", site.name, "hourly", _FACTORS, rounds=2)
    with open_store(site.store.url) as store:
        reach = reach_of(site)
        probe, runner = probe_of(site, sweep.probe), runner_of(site, store, reach)
        SweepWork(sweep, site, probe, store, runner, reach.clock, reach).run({}, progress)


def _search_incidents(site: Site, progress: Progress) -> None:
    from trimtab.probe.up_to_date import bring_up_to_date
    from trimtab.site.lookup import clock_of, open_store
    from trimtab.site.place import Place

    place = Place(site.name, site)
    with open_store(site.store.url) as store:
        bring_up_to_date(store, place, now=clock_of(site)(), progress=progress)


def _answers(scenario: Scenario, root: str) -> tuple[WhatIfResult, HorizonResult]:
    """Return results of commands; called in a worker."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="trimtab-demo-") as temporary:
        return _what_if(scenario, Path(temporary)), _horizon(scenario, root, Path(temporary))


def _what_if(scenario: Scenario, temporary: Path) -> WhatIfResult:
    from trimtab.twin.whatif.whatif_sweep import WhatIf, what_if

    file = temporary / f"{scenario.name}.toml"
    file.write_text(to_toml(scenario), encoding="utf-8")
    terms = WhatIf(str(file), (_POLICIES,), seeds=_SEEDS, until_s=_ASKED_S, classes=1, workers=1)
    return whatif_result(*what_if(terms))


def _horizon(scenario: Scenario, root: str, temporary: Path) -> HorizonResult:
    from trimtab.purge.fullness import Usage
    from trimtab.purge.horizon.horizon_question import HorizonQuestion, ask_horizon
    from trimtab.purge.index.list_import import ListDescription, import_index
    from trimtab.purge.index.manifest import IndexSource
    from trimtab.twin.scenario import capacity_bytes

    now, index = utc_now(), temporary / "index"
    capacity = capacity_bytes(scenario)
    used = scenario.users.fullness * capacity
    listed = temporary / "files"
    listed.write_bytes(b"".join(_list_of_files(scenario, root, used, now)))
    described = ListDescription(IndexSource.GNU_FIND, root.encode(), complete=True)
    import_index(listed, index, described)
    usage = Usage(int(used), int(capacity - used))
    return ask_horizon(HorizonQuestion(index, target=_TARGET, usage=usage), now=now).result


def _list_of_files(
    scenario: Scenario, root: str, used_bytes: float, now: datetime
) -> Iterator[bytes]:
    """Yield records of find, of files as the users of a scenario have them.

    Users of the twin are bytes with an age: the list draws so many files that are as old and as
    different in size, and lets each owner hold less than the one before.
    """
    import numpy as np

    users, chance = scenario.users, np.random.default_rng(scenario.seed)
    means = [lifetime.mean_s or scenario.length_s for lifetime in users.lifetimes]
    shares = [lifetime.share for lifetime in users.lifetimes]
    held = np.array(shares) * means
    kinds = chance.choice(len(means), _FILES, p=held / held.sum())
    ages_s = chance.exponential(np.array(means)[kinds])
    sizes = chance.lognormal(0.0, 1.0, _FILES)
    sizes *= used_bytes / sizes.sum()
    weight = 1.0 / np.arange(1, _OWNERS + 1) ** users.skew
    owners = chance.choice(_OWNERS, _FILES, p=weight / weight.sum())
    for number, (age_s, size, owner) in enumerate(zip(ages_s, sizes, owners, strict=True)):
        at = f"{now.timestamp() - float(age_s):.9f}"
        uid, blocks = 20_000 + int(owner), int(size) // 512
        name = f"{root}/u{uid}/run{number % 97}/out.{number}"
        times = "\t".join([at] * 4)
        fields = f"64\t{number + 2}\tf\t1\t{uid}\t{uid}\t{int(size)}\t{blocks}\t{times}\t{name}\0"
        yield fields.encode()
