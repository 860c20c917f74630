"""What may stand in a policy file: strict models, and where each key lives in a `Policy`.

Quantities are text with a unit (``"8w"``, ``"1MiB"``, ``"75%"``). A key that is not here is an
error. The writer and the table of keys in the docs are made from these models too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, PlainValidator, WithJsonSchema

from trimtab.errors import UsageError
from trimtab.purge.policy import DAY_S, TIMES, TimeName
from trimtab.site.schema import Duration, Fraction, Table, Text, refuse
from trimtab.units import is_digits, parse_bytes, parse_duration, parse_fraction
from trimtab.visible import visible

UNLIMITED: Final = "unlimited"
"""In place of a cap: TOML has no null, and a cap that is left out has its default."""
_BYTES_MAX: Final = 2**53
_DURATION_MAX_S: Final = 20 * 366 * DAY_S
_COUNT_MAX: Final = 10**15
_ACCOUNT: Final = re.compile(r"[^\s:,/\x00-\x1f\x7f-\x9f-][^\s:,/\x00-\x1f\x7f-\x9f]{0,254}")
"""What passwd(5) could hold, names of directory services (``DOM\\alice``, ``a@b``) with it."""
_ID_MAX: Final = 2**32 - 2
"""The last number, 2^32 - 1, is -1 to chown(2): nobody's."""


def _text_of(value: object, example: str) -> str:
    if not isinstance(value, str):
        raise refuse(f"{visible(str(value)[:40])} is not text", f'write it as "{example}"')
    return value


def _seconds(value: object) -> int:
    """Return whole seconds: what is compared with the times of files has no parts of them."""
    text = _text_of(value, "8w")
    try:
        duration_s = parse_duration(text)
    except UsageError as error:
        raise refuse(error.message, 'write it as "8w", "14d" or "24h"') from error
    if duration_s > _DURATION_MAX_S:
        raise refuse(f"{visible(text[:40])!r} is more than 20 years")
    if duration_s != int(duration_s):
        raise refuse(f"{visible(text[:40])!r} is not a whole number of seconds")
    return int(duration_s)


def _days(value: object) -> int:
    """Return a period of days or weeks: ``8m`` is eight minutes, and nobody means that here."""
    duration_s = _seconds(value)
    if 0 < duration_s < DAY_S:
        raise refuse(
            f"{visible(str(value)[:40])!r} is less than a day; m is minutes",
            'write "56d" or "8w"; months have no fixed length',
        )
    return duration_s


def _some_days(value: object) -> int:
    duration_s = _days(value)
    if duration_s == 0:
        raise refuse("it is to be more than 0")
    return duration_s


def _size_or_zero(value: object) -> int:
    text = _text_of(value, "1MiB")
    try:
        size_bytes = parse_bytes(text)
    except UsageError as error:
        raise refuse(error.message, error.hint) from error
    if size_bytes > _BYTES_MAX:
        raise refuse(f"{visible(text[:40])!r} is more than 8 PiB")
    return size_bytes


def _times(value: object) -> tuple[TimeName, ...]:
    names = value if isinstance(value, list) else [None]
    if not names or any(name not in TIMES for name in names) or len(set(names)) != len(names):
        raise refuse(
            f"{visible(str(value)[:80])} is not a list of times", 'among "atime", "mtime", "ctime"'
        )
    return tuple(name for name in TIMES if name in names)


def _day(value: object) -> date:
    """Return a day: TOML's own, or as text. A datetime is a date to Python and none here."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        return date.fromisoformat(_text_of(value, "2027-01-31"))
    except ValueError as error:
        raise refuse(
            f"{visible(str(value)[:40])!r} is not a day", "write until = 2027-01-31"
        ) from error


def _pools(value: object) -> object:
    if not isinstance(value, dict) or not value:
        raise refuse(
            f"{visible(repr(value)[:40])} names no pool", 'write target_pool = { flash = "75%" }'
        )
    return value


def _or_unlimited(read: Callable[[object], Any]) -> PlainValidator:
    # One validator and no union: pydantic would report what is wrong once a branch.
    return PlainValidator(lambda value: UNLIMITED if value == UNLIMITED else read(value))


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _COUNT_MAX:
        raise refuse(
            f"{visible(repr(value)[:40])} is no number of files, 1 or more",
            f'write files = 1_000_000, or "{UNLIMITED}"',
        )
    return value


def _cap_bytes(value: object) -> int:
    size_bytes = _size_or_zero(value)
    if size_bytes == 0:
        raise refuse("it is to be more than 0", f'"{UNLIMITED}" is no cap')
    return size_bytes


def _share(value: object) -> float:
    plain = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    try:
        fraction = parse_fraction(value if isinstance(value, str) else repr(value)) if plain else 0
    except UsageError as error:
        raise refuse(error.message, f'write 0.25, "25%" or "{UNLIMITED}"') from error
    if not fraction:
        raise refuse(
            f"{visible(str(value)[:40])} is no share, more than 0",
            f'write 0.25, "25%" or "{UNLIMITED}"',
        )
    return fraction


def _account(value: object) -> str | int:
    """Return a name or a number. Digits in quotes are neither: which of the two is meant?"""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _ID_MAX:
        return value
    if not isinstance(value, str) or not _ACCOUNT.fullmatch(value):
        raise refuse(
            f"{visible(repr(value)[:80])} is no name and no number of an account",
            'write user = "alice" or user = 1234',
        )
    if is_digits(value):
        raise refuse(f'"{value}" may be a name or a number', f"write {value} without quotes")
    return value


def _key(description: str, default: Any = None, **bounds: Any) -> Any:
    return Field(default=default, description=description, **bounds)


_DAYS_JSON = WithJsonSchema({"type": "string", "examples": ["8w", "14d"]})
_SECONDS_JSON = WithJsonSchema({"type": "string", "examples": ["24h", "60s"]})
Seconds = Annotated[int, BeforeValidator(_seconds), _SECONDS_JSON]
Days = Annotated[int, BeforeValidator(_days), _DAYS_JSON]
SomeDays = Annotated[int, BeforeValidator(_some_days), _DAYS_JSON]
SizeOrZero = Annotated[
    int,
    BeforeValidator(_size_or_zero),
    WithJsonSchema({"type": "string", "examples": ["0", "1MiB"]}),
]
Times = Annotated[
    tuple[TimeName, ...],
    BeforeValidator(_times),
    WithJsonSchema({"type": "array", "items": {"enum": list(TIMES)}, "minItems": 1}),
]
Day = Annotated[date, BeforeValidator(_day), WithJsonSchema({"type": "string", "format": "date"})]
_FILES_JSON = WithJsonSchema({"type": ["integer", "string"], "examples": [1000000, UNLIMITED]})
_BYTES_JSON = WithJsonSchema({"type": "string", "examples": ["100TiB", UNLIMITED]})
_SHARE_JSON = WithJsonSchema({"type": ["number", "string"], "examples": ["25%", UNLIMITED]})
_ACCOUNT_JSON = WithJsonSchema({"type": ["integer", "string"], "examples": ["alice", 1234]})
CapFiles = Annotated[int | str, _or_unlimited(_count), _FILES_JSON]
CapBytes = Annotated[int | str, _or_unlimited(_cap_bytes), _BYTES_JSON]
CapShare = Annotated[float | str, _or_unlimited(_share), _SHARE_JSON]
Account = Annotated[str | int, PlainValidator(_account), _ACCOUNT_JSON]
Id = Annotated[int, Field(ge=0, le=_ID_MAX)]
PoolLimits = Annotated[dict[str, Fraction], BeforeValidator(_pools), Field(min_length=1)]


class PolicyTable(Table):
    """What is purged, and down to where."""

    name: Text = _key("Of the policy: small letters, digits, dashes.", ...)
    root: Text = _key("What is purged, in full: a mount, or a directory of it.", ...)
    target: Fraction | None = _key("Fullness of the whole to come to, used / (used + available).")
    target_ost: Fraction | None = _key("Or: the fullness that no OST is to be above.")
    target_pool: PoolLimits | None = _key(
        "Or: pools of OSTs, each with the fullness that it is not to be above."
    )


class AgeTable(Table):
    """How old a file is, and how old it has to be."""

    counted: Times | None = _key("Times whose most recent is a file's last use.")
    minimum: Days | None = _key("Younger files stay; twice that where reads do not count.")


class KeepTable(Table):
    """What stays whatever its age."""

    minimum_size: SizeOrZero | None = _key("Smaller files stay.")
    root_files: bool | None = _key("Files of root: nobody reads a notice that is sent to root.")
    open_files: bool | None = _key("Files that somebody has open.")
    linked_files: bool | None = _key("Files with other names.")
    immutable_files: bool | None = _key("Files with the immutable flag; only true.")
    moved_files: bool | None = _key("Files that moved since the lists; only true.")


class NoticeTable(Table):
    """How long ahead users are told, and how."""

    period: Days | None = _key("How long a list stands before anything on it is deleted.")
    valid: SomeDays | None = _key("How long after that the plan may be carried out.")
    publish_factor: float | None = _key(
        "Lists name this many times what is forecast to be needed.", ge=1, le=100
    )
    forecast: SomeDays | None = _key("How far ahead growth is forecast; else period and valid.")
    directory: Text | None = _key("Directory of root's for the users' lists.")
    mail_to: Text | None = _key("Address of a user; {user} is the name.")
    mail_map: Text | None = _key("File of lines: user, address. Goes before mail_to.")
    mail_from: Text | None = _key("Sender.")
    smtp_host: Text | None = _key("What takes the mail.")
    smtp_port: int | None = _key("Its port.", ge=1, le=65535)
    contact: Text | None = _key("Whom to ask, in a few words.")


class CapsTable(Table):
    """The most that one run deletes; "unlimited" is no cap."""

    files: CapFiles | None = _key("Files.")
    bytes: CapBytes | None = _key("Allocated bytes.")
    user: CapShare | None = _key("Share of what one user holds.")
    file_system: CapShare | None = _key("Share of the file system.")


class ArmingTable(Table):
    """What a run waits for before it may delete."""

    kind: Literal["delay", "second-person"] | None = _key(
        "delay: a time to object. second-person: two people."
    )
    delay: Seconds | None = _key("The time to object.")


class GuardsTable(Table):
    """When a run stops, or does not begin."""

    allow_list: Text | None = _key("File of root's with the roots that may be purged.")
    kill_switch: Text | None = _key("A file that stops every run while it is there.")
    index_age: Seconds | None = _key("The oldest index that a plan is made from.")
    clock_difference: Seconds | None = _key("By how much clocks may disagree.")
    jump_factor: float | None = _key(
        "By how much candidates may grow from plan to plan.", ge=1, le=1000
    )
    settle: Seconds | None = _key("The longest wait for space to come back before measuring.")


class ThrottleTable(Table):
    """How gently a run deletes."""

    latency: Duration | None = _key("Of one deletion, 99th percentile, above which it slows down.")
    batch_files: int | None = _key("The most files between two looks around.", ge=1, le=4096)
    threads: int | None = _key("Threads of one client.", ge=1, le=256)


class ExemptTable(Table):
    """One exemption: one of path, path_hex, user, group, project."""

    path: Text | None = _key("In full, beneath root: it and everything under it.")
    path_hex: Text | None = _key("The same, its bytes in hexadecimal, where they are no UTF-8.")
    user: Account | None = _key("Name or number.")
    group: Account | None = _key("Name or number.")
    project: Id | None = _key("Number.")
    id: Id | None = _key("Number of the named user or group, where it is to be fixed.")
    until: Day | None = _key("The last day, in UTC; else for ever.")
    reason: Text | None = _key("Why.")


class PolicyFile(Table):
    """A whole policy file."""

    policy: PolicyTable
    age: AgeTable = AgeTable()
    keep: KeepTable = KeepTable()
    notice: NoticeTable = NoticeTable()
    caps: CapsTable = CapsTable()
    arming: ArmingTable = ArmingTable()
    guards: GuardsTable = GuardsTable()
    throttle: ThrottleTable = ThrottleTable()
    exempt: list[ExemptTable] = Field(default=[], description="What stays, and until when.")


ATTRIBUTES: Final[dict[str, str]] = {
    "policy.name": "name",
    "policy.root": "root",
    "policy.target": "target",
    "policy.target_ost": "target_ost",
    "policy.target_pool": "target_pool",
    "age.counted": "counted",
    "age.minimum": "minimum_age_s",
    "keep.minimum_size": "minimum_size_bytes",
    "keep.root_files": "keep_root_files",
    "keep.open_files": "open_files",
    "keep.linked_files": "linked_files",
    "keep.immutable_files": "immutable_files",
    "keep.moved_files": "moved_files",
    "notice.period": "notice_s",
    "notice.valid": "valid_s",
    "notice.publish_factor": "publish_factor",
    "notice.forecast": "forecast_s",
    "notice.directory": "notices.directory",
    "notice.mail_to": "notices.mail_to",
    "notice.mail_map": "notices.mail_map",
    "notice.mail_from": "notices.mail_from",
    "notice.smtp_host": "notices.smtp_host",
    "notice.smtp_port": "notices.smtp_port",
    "notice.contact": "notices.contact",
    "caps.files": "caps.files",
    "caps.bytes": "caps.bytes",
    "caps.user": "caps.user_fraction",
    "caps.file_system": "caps.filesystem_fraction",
    "arming.kind": "arming.kind",
    "arming.delay": "arming.delay_s",
    "guards.allow_list": "guards.allow_list",
    "guards.kill_switch": "guards.kill_switch",
    "guards.index_age": "guards.index_age_max_s",
    "guards.clock_difference": "guards.clock_difference_max_s",
    "guards.jump_factor": "guards.jump_factor",
    "guards.settle": "guards.settle_s",
    "throttle.latency": "throttle.latency_s",
    "throttle.batch_files": "throttle.batch_files",
    "throttle.threads": "throttle.threads",
}
"""A key of the file to where it lives in a `Policy`."""


def table_names() -> tuple[str, ...]:
    """Return the tables of a policy file in their order, exemptions apart."""
    return tuple(name for name in PolicyFile.model_fields if name != "exempt")


def table_of(name: str) -> type[Table]:
    """Return the model of a table; of ``exempt`` that of one exemption."""
    if name == "exempt":
        return ExemptTable
    model = PolicyFile.model_fields[name].annotation
    assert isinstance(model, type)
    assert issubclass(model, Table)
    return model


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a policy file, for editors."""
    return PolicyFile.model_json_schema(mode="validation")
