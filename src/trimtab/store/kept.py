"""Values that the store keeps: sites, series, incidents, and results of a site's record.

A result is computed once, and read from the store until the record changes::

    remembered(noun, kind, rests_on, make)
       │ digest of what it rests on: sums of the rows, terms, sources of this program
       ├── as in the store ──> the stored value
       └── different ────────> make(), kept when all values of this look are made

Each value names the rows that it depends on. A value that was made while they changed is not kept.
A process that may not write to the store computes the same values, and so does one that finds a
value of another version. Nothing of a short record is kept, because judging it is faster than
reading kept values. Drawings take longer, and are kept for every record.

`afresh` computes everything from scratch, and reports differences from the kept values.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, TypeVar

from trimtab.base.code_version import source_digest
from trimtab.base.error import Message, UnreadableError, UsageError
from trimtab.base.event import new_identifier
from trimtab.base.plain import NotOfType, as_dict, as_list, as_text, packed, unpacked
from trimtab.base.run import Run, RunStatus
from trimtab.base.units import plural
from trimtab.store.kept_period import KeptPeriods, RunPoint, Sums, in_order

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from trimtab.base.verdict import HistoryPoint
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
        Hash of the whole, uncompressed content; also its file name beside the store.
    pruned_at
        When its content was removed, at the end of its retention; ``None``: not removed.
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
        Their common `trimtab.base.run.comparability_key`.
    runs
        Number of runs of any status.
    first_at, last_at
        ``None`` if no run has a time.
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
        The run without its outputs.
    outputs
        Outputs whose content is beside the store already.
    key
        Derived from the sha256 of the raw output, so that a second import into the same site with
        the same kind adds nothing.
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

    @property
    def chain_text(self) -> str | None:
        """Titles of the likeliest cause and what led to it; ``None`` where it is unexplained."""
        causes = map(as_dict, as_list(self.document.get("causes")))
        listed = {cause.get("id"): cause for cause in causes}
        titles: list[str] = []
        link = self.likeliest
        while link and (title := as_text(link.get("title"))) is not None and title not in titles:
            titles.append(title)
            link = listed.get(link.get("because_of") or "", {})
        return ", because of ".join(titles) or None


@dataclass(frozen=True, slots=True)
class KeptResult:
    """Result of a command, stored for display.

    Attributes
    ----------
    kind
        Kind of the document: ``horizon``, ``what-if``.
    document
        The result as plain values.
    """

    id: str
    site: str
    kind: str
    at: datetime
    document: dict[str, object]


@dataclass(frozen=True, slots=True)
class Judged:
    """Time of the last search for a site's incidents.

    Attributes
    ----------
    until
        Time of the last run that was included.
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


@dataclass(frozen=True, slots=True)
class Derived:
    """A value as bytes, and the digest of all that it was computed from."""

    basis: str
    document: bytes


def value_of(kind: type[V], row: Any, /, **more: Any) -> V:
    """Return the value of a row: the fields that have the name of a column, and ``more``.

    The row may be another value: fields of the same name are copied.
    """
    names = (field.name for field in fields(kind) if field.name not in more)
    return kind(**{name: getattr(row, name) for name in names}, **more)


class Keepable(Protocol):
    """A value that a command computes and the dashboard shows: a horizon, a sweep of the twin."""

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
        Number of results left out, since another version stored them.
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
        """Return the result with an id; the newest for an empty one.

        Raises
        ------
        UsageError
            There is no result with that id.
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


def results_of(
    store: Store,
    site: str,
    kind: type[ResultValue],
    *,
    until: datetime | None = None,
    limit: int | None = None,
) -> Results[ResultValue]:
    """Return the results of a site: the newest, up to a time."""
    if not (rows := store.results(site, kind.KEPT_AS, until=until, limit=limit)):
        return Results()  # before anything is imported: `status` asks of every site
    from pydantic import TypeAdapter, ValidationError

    read = TypeAdapter(kind).validate_python
    held, unread = [], 0
    for row in rows:
        try:
            held.append(KeptValue(row.id, row.at, read(row.document)))
        except ValidationError:
            unread += 1
    return Results(tuple(held), unread)


Value = TypeVar("Value")
RestsOn = Callable[[Sums], object]
"""Picks the sums that a value rests on, and adds whatever else it depends on."""

_SOURCES: Final = (
    "answers/*",
    "base/*",
    "explain/**/*",
    "judge/*",
    "probe/*",
    "purge/**/*",
    "show/**/*",
    "store/*",
    "twin/*",
    "twin/whatif/*",
    "web/**/*",
)
"""Sources that determine the computed values and the pages made from them."""
_FEW_RUNS: Final = 1000
"""A record with fewer runs is short."""
_LEVEL: Final = 1
"""Level of compression: a year of one series is a MiB of text, and a tenth of that."""


@dataclass(slots=True)
class AfreshComparison:
    """Kept values compared with those computed from scratch: their number, and which differ."""

    values: int = 0
    differing: list[str] = field(default_factory=list)
    made: set[tuple[str, str]] = field(default_factory=set)


_comparison: ContextVar[AfreshComparison | None] = ContextVar("comparison", default=None)


@contextmanager
def afresh() -> Iterator[AfreshComparison]:
    """Compute from scratch what is asked for in the block, and compare it with the kept values."""
    comparison = AfreshComparison()
    token = _comparison.set(comparison)
    try:
        yield comparison
    finally:
        _comparison.reset(token)


@contextmanager
def compared_afresh(wanted: bool, tell: Callable[[str], object]) -> Iterator[None]:
    """If wanted, judge from scratch inside the block, and report the comparison at its end."""
    if not wanted:
        yield
        return
    with afresh() as comparison:
        yield
    values, differing = plural(comparison.values, "kept value", ","), comparison.differing
    if differing:
        tell(
            f"judged from scratch: {len(differing)} of {values} differ ({', '.join(differing)}). "
            "That is a defect of Trimtab; the new values are kept"
        )
    elif not comparison.values:
        tell("judged from scratch: no kept value is still valid")
    else:
        tell(f"judged from scratch: {values} compared, all equal")


def is_afresh() -> bool:
    """Return whether everything is currently computed from scratch."""
    return _comparison.get() is not None


_read_before: ContextVar[dict[tuple[object, ...], Any] | None] = ContextVar("read", default=None)
"""Rows of the record that the outermost look and those within it have read."""


@dataclass
class Keeping:
    """One look at a site's record; ``of_short`` as `keeping` has it.

    Rows that it or an enclosing look has read are not read again as long as their sums are the
    same.
    """

    store: Store
    site: str
    sums: Sums
    of_short: bool = False
    _read: dict[tuple[object, ...], Any] = field(default_factory=dict)
    _made: dict[str, tuple[RestsOn, str, bytes]] = field(default_factory=dict)
    _fetched: dict[str, Derived | None] = field(default_factory=dict)

    def series(self) -> tuple[Series, ...]:
        """Return the series of the site, the longest first."""
        rests_on = lambda sums: sorted(sums.runs.items())  # noqa: E731
        make = partial(self.store.series, self.site)
        return self._once(
            "series",
            self.sums.runs.items(),
            lambda: self.remembered("series", tuple[Series, ...], rests_on, make),
        )

    def history(self, series: Series, until: datetime | None = None) -> tuple[HistoryPoint, ...]:
        """Return one point for each run and metric of a series of the site, by time."""
        name = series.comparability
        rows = [(name, self.sums.runs.get(name))]
        if until is None and not self._is_short:
            return self._once(None, rows, lambda: self._history(name))
        return self._once(until, rows, lambda: self.store.history(self.site, name, until=until))

    def _history(self, name: str) -> tuple[HistoryPoint, ...]:
        rests_on = lambda at: lambda sums: sums.runs_in.get((name, at))  # noqa: E731
        periods = in_order(at for of, at in self.sums.runs_in if of == name and at is not None)
        kind = tuple[RunPoint, ...]
        points = KeptPeriods[kind](self, f"points of {name}", kind, rests_on, periods)
        made = (self.store.run_points(self.site, name, period) for period in points.missing)
        runs = chain.from_iterable(points.filled(made))
        return self.store.joined_history(self.site, name, tuple(runs))

    def _once(self, noun: object, rows: Iterable[object], read: Callable[[], Value]) -> Value:
        key = self.store, self.site, noun, frozenset(rows)
        if key not in self._read:
            self._read[key] = read()
        return self._read[key]

    def remembered(
        self, noun: str, kind: Any, rests_on: RestsOn, make: Callable[[], Value]
    ) -> Value:
        """Return a value: as it is in the store if that still holds, else as it is made now.

        Parameters
        ----------
        noun
            Its name, unique for the site.
        kind
            Its type, by which it is read back.
        """
        known = self.known(noun, kind, rests_on)
        if known is not None:
            return known[0]
        return self.note(noun, kind, rests_on, make())

    def known(self, noun: str, kind: Any, rests_on: RestsOn) -> tuple[Any] | None:
        """Return the value that is kept under a noun, alone in a tuple; ``None``: none holds."""
        comparison = _comparison.get()
        if comparison is not None and (self.site, noun) not in comparison.made:
            return None
        return self._holding(noun, kind, rests_on)

    def _holding(self, noun: str, kind: Any, rests_on: RestsOn) -> tuple[Any] | None:
        present = self._present(noun)
        if present is None or present.basis != self.basis(rests_on):
            return None
        return _unpacked(kind, present.document)

    def basis(self, rests_on: RestsOn) -> str:
        """Return the digest of what a value rests on now."""
        return _digest(rests_on(self.sums))

    def before(self, noun: str, kind: Any) -> Any:
        """Return the value that is kept under a noun, whether it holds or not, else ``None``."""
        present = self._present(noun)
        value = None if present is None else _unpacked(kind, present.document)
        return None if value is None else value[0]

    @cached_property
    def _is_short(self) -> bool:
        return not (self.of_short or is_long(self.sums))

    def fetch(self, nouns: Sequence[str]) -> None:
        """Read what is kept under many nouns at once."""
        if not self._is_short:
            self._fetched |= dict.fromkeys(nouns) | self.store.derived(self.site, *nouns)

    def _present(self, noun: str) -> Derived | None:
        if noun not in self._fetched and not self._is_short:
            self.fetch([noun])
        return self._fetched.get(noun)

    def note(self, noun: str, kind: Any, rests_on: RestsOn, value: Value) -> Value:
        """Have a value kept that was made of what this look found; return it as it is read back.

        So it is the same whether it was kept or made: 0 and 0.0 are equal, and printed otherwise.
        """
        if self._is_short:
            return value
        try:
            document = zlib.compress(packed(kind, value), _LEVEL)
        except ValueError:  # text that is no UTF-8 is not kept
            return value
        self._made[noun] = (rests_on, self.basis(rests_on), document)
        read = _unpacked(kind, document)
        self._compare(noun, kind, rests_on, read)
        return value if read is None else read[0]

    def _compare(self, noun: str, kind: Any, rests_on: RestsOn, made: tuple[Any] | None) -> None:
        comparison = _comparison.get()
        if comparison is None or (self.site, noun) in comparison.made:
            return
        comparison.made.add((self.site, noun))
        held = self._holding(noun, kind, rests_on)
        if held is None:
            return
        comparison.values += 1
        if made is None or (held != made and packed(kind, held[0]) != packed(kind, made[0])):
            comparison.differing.append(noun)

    def keep(self) -> None:
        """Keep the values that were made, as far as the rows that they depend on are unchanged."""
        if not self._made:
            return
        now = self.store.sums(self.site)
        values = {
            noun: Derived(basis, document)
            for noun, (rests_on, basis, document) in self._made.items()
            if _digest(rests_on(now)) == basis
        }
        with suppress(UnreadableError):  # a store that may only be read, or is busy
            self.store.keep_derived(self.site, values)
        self._made.clear()


def is_long(sums: Sums) -> bool:
    """Return whether a record is so long that values computed from it are kept."""
    return sum(count for count, _ in sums.runs.values()) >= _FEW_RUNS


@contextmanager
def keeping(store: Store, site: str, *, of_short: bool = False) -> Iterator[Keeping]:
    """Yield a look at a site's record; what it makes is kept at its end.

    Parameters
    ----------
    of_short
        Whether values of a short record are kept too.
    """
    before = _read_before.get()
    read = {} if before is None else before
    token = _read_before.set(read)
    try:
        look = Keeping(store, site, store.sums(site), of_short, read)
        yield look
        look.keep()
    finally:
        _read_before.reset(token)


def _unpacked(kind: Any, document: bytes) -> tuple[Any] | None:
    try:
        return (unpacked(kind, zlib.decompress(document)),)
    except (NotOfType, zlib.error):
        return None


def _digest(rests_on: object) -> str:
    import hashlib

    return hashlib.sha256(repr((_version(), rests_on)).encode()).hexdigest()[:32]


def _version() -> str:
    """Return the digest of the sources that determine the computed values."""
    return source_digest(*_SOURCES)
