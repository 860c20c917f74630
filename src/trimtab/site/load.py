"""Find and read a site file: every error names the file, the line, the table and the key."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trimtab.errors import UsageError
from trimtab.model.site import Site
from trimtab.site.checks import NAME, Problem, problems, warnings
from trimtab.site.locate import line_of
from trimtab.site.problems import (
    SHOWN_PROBLEMS,
    common_problem,
    did_you_mean,
    lines_of,
    one_error,
    told,
    unknown_key,
)
from trimtab.visible import visible

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import ErrorDetails

SIZE_MAXIMUM_BYTES: Final = 2**20
_NAMED: Final = frozenset({"probe", "launcher", "policy"})
"""Tables of tables: the second part of a location is a name that a person chose."""
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_AT = re.compile(r"(.*) \(at line (\d+), column (\d+)\)\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class LoadedSite:
    """A site, and what in its file is allowed and probably not meant."""

    site: Site
    warnings: tuple[str, ...] = ()


def site_directories(environment: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """Return where site files are looked for, the first one that has a name wins.

    ``$TRIMTAB_SITES``, ``~/.config/trimtab/sites`` (``$XDG_CONFIG_HOME``), ``/etc/trimtab/sites``.
    """
    environment = os.environ if environment is None else environment
    directories = []
    if own := environment.get("TRIMTAB_SITES"):
        directories.append(Path(own))
    if configuration := environment.get("XDG_CONFIG_HOME"):
        directories.append(Path(configuration) / "trimtab" / "sites")
    elif home := environment.get("HOME"):
        directories.append(Path(home) / ".config" / "trimtab" / "sites")
    return (*directories, Path("/etc/trimtab/sites"))


def known_sites(environment: Mapping[str, str] | None = None) -> dict[str, Path]:
    """Return every site that a name can mean, in alphabetical order, with its file."""
    found: dict[str, Path] = {}
    for directory in site_directories(environment):
        try:
            names = [entry for entry in os.listdir(directory) if entry.endswith(".toml")]  # noqa: PTH208 (names only)
        except OSError:
            continue  # most hosts have one of the three; find_site says where it looked
        for entry in names:
            if NAME.fullmatch(entry.removesuffix(".toml")):
                found.setdefault(entry.removesuffix(".toml"), directory / entry)
    return dict(sorted(found.items()))


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
    return LoadedSite(loaded.site, (*loaded.warnings, *_other_name(loaded.site, Path(path))))


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
    from pydantic import ValidationError

    from trimtab.site.schema import SiteFile, site_of

    name = visible(source)
    values = parse_toml(text, name)
    try:
        file = SiteFile.model_validate(values)
    except ValidationError as error:
        details = error.errors(include_url=False)
        found = [_problem(one) for one in details[:SHOWN_PROBLEMS]]
        raise _error(found, name, text, count=len(details)) from error
    site = site_of(file, source)
    if found := list(problems(site)):
        raise _error(found[:SHOWN_PROBLEMS], name, text, count=len(found))
    return LoadedSite(site, tuple(warnings(site)))


def _other_name(site: Site, path: Path) -> Iterable[str]:
    if path.stem != site.name and path.parent in site_directories():
        yield f"[site] name is {site.name!r}, but trimtab finds it as {visible(path.stem)!r}"


def read_text(path: Path, noun: str) -> str:
    """Return the text of a small file that a person wrote and that may name what runs as root.

    Parameters
    ----------
    noun
        What errors call it: ``the site file``.

    Raises
    ------
    UsageError
        It cannot be read, is no regular file, too large, not UTF-8, or, where we are root, can be
        changed by others.
    """
    name = f"{noun} {visible(os.fspath(path))}"
    try:
        # Without O_NONBLOCK a pipe would wait for its writer before it can be looked at.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{name} cannot be read: {reason}") from error
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise UsageError(f"{name} is not a regular file")
        _refuse_foreign(name, path, state)
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            data = stream.read(SIZE_MAXIMUM_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)
    if len(data) > SIZE_MAXIMUM_BYTES:
        raise UsageError(f"{name} is larger than 1 MiB: it is something else")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(
            f"{visible(os.fspath(path))}:{line}: byte {data[error.start]:#04x} is not UTF-8"
        ) from error


def _refuse_foreign(name: str, path: Path, state: os.stat_result) -> None:
    if os.geteuid() != 0:
        return
    if state.st_uid != 0:
        why = f"belongs to user {state.st_uid}"
    elif state.st_mode & stat.S_IWOTH:
        why = "can be written by everyone"
    elif state.st_mode & stat.S_IWGRP and state.st_gid != 0:
        why = f"can be written by group {state.st_gid}"
    else:
        return
    file = visible(os.fspath(path))
    raise UsageError(
        f"{name} {why}, and what it names (ssh, launchers) runs as root",
        hint=f"chown root {file}; chmod go-w {file}; or run trimtab as that user",
    )


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """Return the tables of a TOML file; an error names the file and the line.

    Raises
    ------
    UsageError
        It is not TOML.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _AT.match(str(error))
        if found is None:  # "(at end of document)"
            message, line, column = str(error).partition(" (at")[0], text.count("\n") + 1, None
        else:
            message, line, column = found.groups()
        place = f"{name}:{line}" + (f":{column}" if column else "")
        raise UsageError(
            f"{place}: not TOML: {visible(message[:200])}",
            hint='text stands in quotes: schedule = "every 1h"',
        ) from error
    except (ValueError, RecursionError) as error:
        # Numbers of thousands of digits, brackets within brackets: nothing that a person writes.
        raise UsageError(f"{name}: not TOML: {visible(str(error)[:200])}") from error


def probe_problem(error: ErrorDetails) -> Problem:
    """Return what is wrong with a probe's table by itself; its location is the key alone."""
    location = ("probe", "", *error["loc"])
    problem = _problem({**error, "loc": location})
    message = problem.message
    if error["type"] == "extra_forbidden":
        message = "it is no key of a probe"
    return Problem(problem.location[2:], message, problem.hint)


def _problem(error: ErrorDetails) -> Problem:
    location = tuple(str(part) for part in error["loc"] if isinstance(part, str))
    context: Mapping[str, Any] = error.get("ctx", {})
    match error["type"]:
        case "site":
            return Problem(location, context["message"], context["hint"] or None)
        case "extra_forbidden":
            return _unknown_key(location)
        case "missing":
            return Problem(location, "is missing", _example(location))
        case "literal_error":
            allowed = context["expected"].replace("'", '"')
            near = did_you_mean(str(error["input"]), re.findall(r'"([^"]+)"', allowed))
            shown = visible(str(error["input"])[:80])
            return Problem(location, f"{shown!r} is not {allowed}", near)
        case "string_type":
            shown = visible(repr(error["input"])[:80])
            return Problem(location, f"{shown} is not text", "write it in quotes")
        case _:
            return common_problem(error, location)


def _example(location: tuple[str, ...]) -> str | None:
    return {
        ("site",): 'write [site] with name = "scratch", driver = "lustre", path = "/scratch"',
        ("site", "name"): 'name = "scratch"',
        ("site", "driver"): 'driver = "lustre"',
        ("site", "path"): 'path = "/scratch"',
    }.get(location, 'kind = "mpi"' if location[-1] == "kind" else None)


def _unknown_key(location: tuple[str, ...]) -> Problem:
    from trimtab.site.schema import SiteFile

    *table, key = location
    elsewhere = [
        name
        for name, field in SiteFile.model_fields.items()
        if table and key in _keys_of(field.annotation) and name != table[0]
    ]
    return unknown_key(location, _keys(SiteFile, table), elsewhere)


def _keys(model: type[BaseModel], table: Sequence[str]) -> list[str]:
    """Return the keys of a table: ``("servers", "ssh")``, or ``("probe", NAME)``."""
    for position, name in enumerate(table):
        if position == 1 and table[0] in _NAMED:
            continue
        model = _models(model.model_fields[name].annotation)[0]
    return list(model.model_fields)


def _keys_of(annotation: Any) -> list[str]:
    return [key for model in _models(annotation) for key in model.model_fields]


def _models(annotation: Any) -> list[type[BaseModel]]:
    """Return the models in ``X``, ``X | None`` and ``dict[str, X]``."""
    from typing import get_args

    from pydantic import BaseModel

    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]


def _error(found: Sequence[Problem], name: str, text: str, *, count: int) -> UsageError:
    """Return one error for the first problems of ``count``."""
    lines = lines_of(text)

    def tell(problem: Problem) -> str:
        return told(problem, name, line_of(lines, problem.location), _where(problem.location))

    return one_error(found, tell, count=count)


def _where(location: tuple[str, ...]) -> str:
    *table, key = location or ("",)
    # [probe.hourly] is a table and no key of one.
    if not table or (len(table) == 1 and table[0] in _NAMED):
        return f"[{_dotted(location)}]"
    return f"[{_dotted(table)}] {_dotted((key,))}"


def _dotted(parts: Sequence[str]) -> str:
    return ".".join(
        part if _BARE_KEY.fullmatch(part) else f'"{visible(part[:80])}"' for part in parts
    )
