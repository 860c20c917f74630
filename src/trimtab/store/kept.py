"""Values that only the store holds: sites, outputs, series, imports, incidents, derived values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from trimtab.base.error import Message, UsageError
from trimtab.base.event import new_identifier
from trimtab.base.plain import as_dict, as_list
from trimtab.base.run import Run, RunStatus
from trimtab.base.units import plural

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from trimtab.store.store import Store

V = TypeVar("V", bound="DataclassInstance")


@dataclass(frozen=True, slots=True)
class KeptSite:
    """One file system that something is kept of.

    Attributes
    ----------
    name
        Its name in a site file, or the identity of a path without one.
    driver
        ``local``, ``lustre``, ``twin`` ...; ``None`` until something is known of it.
    identity
        File-system UUID and mount point, as `PathDescription.identity` gives them.
    """

    name: str
    driver: str | None = None
    identity: str | None = None
    path: str | None = None
    timezone: str | None = None


@dataclass(frozen=True, slots=True)
class KeptOutput:
    """One raw output of a run as the store lists it: everything but the bytes.

    Attributes
    ----------
    ordinal
        Its place in the run, from 0; `Sample.output` refers to it.
    stdout_sha256, stderr_sha256
        Hash of the whole, uncompressed content; the name under which it lies beside the store.
    pruned_at
        When its content was removed, at the end of its retention; ``None``: it is there.
    """

    ordinal: int
    label: str
    argv: tuple[str, ...]
    stdout_sha256: str
    stdout_bytes: int
    stderr_sha256: str
    stderr_bytes: int
    exit_code: int | None
    started_at: datetime | None
    elapsed_s: float | None
    truncated: bool
    pruned_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """Runs of one site that may be compared with one another.

    Attributes
    ----------
    comparability
        What `trimtab.base.run.comparability_key` gives for each of them.
    runs
        How many, whatever their status.
    first_at, last_at
        ``None`` when none of them has a time.
    """

    site: str
    probe: str
    kind: str
    comparability: str
    runs: int
    first_at: datetime | None
    last_at: datetime | None

    @property
    def key(self) -> tuple[str, str]:
        """Site and comparability: no other series has both."""
        return self.site, self.comparability


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """A run that was read from files, to be kept.

    Attributes
    ----------
    run
        Without outputs.
    outputs
        Whose content lies beside the store already.
    key
        From the sha256 of the raw output: a second import into the same site with the same kind
        adds nothing.
    """

    run: Run
    outputs: tuple[KeptOutput, ...]
    key: str


@dataclass(frozen=True, slots=True)
class KeptIncident:
    """An incident as it was last found.

    Attributes
    ----------
    id, at, until, detected_at, shape, state, certainty, effect, summary
        As `trimtab.base.incident.Incident` has them.
    document
        The incident with its explanation, as plain values.
    """

    id: str
    site: str
    at: datetime
    until: datetime | None
    detected_at: datetime
    shape: str
    state: str
    certainty: str
    effect: float | None
    summary: str
    document: dict[str, object]

    @property
    def likeliest(self) -> dict[str, Any]:
        """The likeliest cause as plain values; empty where it is unexplained."""
        causes = as_list(self.document.get("causes"))
        return as_dict(causes[0]) if causes and not self.document.get("unexplained") else {}


@dataclass(frozen=True, slots=True)
class KeptResult:
    """What a command worked out, kept to be shown.

    Attributes
    ----------
    kind
        Which values the document holds: ``horizon``, ``what-if``.
    document
        As plain values.
    """

    id: str
    site: str
    kind: str
    at: datetime
    document: dict[str, object]


@dataclass(frozen=True, slots=True)
class Judged:
    """When a site's incidents were last looked for.

    Attributes
    ----------
    until
        The last run that was looked at.
    """

    at: datetime
    until: datetime | None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A run of a series that is not judged: it failed, never started, or did something else."""

    run: str
    at: datetime | None
    status: RunStatus
    reason: str


Sum = tuple[int, int]
"""How many rows, and the sum of their checksums."""


@dataclass(frozen=True, slots=True)
class Sums:
    """What differs when anything of a site has changed, also in place.

    Attributes
    ----------
    runs
        By comparability, their samples included.
    slots
        By item.
    tables
        By name, of the other tables and of the site itself.
    """

    runs: Mapping[str, Sum] = field(default_factory=dict)
    slots: Mapping[str, Sum] = field(default_factory=dict)
    tables: Mapping[str, Sum] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Derived:
    """A value as bytes, and the digest of all that it was worked out of."""

    basis: str
    document: bytes


def value_of(kind: type[V], row: Any, /, **more: Any) -> V:
    """Return the value of a row: the fields that have the name of a column, and ``more``.

    The row may be another value: what both name alike goes over.
    """
    names = (field.name for field in fields(kind) if field.name not in more)
    return kind(**{name: getattr(row, name) for name in names}, **more)


class Keepable(Protocol):
    """A value that a command works out and the dashboard shows: a horizon, a sweep of the twin."""

    KEPT_AS: ClassVar[str]


ResultValue = TypeVar("ResultValue", bound=Keepable)


@dataclass(frozen=True, slots=True)
class KeptValue(Generic[ResultValue]):
    """A result as it is kept."""

    id: str
    at: datetime
    value: ResultValue


@dataclass(frozen=True, slots=True)
class Results(Generic[ResultValue]):
    """The results of a site, the newest first.

    Attributes
    ----------
    unread
        How many are left out, since another version kept them.
    """

    held: tuple[KeptValue[ResultValue], ...] = ()
    unread: int = 0

    @property
    def problems(self) -> tuple[Message, ...]:
        """Why some are not shown."""
        if not self.unread:
            return ()
        text = f"{plural(self.unread, 'result')} of another version: work it out again"
        return (Message("results-unread", text),)

    def chosen(self, id_: str) -> KeptValue[ResultValue] | None:
        """Return the result of an id, the newest where none is named.

        Raises
        ------
        UsageError
            There is none of that id.
        """
        for result in self.held:
            if id_ in ("", result.id):
                return result
        if id_:
            raise UsageError("there is no such result", code="page-unknown")
        return None


def add_result(store: Store, site: str, value: Keepable, at: datetime) -> None:
    """Keep a result of a site."""
    from pydantic import TypeAdapter

    document = TypeAdapter(type(value)).dump_python(value, mode="json")
    row = KeptResult(new_identifier(at), site, value.KEPT_AS, at, document)
    store.add_result(row)


def results_of(store: Store, site: str, kind: type[ResultValue]) -> Results[ResultValue]:
    """Return the results of a site."""
    from pydantic import TypeAdapter, ValidationError

    read = TypeAdapter(kind).validate_python
    held, unread = [], 0
    for row in store.results(site, kind.KEPT_AS):
        try:
            held.append(KeptValue(row.id, row.at, read(row.document)))
        except ValidationError:
            unread += 1
    return Results(tuple(held), unread)
