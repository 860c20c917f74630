"""Find and read a site file: every error names the file, the line, the table and the key."""

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
    """A site, and what in its file is allowed and probably not meant."""

    site: Site
    warnings: tuple[Message, ...] = ()


def site_directories(environment: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """Return where site files are looked for, the first one that has a name wins.

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
    """Return every site that a name can mean, in alphabetical order, with its file."""
    paths: dict[str, Path] = {}
    for directory in site_directories(environment):
        try:
            names = [entry for entry in os.listdir(directory) if entry.endswith(".toml")]  # noqa: PTH208 (names only)
        except OSError:
            continue  # most hosts have one of the three; find_site says where it looked
        for entry in names:
            if NAME.fullmatch(entry.removesuffix(".toml")):
                paths.setdefault(entry.removesuffix(".toml"), directory / entry)
    return dict(sorted(paths.items()))


def find_site(name_or_path: str, environment: Mapping[str, str] | None = None) -> Path:
    """Return the file of a site; what holds a ``/`` or ends with ``.toml`` is a path already.

    Raises
    ------
    UsageError
        There is none of that name; with the places that were looked at and the names known.
    """
    if "/" in name_or_path or name_or_path.endswith(".toml"):
        return Path(name_or_path)
    shown = visible(name_or_path[:80])
    if not NAME.fullmatch(name_or_path):
        raise UsageError(
            f"{shown!r} is not the name of a site",
            code="name-invalid",
            hint="names are small letters, digits and dashes; a path holds a / or ends with .toml",
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
    """Return the site that a file describes.

    Raises
    ------
    UsageError
        It cannot be read, is not TOML, holds what does not belong there, contradicts itself, or,
        where we are root, can be changed by others: it says what runs as root.
    """
    loaded = parse_site(read_text(Path(path), "the site file"), os.fspath(path))
    store = loaded.site.store
    # From wherever a command is started, or each directory would have a store of its own.
    store = replace(store, url=_beside(store.url, path), raw=_beside(store.raw, path))
    site = replace(loaded.site, store=store)
    return LoadedSite(site, (*loaded.warnings, *_other_name(site, Path(path))))


def _beside(place: str | None, path: str | os.PathLike[str]) -> str | None:
    """Return a path, or the URL of SQLite's file, as seen from the file that names it."""
    scheme = _SQLITE if place is not None and place.startswith(_SQLITE) else ""
    name = (place or "").removeprefix(scheme)
    if not name or "://" in name or name.startswith(("/", "~", ":")):
        return place
    return f"{scheme}{Path(path).absolute().parent / name}"


def parse_site(text: str, source: str) -> LoadedSite:
    """Return the site that the text of a file describes.

    Parameters
    ----------
    source
        What errors call it, and what `Site.source` will be.

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
