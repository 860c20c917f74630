"""Shared parts of commands built with click: options, quantities with units, completion.

The shell completes names of sites, probes, scenarios and metrics, besides commands and options.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import click

from trimtab.base import units
from trimtab.base.error import UsageError, shell_text, site_word

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Value = TypeVar("Value")


class Quantity(click.ParamType, Generic[Value]):
    """A parameter parsed from a quantity with a unit, or from a format of its own.

    Parameters
    ----------
    parse
        Raises UsageError if the text is malformed.
    example_units
        Units of which one is required; empty: a bare number is in the base unit.
    """

    def __init__(
        self, name: str, parse: Callable[[str], Value], *, example_units: tuple[str, ...] = ()
    ) -> None:
        self.name = name
        self._parse = parse
        self._example_units = example_units

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Value:
        """Return the value, in base SI for a quantity."""
        if not isinstance(value, str):
            return value
        if self._example_units and _is_bare(value):
            examples = " or ".join(f"{value.strip()}{unit}" for unit in self._example_units)
            self.fail(f"{value!r} has no unit; type {examples}", param, ctx)
        try:
            return self._parse(value)
        except UsageError as error:
            hint = f" ({error.hint})" if error.hint else ""
            self.fail(f"{error.message}{hint}", param, ctx)


def _is_bare(text: str) -> bool:
    """Whether a text is a number other than 0, and lacks a unit."""
    try:
        return float(text) != 0
    except ValueError:
        return False


_DURATION_MAX_S = 100 * 366 * 86400.0
"""As in a site file: longer spans would overflow dates."""


_MONTH_DAYS = 365.25 / 12


def _duration(text: str) -> float:
    value = units.parse_duration(text)
    if value > _DURATION_MAX_S:
        raise UsageError(f"{text!r} must not exceed 100 years", code="duration-out-of-range")
    return value


def _simulated_time(text: str) -> float:
    stripped = text.strip()
    if stripped.endswith("mo"):
        return _duration(f"{stripped.removesuffix('mo')}d") * _MONTH_DAYS
    return _duration(stripped)


def _positive_duration(text: str) -> float:
    value = _duration(text)
    if value <= 0:
        raise UsageError(f"{text!r} must be greater than 0", code="duration-out-of-range")
    return value


SIZE = Quantity("size", units.parse_bytes)
LARGE_SIZE = Quantity("size", units.parse_bytes, example_units=("TB", "TiB", "PiB"))
FILE_SIZE = Quantity("size", units.parse_bytes, example_units=("MiB", "GiB"))
LARGE_RATE = Quantity("rate", units.parse_rate, example_units=("MB/s", "GB/s"))
"""Size of a file system or a job: a bare number never means bytes here."""
DURATION = Quantity("duration", _duration)
SIMULATED_TIME = Quantity("duration", _simulated_time)
"""A duration, or months: twelfths of a year."""
POSITIVE_DURATION = Quantity("duration", _positive_duration)
FRACTION = Quantity("fraction", units.parse_fraction)


COUNT = click.IntRange(min=1)

OPTIONS_MOST: Final = 12
"""Options of a command that are listed without groups."""

OUTPUT: Final = "out json all brief top help"
OPTION_GROUPS: Final[Mapping[str, Mapping[str, str]]] = {
    "check": {
        "Probe": "no-probe probe budget timeout space repetitions tasks transfer-size block-size "
        "direct allocator-statistics",
        "Verdict": "cov-goal fullness-limit fail-on",
        "Output": f"site store {OUTPUT}",
    },
    "judge": {
        "Time series of a file": "csv time time-format value decimal by wide "
        "less-is-better timezone",
        "Runs": "probe metric since until",
        "Verdict": "cov-goal window afresh fail-on",
        "Output": f"store {OUTPUT}",
    },
    "compare": {
        "Runs": "site probe metric wash-out",
        "Difference": "margin targets files target-rate autocorrelation",
        "Output": f"store {OUTPUT}",
    },
    "import": {
        "Files": "kind at timezone layer dry-run",
        "Where they are kept": "site probe store",
        "Output": OUTPUT,
    },
    "survey": {
        "Targets": "client server target all",
        "Measurement": "benchmark size duration repetitions threads objects tasks direct together",
        "Safety": "apply load-limit deadline",
        "Output": "store json help",
    },
    "hints": {
        "Job": "nodes tasks-per-node mpi shared file-size transfer-size",
        "File system": "ost overstriping directory",
        "Output": OUTPUT,
    },
    "size": {
        "Demand": "capacity osts daily-writes daily-probe-writes kept retention growth years "
        "write-bandwidth",
        "Files": "mean-file files stripe-count",
        "Drives": "drive drive-capacity drive-write spare dwpd raid drives-per-ost",
        "Servers": "server family thresholds fullness trim",
        "Output": f"seed explain {OUTPUT}",
    },
    "whatif": {
        "Simulation": "vary until classes seeds most again",
        "Where it runs": "workers dask",
        "Output": f"results runs keep {OUTPUT}",
    },
    "purge follow": {
        "Index": "index compact rescan threads",
        "Rounds": "every once",
        "Changelogs": "register deregister mdt yes",
        "Output": f"store {OUTPUT}",
    },
    "purge import": {
        "List": "format printf map delimiter users groups",
        "Scan it is from": "root beneath started ended complete mounted",
        "Output": f"index {OUTPUT}",
    },
    "purge horizon": {
        "Cut-off": "index policy target target-ost target-pool forecast",
        "File system": "used available site place store",
        "Where it runs": "threads dask",
        "Output": f"keep {OUTPUT}",
    },
    "purge replay": {
        "Replay": "index later policy target before reads-known",
        "File system": "used available",
        "Where it runs": "threads",
        "Output": OUTPUT,
    },
    "purge plan": {
        "Plan": "index policy out",
        "File system": "site place store",
        "Where it runs": "threads dask",
        "Output": "json all brief top help",
    },
}
"""Options of the commands that have more than `OPTIONS_MOST`, by purpose."""


class GroupedCommand(click.Command):
    """A command that lists its options in the groups of `OPTION_GROUPS`."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options group by group, in the order of the groups."""
        records = {
            max(parameter.opts, key=len).removeprefix("--"): record
            for parameter in self.get_params(ctx)
            if isinstance(parameter, click.Option)
            and (record := parameter.get_help_record(ctx)) is not None
        }
        groups = OPTION_GROUPS.get(ctx.command_path.removeprefix("trimtab "), {})
        sections = {
            title: [records.pop(name) for name in names.split() if name in records]
            for title, names in groups.items()
        }
        for title, rows in {**sections, "Other": list(records.values())}.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


_JSON = "trimtab.json"


def _remember_json(context: click.Context, _: click.Parameter, value: bool) -> None:
    context.meta[_JSON] = value


as_json = click.option(
    "--json",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_remember_json,
    help="Print one JSON object on standard output.",
)
"""``--json``; `wants_json` returns whether it was given."""


def wants_json() -> bool:
    """Return whether the running command was given ``--json``."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_JSON))


_EXTENT: Final = "trimtab.extent"


@dataclass(frozen=True, slots=True)
class Extent:
    """How much of a result is printed on the terminal; JSON always has all of it.

    Attributes
    ----------
    everything
        Print every row and every detail.
    brief
        Print the answer alone.
    top
        Rows of the main table; ``None``: as many as fit on a screen.
    """

    everything: bool = False
    brief: bool = False
    top: int | None = None

    def rows(self, usual: int) -> int:
        """Return the number of table rows to print; ``usual`` fits on a screen."""
        return sys.maxsize if self.everything else self.top or usual


def _remember_extent(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if not value:
        return
    if _EXTENT in context.meta:
        raise click.UsageError("choose one of --all, --brief and --top", context)
    context.meta[_EXTENT] = Extent(**{str(parameter.name): value})


_OF_EXTENT: Final[Any] = {"expose_value": False, "callback": _remember_extent}
_top = click.option("--top", type=COUNT, metavar="N", help="Print N rows.", **_OF_EXTENT)
_brief = click.option("--brief", is_flag=True, help="Print the answer alone.", **_OF_EXTENT)
_all = click.option(
    "--all", "everything", is_flag=True, help="Print every row and every detail.", **_OF_EXTENT
)


def output(function: Decorated) -> Decorated:
    """Add ``--all``, ``--brief``, ``--top``, ``--json``; `extent` and `wants_json` return them."""
    return _all(_brief(_top(as_json(function))))


def brief_options(function: Decorated) -> Decorated:
    """Add ``--brief`` and ``--top`` to a command whose ``--all`` means something else."""
    return _brief(_top(function))


def rest_option() -> str:
    """Return the option with which the running command prints everything."""
    context = click.get_current_context(silent=True)
    parameters = () if context is None else context.command.params
    taken = any(
        parameter.name == "everything" and parameter.expose_value for parameter in parameters
    )
    return "--json" if taken else "--all"


def extent() -> Extent:
    """Return how much the running command prints: all, if it has no option for that."""
    context = click.get_current_context(silent=True)
    if context is None:
        return Extent()
    chosen = any(parameter.callback is _remember_extent for parameter in context.command.params)
    return context.meta.get(_EXTENT, Extent(everything=not chosen))


def print_everything() -> None:
    """Make the running command print every row: more was requested."""
    click.get_current_context().meta.setdefault(_EXTENT, Extent(everything=True))


store = click.option(
    "--store",
    "store_url",
    metavar="URL",
    help="Where results are kept: a file (SQLite) or a SQLAlchemy URL. Default: $TRIMTAB_STORE, "
    "else /var/lib/trimtab (root) or the user's data directory.",
)
keep = click.option(
    "--keep", metavar="SITE", help="Keep the result in the store of a site: the dashboard shows it."
)
cov_goal = click.option(
    "--cov-goal",
    type=FRACTION,
    help="Highest COV over the window. Default: the site file's, else 8%.",
)
window = click.option(
    "--window",
    "window_s",
    type=POSITIVE_DURATION,
    help="Window of a verdict: twice the longest job. Default: the site file's, else 48h.",
)
fail_on = click.option(
    "--fail-on",
    type=click.Choice(["missed"]),
    help="Exit with 10 when a verdict over history is missed.",
)
report = click.option(
    "--out", "report", metavar="FILE", help="Also write an HTML page with charts."
)
_DASK: Final = (
    "Address or file of a Dask scheduler whose workers do the work, as root tls:// or root's own; "
    "local: processes of this host without Dask, local:4: four."
)


def _scheduler(_context: click.Context, _: click.Parameter, value: str | None) -> str | None:
    from trimtab.base.site import NONE

    return None if value == NONE else value


dask = click.option("--dask", metavar="SCHEDULER", callback=_scheduler, help=_DASK)
"""``--dask`` of a command without a site."""
dask_or_site = click.option(
    "--dask",
    metavar="SCHEDULER",
    help=f"{_DASK} Default: [dask] of the site file; none leaves it out.",
)
"""``--dask`` of a command that may name a site: `trimtab.site.lookup.with_dask` reads it."""
afresh = click.option(
    "--afresh",
    is_flag=True,
    help="Judge from scratch, and report whether the stored results are the same.",
)
until = click.option("--until", metavar="TIME", help="Ignore anything after this time or day.")


def margin(usual: str, text: str) -> Callable[[Decorated], Decorated]:
    """Return a decorator that adds ``--margin`` with this default and help."""

    def read(_context: click.Context, _: click.Parameter, value: float) -> float:
        if not 0 < value < 1:
            problem = "--margin must be greater than 0 and less than 100%"
            raise UsageError(problem, code="margin-out-of-range")
        return value

    return click.option(
        "--margin", type=FRACTION, default=usual, show_default=True, callback=read, help=text
    )


def since(text: str) -> Callable[[Decorated], Decorated]:
    """Return a decorator that adds ``--since`` with this help."""
    return click.option("--since", metavar="TIME", help=text)


def series(function: Decorated) -> Decorated:
    """Add ``--probe`` and ``--metric``."""
    metric = click.option("--metric", metavar="METRIC", help="Only this metric.")
    return click.option("--probe", metavar="NAME", help="Only this probe.")(metric(function))


def site_argument(name: str) -> str:
    """Return a site for use in the next command: as typed for this one, else by name."""
    context = click.get_current_context(silent=True)
    where = None if context is None else context.params.get("where")
    return shell_text([str(where)]) if where else site_word(name)


class _Word(click.ParamType):
    """A text with some known values; ``otherwise`` is what the shell completes itself."""

    name = "text"

    def __init__(self, known: Callable[[], Iterable[str]], otherwise: str) -> None:
        self._known, self._otherwise = known, otherwise

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the text unchanged."""
        return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the known values with this beginning; the shell completes the rest."""
        from click.shell_completion import CompletionItem

        names = [name for name in self._known() if name.startswith(incomplete)]
        if names and "/" not in incomplete:
            return [CompletionItem(name) for name in names]
        return [CompletionItem(incomplete, type=self._otherwise)]


def _sites() -> Iterable[str]:
    from trimtab.site.site_file import known_sites

    return known_sites()


def _scenarios() -> Iterable[str]:
    from trimtab.twin.scenario_file import preset_names

    return preset_names()


def _probes() -> Iterable[str]:
    from trimtab.base.error import TrimtabError
    from trimtab.site.site_file import known_sites, load_site

    names: dict[str, None] = {}
    for file in known_sites().values():
        try:
            names |= dict.fromkeys(probe.name for probe in load_site(file).site.probes)
        except TrimtabError:
            continue
    return names


def _metrics() -> Iterable[str]:
    from trimtab.base.run import METRIC_UNITS

    return METRIC_UNITS


_SITE: Final = _Word(_sites, "file")
_WORDS: Final[Mapping[str, _Word]] = {
    "SITE": _SITE,
    "PATH|SITE": _SITE,
    "SITE|FILE.toml": _SITE,
    "SCENARIO": _Word(_scenarios, "file"),
    "SCENARIO|SITE": _Word(lambda: (*_scenarios(), *_sites()), "file"),
    "METRIC": _Word(_metrics, "plain"),
}
_FILES: Final = ("FILE", "PATH", "DIR", "PLAN", "INDEX", "SPEC.toml")


def completable(command: click.Command) -> click.Command:
    """Add completion to parameters whose ``metavar`` has known values."""
    for parameter in command.params:
        metavar = (parameter.metavar or "").strip("[]")
        if word := _WORDS.get(metavar):
            parameter.type = word
        elif metavar in _FILES:
            parameter.type = _Word(tuple, "file")
        elif parameter.name == "probe" or (command.name, parameter.name) == ("probe", "name"):
            parameter.type = _Word(_probes, "plain")
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        completable(below)
    return command


PATH: Final = click.Path(path_type=Path)
place = click.option(
    "--place",
    metavar="DIR",
    help="Root-only directory for the signing key, journals and approvals. Default: "
    "$TRIMTAB_PURGE, else /var/lib/trimtab/purge.",
)
