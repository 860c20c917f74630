"""Node groups (``@oss``), only from the site's and the user's configuration.

ClusterShell's own default also reads ``etc/clustershell`` of the Python installation. Its wheel
installs examples there (``oss: example4 example5``), which override the site's
``/etc/clustershell``: invented names would reach ssh and sudo. A configuration may also have
commands for a shell, so root uses only files that no other user can change.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trimtab.config.files import read_text, refuse_below_others, refuse_foreign

if TYPE_CHECKING:
    from ClusterShell.NodeUtils import GroupResolverConfig

_NOUN: Final = "the ClusterShell configuration"
_LISTS: Final = ("groupsdir", "confdir", "autodir")
"""Options of ``[Main]`` with directories of further group files (groups.conf(5))."""


def group_files() -> tuple[Path, ...]:
    """Return the files that may define groups, in ClusterShell's order: the last overrides.

    Root's is in root's own home, regardless of ``HOME`` under sudo.
    """
    import pwd

    root = os.geteuid() == 0
    home = Path(pwd.getpwuid(0).pw_dir) if root else Path("~").expanduser()
    places = [
        Path("/etc/clustershell"),
        Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "clustershell",
    ]
    if chosen := os.environ.get("CLUSTERSHELL_CFGDIR"):
        places.append(Path(chosen))
    return tuple(place.absolute() / "groups.conf" for place in places)


def site_groups() -> GroupResolverConfig:
    """Return the resolver of groups on this host.

    Raises
    ------
    UsageError
        As root: others can change a file that defines groups.
    configparser.Error, ValueError
        A file is not a valid configuration.
    """
    files = tuple(file for file in group_files() if os.path.exists(file))  # noqa: PTH110 - Path's raises
    if os.geteuid() == 0:
        for path in _defining(files):
            refuse_foreign(path, _NOUN)
            refuse_below_others(path, _NOUN)
    return _resolver(files)


@functools.cache
def _resolver(files: tuple[Path, ...]) -> GroupResolverConfig:
    """Return the resolver; cached, as ClusterShell's own: an answer is valid for its cache time."""
    from ClusterShell.NodeSet import ILLEGAL_GROUP_CHARS
    from ClusterShell.NodeUtils import (
        GroupResolverConfig,
        GroupResolverError,
        GroupResolverSourceError,
        GroupSourceNoUpcall,
    )

    class SiteGroups(GroupResolverConfig):
        """Resolver that refuses undefined groups, which ClusterShell treats as empty."""

        def group_nodes(self, group: str, namespace: str | None = None) -> list[str]:
            try:
                nodes: list[str] = super().group_nodes(group, namespace)
            except GroupResolverSourceError as error:
                source = f"source {namespace}" if namespace else "default source"
                raise GroupResolverError(f"no {source} of groups is configured") from error
            if not nodes and not self._is_defined(group, namespace):
                raise GroupResolverError(f"no group {group} is defined")
            return nodes

        def _is_defined(self, group: str, namespace: str | None) -> bool:
            try:
                return group in self.grouplist(namespace)
            except GroupSourceNoUpcall:
                return False

    resolver = SiteGroups([str(file) for file in files], illegal_chars=ILLEGAL_GROUP_CHARS)
    resolver.sources()  # reads the files: an unreadable one is not cached
    return resolver


def _defining(files: tuple[Path, ...]) -> Iterator[Path]:
    """Yield all files that define groups: the given ones, their neighbours, listed directories."""
    for file in files:
        yield file.parent
        yield from file.parent.rglob("*")
        for directory in _named_directories(file, files[-1].parent):
            yield directory
            yield from directory.glob("*")


def _named_directories(file: Path, configuration: Path) -> Iterator[Path]:
    import shlex
    from configparser import ConfigParser
    from string import Template

    parser = ConfigParser()
    parser.read_string(read_text(file, _NOUN), str(file))
    for name in _LISTS:
        for word in shlex.split(parser.get("Main", name, fallback="")):
            directory = Path(Template(word).safe_substitute(CFGDIR=str(configuration)))
            if directory.is_dir():
                yield directory
