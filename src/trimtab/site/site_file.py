"""Site files: found, read by the schema of `trimtab.base.site`, and written for editing.

Every error has the file, line, table and key. A written file is commented, and reads back to the
same site.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from trimtab.base.error import Message, RefusedError, UnreadableError, UsageError, visible
from trimtab.base.filesystem import DRIVERS
from trimtab.base.site import Servers, Site, SiteDask, SiteProbe, Ssh
from trimtab.base.site_hardware import Hardware
from trimtab.base.site_policy import Alerts, MetricsExport, Policies
from trimtab.base.toml_kind import choice
from trimtab.base.toml_problem import NAME, config_error, did_you_mean, key_lines
from trimtab.base.toml_schema import Entry, Schema, SchemaTable
from trimtab.base.toml_schema import json_schema as schema_of
from trimtab.base.toml_writer import Comments, Writer
from trimtab.base.trusted_file import parse_toml, read_text, written_beside
from trimtab.formats.format_table import names
from trimtab.site.site_check import problems, warnings

BENCHMARKS: Final = (
    *("auto", *names("phases", "one command")),  # benchmarks that a probe can run by itself
    *names("site command", "servers"),  # outputs of a probe's ``command``
)
_BENCHMARK: Final = choice(BENCHMARKS)
SCHEMA: Final = Schema(
    Site,
    home="site",
    tables={
        "site": "The file system.",
        "servers": "",
        "limits": "",
        "snapshot": "When telemetry is read, in addition to before and after each probe.",
    },
    kinds={"probe.benchmark": _BENCHMARK},
)
PROBE: Final = Schema(SiteProbe, kinds={"benchmark": _BENCHMARK})
"""The schema of one probe."""


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a site file, for editors."""
    return schema_of(SCHEMA)


_SQLITE: Final = "sqlite:///"


@dataclass(frozen=True, slots=True)
class LoadedSite:
    """A site, with warnings about its file."""

    site: Site
    warnings: tuple[Message, ...] = ()


def site_directories(environment: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """Return the directories of site files; the first with a name wins.

    ``$TRIMTAB_SITES``, ``~/.config/trimtab/sites`` (``$XDG_CONFIG_HOME``), ``/etc/trimtab/sites``.
    """
    environment = os.environ if environment is None else environment
    directories = []
    if listed := environment.get("TRIMTAB_SITES"):
        directories.append(Path(listed))
    if configuration := environment.get("XDG_CONFIG_HOME"):
        directories.append(Path(configuration) / "trimtab" / "sites")
    elif home := environment.get("HOME"):
        directories.append(Path(home) / ".config" / "trimtab" / "sites")
    return (*directories, Path("/etc/trimtab/sites"))


def known_sites(environment: Mapping[str, str] | None = None) -> dict[str, Path]:
    """Return all sites that can be named, in alphabetical order, with their files."""
    paths: dict[str, Path] = {}
    for directory in site_directories(environment):
        try:
            names = [entry for entry in os.listdir(directory) if entry.endswith(".toml")]  # noqa: PTH208 (names only)
        except OSError:
            continue  # most hosts have only one of the three; find_site reports where it looked
        for entry in names:
            if NAME.fullmatch(entry.removesuffix(".toml")):
                paths.setdefault(entry.removesuffix(".toml"), directory / entry)
    return dict(sorted(paths.items()))


def find_site(name_or_path: str, environment: Mapping[str, str] | None = None) -> Path:
    """Return the file of a site; a text with ``/`` or ending with ``.toml`` is a path.

    Raises
    ------
    UsageError
        There is no such site; with the searched directories and the known names.
    """
    if "/" in name_or_path or name_or_path.endswith(".toml"):
        return Path(name_or_path)
    shown = visible(name_or_path[:80])
    if not NAME.fullmatch(name_or_path):
        raise UsageError(
            f"{shown!r} is not a site name",
            code="name-invalid",
            hint="names have lower-case letters, digits and dashes; a path has a / or ends with "
            ".toml",
        )
    for directory in site_directories(environment):
        path = directory / f"{name_or_path}.toml"
        if os.path.lexists(path):
            return path
    known = known_sites(environment)
    near = did_you_mean(name_or_path, known)
    looked = ", ".join(str(directory) for directory in site_directories(environment))
    raise UsageError(
        f"there is no site {shown!r}: no {shown}.toml in {looked}",
        code="site-unknown",
        hint=near or (f"known: {', '.join(known)}" if known else "trimtab init PATH writes one"),
    )


def load_site(path: str | os.PathLike[str]) -> LoadedSite:
    """Read a site from a file.

    Raises
    ------
    UsageError
        It cannot be read, is not TOML, has invalid or contradictory contents, or, if we are root,
        can be changed by others: it names programs that run as root.
    """
    loaded = parse_site(read_text(Path(path), "the site file"), os.fspath(path))
    store = loaded.site.store
    # Independent of the working directory, or each directory would have its own store.
    store = replace(store, url=_beside(store.url, path), raw=_beside(store.raw, path))
    site = replace(loaded.site, store=store)
    return LoadedSite(site, (*loaded.warnings, *_other_name(site, Path(path))))


def _beside(place: str | None, path: str | os.PathLike[str]) -> str | None:
    """Resolve a path, or the URL of an SQLite file, relative to the file that has it."""
    scheme = _SQLITE if place is not None and place.startswith(_SQLITE) else ""
    name = (place or "").removeprefix(scheme)
    if not name or "://" in name or name.startswith(("/", "~", ":")):
        return place
    return f"{scheme}{Path(path).absolute().parent / name}"


def parse_site(text: str, source: str) -> LoadedSite:
    """Parse the text of a site file.

    Parameters
    ----------
    source
        Its name in errors and in `Site.source`.

    Raises
    ------
    UsageError
        As `load_site`.
    """
    name = visible(source)
    stated, mistakes = SCHEMA.read(parse_toml(text, name))
    if mistakes:
        raise config_error(mistakes, name, key_lines(text))
    site: Site = SCHEMA.build(stated, source=source)
    if mistakes := list(problems(site)):
        raise config_error(mistakes, name, key_lines(text))
    return LoadedSite(site, tuple(warnings(site)))


def _other_name(site: Site, path: Path) -> Iterable[Message]:
    if path.stem != site.name and path.parent in site_directories():
        yield Message(
            "site-name-differs",
            f"[site] name is {site.name!r}, but Trimtab finds it as {visible(path.stem)!r}",
        )


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
    """Return the text of a site file that `trimtab.site.site_file` reads back to ``site``.

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
    names = ("probe", "launcher", "webhook", "maintenance")
    probes, launchers, webhooks, maintenance = map(SCHEMA.group, names)
    tables = [
        _head(site, remarks),
        *writer.tables(site),
        *writer.items(probes, site.probes),
        *writer.items(launchers, site.launchers),
        *writer.items(webhooks, site.webhooks),
        *writer.items(maintenance, site.maintenance),
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


def _is_skipped(entry: SchemaTable | Entry, whole: Any) -> bool:
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
