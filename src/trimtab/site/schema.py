"""What may stand in a site file: strict models, and the plain values that they become.

Quantities are text with a unit (``"48h"``, ``"1MiB"``, ``"75%"``). A key that is not here is an
error. Defaults are those of `trimtab.model.site`; they stand here as text for the JSON Schema, and
a test holds the two together.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, field_validator
from pydantic.config import JsonDict, JsonValue
from pydantic_core import PydanticCustomError

from trimtab.errors import UsageError
from trimtab.measure.table import names
from trimtab.model.hardware import Figure, Hardware, Parity
from trimtab.model.site import (
    Servers,
    Site,
    SiteLauncher,
    SiteLimits,
    SiteProbe,
    SiteStore,
    Ssh,
)
from trimtab.site.figures import parse_figure, parse_parity
from trimtab.site.nodes import unfold_nodes
from trimtab.site.schedule import find_zone, parse_schedule
from trimtab.site.targets import unfold_targets
from trimtab.units import parse_bytes, parse_duration, parse_fraction
from trimtab.visible import visible

BENCHMARKS: Final = (
    *("auto", *names("phases", "one command")),  # what a probe can run by itself
    *names("site command", "servers"),  # the output of a probe's ``command`` may be that
)

_DURATION_MAX_S = 100 * 366 * 86400.0
_BYTES_MAX = 2**53
"""Above, a size is no longer exact in the arithmetic that parses it."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def refuse(message: str, hint: str | None = None) -> PydanticCustomError:
    """Return the error that carries a message and a hint through pydantic."""
    # As values of the context: pydantic fills the template in, braces in a text would confuse it.
    return PydanticCustomError("site", "{message}", {"message": message, "hint": hint or ""})


def _checked(read: Callable[[str], Any], example: str) -> Callable[[Any], Any]:
    def check(value: object) -> Any:
        if not isinstance(value, str):
            raise refuse(f"{visible(str(value)[:40])} is not text", f'write it as "{example}"')
        try:
            return read(value)
        except UsageError as error:
            raise refuse(error.message, error.hint) from error

    return check


def _duration(text: str) -> float:
    value = parse_duration(text)
    if not value <= _DURATION_MAX_S:
        raise UsageError(f"{text!r} is more than 100 years")
    return value


def _positive_duration(text: str) -> float:
    value = _duration(text)
    if value <= 0:
        raise UsageError(f"{text!r} is to be more than 0")
    return value


def _size(text: str) -> int:
    value = parse_bytes(text)
    if not 0 < value <= _BYTES_MAX:
        raise UsageError(f"{text!r} is to be more than 0 and at most 8 PiB")
    return value


def _fraction(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise refuse(f"{visible(str(value)[:40])} is not a fraction", 'write 0.75 or "75%"')
    try:
        fraction = parse_fraction(value if isinstance(value, str) else repr(value))
    except UsageError as error:
        raise refuse(error.message, 'write 0.75 or "75%"') from error
    if fraction == 0:
        raise refuse("it is to be more than 0", 'write 0.75 or "75%"')
    return fraction


def _words(value: object) -> tuple[str, ...]:
    """Return a command: text as a shell divides it, or its words."""
    words = value
    if isinstance(value, str):
        try:
            words = shlex.split(value)
        except ValueError as error:
            raise refuse(f"{visible(value[:80])!r} is not a command: {error}") from error
    return _texts(words, "a command") or _none("a command")


def _command_words(value: object) -> tuple[str, ...]:
    """Return a command as its words; text would have to be divided, as only a shell can."""
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise refuse(
            f"{visible(str(value)[:40])} is not a list of words",
            'write command = ["program", "--option", "{directory}"]',
        )
    for word in value:
        if _CONTROL.search(word):
            raise refuse(f"{visible(word[:80])!r} holds a control character")
    return tuple(value) or _none("a command")


def _options(value: object) -> tuple[str, ...]:
    words = _texts(value, "a list of arguments")
    for word in words:
        if not word.startswith("-"):
            raise refuse(
                f"{visible(word[:80])!r} does not begin with a dash: ssh would take it for a host",
                'write an option and its value as one word: "-oPort=2222"',
            )
    return words


def _texts(value: object, noun: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise refuse(f"{visible(str(value)[:40])} is not {noun}", 'write ["one", "two"]')
    return tuple(_text(word) for word in value)


def _none(noun: str) -> tuple[str, ...]:
    raise refuse(f"{noun} has no words")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise refuse(f"{visible(str(value)[:40])} is not text", "write it in quotes")
    if not value.strip():
        raise refuse("it is empty", "leave the key out for the default")
    if _CONTROL.search(value):
        raise refuse(f"{visible(value[:80])!r} holds a control character")
    return value


def _word(value: object) -> str:
    text = _text(value)
    if text.startswith("-") or re.search(r"\s", text):
        raise refuse(f"{visible(text[:80])!r} is to be one word that begins with no dash")
    return text


def _option_values(value: object) -> dict[str, str]:
    """Return options by name; whole numbers may stand without quotes."""
    if not isinstance(value, dict):
        raise refuse("it is to be a table", 'write options = {name = "value"}')
    values = {}
    for name, item in value.items():
        number = isinstance(item, int) and not isinstance(item, bool)
        if not number and not isinstance(item, str):
            raise refuse(
                f"{visible(name[:40])} = {visible(str(item)[:40])} is neither text nor a whole "
                "number",
                "write it in quotes, as the benchmark reads it",
            )
        if _CONTROL.search(str(item)):
            raise refuse(f"{visible(name[:40])} = {visible(str(item)[:40])!r} holds a control sign")
        values[_text(name)] = str(item)
    return values


def _positive(unit: str) -> Callable[[str], Figure]:
    def read(text: str) -> Figure:
        figure = parse_figure(text, unit)
        if figure.value <= 0 or figure.upper is not None:
            raise UsageError(f"{text!r} is to be one number, more than 0")
        return figure

    return read


def _schedule(text: str) -> str:
    return parse_schedule(text).text


def _zone(text: str) -> str:
    find_zone(text)
    return text


_SIZE_JSON = {"type": "string", "examples": ["1MiB", "4k", "64GiB"]}
_DURATION_JSON = {"type": "string", "examples": ["48h", "30m", "20s"]}
_FRACTION_JSON = {
    "type": ["number", "string"],
    "exclusiveMinimum": 0,  # these two are of numbers only (JSON Schema, validation 6.2)
    "maximum": 1,
    "examples": [0.75, "75%"],
}
_TEXTS_JSON = {"type": "array", "items": {"type": "string"}}
_OPTIONS_JSON = {"type": "object", "additionalProperties": {"type": ["string", "integer"]}}

Text = Annotated[str, BeforeValidator(_text)]
Word = Annotated[str, BeforeValidator(_word)]
Size = Annotated[int, BeforeValidator(_checked(_size, "1MiB")), WithJsonSchema(_SIZE_JSON)]
Duration = Annotated[
    float, BeforeValidator(_checked(_positive_duration, "30m")), WithJsonSchema(_DURATION_JSON)
]
DurationOrZero = Annotated[
    float, BeforeValidator(_checked(_duration, "30m")), WithJsonSchema(_DURATION_JSON)
]
Fraction = Annotated[
    float,
    BeforeValidator(_fraction),
    WithJsonSchema(_FRACTION_JSON),
]
ScheduleText = Annotated[
    str,
    BeforeValidator(_checked(_schedule, "every 1h")),
    WithJsonSchema({"type": "string", "examples": ["every 1h", "daily at 20:00", "30 2 * * *"]}),
]
ZoneName = Annotated[str, BeforeValidator(_checked(_zone, "Europe/Berlin"))]
Nodes = Annotated[
    tuple[str, ...],
    BeforeValidator(_checked(unfold_nodes, "oss[01-08]")),
    WithJsonSchema({"type": "string", "examples": ["oss[01-08],oss11"]}),
]
Targets = Annotated[
    tuple[str, ...],
    BeforeValidator(_checked(unfold_targets, "OST[0000-0003],MDT0000")),
    WithJsonSchema({"type": "string", "examples": ["OST[0000-0003],MDT0000"]}),
]
Command = Annotated[
    tuple[str, ...],
    BeforeValidator(_words),
    WithJsonSchema({"type": ["string", "array"], "items": {"type": "string"}}),
]
CommandWords = Annotated[
    tuple[str, ...], BeforeValidator(_command_words), WithJsonSchema(_TEXTS_JSON)
]
SshOptions = Annotated[tuple[str, ...], BeforeValidator(_options), WithJsonSchema(_TEXTS_JSON)]
Options = Annotated[dict[str, str], BeforeValidator(_option_values), WithJsonSchema(_OPTIONS_JSON)]
Rate = Annotated[
    Figure,
    BeforeValidator(_checked(_positive("B/s"), "3.2 GB/s")),
    WithJsonSchema({"type": "string", "examples": ["3.2 GB/s", "1024 MiB/s", "400 Gb/s"]}),
]
Operations = Annotated[
    Figure,
    BeforeValidator(_checked(_positive("1/s"), "1600 kIOPS")),
    WithJsonSchema({"type": "string", "examples": ["1600 kIOPS", "29000 IOPS"]}),
]
ParityText = Annotated[
    Parity,
    BeforeValidator(_checked(parse_parity, "8+2")),
    WithJsonSchema({"type": "string", "examples": ["8+2", "8+2+1", "1+1", "none"]}),
]


def _key(description: str, default: JsonValue = None, **bounds: Any) -> Any:
    extra: JsonDict = {} if default is None else {"default": default}
    return Field(default=None, description=description, json_schema_extra=extra, **bounds)


class Table(BaseModel):
    """The base of every table: no unknown keys, nothing converted in silence."""

    model_config = ConfigDict(extra="forbid", strict=True)


class SiteTable(Table):
    """Which file system this is."""

    name: Text = Field(description="Name of the site: small letters, digits and dashes.")
    driver: Literal["local", "lustre", "twin"] = Field(description="How it is reached.")
    path: str = Field(description="Its mount on this host; probes write below it.", min_length=1)
    timezone: ZoneName | None = _key("Of daily schedules and of outputs without a zone.", "UTC")
    file_system: Text | None = _key("Lustre's name of it (fsname); else as the mount says.")
    scenario: Text | None = _key("The twin's scenario.")
    reads_recorded: bool | None = _key(
        "Every class of client records reads (atime): reading a file keeps it from a purge.", False
    )


class SshTable(Table):
    """How the servers are reached."""

    command: Command | None = _key("The program, with fixed arguments.", "ssh")
    user: Word | None = _key("Remote user; else as ssh's configuration says.")
    options: SshOptions | None = _key("More arguments, each one word.", [])
    fanout: int | None = _key("Connections at the same time.", 64, ge=1, le=4096)


class ServersTable(Table):
    """The servers, and how they are asked."""

    oss: Nodes | None = _key("Object storage servers: a ClusterShell node set.")
    mds: Nodes | None = _key("Metadata servers: a ClusterShell node set.")
    clients: Nodes | None = _key("Some clients of each class: do they record atime?")
    reach: Literal["ssh", "local"] | None = _key("local: every server is this host.", "ssh")
    ssh: SshTable | None = _key("How, where reach is ssh.")
    sudo: bool | None = _key("Read what needs rights through sudo -n.", False)
    python: Word | None = _key("Interpreter on the servers, 3.6 or later.", "python3")
    timeout: Duration | None = _key("Deadline of one server for everything asked.", "20s")
    home: dict[str, Targets] | None = _key("Server to the targets that it serves by default.")

    @field_validator("home")
    @classmethod
    def _one_home(cls, home: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        homes: dict[str, str] = {}
        for node, targets in home.items():
            for target in targets:
                other = homes.setdefault(target, node)
                if other != node:
                    raise refuse(f"{target} is at home on {other} and on {node}: it has one home")
        return home


class LimitsTable(Table):
    """What the site is held to."""

    fullness: Fraction | None = _key("Used / (used + available) not to exceed.", 0.75)
    reopen: Fraction | None = _key("Fullness at which a closed target is opened again.", 0.7)
    cov: Fraction | None = _key("Goal of the coefficient of variation over the window.", 0.08)
    window: Duration | None = _key("Twice the longest job.", "48h")


class SnapshotTable(Table):
    """When telemetry is read, besides before and after each probe."""

    schedule: ScheduleText | None = _key("When.")
    jitter: DurationOrZero | None = _key("The longest that its start is put off.", "0s")


class ProbeTable(Table):
    """A benchmark with fixed parameters and a schedule."""

    benchmark: Literal[BENCHMARKS] | None = _key("What measures.", "auto")  # pyright: ignore[reportInvalidTypeForm]
    schedule: ScheduleText | None = _key("When; without it only when asked for.")
    launcher: Text | None = _key("local, mpi, or the name of a launcher.", "local")
    nodes: int | None = _key("Client nodes.", 1, ge=1, le=100_000)
    tasks_per_node: int | None = _key("Tasks; else chosen as trimtab check does.", ge=1, le=65_536)
    transfer_size: Size | None = _key("Bytes of one write or read.", "1MiB")
    block_size: Size | None = _key("Size of one task's file.", "1GiB")
    repetitions: int | None = _key("Writes and reads of one run.", 1, ge=1, le=10_000)
    duration: Duration | None = _key("Length of one write or read.", "30s")
    timeout: Duration | None = _key("Of one phase or command; a run that passes it counts as 0.")
    jitter: DurationOrZero | None = _key("The longest that its start is put off.", "0s")
    direct: bool | None = _key("O_DIRECT, past the client's cache.", True)
    directory: Text | None = _key("Where its files go, below the site's path.")
    target_pinning: bool | None = _key("Each file on one target, as many on each.", False)
    pending: Duration | None = _key("The longest wait in a queue; then it is missing.", "1h")
    stripe_count: int | None = _key("OSTs of a file, -1 for all; Lustre.", ge=-1, le=2000)
    drop_caches: bool | None = _key("Drop the clients' page caches before each phase.", False)
    options: Options | None = _key("For the benchmark, by its own names.", {})
    command: CommandWords | None = _key("A benchmark of the site's own, word by word; no shell.")
    output: Text | None = _key("Files of its result, below {directory}; else what it prints.")
    items: int | None = _key("Files of each task; mdtest.", 1000, ge=1, le=100_000_000)
    confirm: int | None = _key("Further runs when one makes a change suspect.", 0, ge=0, le=12)


class LauncherTable(Table):
    """How a probe's tasks are started."""

    kind: Literal["local", "mpi", "slurm", "ssh"] = Field(description="What starts them.")
    options: Options | None = _key("For the launcher, by its own names.", {})


class StoreTable(Table):
    """Where results are kept."""

    url: Text | None = _key("SQLAlchemy URL or path; else as without a site file.")
    raw: Text | None = _key("Directory of raw outputs; else beside the store.")
    retention: Duration | None = _key("How long raw outputs and snapshots are kept.")


class PolicyTable(Table):
    """What may act on its own: nothing, in this version."""

    armed: bool | None = _key("Whether it may act.", False)


class HardwareTable(Table):
    """What it is built of: what `trimtab ladder` holds measured rates against."""

    drive: Text | None = _key("Model of the drives that hold data, for its data sheet.")
    drive_write: Rate | None = _key("Write rate of one drive, before its data sheet.")
    drive_read: Rate | None = _key("Read rate of one drive, before its data sheet.")
    drive_write_iops: Operations | None = _key("4 KiB random writes of one drive.")
    drive_read_iops: Operations | None = _key("4 KiB random reads of one drive.")
    drive_link: Rate | None = _key("What a server's link to one drive carries.")
    drives: int | None = _key("Drives of all OSTs.", ge=1, le=10_000_000)
    drives_per_ost: int | None = _key("Where no two OSTs share a drive.", ge=1, le=10_000)
    osts: int | None = _key("OSTs of the whole file system.", ge=1, le=1_000_000)
    oss: int | None = _key("Its object storage servers.", ge=1, le=1_000_000)
    parity: ParityText | None = _key("Data and parity blocks of a group: 8+2.")
    network: Rate | None = _key("Line rate of one OSS, all interfaces, each way.")
    client_network: Rate | None = _key("Line rate of one client node, each way.")


class SiteFile(Table):
    """A whole site file."""

    site: SiteTable
    servers: ServersTable = ServersTable()
    limits: LimitsTable = LimitsTable()
    snapshot: SnapshotTable = SnapshotTable()
    probe: dict[str, ProbeTable] = Field(default={}, description="Probes by name.")
    launcher: dict[str, LauncherTable] = Field(default={}, description="Launchers by name.")
    store: StoreTable = StoreTable()
    policy: dict[str, PolicyTable] = Field(default={}, description="Policies by name.")
    hardware: HardwareTable = HardwareTable()


_RENAMED: Final = {
    "timeout": "timeout_s",
    "window": "window_s",
    "duration": "duration_s",
    "jitter": "jitter_s",
    "pending": "pending_s",
    "retention": "retention_s",
    "transfer_size": "transfer_size_bytes",
    "block_size": "block_size_bytes",
}
"""A key to its name inside, where the unit is part of it."""


def site_of(file: SiteFile, source: str | None) -> Site:
    """Return the plain values of a file; what it does not say takes the model's default."""
    given = _given(file.snapshot)
    return Site(
        **_given(file.site),
        source=source,
        servers=_servers(file.servers),
        limits=SiteLimits(**_given(file.limits)),
        snapshot_schedule=given.get("schedule"),
        snapshot_jitter_s=given.get("jitter_s", 0.0),
        probes=tuple(SiteProbe(name, **probe_values(probe)) for name, probe in file.probe.items()),
        launchers=tuple(
            SiteLauncher(name, **_given(launcher)) for name, launcher in file.launcher.items()
        ),
        store=SiteStore(**_given(file.store)),
        policies={name: bool(policy.armed) for name, policy in file.policy.items()},
        hardware=hardware_of(file.hardware),
    )


def hardware_of(table: HardwareTable) -> Hardware:
    """Return the plain values of a hardware table."""
    return Hardware(**_given(table))


def probe_values(table: ProbeTable) -> dict[str, Any]:
    """Return what a probe's table says, under the names of `SiteProbe`."""
    return _given(table)


def _servers(table: ServersTable) -> Servers:
    values = _given(table)
    if table.ssh is not None:
        values["ssh"] = Ssh(**_given(table.ssh))
    if table.home is not None:
        values["home"] = {
            target: node for node, targets in table.home.items() for target in targets
        }
    return Servers(**values)


def _given(table: Table) -> dict[str, Any]:
    return {_RENAMED.get(name, name): getattr(table, name) for name in table.model_fields_set}


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a site file, for editors: TOML has no null, so it has none."""
    return _without_null(SiteFile.model_json_schema(mode="validation"))


def _without_null(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_null(item) for item in value]
    if not isinstance(value, dict):
        return value
    plain = {key: _without_null(item) for key, item in value.items()}
    choices = plain.get("anyOf")
    if isinstance(choices, list) and {"type": "null"} in choices:
        (choice,) = (item for item in choices if item != {"type": "null"})
        plain = choice | {key: item for key, item in plain.items() if key != "anyOf"}
    if "default" in plain and plain["default"] is None:
        del plain["default"]
    return plain
