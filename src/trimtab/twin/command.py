"""``trimtab twin``, a simulated file system, and ``trimtab demo``, the dashboard on one."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import click

from trimtab.show import command_options
from trimtab.show.command_group import SuggestingGroup
from trimtab.show.screen_document import show_page


@click.group("twin", cls=SuggestingGroup)
def twin_command() -> None:
    """Simulate an all-flash file system, from the flash up.

    Results are simulations and only as good as their assumptions: confirm them on one real target
    before you change a setting.
    """


def _hot(text: str) -> tuple[float, float]:
    """Parse the hot part of the data and its share of the writes: ``0.2/0.8``."""
    from trimtab.base.error import UsageError

    part, _, share = text.partition("/")
    try:
        return float(part), float(share)
    except ValueError:
        problem = f"{text!r} is not PART/SHARE, as 0.2/0.8"
        raise UsageError(problem, code="part-malformed") from None


@twin_command.command("wa")
@click.option(
    "--drive", metavar="NAME", help="Drive whose assumed spare is used: pm1733, pm1735 ..."
)
@click.option(
    "--spare", type=command_options.FRACTION, help="Usable spare of the flash: 0.12 or 12%."
)
@click.option(
    "--pages-per-block", "units", type=click.IntRange(1, 2**28), default=256, show_default=True,
    metavar="N", help="Units that are erased together.",
)  # fmt: skip
@click.option(
    "--superblocks", type=click.IntRange(2, 2**28), default=2048, show_default=True, metavar="N",
    help="Number of superblocks; each is erased at once.",
)  # fmt: skip
@click.option(
    "--policy", type=click.Choice(["greedy", "fifo", "cost-benefit"]), default="greedy",
    show_default=True, help="Which superblock is cleaned next.",
)  # fmt: skip
@click.option(
    "--live",
    type=command_options.FRACTION,
    default=1.0,
    help="Part that holds data; the rest is trimmed.",
)
@click.option(
    "--hot",
    type=command_options.Quantity("part/share", _hot),
    help="Hot part of the data, and its share of the writes.",
)
@click.option("--separate", is_flag=True, help="Write copies to separate superblocks.")
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), default=1, show_default=True)
@command_options.as_json
def wa(drive: str | None, spare: float | None, **options_given: Any) -> None:
    """Simulate a drive's write amplification: units written per unit from the host.

    Runs until the value is steady, and shows the closed formula if there is one. The spare is the
    usable one: superblocks being filled, and one that stays erased, are extra.
    """
    from trimtab.base.error import UsageError
    from trimtab.show.screen_document import progress_bar
    from trimtab.twin.amplification import AmplificationDocument, DriveTerms, simulate
    from trimtab.twin.page import amplification_document
    from trimtab.twin.scenario_key import preset

    if (drive is None) == (spare is None):
        raise UsageError(
            "--drive or --spare is required",
            code="drive-missing",
            hint="trimtab twin wa --spare 0.12",
        )
    assumed = None if drive is None else preset(drive)
    # Exactly one of the two is given, as checked above.
    terms = DriveTerms(spare if assumed is None else assumed.spare, **options_given)  # pyrefly: ignore[bad-argument-type]
    with progress_bar() as progress:
        result = simulate(terms, progress)
    name = None if assumed is None else assumed.name
    show_page(
        lambda: AmplificationDocument(result, name),
        lambda: amplification_document(result, assumed),
    )


@twin_command.command("list")
@command_options.as_json
def list_() -> None:
    """List the built-in scenarios."""
    from trimtab.twin.page import scenarios_document
    from trimtab.twin.scenario_fact import ScenariosDocument, ScenarioSummary
    from trimtab.twin.scenario_file import load_scenario, preset_names

    scenarios = [load_scenario(name) for name in preset_names()]
    show_page(
        lambda: ScenariosDocument(tuple(map(ScenarioSummary, scenarios))),
        lambda: scenarios_document(scenarios),
    )


@twin_command.command("show")
@click.argument("scenario", metavar="SCENARIO")
@click.option("--toml", "as_toml", is_flag=True, help="Print its file, to copy and change.")
@command_options.output
def show_(scenario: str, as_toml: bool) -> None:
    """Describe a scenario: hardware, events, and assumptions.

    SCENARIO is one of `trimtab twin list`, or a file (contains a / or ends with .toml).
    """
    from trimtab.base.error import UsageError
    from trimtab.twin.page import scenario_document
    from trimtab.twin.scenario_file import load_scenario, scenario_text

    if as_toml and command_options.wants_json():
        raise UsageError(
            "--toml and --json exclude each other",
            code="options-exclusive",
            hint="leave one out",
        )
    result = load_scenario(scenario)
    if as_toml:
        click.echo(scenario_text(scenario), nl=False)
        return
    more = ("--toml prints the file",)
    show_page(lambda: result, lambda: scenario_document(result), more=more)


@twin_command.command("run")
@click.argument("scenario", metavar="SCENARIO")
@click.option(
    "--until",
    "until_s",
    type=command_options.SIMULATED_TIME,
    help="How long to simulate: 60d, 9mo. Default: to its end.",
)
@click.option(
    "--directory",
    metavar="DIR",
    help="Directory for the store, the truth, the site file and the diary. Default: ./NAME.",
)
@click.option(
    "--snapshots",
    "snapshot_every_s",
    type=command_options.DURATION,
    default="1h",
    show_default=True,
    help="Time between snapshots of all targets.",
)
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Seed. Default: the scenario's.")
@click.option(
    "--closed-book",
    is_flag=True,
    help="Log no event of the scenario's own faults and changes: only the truth has them.",
)
@command_options.store
@command_options.as_json
def run(
    scenario: str,
    store_url: str | None,
    directory: str | None,
    seed: int | None,
    **options_given: Any,
) -> None:
    """Run a scenario and store what its site would observe, with the true state beside it.

    Writes into DIR: NAME.db (runs, surveys, snapshots, events), NAME.truth.parquet and .jsonl (the
    true state), NAME.toml (a site file: `trimtab status DIR/NAME.toml`, `judge`, `incidents`,
    `watch` and `check` treat it like a real site), scenario.toml and life.jsonl, its diary.

    SCENARIO is one of `trimtab twin list`, or a file (contains a / or ends with .toml).
    """
    from dataclasses import replace
    from pathlib import Path

    from trimtab.base.error import shell_text
    from trimtab.show.screen_document import progress_bar
    from trimtab.twin.page import twin_run_document
    from trimtab.twin.scenario_file import load_scenario
    from trimtab.twin.twin_run import TwinRequest, run_twin

    result = load_scenario(scenario)
    if seed is not None:
        result = replace(result, seed=seed)
    wanted = TwinRequest(result, Path(directory or result.name), store_url, **options_given)
    site_file = wanted.directory / f"{result.name}.toml"
    remains = f"what was simulated is stored: trimtab status {shell_text((str(site_file),))}; "
    remains += "to start again name another --directory"
    with progress_bar(remains=remains) as progress:
        twin_run = run_twin(wanted, progress=progress)
    show_page(lambda: twin_run, lambda: twin_run_document(twin_run))


DIRECTORY: Final = "trimtab-demo"
_LIBRARIES: Final = ("fastapi", "uvicorn")


@click.command("demo")
@click.option(
    "--bind",
    metavar="HOST:PORT",
    default="127.0.0.1:8765",
    show_default=True,
    help="Address of this host to listen on.",
)
@click.option(
    "--directory",
    metavar="DIR",
    default=DIRECTORY,
    show_default=True,
    help="Directory of the simulated site; an existing one is served.",
)
@click.pass_context
def demo_command(context: click.Context, bind: str, directory: str) -> None:
    """Show the dashboard on nine simulated months of a Perlmutter-like site.

    Takes some ten seconds on two processors. The site is coarse: its 274 OSTs are simulated as
    four classes, in steps of eight hours. `trimtab twin run perlmutter` simulates it in full.
    """
    from trimtab.show.screen_document import progress_bar
    from trimtab.twin.page_demo import is_prepared, prepare_demo, site_file_of

    place = Path(directory)
    # Without its libraries the dashboard says what to install before the user has waited.
    if all(map(find_spec, _LIBRARIES)) and not is_prepared(place):
        remains = f"the demo is incomplete: remove {place} and start it again"
        with progress_bar(remains=remains) as progress:
            prepare_demo(place, progress)
    assert context.parent is not None
    assert isinstance(context.parent.command, click.Group)
    serve = context.parent.command.get_command(context, "serve")
    assert serve is not None
    context.invoke(serve, where=str(site_file_of(place)), bind=bind)
