"""The ``trimtab`` command: its table of subcommands, and errors turned into exit codes.

Start-up is a feature: a subcommand's module is imported when it is called, so that
``trimtab --help`` costs little more than Python and click.
"""

from __future__ import annotations

import atexit
import errno
import gc
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

import click

from trimtab.base.code_version import __version__
from trimtab.base.error import (
    Interrupted,
    TrimtabError,
    UnreadableError,
    UsageError,
    install_command,
    visible,
)
from trimtab.base.interruption import interruptible
from trimtab.show.command_group import COMPLETE, LazyGroup

GROUPS: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "Look": {
        "status": (
            "trimtab.answers.command:status_command",
            "Show the state of every series from the stored runs.",
        ),
        "judge": (
            "trimtab.judge.command:judge_command",
            "Analyse months of runs: variability, change points, slow targets.",
        ),
        "incidents": (
            "trimtab.explain.command:incidents_command",
            "List incidents with their likely causes.",
        ),
        "explain": (
            "trimtab.explain.command:explain_command",
            "Show all evidence about one moment.",
        ),
        "targets": (
            "trimtab.answers.command:targets_command",
            "List every OST and MDT, the most troubled first.",
        ),
        "inventory": (
            "trimtab.probe.command_site:inventory_command",
            "Show in what servers differ: kernel, settings, firmware, links.",
        ),
        "holders": (
            "trimtab.answers.command:holders_command",
            "Show who holds the space, their limits and grace.",
        ),
        "alerts": (
            "trimtab.watch.command:alerts_command",
            "List the alerts of a site, or test its receivers.",
        ),
        "compare": (
            "trimtab.probe.command:compare_command",
            "Estimate how much B differs from A: systems, dates, settings.",
        ),
        "correlate": (
            "trimtab.answers.command:correlate_command",
            "Correlate telemetry with performance; correlation is not cause.",
        ),
        "ladder": (
            "trimtab.probe.command:ladder_command",
            "Show the efficiency of each layer against the layer below.",
        ),
        "runs": ("trimtab.store.command:runs_command", "List kept runs."),
        "show": (
            "trimtab.store.command:show_command",
            "Trace every number of a run to its command and raw output.",
        ),
        "report": (
            "trimtab.answers.command:report_command",
            "Write the report of one month: HTML or Markdown.",
        ),
        "serve": (
            "trimtab.web.command:serve_command",
            "Serve the dashboard and its API from the store.",
        ),
        "demo": (
            "trimtab.twin.command:demo_command",
            "Show the dashboard on nine simulated months.",
        ),
    },
    "Measure": {
        "check": (
            "trimtab.probe.command_check:check_command",
            "Measure a file system, keep the result and report what is wrong.",
        ),
        "probe": (
            "trimtab.probe.command:probe_command",
            "Run a probe of a site file now and judge it.",
        ),
        "snapshot": (
            "trimtab.answers.command:snapshot_command",
            "Take a snapshot of every target and server and keep it.",
        ),
        "survey": (
            "trimtab.probe.command:survey_command",
            "Measure every OST by itself and list the slowest first.",
        ),
        "sweep": (
            "trimtab.probe.command_check:sweep_command",
            "Measure a matrix of settings and find the best.",
        ),
        "watch": (
            "trimtab.watch.command:watch_command",
            "Probe and take snapshots on schedule, and judge them.",
        ),
        "import": (
            "trimtab.probe.command_site:import_command",
            "Import results of other tools: IOR, mdtest, fio, surveys, MLPerf, WRF, Darshan ...",
        ),
    },
    "Act": {
        "trim": (
            "trimtab.act.command:trim_command",
            "Trim the targets that are due, one at a time.",
        ),
        "tune": (
            "trimtab.act.command:tune_command",
            "Hold settings at the values that the site file wants.",
        ),
        "balance": (
            "trimtab.act.command:balance_command",
            "Close full targets to new files, and reopen them.",
        ),
        "purge": (
            "trimtab.purge.command:purge_command",
            "Keep a file system below its limit: age cut-off, notices, verified deletion.",
        ),
        "revert": (
            "trimtab.act.command:revert_command",
            "Revert changes that nothing else has modified since.",
        ),
        "actions": (
            "trimtab.act.command:actions_command",
            "List changes made to a site, and their outcomes.",
        ),
        "event": (
            "trimtab.site.command:event_command",
            "Record events in the site's log book, or list them.",
        ),
        "maintenance": (
            "trimtab.probe.command_maintenance:maintenance_command",
            "Plan a downtime: its runs are not judged, and alerts wait.",
        ),
        "silence": (
            "trimtab.watch.command:silence_command",
            "Hold back an alert until a time, with the reason.",
        ),
    },
    "Plan": {
        "hints": (
            "trimtab.explain.command:hints_command",
            "Recommend stripes, aggregators and MPI-IO hints for a job, with reasons.",
        ),
        "size": (
            "trimtab.twin.whatif.command:size_command",
            "Size a file system: drives, endurance, trim schedule.",
        ),
        "twin": (
            "trimtab.twin.command:twin_command",
            "Simulate an all-flash file system, from the flash up.",
        ),
        "whatif": (
            "trimtab.twin.whatif.command:whatif_command",
            "Simulate policies: trims, limits and thresholds, swept over seeds.",
        ),
    },
    "Set up": {
        "init": (
            "trimtab.probe.command_site:init_command",
            "Discover a file system and write its site file.",
        ),
        "site": (
            "trimtab.probe.command_site:site_command",
            "Show a site file and compare it with the live system.",
        ),
        "store": (
            "trimtab.store.command:store_command",
            "Check the store, copy it, or rejudge its contents.",
        ),
    },
}
"""Every subcommand by purpose, the everyday ones first: its place, ``module:name``, and one line of
help."""

COMMANDS: Final = {name: entry for group in GROUPS.values() for name, entry in group.items()}

_PROGRAM: Final = "trimtab"
_NEW_OBJECTS: Final = 50_000


class _Commands(LazyGroup):
    groups = GROUPS


def _print_completion(context: click.Context, _: click.Parameter, shell: str | None) -> None:
    if shell is not None:
        click.echo(completion_script(shell))
        context.exit()


def completion_script(shell: str) -> str:
    """Return the script that a shell sources to complete ``trimtab`` commands."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    return kind(trimtab, {}, _PROGRAM, COMPLETE).source()


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name=_PROGRAM)
@click.option(
    "--completion",
    type=click.Choice(["bash", "zsh", "fish"]),
    is_eager=True,
    expose_value=False,
    callback=_print_completion,
    help="Print the completion script of a shell.",
)
def trimtab() -> None:
    """Keep an all-flash parallel file system fast and predictable.

    Start with `trimtab check /path/to/file/system`.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code; ``docs`` list the codes."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _look_rarely_for_cycles()
    _make_streams_safe()
    if (instruction := os.environ.get(COMPLETE)) is not None:
        from click.shell_completion import shell_complete

        sys.exit(shell_complete(trimtab, {}, _PROGRAM, COMPLETE, instruction))
    try:
        # Not click's own main, which turns a closed pipe into exit code 1.
        with interruptible(), trimtab.make_context(_PROGRAM, words) as context:
            _invoke(context)
        code = 0
    except click.exceptions.Exit as request:
        code = request.exit_code
    except click.ClickException as error:
        error.show()
        code = error.exit_code
        if "--json" in words:
            wrong_use = UsageError(error.format_message())
            wrong_use.exit_code = code
            _print_json(wrong_use)
    except (TrimtabError, Interrupted) as error:
        code = _report(error, as_json="--json" in words)
    except (KeyboardInterrupt, click.Abort):
        code = _report(Interrupted("interrupted"), as_json="--json" in words)
    except BrokenPipeError:
        # The reader went away (``trimtab runs | head``): not an error, and nothing left to print.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:
        if error.errno not in _FULL:
            raise
        problem = f"the output cannot be written: {error.strerror}"
        code = _report(UnreadableError(problem, code="output-unwritable"))
    sys.exit(code)


_OF_CHARTS = {"altair", "vl_convert"}


def _invoke(context: click.Context) -> None:
    """Run the command of a context; a missing optional dependency is a usage error."""
    try:
        trimtab.invoke(context)
    except ModuleNotFoundError as error:
        if error.name not in _OF_CHARTS:
            raise
        raise UsageError(
            f"pages need {error.name}, which is not installed",
            code="charts-missing",
            hint=install_command("charts"),
        ) from error


_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG}


def _look_rarely_for_cycles() -> None:
    """Have Python look for cycles once for many new objects and not for 700, and not at the end.

    What a command imports and reads, some 200,000 objects, stays until it ends: a fifth of the time
    of one that answers from what is kept went into looking through them.
    """
    gc.set_threshold(_NEW_OBJECTS)
    atexit.register(gc.freeze)


def _make_streams_safe() -> None:
    """Make printing always possible: closed streams, and encodings that lack a character."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115 (lives as long as we)
        else:
            stream.reconfigure(errors="backslashreplace")


def _report(error: TrimtabError | Interrupted, *, as_json: bool = False) -> int:
    click.echo(f"error: {visible(error.message)}", err=True)
    if error.hint:
        click.echo(f"hint: {visible(error.hint)}", err=True)
    if as_json and not getattr(error, "reported", False):
        _print_json(error)
    return error.exit_code


def _print_json(error: TrimtabError | Interrupted) -> None:
    from trimtab.base.encode import FailureDocument, to_json

    click.echo(to_json(FailureDocument(error)))


if __name__ == "__main__":
    main()
