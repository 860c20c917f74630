"""What may stand in a scenario file: strict tables, one for each value of `model`.

A key is the field's name without its unit (``every`` is ``every_s`` inside): the unit is part of
the text. What a file leaves out takes the default of `model`, or what the preset says that it
extends.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Annotated, Any, ClassVar, Final, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from trimtab.twin.scenario import kinds, model
from trimtab.twin.scenario.kinds import Kind

RENAMED: Final = {
    "length": "length_s",
    "capacity": "capacity_bytes",
    "chunk": "chunk_bytes",
    "read": "read_bytes_per_s",
    "write": "write_bytes_per_s",
    "link": "link_bytes_per_s",
    "network": "network_bytes_per_s",
    "creates": "creates_per_s",
    "removes": "removes_per_s",
    "reset": "reset_s",
    "target_latency": "target_latency_s",
    "every": "every_s",
    "mean": "mean_s",
    "daily_writes": "daily_writes_bytes",
    "daily_reads": "daily_reads_bytes",
    "size_median": "size_median_bytes",
    "min_age": "min_age_s",
    "max_age": "max_age_s",
    "transfer_size": "transfer_size_bytes",
    "timeout": "timeout_s",
    "epoch": "epoch_s",
}
"""A key to its name inside, where the unit is part of it."""

Duration = Annotated[float, kinds.DURATION]
Size = Annotated[float, kinds.SIZE]
WholeSize = Annotated[int, kinds.WHOLE_SIZE]
SizeOrZero = Annotated[float, kinds.SIZE_OR_ZERO]
Rate = Annotated[float, kinds.RATE]
Operations = Annotated[float, kinds.OPERATIONS]
Fraction = Annotated[float, kinds.FRACTION]
InnerFraction = Annotated[float, kinds.INNER_FRACTION]
Switch = Annotated[bool, kinds.SWITCH]
Text = Annotated[str, kinds.TEXT]
Name = Annotated[str, kinds.NAME]
Schedule = Annotated[str, kinds.SCHEDULE]
Zone = Annotated[str, kinds.ZONE]
Moment = Annotated[Any, kinds.MOMENT]
Osts = Annotated[tuple[int, ...], kinds.OSTS]
FaultSize = Annotated[float, kinds.FAULT_SIZE]
Count = Annotated[int, kinds.whole(1, 1_000_000)]
CountOrZero = Annotated[int, kinds.whole(0, 1_000_000)]
Drives = Annotated[int, kinds.whole(1, 10_000)]
Few = Annotated[int, kinds.whole(0, 1_000)]
Seed = Annotated[int, kinds.whole(0, 2**63 - 1)]
Amount = Annotated[float, kinds.real(0, 1e15)]
Ratio = Annotated[float, kinds.real(0, 100)]
SizeIfAny = Annotated[float | None, kinds.SIZE.or_word("none")]
AmountIfAny = Annotated[float | None, kinds.real(0, 1e15).or_word("none")]
CapacityIfSaid = Annotated[float | None, kinds.SIZE.or_word("from-drives")]
LinkIfSlower = Annotated[float | None, kinds.RATE.or_word("none")]
Every = Annotated[float | None, kinds.DURATION.or_word("never")]
AgeIfAny = Annotated[float | None, kinds.DURATION.or_word("none")]
PerDay = Annotated[float | None, kinds.SIZE.or_word("unlimited")]
FractionOrAll = Annotated[float | None, kinds.FRACTION.or_word("all")]
Classes = Annotated[int | None, kinds.whole(1, 100_000).or_word("all")]


def _key(description: str) -> Any:
    # Whether a file says a key is in model_fields_set; its value may be None all the same.
    return Field(default=None, description=description)


def _drive(value: object) -> object:
    return {"like": value} if isinstance(value, str) else value


class Table(BaseModel):
    """The base of every table: no unknown keys, nothing converted in silence."""

    model_config = ConfigDict(extra="forbid", strict=True)
    MODEL: ClassVar[type]


class ScenarioTable(Table):
    """What it is called, and when it plays."""

    MODEL: ClassVar = model.Scenario
    name: Name = _key("Name of the scenario.")
    title: Text = _key("What it is, in a line.")
    extends: Text = _key("A preset, or the path of a file, that this one builds on.")
    inherit: list[Annotated[str, kinds.choice(("probes", "changes", "faults"))]] = _key(
        "What of the extended scenario's lists is kept; else all, with those here added."
    )
    start: Moment = _key("When it begins.")
    length: Duration = _key("How long it lasts.")
    timezone: Zone = _key("Of dates here and of daily schedules.")
    seed: Seed = _key("Of all that is drawn.")


class ResolutionTable(Table):
    """How finely it is simulated."""

    MODEL: ClassVar = model.Resolution
    classes: Classes = _key("Columns that stand for all OSTs; all: one for each OST.")
    groups: Annotated[int, kinds.whole(1, 4096)] = _key("Block groups of the miniature OST.")
    superblock_units: Annotated[int, kinds.whole(8, 65536)] = _key(
        "Units that the miniature drive erases at once."
    )
    epoch: Duration = _key("Length of a step.")


class DriveTable(Table):
    """A drive; in place of the table, its name: ``drive = "pm1733"``."""

    MODEL: ClassVar = model.DriveModel
    like: Text = _key("A drive that is known; the other keys are where this one differs.")
    name: Text = _key("What it is called.")
    capacity: Size = _key("For data, as sold.")
    read: Rate = _key("Sequential reads, as one server sees the drive.")
    write: Rate = _key("Sequential writes, before write amplification.")
    read_iops: Operations = _key("Random reads of 4 KiB.")
    write_iops: Operations = _key("Random writes of 4 KiB, full and in the steady state.")
    spare: InnerFraction = _key("Usable spare: part of the flash that is not for data.")
    drive_writes_per_day: Ratio = _key("That it is sold for, over five years.")


class RaidTable(Table):
    """How drives become one target."""

    MODEL: ClassVar = model.Raid
    kind: Annotated[str, kinds.choice(get_args(model.RaidKind))] = _key("Layout.")
    drives: Drives = _key("Drives of one OST, or of all that share them.")
    data: Drives = _key("Data chunks of a stripe.")
    parity: Few = _key("Parity chunks of a stripe; of raid10: copies beside the first.")
    spares: Few = _key("Drives' worth of spare space, spread over all.")
    chunk: WholeSize = _key("Bytes of a stripe on one drive.")
    shared: Drives = _key("OSTs that lie on these drives together.")


class OstsTable(Table):
    """The object storage targets."""

    MODEL: ClassVar = model.Osts
    count: Count = _key("How many.")
    drive: Annotated[DriveTable, BeforeValidator(_drive)] = _key(
        "A known drive's name, or a table."
    )
    raid: RaidTable = _key("How drives become one target.")
    capacity: CapacityIfSaid = _key("Of one, as df counts it; from-drives: what they give.")
    per_server: Count = _key("OSTs of one OSS at home.")
    link: LinkIfSlower = _key("A server's link to one drive; none: faster than the drive.")


class MdtsTable(Table):
    """The metadata targets."""

    MODEL: ClassVar = model.Mdts
    count: Count = _key("How many.")
    inodes: Amount = _key("Of one.")
    creates: Operations = _key("Files created, of all MDTs together.")
    removes: Operations = _key("Files removed, of all MDTs together.")


class ServerTable(Table):
    """One OSS."""

    MODEL: ClassVar = model.Server
    cores: Count = _key("Cores.")
    network: Rate = _key("Line rate, all interfaces, each way.")


class ClientsTable(Table):
    """Compute nodes, and what their settings cost."""

    MODEL: ClassVar = model.Clients
    nodes: Count = _key("How many.")
    network: Rate = _key("Line rate of one node, each way.")
    checksums: Switch = _key("Lustre's checksums on the wire.")
    saferet: Switch = _key("The kernel's mitigation of CVE-2023-20569.")


class AllocatorTable(Table):
    """The block allocator of the OSTs' backing file system."""

    MODEL: ClassVar = model.Allocator
    family: Annotated[str, kinds.choice(get_args(model.AllocatorFamily))] = _key("Its loops.")
    c1: Fraction = _key("mb_c1_threshold: free part below which the search begins at loop 1.")
    c2: Fraction = _key("mb_c2_threshold.")
    c3: Fraction = _key("mb_c3_threshold.")
    reset: Every = _key("How often mb_last_group is set to 0.")


class QueueTable(Table):
    """Block layer of the drives."""

    MODEL: ClassVar = model.Queue
    writeback_throttling: Switch = _key("wbt_lat_usec over 0.")
    target_latency: Duration = _key("Of reads, over which it throttles.")


class TrimTable(Table):
    """How often free space is handed to the drives."""

    MODEL: ClassVar = model.Trim
    every: Every = _key("Time between two fstrim of one OST.")
    discard: Switch = _key("Mounted with -o discard.")


class PlacementTable(Table):
    """Which OSTs new files get."""

    MODEL: ClassVar = model.Placement
    kind: Annotated[str, kinds.choice(get_args(model.PlacementKind))] = _key("The rule.")
    qos_threshold_rr: Fraction = _key("Round-robin while free space differs by less.")
    qos_prio_free: Fraction = _key("Weight of free space against spreading.")
    stripe_count: Count = _key("OSTs of a file, by default.")


class LifetimeTable(Table):
    """A share of what is written, and how long it lives."""

    MODEL: ClassVar = model.Lifetime
    share: Fraction = _key("Of what users write.")
    mean: Annotated[float | None, kinds.DURATION.or_word("until-purged")] = _key(
        "Until its owner deletes it, on the average."
    )


class UsersTable(Table):
    """Who uses the file system, and how."""

    MODEL: ClassVar = model.Users
    count: Count = _key("How many.")
    fullness: Fraction = _key("At the start, of the whole.")
    fullness_spread: Fraction = _key("Standard deviation over OSTs at the start.")
    daily_writes: SizeOrZero = _key("On the average of a week, without probes.")
    daily_reads: SizeOrZero = _key("On the average of a week, without probes.")
    lifetimes: list[LifetimeTable] = _key("Shares that add to 1.")
    size_median: Size = _key("Of file sizes, which are log-normal.")
    size_sigma: Annotated[float, kinds.real(0, 10)] = _key(
        "Standard deviation of the sizes' logarithm."
    )
    rhythm: Fraction = _key("Amplitude of the daily wave of writes.")
    burstiness: Ratio = _key("Coefficient of variation of hourly writes besides.")
    reread_share: Fraction = _key("Of old bytes, read again within eight weeks.")
    skew: Ratio = _key("Exponent of Zipf's law of what users write.")
    quota_bytes: SizeIfAny = _key("Of one user.")
    quota_inodes: AmountIfAny = _key("Of one user.")


class PurgeTable(Table):
    """Deletion of what nobody used for long."""

    MODEL: ClassVar = model.Purge
    enabled: Switch = _key("Whether there is one.")
    target: Fraction = _key("Fullness of the whole that it brings it under.")
    min_age: Duration = _key("Younger files are never purged.")
    max_age: AgeIfAny = _key("Older ones always are.")
    every: Duration = _key("Time between two.")
    bytes_per_day: PerDay = _key("What deletion gets through.")


class GatingTable(Table):
    """Closing OSTs to new files when they are full."""

    MODEL: ClassVar = model.Gating
    enabled: Switch = _key("Whether it is done.")
    limit: Fraction = _key("Fullness over which an OST is closed.")
    reopen: Fraction = _key("Fullness under which it is opened again.")
    most_closed: FractionOrAll = _key("Part of all OSTs that may be closed at a time.")


class ProbeTable(Table):
    """A benchmark that runs by a schedule."""

    MODEL: ClassVar = model.ProbeLoad
    kind: Annotated[str, kinds.choice(("ior", "obdfilter-survey"))] = _key("What runs.")
    schedule: Schedule = _key("When, in the site's time.")
    nodes: CountOrZero = _key("Client nodes.")
    tasks_per_node: CountOrZero = _key("Tasks of a node.")
    transfer_size: WholeSize = _key("Bytes of one write or read.")
    bytes_written: SizeOrZero = _key("Of one run; as much is read back, then it is deleted.")
    timeout: Duration = _key("After which a run counts as 0.")
    since: Moment = _key("First moment at which it may run.")


class ChangeTable(Table):
    """Settings that change at a time."""

    MODEL: ClassVar = model.Change
    at: Moment = _key("When.")
    set: dict[str, Any] = _key('Dotted keys to their new values: {"trim.every" = "24h"}.')
    detail: Text = _key("What it is, and where it is printed.")


class FaultTable(Table):
    """Something that goes wrong."""

    MODEL: ClassVar = model.Fault
    at: Moment = _key("When.")
    kind: Annotated[str, kinds.choice(get_args(model.FaultKind))] = _key("What.")
    until: Moment = _key("When it is over; else it stays.")
    osts: Osts = _key("Numbers of the OSTs; none: the whole.")
    size: FaultSize = _key(
        "slow-drive: part of its speed that is left; filling, burst: bytes a second."
    )
    detail: Text = _key("What it is, and where it is printed.")


class ScenarioFile(Table):
    """A whole file."""

    MODEL: ClassVar = model.Scenario
    scenario: ScenarioTable = _key("What it is called, and when it plays.")
    resolution: ResolutionTable = _key("How finely it is simulated.")
    osts: OstsTable = _key("The object storage targets.")
    mdts: MdtsTable = _key("The metadata targets.")
    server: ServerTable = _key("One OSS.")
    clients: ClientsTable = _key("Compute nodes.")
    allocator: AllocatorTable = _key("The block allocator.")
    queue: QueueTable = _key("Block layer of the drives.")
    trim: TrimTable = _key("How often free space is handed to the drives.")
    placement: PlacementTable = _key("Which OSTs new files get.")
    users: UsersTable = _key("Who uses it, and how.")
    purge: PurgeTable = _key("Deletion of what nobody used for long.")
    gating: GatingTable = _key("Closing OSTs when they are full.")
    probe: dict[str, ProbeTable] = _key("Benchmarks by name: [probe.NAME].")
    change: list[ChangeTable] = _key("Settings that change at a time: [[change]].")
    fault: list[FaultTable] = _key("What goes wrong: [[fault]].")
    assumptions: dict[str, Text] = _key("Dotted keys to why their values are assumed.")


def attribute(key: str) -> str:
    """Return the name inside of a key in a file."""
    return RENAMED.get(key, key)


def given(table: Table) -> dict[str, Any]:
    """Return what a table says, under the names inside."""
    return {attribute(name): getattr(table, name) for name in table.model_fields_set}


def kind_of(table: type[Table], key: str) -> Kind | None:
    """Return how a key's value is read and written; ``None`` for tables and lists."""
    metadata = table.model_fields[key].metadata
    return next((item for item in metadata if isinstance(item, Kind)), None)


def subtable(table: type[Table], key: str) -> type[Table] | None:
    """Return the table that a key holds, if it holds one."""
    annotation = table.model_fields[key].annotation
    if isinstance(annotation, type) and issubclass(annotation, Table):
        return annotation
    return None


def default(table: type[Table], key: str) -> Any:
    """Return the default of a key, `MISSING` where it is to be given."""
    for one in fields(table.MODEL):
        if one.name == attribute(key):
            return one.default if one.default_factory is MISSING else one.default_factory()
    return MISSING
