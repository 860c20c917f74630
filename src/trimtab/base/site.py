"""The description of a site in its file: plain values, each with its key of the file.

`trimtab.site` finds, reads, checks and writes the file. The notation for workers, which
``[dask] scheduler`` shares with ``--dask``, is parsed here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from trimtab.base.error import UsageError, visible
from trimtab.base.filesystem import DRIVERS
from trimtab.base.name_set import fold_nodes, fold_targets, unfold_nodes, unfold_targets
from trimtab.base.schedule import find_zone
from trimtab.base.site_hardware import Hardware
from trimtab.base.site_maintenance import SiteMaintenance
from trimtab.base.site_policy import Alerts, MetricsExport, Policies, Webhook
from trimtab.base.toml_kind import (
    DURATION,
    DURATION_OR_ZERO,
    FRACTION,
    SCHEDULE,
    SWITCH,
    TEXT,
    TEXTS,
    WHOLE_SIZE,
    WORD,
    ValueKind,
    choice,
    inline_table,
    listed,
    of_text,
    quoted,
    read_text,
    read_texts,
    shown,
    table_of,
    whole,
)
from trimtab.base.toml_problem import BadValue
from trimtab.base.toml_schema import key, table, tables

NONE: Final = "none"
"""On a command line: no workers, whatever the site file says."""
_LOCAL: Final = re.compile(r"local(?::([1-9][0-9]{0,3}))?")
_ADDRESS: Final = re.compile(
    r"(?:tcp|tls|ucx|wss?)://(?:\[[0-9A-Fa-f:]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})"
)


def is_local(scheduler: str) -> bool:
    """Return whether processes of this host do the work, without Dask.

    Examples
    --------
    >>> is_local("local"), is_local("local:4"), is_local("local:0"), is_local("tcp://local:4")
    (True, True, False, False)
    """
    return _LOCAL.fullmatch(scheduler) is not None


def local_workers(scheduler: str) -> int | None:
    """Return the number of worker processes on this host; ``None`` if not stated.

    Examples
    --------
    >>> local_workers("local:4"), local_workers("local")
    (4, None)
    """
    match = _LOCAL.fullmatch(scheduler)
    return None if match is None or match[1] is None else int(match[1])


def who_works(processes: int | None, dask: str | None) -> tuple[int | None, str | None]:
    """Return the number of worker processes on this host, or the scheduler of the workers.

    Parameters
    ----------
    processes
        Value of ``--workers``; ``None``: not given.
    dask
        Value of ``--dask``; ``None``: not given.

    Raises
    ------
    UsageError
        Both state a number of workers.

    Examples
    --------
    >>> who_works(None, "local:4"), who_works(2, None), who_works(None, "tls://h:8786")
    ((4, None), (2, None), (None, 'tls://h:8786'))
    """
    if dask is None:
        return processes, None
    count = local_workers(dask)
    if processes is not None and not (is_local(dask) and count is None):
        raise UsageError(
            "--dask already sets the number of workers: leave --workers or --dask out",
            code="options-exclusive",
        )
    return (count or processes, None) if is_local(dask) else (None, dask)


def _read_scheduler(value: object) -> str:
    text = read_text(value)
    address = _ADDRESS.fullmatch(text)
    is_address = address is not None and 0 < int(address[1]) <= 65_535
    if not (is_address or is_local(text) or text.startswith("/")):
        raise BadValue(
            f"{shown(text)} is not a Dask scheduler",
            code="scheduler-invalid",
            hint='write "tls://HOST:8786" or "tcp://HOST:8786", the absolute path of a scheduler '
            'file, "local", or "local:4" for four processes of this host',
        )
    return text


SCHEDULER: Final = ValueKind(
    "Dask scheduler", '"tls://scheduler:8786"', _read_scheduler, quoted,
    schema={"type": "string", "examples": ["tls://scheduler:8786", "local", "local:4"]},
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SiteDask:
    """Workers for commands that name the site without ``--dask``.

    Attributes
    ----------
    scheduler
        As accepted by `trimtab.reach.dask_worker.answering`; ``None``: no Dask.
    """

    scheduler: str | None = key(
        SCHEDULER, "Its address or file, or local (no Dask): see docs/scale.md.", None
    )


COMMAND_TIMEOUT_S: Final = 3600.0
"""Timeout of a probe that is one command, if the site file sets none."""
DriverKind = str
"""A key of `trimtab.base.filesystem.DRIVERS`."""
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_PLAIN_WORD: Final = re.compile(r"[A-Za-z0-9_./-]+")
_WORDS_HINT: Final = 'write ["one", "two"]'


def _read_zone(text: str) -> str:
    find_zone(text)
    return text


def _read_path(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise BadValue(
            f"{shown(value)} is not text", code="wrong-type", hint="write the mount in quotes"
        )
    return value


def _no_empty(words: tuple[str, ...]) -> tuple[str, ...]:
    if not words:
        raise BadValue("a command has no words", code="text-empty")
    return words


def _read_program(value: object) -> tuple[str, ...]:
    """Return a command: text as a shell divides it, or its words."""
    try:
        words = shlex.split(value) if isinstance(value, str) else value
    except ValueError as error:
        raise BadValue(
            f"{shown(value)} is not a command: {error}", code="command-malformed"
        ) from error
    return _no_empty(read_texts(words, "a command", _WORDS_HINT))


def _read_command(value: object) -> tuple[str, ...]:
    """Return a command as its words; text would have to be divided, as only a shell can."""
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise BadValue(
            f"{shown(value)} is not a list of words",
            code="wrong-type",
            hint='write command = ["program", "--option", "{directory}"]',
        )
    for word in value:
        if _CONTROL.search(word):
            raise BadValue(f"{shown(word)} holds a control character", code="control-character")
    return _no_empty(tuple(value))


def _read_arguments(value: object) -> tuple[str, ...]:
    words = read_texts(value, "a list of arguments", _WORDS_HINT)
    for word in words:
        if not word.startswith("-"):
            raise BadValue(
                f"{shown(word)} does not begin with a dash: ssh would take it for a host",
                code="argument-malformed",
                hint='write an option and its value as one word: "-oPort=2222"',
            )
    return words


def _read_options(value: object) -> dict[str, str]:
    """Return options by name; integers need no quotes."""
    if not isinstance(value, dict):
        raise BadValue(
            "must be a table", code="wrong-type", hint='write options = {name = "value"}'
        )
    values = {}
    for name, item in value.items():
        option = f"{visible(name[:40])} = {visible(str(item)[:40])}"
        if isinstance(item, bool) or not isinstance(item, (int, str)):
            raise BadValue(
                f"{option} is neither text nor a whole number",
                code="wrong-type",
                hint="write it in quotes, as the benchmark reads it",
            )
        if _CONTROL.search(str(item)):
            raise BadValue(f"{option} holds a control character", code="control-character")
        values[TEXT.read(name)] = str(item)
    return values


def _read_home(value: object) -> dict[str, str]:
    """Return target to server, where a file has a server's targets."""
    home: dict[str, str] = {}
    for node, targets in _SERVED.read(value).items():
        for target in targets:
            if home.setdefault(target, node) != node:
                raise BadValue(
                    f"{target} is at home on {home[target]} and on {node}: it has one home",
                    code="home-ambiguous",
                )
    return home


def _home_rows(home: Mapping[str, str]) -> dict[str, str]:
    return {
        node: quoted(fold_targets(target for target, at in home.items() if at == node))
        for node in dict.fromkeys(home.values())
    }


def _write_program(words: tuple[str, ...]) -> str:
    plain = len(words) == 1 and _PLAIN_WORD.fullmatch(words[0])
    return quoted(words[0]) if plain else listed(words)


def _words(
    read: Callable[[object], Any], example: str, write: Any = listed, **more: Any
) -> ValueKind:
    return replace(TEXTS, read=read, write=write, example=example, **more)


ZONE: Final = of_text(_read_zone, "time zone", "Europe/Berlin")
_NODES: Final = of_text(
    unfold_nodes,
    "node set",
    "oss[01-08],oss11",
    write=lambda names: quoted(fold_nodes(names)) if names else None,
)
_TARGETS: Final = of_text(unfold_targets, "set of targets", "OST[0000-0003],MDT0000")
_SERVED: Final = table_of(_TARGETS, '{ oss1 = "OST[0000-0003]" }')
_HOME: Final = replace(
    _SERVED,
    read=_read_home,
    write=lambda home: inline_table(_home_rows(home)) if home else None,
    rows=_home_rows,
)
_PATH: Final = ValueKind(
    "path", '"/scratch"', _read_path, quoted, schema={"type": "string", "minLength": 1}
)
_PROGRAM: Final = _words(
    _read_program,
    '"ssh"',
    _write_program,
    schema={"type": ["string", "array"], "items": {"type": "string"}},
)
_COMMAND: Final = _words(_read_command, '["program", "{directory}"]')
_ARGUMENTS: Final = _words(_read_arguments, '["-oPort=2222"]')
_OPTIONS: Final = ValueKind(
    "options",
    '{name = "value"}',
    _read_options,
    lambda options: inline_table({name: quoted(value) for name, value in options.items()}),
    schema={"type": "object", "additionalProperties": {"type": ["string", "integer"]}},
)
_DEADLINE: Final = replace(DURATION, example='"10m"')
_JITTER: Final = "Maximum delay of its start."


def _any_of(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}"


@dataclass(frozen=True, slots=True)
class Ssh:
    """Connection to a site's servers."""

    command: tuple[str, ...] = key(_PROGRAM, "The program, with fixed arguments.", ("ssh",))
    user: str | None = key(
        WORD, "Remote user; else as ssh's configuration says.", None, example='"trimtab"'
    )
    options: tuple[str, ...] = key(_ARGUMENTS, 'More arguments, one word each: "-oPort=2222".', ())
    fanout: int = key(whole(1, 4096), "Connections at the same time.", 64)


@dataclass(frozen=True, slots=True)
class Servers:
    """The servers of a site and how they are queried.

    Node sets are expanded, in their order; one machine may be both OSS and MDS. Whether reads
    through a class of clients (login, compute, data transfer) update a file's atime depends on its
    mount. ``home`` maps a target to its server when nothing has failed over; it may lack targets.
    """

    oss: tuple[str, ...] = key(
        _NODES, "Object storage servers: a ClusterShell node set.", (), example='"oss[01-08]"'
    )
    mds: tuple[str, ...] = key(
        _NODES, "Metadata servers: a ClusterShell node set.", (), example='"mds[1-2]"'
    )
    clients: tuple[str, ...] = key(
        _NODES,
        "Some clients of each class: do they record atime?",
        (),
        example='"login1,nid[1-2]"',
    )
    reach: Literal["ssh", "local"] = key(
        choice(("ssh", "local")), "ssh, or local: every server is this host.", "ssh"
    )
    ssh: Ssh = table(Ssh, "How the servers are reached, where reach is ssh.")
    sudo: bool = key(SWITCH, "Read what needs rights through sudo -n.", False)
    python: str = key(WORD, "Interpreter on the servers, 3.6 or later.", "python3")
    timeout_s: float = key(DURATION, "Deadline of one server for everything asked.", 20.0)
    home: Mapping[str, str] = key(_HOME, "Server to the targets that it serves by default.", {})

    @property
    def names(self) -> tuple[str, ...]:
        """Every server once, MDSs first."""
        return tuple(dict.fromkeys((*self.mds, *self.oss)))


@dataclass(frozen=True, slots=True)
class SiteLimits:
    """Limits and goals of a site; the defaults are the figures of [S1].

    Attributes
    ----------
    fullness, reopen
        Fractions of used + available.
    cov
        Fraction.
    window_s
        Seconds.
    """

    fullness: float = key(FRACTION, "Used / (used + available) not to exceed.", 0.75)
    reopen: float = key(FRACTION, "Fullness at which a closed target is opened again.", 0.70)
    cov: float = key(FRACTION, "Goal of the coefficient of variation over the window.", 0.08)
    window_s: float = key(DURATION, "Twice the longest job.", 48 * 3600.0)


@dataclass(frozen=True, slots=True)
class SiteProbe:
    """A probe of the site file.

    Attributes
    ----------
    benchmark
        The benchmark that runs or, with ``command``, the format of its output;
        `trimtab.site.site_file` lists the names.
    block_size_bytes
        Fixed, so that runs remain comparable.
    timeout_s
        ``None``: `trimtab.probe.probe.PATIENCE_S` after its duration, or
        `COMMAND_TIMEOUT_S`.
    jitter_s
        The same for each slot; separates probes in time.
    pending_s
        A run that waited longer in a queue is missing, not failed.
    stripe_count
        ``None`` leaves the directory's layout unchanged.
    command
        Started once in each run. In its words ``{directory}`` is the probe's own directory,
        ``{tasks}`` and ``{nodes}`` are numbers.
    output
        Pattern of result files; ``None``: the result is the standard output of the command.
    confirm
        Further runs follow at intervals of a quarter of an hour.
    """

    name: str
    benchmark: str = key(TEXT, "Benchmark: auto, ior, fio, builtin, mdtest ...", "auto")
    schedule: str | None = key(SCHEDULE, "When; without it only on request.", None)
    launcher: str = key(TEXT, "local, mpi, or the name of a launcher.", "local")
    nodes: int = key(whole(1, 100_000), "Client nodes.", 1)
    tasks_per_node: int | None = key(
        whole(1, 65_536), "Tasks; else chosen as a check does.", None, example="4"
    )
    transfer_size_bytes: int = key(WHOLE_SIZE, "Bytes of one write or read.", 1024**2)
    block_size_bytes: int = key(WHOLE_SIZE, "Size of one task's file.", 1024**3)
    repetitions: int = key(whole(1, 10_000), "Writes and reads of one run.", 1)
    duration_s: float = key(DURATION, "Length of one write or read.", 30.0)
    timeout_s: float | None = key(
        _DEADLINE, "Limit of a phase or command; a run over it counts as 0.", None
    )
    jitter_s: float = key(DURATION_OR_ZERO, _JITTER, 0.0)
    direct: bool = key(SWITCH, "O_DIRECT, past the client's cache.", True)
    directory: str | None = key(
        TEXT, "Where its files go, below the site's path.", None, example='"probes"'
    )
    target_pinning: bool = key(SWITCH, "Each file on one target, as many on each; Lustre.", False)
    pending_s: float = key(DURATION, "The longest wait in a queue; then it is missing.", 3600.0)
    stripe_count: int | None = key(
        whole(-1, 2000), "OSTs of a file, -1 for all; Lustre.", None, example="4"
    )
    drop_caches: bool = key(
        SWITCH, "Drop the clients' page caches before each phase; needs root.", False
    )
    options: Mapping[str, str] = key(_OPTIONS, "For the benchmark, by its own names.", {})
    command: tuple[str, ...] | None = key(
        _COMMAND, "A benchmark of the site's own, word by word; no shell.", None
    )
    output: str | None = key(
        TEXT,
        "Files of its result, below {directory}; else what it prints.",
        None,
        example='"**/summary.json"',
    )
    items: int = key(whole(1, 100_000_000), "Files of each task; mdtest.", 1000)
    confirm: int = key(whole(0, 12), "Further runs when one makes a change suspect.", 0)

    @property
    def is_one_command(self) -> bool:
        """Whether a run is one command; other probes write and read in turn."""
        return self.command is not None or self.benchmark == "mdtest"


@dataclass(frozen=True, slots=True)
class SiteLauncher:
    """A launcher of the site file: a kind of `trimtab.reach.launcher` with its options."""

    name: str
    kind: str = key(
        choice(("local", "mpi", "slurm", "ssh")),
        "Program that starts them: local, mpi, slurm or ssh.",
        example='"mpi"',
    )
    options: Mapping[str, str] = key(_OPTIONS, "For the launcher, by its own names.", {})


@dataclass(frozen=True, slots=True)
class SiteStore:
    """Where results are stored.

    A ``url`` or ``raw`` of ``None`` is the default location, a retention of ``None`` is unlimited.
    """

    url: str | None = key(
        TEXT,
        "SQLAlchemy URL or path; else as without a site file.",
        None,
        example='"postgresql://host/trimtab"',
    )
    raw: str | None = key(
        TEXT,
        "Directory of raw outputs; else beside the store.",
        None,
        example='"/var/lib/trimtab/raw"',
    )
    retention_s: float | None = key(
        DURATION, "How long raw outputs and snapshots are kept.", None, example='"400d"'
    )


@dataclass(frozen=True, slots=True)
class Site:
    """One file system that Trimtab monitors.

    Attributes
    ----------
    source
        The file from which it was read.
    path
        The mount on this host, under which probes write.
    snapshot_schedule
        As a probe's; ``None``: only before and after probes, and on request.
    snapshot_jitter_s
        Longest delay of a snapshot, in seconds.
    reads_recorded
        Tested with a canary read (`trimtab.purge.site_facts`).
    reads_without_atime
        Otherwise reads do not count where there can be such (`trimtab.purge.site_facts`).
    """

    name: str = key(
        TEXT, "Name of the site: small letters, digits and dashes.", example='"scratch"'
    )
    driver: DriverKind = key(
        choice(tuple(DRIVERS)),
        f"How it is reached: {_any_of(DRIVERS)}.",
        example='"lustre"',
    )
    path: str = key(_PATH, "Its mount on this host; probes write below it.")
    source: str | None = None
    file_system: str | None = key(
        TEXT, "Lustre's name of it (fsname); else as the mount says.", None, example='"scratch"'
    )
    timezone: str = key(ZONE, "Zone of daily schedules and of outputs without one.", "UTC")
    scenario: str | None = key(TEXT, "The twin's scenario.", None, example='"small"')
    servers: Servers = table(Servers, "The servers, and how they are asked.")
    limits: SiteLimits = table(SiteLimits, "Limits and goals of the site.")
    snapshot_schedule: str | None = key(
        SCHEDULE, "When.", None, at="snapshot.schedule", example='"every 15m"'
    )
    snapshot_jitter_s: float = key(DURATION_OR_ZERO, _JITTER, 0.0, at="snapshot.jitter")
    probes: tuple[SiteProbe, ...] = tables(
        SiteProbe,
        "probe",
        "A benchmark with fixed parameters, so that its runs can be compared.",
        named=True,
    )
    launchers: tuple[SiteLauncher, ...] = tables(
        SiteLauncher, "launcher", "How a probe's tasks are started.", named=True
    )
    store: SiteStore = table(SiteStore, "Where results are kept.")
    policies: Policies = table(Policies, "What Trimtab may change, and when.", at="policy")
    alerts: Alerts = table(Alerts, "Which alerts are sent, when and to whom.")
    webhooks: tuple[Webhook, ...] = tables(
        Webhook,
        "webhook",
        "Alerts over HTTP: to a chat, Alertmanager or the site's own.",
        named=True,
    )
    maintenance: tuple[SiteMaintenance, ...] = tables(
        SiteMaintenance, "maintenance", "A planned downtime that comes again.", named=True
    )
    metrics: MetricsExport = table(MetricsExport, "The watch's metrics, for Prometheus.")
    dask: SiteDask = table(SiteDask, "Where --dask is not given: whose workers do the work.")
    hardware: Hardware = table(Hardware, "Drives, servers and links of the site, for the ladder.")
    reads_recorded: bool = key(
        SWITCH,
        "Every class of client records reads (atime).",
        False,
    )
    reads_without_atime: bool = key(
        SWITCH,
        "Reads count although some leave no atime (reflinks, overlays).",
        False,
    )


LIMITS: Final = SiteLimits()
"""The defaults: 8 % COV over 48 h, 75 % full, reopened below 70 %."""


@dataclass(frozen=True, slots=True)
class Checked:
    """One statement of a site file, compared with the live system.

    Attributes
    ----------
    what
        The statement.
    ok
        ``None``: could not be determined.
    detail
        What was found, or why it could not be determined.
    """

    what: str
    ok: bool | None
    detail: str
