"""Writes a site as a commented file, for editing, that reads back to the same site."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from trimtab.config.files import written_beside
from trimtab.config.schema import Entry, Table
from trimtab.config.writer import Comments, Writer
from trimtab.errors import RefusedError, UnreadableError, UsageError
from trimtab.model.dask import SiteDask
from trimtab.model.driver import DRIVERS
from trimtab.model.hardware import Hardware
from trimtab.model.notifying import Alerts, MetricsExport
from trimtab.model.policies import Policies
from trimtab.model.site import Servers, Site, SiteProbe, Ssh
from trimtab.site.load import parse_site
from trimtab.site.schema import SCHEMA
from trimtab.visible import visible

_OF_PHASES: Final = frozenset(
    {"transfer_size", "block_size", "duration", "direct", "target_pinning", "options"}
)
"""Keys of a probe that writes and reads in phases."""
_UNUSED: Final[dict[tuple[str, ...], tuple[str, object]]] = {
    ("policy",): ("policies", Policies()),
    ("alerts",): ("alerts", Alerts()),
    ("alerts", "mail"): ("alerts", Alerts()),
    ("metrics",): ("metrics", MetricsExport()),
    ("dask",): ("dask", SiteDask()),
    ("hardware",): ("hardware", Hardware()),
}
"""Tables that are omitted if the site has nothing in them."""


def site_text(site: Site, *, remarks: Sequence[str] = (), comments: Comments | None = None) -> str:
    """Return the text of a site file that `trimtab.site.load` reads back to ``site``.

    Keys with default values are commented out, ready to be changed.

    Parameters
    ----------
    remarks
        Discovered facts for the head of the file, one line each.
    comments
        See `Comments`.

    Raises
    ------
    UsageError
        The site is contradictory, or has a value that cannot be written, such as a path that is not
        UTF-8.
    """
    writer = Writer(SCHEMA, skip=_is_skipped, comments=comments)
    probes, launchers, webhooks = map(SCHEMA.group, ("probe", "launcher", "webhook"))
    tables = [
        _head(site, remarks),
        *writer.tables(site),
        *writer.items(probes, site.probes),
        *writer.items(launchers, site.launchers),
        *writer.items(webhooks, site.webhooks),
    ]
    if not site.probes:
        tables += writer.items(probes, [SiteProbe("hourly", schedule="every 1h")], hidden=True)
    text = "\n".join(tables)
    source = site.source or f"the site file of {site.name}"
    read = parse_site(text, source).site
    if replace(read, source=site.source) != site:
        raise UsageError(
            f"the site {visible(site.name)!r} has a value that cannot be written exactly",
            code="value-inexact",
        )
    return text


def _is_skipped(entry: Table | Entry, whole: Any) -> bool:
    """Return whether a table or key is irrelevant in this file."""
    if isinstance(whole, SiteProbe):
        return _is_skipped_in_probe(entry.location[-1], whole)
    if not isinstance(whole, Site):
        return False
    if entry.location in _UNUSED:
        name, unused = _UNUSED[entry.location]
        return getattr(whole, name) == unused
    driver = DRIVERS[whole.driver]
    match entry.location:
        case ("servers", *rest):
            unused = not driver.has_servers and whole.servers == Servers()
            local = whole.servers.reach == "local" and whole.servers.ssh == Ssh()
            return unused or (rest == ["ssh"] and local)
        case ("policy", ("tunables" | "allocator" | "trim" | "balance") as name):
            return getattr(whole.policies, name) == getattr(Policies(), name)
        case ("hardware", name):
            return getattr(whole.hardware, name) is None
        case ("site", "file_system"):
            return not driver.named and whole.file_system is None
        case ("site", "scenario"):
            return not driver.simulated and whole.scenario is None
        case _:
            return False


def _is_skipped_in_probe(key: str, probe: SiteProbe) -> bool:
    if key in ("command", "output"):
        return probe.command is None
    if key == "items":
        return probe.benchmark != "mdtest" or probe.command is not None
    if key == "repetitions":
        return probe.command is not None
    if key == "stripe_count":  # only for Lustre
        return probe.stripe_count is None
    return key in _OF_PHASES and probe.is_one_command


def write_site(path: str | os.PathLike[str], text: str, *, replace: bool = False) -> None:
    """Write a site file atomically, with mode 0644.

    Parameters
    ----------
    replace
        Whether an existing file may be replaced.

    Raises
    ------
    RefusedError
        The file already exists.
    UsageError
        The directory does not exist.
    UnreadableError
        It could not be written: no space, no permission.
    """
    target = Path(path)
    name = visible(os.fspath(path))
    if os.path.lexists(target) and not replace:
        raise _there_already(name)
    # Keep a symbolic link: replace the file it points to.
    target = target.resolve()
    try:
        # Regardless of the umask: the watch may run as another user.
        with written_beside(target, text.encode("utf-8"), 0o644) as temporary:
            _put(temporary, target, replace=replace)
    except FileExistsError as error:
        raise _there_already(name) from error
    except FileNotFoundError as error:
        raise UsageError(
            f"the directory {visible(os.fspath(target.parent))} does not exist",
            code="directory-missing",
            hint="create it",
        ) from error
    except OSError as error:
        raise UnreadableError(
            f"the site file {name} could not be written: {error.strerror or error}",
            code="file-not-written",
        ) from error


def _put(temporary: Path, target: Path, *, replace: bool) -> None:
    if replace:
        temporary.replace(target)
        return
    try:
        os.link(temporary, target)  # unlike rename, never overwrites a file created in the meantime
    except PermissionError:  # a file system without hard links (link(2)): FAT, some of FUSE
        if os.path.lexists(target):
            raise FileExistsError(target) from None
        temporary.replace(target)


def _there_already(name: str) -> RefusedError:
    return RefusedError(
        f"{name} already exists",
        code="file-exists",
        hint="use another name, or overwrite it with --replace",
    )


def _head(site: Site, findings: Sequence[str]) -> str:
    lines = [
        f"# {visible(site.name)}: a site watched by Trimtab.",
        "#",
        f"#     trimtab site {visible(site.name)} --validate    checks this file",
        "#",
        "# Sizes, times and shares are text with a unit. A line after a # has a default or is",
        "# an example: remove the # to change it.",
    ]
    if findings:
        lines += ["#", "# Found:", *(f"#   {visible(line)}".rstrip() for line in findings)]
    return "\n".join(lines) + "\n"
