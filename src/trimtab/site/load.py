"""Finds and reads site files; every error has the file, line, table and key."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from trimtab.config.files import parse_toml, read_text
from trimtab.config.lines import key_lines
from trimtab.config.problems import NAME, config_error, did_you_mean
from trimtab.errors import UsageError
from trimtab.message import Message
from trimtab.model.site import Site
from trimtab.site.checks import problems, warnings
from trimtab.site.schema import SCHEMA
from trimtab.visible import visible

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
