"""Shell completion besides commands and options: names of sites, probes, scenarios, metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


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
    from trimtab.site.load import known_sites

    return known_sites()


def _scenarios() -> Iterable[str]:
    from trimtab.twin.scenario.load import preset_names

    return preset_names()


def _probes() -> Iterable[str]:
    from trimtab.errors import TrimtabError
    from trimtab.site.load import known_sites, load_site

    names: dict[str, None] = {}
    for file in known_sites().values():
        try:
            names |= dict.fromkeys(probe.name for probe in load_site(file).site.probes)
        except TrimtabError:
            continue
    return names


def _metrics() -> Iterable[str]:
    from trimtab.model.run import METRIC_UNITS

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
