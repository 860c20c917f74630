"""A site as a commented file that a person can go on with, and that reads back to the same site."""

from __future__ import annotations

import os
import re
import secrets
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import fields as dataclass_fields
from decimal import Decimal
from pathlib import Path
from typing import Final

from trimtab.errors import RefusedError, UnreadableError, UsageError
from trimtab.model.hardware import Figure, Hardware
from trimtab.model.site import Servers, Site, SiteLauncher, SiteLimits, SiteProbe, Ssh
from trimtab.site.load import parse_site
from trimtab.site.nodes import fold_nodes
from trimtab.site.targets import fold_targets
from trimtab.visible import visible

Comments = Mapping[str, Sequence[str]]
"""Lines to stand above a table or key: ``servers``, ``servers.oss``, ``probe.hourly.schedule``."""

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SHORT_ESCAPES: Final = {
    "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\",
}  # fmt: skip
_UNSEEN: Final = frozenset({"Cc", "Cf", "Co", "Cn", "Zl", "Zp"})
_BYTES: Final = (("PiB", 2**50), ("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
_SECONDS: Final = (("d", 86400), ("h", 3600), ("m", 60))
_INDENT_MAXIMUM = 48
"""Characters: a longer value pushes its own comment to the right, not those of its table."""


@dataclass(frozen=True, slots=True)
class _Line:
    """One key of a table.

    Attributes
    ----------
    text
        The value as TOML, ``None`` where there is none: then ``example`` stands behind a ``#``.
    is_default
        The value is what holds without it; it stands behind a ``#`` too.
    """

    key: str
    text: str | None
    comment: str = ""
    is_default: bool = False
    example: str = ""

    @property
    def assignment(self) -> str:
        """Return ``key = value``, behind a ``#`` where it need not be said."""
        hidden = "# " if self.text is None or self.is_default else ""
        return f"{hidden}{_key(self.key)} = {self.text or self.example}"


@dataclass(frozen=True, slots=True)
class _Block:
    """One table with what is said above it."""

    name: tuple[str, ...]
    title: str
    lines: tuple[_Line, ...]
    hidden: bool = False
    """The whole table is an example."""


def site_text(site: Site, *, found: Sequence[str] = (), comments: Comments | None = None) -> str:
    """Return the text of a site file that `trimtab.site.load` reads back to ``site``.

    What has its default stands behind a ``#``, to be uncommented and changed.

    Parameters
    ----------
    found
        What was discovered, for the head of the file; a line each.
    comments
        See `Comments`.

    Raises
    ------
    UsageError
        The site contradicts itself, or holds what no file can say, such as a path that is not
        UTF-8.
    """
    comments = comments or {}
    texts = [_head(site, found)]
    texts += [_block_text(block, comments) for block in _blocks(site)]
    text = "\n".join(texts)
    source = site.source or f"the site file of {site.name}"
    read = parse_site(text, source).site
    if replace(read, source=site.source) != site:
        raise UsageError(
            f"the site {visible(site.name)!r} holds a value that a file cannot say exactly"
        )
    return text


def write_site(path: str | os.PathLike[str], text: str, *, replace: bool = False) -> None:
    """Write a site file with mode 0644: the whole file is there, or nothing changed.

    Parameters
    ----------
    replace
        Whether a file that is there may be replaced.

    Raises
    ------
    RefusedError
        There is one already.
    UsageError
        The directory does not exist.
    UnreadableError
        It could not be written: no space, no permission.
    """
    target = Path(path)
    name = visible(os.fspath(path))
    if os.path.lexists(target) and not replace:
        raise _there_already(name)
    # A symbolic link stays one: the file that it names is replaced.
    target = target.resolve()
    temporary = target.with_name(f".{target.name[:200]}.{secrets.token_hex(6)}")
    try:
        try:
            _write_through(temporary, text.encode("utf-8"))
            _put(temporary, target, replace=replace)
        finally:
            temporary.unlink(missing_ok=True)
    except FileExistsError as error:
        raise _there_already(name) from error
    except FileNotFoundError as error:
        raise UsageError(
            f"the directory {visible(os.fspath(target.parent))} does not exist", hint="create it"
        ) from error
    except OSError as error:
        raise UnreadableError(
            f"the site file {name} could not be written: {error.strerror or error}"
        ) from error


def _put(temporary: Path, target: Path, *, replace: bool) -> None:
    if replace:
        temporary.replace(target)
        return
    try:
        os.link(temporary, target)  # unlike a rename, never over a file that was made meanwhile
    except PermissionError:  # a file system without hard links (link(2)): FAT, some of FUSE
        if os.path.lexists(target):
            raise FileExistsError(target) from None
        temporary.replace(target)


def _there_already(name: str) -> RefusedError:
    return RefusedError(
        f"{name} is there already", hint="take another name, or write over it with --replace"
    )


def _write_through(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fchmod(stream.fileno(), 0o644)  # whatever the umask: the watch may be another user's
        os.fsync(stream.fileno())


def _head(site: Site, found: Sequence[str]) -> str:
    lines = [
        f"# {visible(site.name)}: a site that Trimtab looks after.",
        "#",
        f"#     trimtab site {visible(site.name)} --validate    checks this file",
        "#",
        "# Sizes, times and shares are text with a unit. A line behind a # has its default or is",
        "# an example: take the # away to change it.",
    ]
    if found:
        lines += ["#", "# Found:", *(f"#   {visible(line)}".rstrip() for line in found)]
    return "\n".join(lines) + "\n"


def _blocks(site: Site) -> Iterator[_Block]:
    yield _site_block(site)
    if site.driver == "lustre" or site.servers != Servers():
        yield from _server_blocks(site.servers)
    yield _limits_block(site.limits)
    if site.hardware != Hardware():
        yield _hardware_block(site.hardware)
    yield _snapshot_block(site)
    for probe in site.probes:
        yield _probe_block(probe)
    if not site.probes:
        example = SiteProbe("hourly", schedule="every 1h")
        yield replace(_probe_block(example), hidden=True)
    for launcher in site.launchers:
        yield _launcher_block(launcher)
    yield _store_block(site)
    for name, armed in site.policies.items():
        line = _Line("armed", _boolean(armed), "only false: this version changes nothing")
        yield _Block(("policy", name), "What may act on its own.", (line,))


def _site_block(site: Site) -> _Block:
    lines = [
        _Line("name", _quoted(site.name), "small letters, digits, dashes"),
        _Line("driver", _quoted(site.driver), "local, lustre or twin"),
        _Line("path", _quoted(site.path), "the mount on this host; probes write below it"),
        _Line("timezone", _quoted(site.timezone), "of daily schedules; an IANA name"),
    ]
    if site.driver == "lustre" or site.file_system is not None:
        comment = "Lustre's name of it; else as the mount says"
        lines.append(_optional("file_system", site.file_system, '"scratch"', comment))
    if site.driver == "twin" or site.scenario is not None:
        lines.append(_optional("scenario", site.scenario, '"small"', "of the twin"))
    comment = "every class of client records atime: reads keep files"
    lines.append(
        _usual("reads_recorded", site.reads_recorded, Site("", "local", "").reads_recorded, comment)
    )
    return _Block(("site",), "Which file system this is.", tuple(lines))


def _server_blocks(servers: Servers) -> Iterator[_Block]:
    usual = Servers()
    lines = (
        _nodes("mds", servers.mds, '"mds[1-2]"', "metadata servers"),
        _nodes("oss", servers.oss, '"oss[01-08]"', "object storage servers"),
        _nodes(
            "clients", servers.clients, '"login1,nid[1-2]"', "some of each class: atime recorded?"
        ),
        _usual("reach", servers.reach, usual.reach, "ssh, or local: they are all this host"),
        _usual("sudo", servers.sudo, usual.sudo, "read what needs rights with sudo -n"),
        _usual("python", servers.python, usual.python, "on the servers, 3.6 or later"),
        _Line(
            "timeout",
            _duration(servers.timeout_s),
            "of one server, for everything that it is asked",
            servers.timeout_s == usual.timeout_s,
        ),
    )
    yield _Block(("servers",), "The servers, as ClusterShell node sets.", lines)
    if servers.reach == "ssh" or servers.ssh != Ssh():
        yield _ssh_block(servers.ssh)
    if servers.home:
        nodes = dict.fromkeys(servers.home.values())
        homes = tuple(
            _Line(
                node, _quoted(fold_targets(t for t, home in servers.home.items() if home == node))
            )
            for node in nodes
        )
        yield _Block(
            ("servers", "home"),
            "Which targets a server serves when nothing has failed over.",
            homes,
        )


def _ssh_block(ssh: Ssh) -> _Block:
    usual = Ssh()
    plain = len(ssh.command) == 1 and not re.search(r"[^A-Za-z0-9_./-]", ssh.command[0])
    command = _quoted(ssh.command[0]) if plain else _listed(ssh.command)
    lines = (
        _Line("command", command, "with fixed arguments, if any", ssh.command == usual.command),
        _optional("user", ssh.user, '"trimtab"', "else as ssh's configuration says"),
        _Line(
            "options",
            _listed(ssh.options),
            'one word each: "-oPort=2222"',
            ssh.options == usual.options,
        ),
        _usual("fanout", ssh.fanout, usual.fanout, "connections at the same time"),
    )
    return _Block(("servers", "ssh"), "How they are reached.", lines)


def _limits_block(limits: SiteLimits) -> _Block:
    usual = SiteLimits()
    lines = (
        _usual("fullness", limits.fullness, usual.fullness, "used / (used + available)"),
        _usual("reopen", limits.reopen, usual.reopen, "where a closed target opens again"),
        _usual("cov", limits.cov, usual.cov, "goal over the window"),
        _Line(
            "window",
            _duration(limits.window_s),
            "twice the longest job",
            limits.window_s == usual.window_s,
        ),
    )
    return _Block(("limits",), "What it is held to.", lines)


def _hardware_block(hardware: Hardware) -> _Block:
    values = {item.name: getattr(hardware, item.name) for item in dataclass_fields(hardware)}
    lines = tuple(
        _Line(
            name,
            _quoted(str(value.text if isinstance(value, Figure) else value))
            if not isinstance(value, int)
            else repr(value),
        )
        for name, value in values.items()
        if value is not None
    )
    return _Block(("hardware",), "What it is built of, for trimtab ladder.", lines)


def _snapshot_block(site: Site) -> _Block:
    lines = (
        _optional("schedule", site.snapshot_schedule, '"every 15m"', "when, besides at probes"),
        _jitter(site.snapshot_jitter_s),
    )
    return _Block(("snapshot",), "When telemetry is read.", lines)


def _probe_block(probe: SiteProbe) -> _Block:
    usual = SiteProbe("")
    lines = (
        _usual("benchmark", probe.benchmark, usual.benchmark, "auto, ior, fio, builtin, mdtest"),
        *_command_lines(probe),
        _optional(
            "schedule", probe.schedule, '"every 1h"', "daily at 20:00, 30 2 * * mon-fri, ..."
        ),
        _usual("launcher", probe.launcher, usual.launcher, "local, mpi, or a [launcher.NAME]"),
        _usual("nodes", probe.nodes, usual.nodes, "clients"),
        _optional("tasks_per_node", probe.tasks_per_node, "4", "else as trimtab check chooses"),
        *_phase_lines(probe),
        _Line(
            "timeout",
            None if probe.timeout_s is None else _duration(probe.timeout_s),
            "of one phase or command; a run beyond it counts as 0",
            example='"10m"',
        ),
        _jitter(probe.jitter_s),
        _optional("directory", probe.directory, '"probes"', "below the site's path"),
        _Line(
            "pending",
            _duration(probe.pending_s),
            "the longest wait in a queue",
            probe.pending_s == usual.pending_s,
        ),
        _usual("drop_caches", probe.drop_caches, usual.drop_caches, "of the clients; needs root"),
        _usual("confirm", probe.confirm, usual.confirm, "runs more, when a change is suspected"),
        *(
            ()  # of Lustre alone
            if probe.stripe_count is None
            else (_Line("stripe_count", repr(probe.stripe_count), "OSTs of a file"),)
        ),
    )
    title = "A probe: a benchmark with fixed parameters, so that its runs can be compared."
    return _Block(("probe", probe.name), title, lines)


def _command_lines(probe: SiteProbe) -> Iterator[_Line]:
    """Yield what only a probe has that is one command."""
    usual = SiteProbe("")
    if probe.command is not None:
        yield _Line("command", _listed(probe.command), "word by word; no shell")
        yield _optional("output", probe.output, '"**/summary.json"', "else what it prints")
    elif probe.is_one_command:
        yield _usual("items", probe.items, usual.items, "files of each task")
        yield _usual("repetitions", probe.repetitions, usual.repetitions, "of all phases")


def _phase_lines(probe: SiteProbe) -> Iterator[_Line]:
    """Yield what a probe has that writes and reads in turn."""
    if probe.is_one_command:
        return
    usual = SiteProbe("")
    size, block = probe.transfer_size_bytes, probe.block_size_bytes
    yield _Line("transfer_size", _size(size), "of one call", size == usual.transfer_size_bytes)
    yield _Line("block_size", _size(block), "file of one task", block == usual.block_size_bytes)
    yield _usual("repetitions", probe.repetitions, usual.repetitions, "writes and reads of a run")
    yield _Line(
        "duration",
        _duration(probe.duration_s),
        "of one write or read",
        probe.duration_s == usual.duration_s,
    )
    yield _usual("direct", probe.direct, usual.direct, "O_DIRECT, past the client's cache")
    yield _usual(
        "target_pinning", probe.target_pinning, usual.target_pinning, "a file on each OST; Lustre"
    )
    yield _options(probe.options)


def _launcher_block(launcher: SiteLauncher) -> _Block:
    lines = (
        _Line("kind", _quoted(launcher.kind), "local, mpi, slurm or ssh"),
        _options(launcher.options),
    )
    return _Block(("launcher", launcher.name), "What starts a probe's tasks.", lines)


def _store_block(site: Site) -> _Block:
    store = site.store
    retention = None if store.retention_s is None else _duration(store.retention_s)
    lines = (
        _optional("url", store.url, '"postgresql://host/trimtab"', "else as without a site file"),
        _optional("raw", store.raw, '"/var/lib/trimtab/raw"', "what tools printed"),
        _Line("retention", retention, "of raw outputs and snapshots", example='"400d"'),
    )
    return _Block(("store",), "Where results are kept.", lines)


def _block_text(block: _Block, comments: Comments) -> str:
    name = ".".join(block.name)
    lines = block.lines
    if block.hidden:
        lines = tuple(replace(line, is_default=True) for line in lines)
    texts = [f"# {block.title}", *_above(comments, name)]
    head = f"[{'.'.join(_key(part) for part in block.name)}]"
    texts.append(f"# {head}" if block.hidden else head)
    widths = [len(line.assignment) for line in lines]
    column = max((width for width in widths if width <= _INDENT_MAXIMUM), default=0) + 2
    for line in lines:
        texts += _above(comments, f"{name}.{line.key}")
        comment = f"# {line.comment}" if line.comment else ""
        texts.append(f"{line.assignment.ljust(column)}{comment}".rstrip())
    return "\n".join(texts) + "\n"


def _above(comments: Comments, name: str) -> list[str]:
    # Whoever wrote a line, it stays one line and a comment.
    return [f"# {visible(line)}".rstrip() for line in comments.get(name, ())]


def _usual(key: str, value: str | float | bool, default: object, comment: str) -> _Line:
    return _Line(key, _value(value), comment, value == default)


def _optional(key: str, value: str | int | None, example: str, comment: str) -> _Line:
    return _Line(key, None if value is None else _value(value), comment, example=example)


def _nodes(key: str, names: tuple[str, ...], example: str, comment: str) -> _Line:
    text = _quoted(fold_nodes(names)) if names else None
    return _Line(key, text, comment, example=example)


def _jitter(value_s: float) -> _Line:
    return _Line(
        "jitter", _duration(value_s), "the longest that its start is put off", value_s == 0
    )


def _options(options: Mapping[str, str]) -> _Line:
    pairs = ", ".join(f"{_key(name)} = {_quoted(text)}" for name, text in options.items())
    return _Line("options", f"{{ {pairs} }}" if pairs else "{}", "by its own names", not options)


def _value(value: str | float | bool) -> str:
    if isinstance(value, bool):
        return _boolean(value)
    return _quoted(value) if isinstance(value, str) else repr(value)


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _listed(words: Sequence[str]) -> str:
    return f"[{', '.join(_quoted(word) for word in words)}]"


def _size(value_bytes: int) -> str:
    for unit, factor in _BYTES:
        if value_bytes and value_bytes % factor == 0:
            return f'"{value_bytes // factor}{unit}"'
    return f'"{value_bytes}"'


def _duration(value_s: float) -> str:
    for unit, factor in _SECONDS:
        # A single minute, hour or day reads better in the unit below: 48h, 60s.
        if value_s >= 2 * factor and value_s % factor == 0 and unit != "d":
            return f'"{int(value_s // factor)}{unit}"'
        if unit == "d" and value_s >= 7 * factor and value_s % factor == 0:
            return f'"{int(value_s // factor)}d"'
    # Digits as Python has them, which are exact, but without an exponent.
    text = format(Decimal(repr(value_s)), "f")
    return f'"{text.removesuffix(".0")}s"'


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    """Return a basic string of TOML: what cannot be seen is an escape."""
    return f'"{"".join(_escaped(character) for character in text)}"'


def _escaped(character: str) -> str:
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    category = unicodedata.category(character)
    if category == "Cs":
        raise UsageError(
            "a name that is not UTF-8 cannot stand in a site file",
            hint="TOML is UTF-8; mount the file system at another path",
        )
    if category in _UNSEEN:
        code = ord(character)
        return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
    return character
