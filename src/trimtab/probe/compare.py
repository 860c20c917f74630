"""Compares two sides, each from the store, from result files, or as published.

Results in files are compared as the tools printed them and are not kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from trimtab.base.error import UnreadableError, UsageError, shell_text, visible
from trimtab.base.run import METRIC_UNITS, doubts, doubts_text, grouped
from trimtab.base.units import enumerated, plural
from trimtab.base.verdict import LEVEL
from trimtab.judge.comparison import CompareTerms, compare, compare_summaries
from trimtab.judge.comparison_result import (
    Basis,
    CompareResult,
    Difference,
    Effect,
    SeriesComparison,
    Summary,
)
from trimtab.judge.effect_size import TargetCount
from trimtab.probe.compare_side import (
    ComparableRuns,
    Operand,
    SideOfStore,
    as_runs,
    is_published,
    matches,
    parse_operand,
    published,
    published_file,
    side_of_runs,
    side_of_site,
)
from trimtab.probe.import_result import ImportTerms
from trimtab.probe.importer import import_files
from trimtab.site.lookup import SITE_FILE, open_store, site_file, site_of, with_store

if TYPE_CHECKING:
    from trimtab.site.place import Place
    from trimtab.store.store import Store


_TYPED: Final = (
    "type trimtab compare A B; result files of a side are joined by commas (1.json,2.json 3.json), "
    "or are in a directory of their own (before/*.json after/*.json)"
)


def as_files(text: str) -> tuple[str, ...]:
    """Return the files that a side names, separated by commas; nothing unless all exist."""
    paths = tuple(part.strip() for part in text.split(","))
    named = all(path and not path.endswith(SITE_FILE) and Path(path).is_file() for path in paths)
    return paths if named else ()


def sides_of(arguments: Sequence[str]) -> tuple[str, str]:
    """Return the texts of both sides: two words, or more files, those of a directory one side.

    Raises
    ------
    UsageError
        There are no two sides, or more words than two that are not the files of two directories.

    Notes
    -----
    A shell expands ``a/*.json b/*.json`` before it calls: only the directory shows what was one
    word, so no other way of dividing the files is tried.
    """
    if len(arguments) == 2:
        return arguments[0], arguments[1]
    sides = grouped(arguments, lambda name: Path(name).parent)
    odd = [name for name in arguments if "," in name or not Path(name).is_file()]
    if not odd and len(sides) == 2:
        before, after = map(",".join, sides.values())
        return before, after
    problem = f"{plural(len(arguments), 'word')} for two sides"
    if odd and len(arguments) > 2:
        problem += f", and {visible(odd[0])} is not a file"
    elif len(arguments) > 2:
        directories = enumerated([visible(str(directory)) for directory in sides], 3)
        problem += f": files of {directories}, not of two directories"
    raise UsageError(problem, code="sides-unclear", hint=_TYPED)


def side_of_files(paths: Sequence[str], operand: Operand, *, probe: str | None) -> SideOfStore:
    """Return the series of results that files hold.

    Raises
    ------
    UnreadableError
        A file holds no result that can be compared.
    """
    from trimtab.store.store import Store

    terms = ImportTerms()
    with (
        TemporaryDirectory(prefix="trimtab-") as directory,
        Store.open(Path(directory) / "files.db") as store,
    ):
        for file in import_files(paths, terms, store, workers=0):
            if not file.results:
                reason = file.reason or "it holds no result"
                raise UnreadableError(
                    f"{visible(file.file)} cannot be compared: {reason}",
                    code="file-unreadable",
                    hint="docs/import.md lists the formats",
                )
        return side_of_site(store, terms.site, operand, timezone="UTC", probe=probe)


_LISTED: Final = 6


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """The two sides of a comparison, and its options.

    Attributes
    ----------
    before, after
        Operands as the user wrote them; see `trimtab.probe.compare_side.parse_operand`.
    site
        Site of operands that are only a stretch of time or a setting.
    metric, probe
        Only this one; ``None``: all.
    autocorrelation
        Autocorrelation of published results, which do not state it.
    opened
        An open store and the site in it of both sides: no file is looked for.
    targets
        Numbers of targets of the sides; ``files`` if the probe's parameters do not state them.
    """

    before: str
    after: str
    store_url: str | None = None
    site: str | None = None
    metric: str | None = None
    probe: str | None = None
    autocorrelation: float = 0.0
    targets: tuple[int, int] | None = None
    files: int | None = None
    target_bytes_per_s: float | None = None
    terms: CompareTerms = field(default_factory=CompareTerms)
    opened: tuple[Store, Place] | None = None


def compare_sides(request: CompareRequest) -> CompareResult:
    """Return what two sides have in common, and by how much the second differs.

    Raises
    ------
    UsageError
        A side matches nothing stored, both have nothing in common, or share runs.
    DataError
        A file of published results is wrong.
    UnreadableError
        The store cannot be read.
    """
    if request.metric is not None and request.metric not in METRIC_UNITS:
        raise UsageError(
            f"{request.metric!r} is not a metric",
            code="metric-unknown",
            hint=f"there are {', '.join(METRIC_UNITS)}",
        )
    summaries = [_published(text, request.metric) for text in (request.before, request.after)]
    if summaries[0] is not None and summaries[1] is not None:
        return _compare_published(request, summaries[0], summaries[1])
    if summaries[0] is not None or summaries[1] is not None:
        raise UsageError(
            "one side is a published result and the other is in the store",
            code="sides-differ",
            hint="write both as mean±deviation/n; trimtab status shows mean, COV and n",
        )
    return _compare_kept(request)


# Published results


def _published(text: str, metric: str | None) -> tuple[Summary, ...] | None:
    if is_published(text):
        return (published(text, metric),)
    return published_file(text) if text.endswith(SITE_FILE) else None


def _compare_published(
    request: CompareRequest, before: Sequence[Summary], after: Sequence[Summary]
) -> CompareResult:
    sides = (_by_name(before, request.before), _by_name(after, request.after))
    common = [
        name
        for name in sides[0]
        if name in sides[1] and (request.metric is None or name[0] in (request.metric, None))
    ]
    if not common:
        raise UsageError(
            f"{request.before} and {request.after} have no metric in common",
            code="no-common-metric",
            hint="metric, layer and unit must be the same",
        )
    terms = request.terms
    if request.targets is not None:
        terms = replace(terms, targets=_target_count(request, request.files))
    series = tuple(
        SeriesComparison(
            probe="published",
            probe_after="published",
            kind="summary",
            layer=name[1],
            effects=(
                compare_summaries(
                    sides[0][name],
                    sides[1][name],
                    autocorrelation=request.autocorrelation,
                    terms=terms,
                ),
            ),
        )
        for name in common
    )
    return CompareResult(
        before=request.before,
        after=request.after,
        margin=terms.margin,
        level=LEVEL,
        series=series,
        only_before=tuple(_in_words(name) for name in sides[0] if name not in sides[1]),
        only_after=tuple(_in_words(name) for name in sides[1] if name not in sides[0]),
        notes=("from means and deviations alone: their runs are not stored here",),
    )


_Name = tuple[str | None, str | None, str]


def _by_name(summaries: Sequence[Summary], text: str) -> dict[_Name, Summary]:
    by_name: dict[_Name, Summary] = {}
    for summary in summaries:
        name = (summary.metric, summary.layer, summary.unit)
        if name in by_name:
            raise UsageError(f"{text} has {_in_words(name)} twice", code="published-repeated")
        by_name[name] = summary
    return by_name


def _in_words(name: _Name) -> str:
    return " ".join(part for part in (name[1], name[0] or f"a figure in {name[2]}") if part)


def _target_count(
    request: CompareRequest, files: int | None, *, fixed_time: bool = False
) -> TargetCount:
    before, after = request.targets or (1, 1)
    return TargetCount(
        before,
        after,
        files=files,
        fixed_time=fixed_time,
        target_bytes_per_s=request.target_bytes_per_s,
    )


# Stored runs


def _compare_kept(request: CompareRequest) -> CompareResult:
    with ExitStack() as opened:
        stores: dict[str | None, Store] = {}
        compared_series = [
            side_of_files(paths, Operand(text), probe=request.probe)
            if (paths := as_files(text))
            else _side(parse_operand(text), request, stores, opened)
            for text in (request.before, request.after)
        ]
        if request.opened is not None:
            stores[None] = request.opened[0]
        where = "; ".join(dict.fromkeys(str(store.location) for store in stores.values()))
    before, after = compared_series
    _require_apart(request, before, after)
    paired = pairs(before.groups, after.groups)
    series = tuple(
        comparison for pair in paired if (comparison := _compared(request, *pair)).effects
    )
    if not series:
        raise _nothing_in_common(request, before, after)
    return CompareResult(
        before=request.before,
        after=request.after,
        margin=request.terms.margin,
        level=LEVEL,
        series=series,
        only_before=_alone(before, [pair[0] for pair in paired]),
        only_after=_alone(after, [pair[1] for pair in paired]),
        notes=(
            *before.notes,
            *after.notes,
            *dict.fromkeys(note for pair in paired for note in _targets_note(request, *pair)),
        ),
        store=where,
    )


def _side(
    operand: Operand, request: CompareRequest, stores: dict[str | None, Store], opened: ExitStack
) -> SideOfStore:
    if request.opened is not None:
        store, place = request.opened
        return _side_of(store, place.name, operand, request, place.timezone)
    word = operand.where or request.site
    loaded = site_file(word)
    known = None if loaded is None else loaded.site
    url = with_store(known, request.store_url)
    if url not in stores:
        stores[url] = opened.enter_context(open_store(url))
    store = stores[url]
    if word is None:
        raise UsageError(
            f"{operand.text!r} does not name a site",
            code="site-missing",
            hint="name it with --site",
        )
    known_sites = {site.name: site for site in store.sites()}
    as_ids = as_runs(operand)
    if as_ids is not None and known is None and word not in known_sites:
        return side_of_runs(store, as_ids.runs)
    name = site_of(store, word if known is None else known.name)
    zone = known.timezone if known is not None else known_sites[name].timezone
    return _side_of(store, name, operand, request, zone or "UTC")


def _side_of(
    store: Store, name: str, operand: Operand, request: CompareRequest, zone: str
) -> SideOfStore:
    side = side_of_site(store, name, operand, timezone=zone, probe=request.probe)
    if not any(group.stretches for group in side.groups):
        raise _nothing_to_compare(store, name, operand, zone, request.probe)
    return side


def _nothing_to_compare(
    store: Store, site: str, operand: Operand, timezone: str, probe: str | None
) -> UsageError:
    """Return the error that says whether no run is stored, or none is credible."""
    since, until = operand.stretch(timezone)
    runs = [
        run
        for run in store.runs(site=site, probe=probe, since=since)
        if matches(run, operand.levels) and (until is None or (run.at and run.at < until))
    ]
    hint = f"trimtab runs --site {shell_text([site])} lists the stored runs"
    shown = visible(operand.text)
    if not runs:
        return UsageError(f"no run stored for {shown}", code="no-run", hint=hint)
    why = visible(doubts_text(doubts(runs)))
    return UsageError(
        f"{plural(len(runs), 'run')} stored for {shown}, none with a credible figure: {why}",
        code="no-credible-figure",
        hint=hint,
    )


def _require_apart(request: CompareRequest, before: SideOfStore, after: SideOfStore) -> None:
    both = frozenset().union(*(group.runs for group in before.groups)) & frozenset().union(
        *(group.runs for group in after.groups)
    )
    if both:
        raise UsageError(
            f"{len(both)} run{'s are' if len(both) > 1 else ' is'} on both sides of "
            f"{visible(request.before)} and {visible(request.after)}",
            code="sides-overlap",
            hint="FROM..TO includes FROM and excludes TO",
        )


def _compared(
    request: CompareRequest, before: ComparableRuns, after: ComparableRuns
) -> SeriesComparison:
    terms = request.terms
    if request.targets is not None:
        files, fixed_time = _spread(before, request.files)
        count = _target_count(request, files, fixed_time=fixed_time)
        terms = replace(terms, targets=count)
    basis = Basis.RUNS
    sides = (before.stretches, after.stretches)
    if before.repetitions and after.repetitions:
        basis, sides = Basis.REPETITIONS, (before.repetitions, after.repetitions)
    effects: list[Effect] = [
        compare(sides[0][metric], sides[1][metric], metric=metric, basis=basis, terms=terms)
        for metric in METRIC_UNITS
        if metric in sides[0]
        and metric in sides[1]
        and (request.metric is None or metric == request.metric)
    ]
    return SeriesComparison(
        probe=before.probe,
        probe_after=after.probe,
        kind=before.kind,
        layer=before.layer or after.layer,
        effects=tuple(effects),
        differences=differences(before, after),
        asked=before.asked,
    )


def _spread(group: ComparableRuns, files: int | None) -> tuple[int | None, bool]:
    """Return how many files a job has, ``None`` for a shared one, and whether its time is fixed."""
    tasks, duration_s = group.asked.get("tasks"), group.asked.get("duration_s")
    fixed = isinstance(duration_s, (int, float)) and duration_s > 0
    if files is None and group.asked.get("file_per_process") is True and isinstance(tasks, int):
        files = tasks
    return files, fixed


def _targets_note(
    request: CompareRequest, before: ComparableRuns, after: ComparableRuns
) -> tuple[str, ...]:
    counts = [group.told.get("targets") for group in (before, after)]
    if (
        request.targets is not None
        or counts[0] == counts[1]
        or not all(isinstance(count, int) for count in counts)
    ):
        return ()
    return (
        f"{visible(before.probe)} ({before.kind}) covered {counts[0]} targets before and "
        f"{counts[1]} after: --targets {counts[0]} {counts[1]} estimates its effect",
    )


def _alone(side: SideOfStore, paired: Sequence[ComparableRuns]) -> tuple[str, ...]:
    return tuple(
        f"{group.name}{_asked_in_words(group)}" for group in side.groups if group not in paired
    )


def _asked_in_words(group: ComparableRuns) -> str:
    """Return the first parameters of a series, which distinguish it from others of its name."""
    settings = [f"{name} {value}" for name, value in group.asked.items()][:_LISTED]
    return f"; requested: {', '.join(settings)}" if settings else ""


def _nothing_in_common(
    request: CompareRequest, before: SideOfStore, after: SideOfStore
) -> UsageError:
    has = [
        "; ".join(visible(group.name) for group in side.groups[:_LISTED]) or "nothing to judge"
        for side in (before, after)
    ]
    missing_text = "no series" if request.metric is None else f"no {request.metric}"
    return UsageError(
        f"{visible(request.before)} and {visible(request.after)} have {missing_text} in common: "
        f"the first has {has[0]}; the second {has[1]}",
        code="no-common-series",
        hint="a series is a probe with its benchmark; --metric and --probe narrow what is compared",
    )


Pair = tuple[ComparableRuns, ComparableRuns]

_BEGINNING = datetime.min.replace(tzinfo=UTC)


def pairs(before: Sequence[ComparableRuns], after: Sequence[ComparableRuns]) -> list[Pair]:
    """Return the series that belong together, each in one pair at most.

    Those with the same probe, benchmark and parameters come first: two times or two systems. Then
    those with the same probe and benchmark, the fewest differing parameters first, then the
    newest: two settings. If each side has one series of a benchmark left, they are paired whatever
    the names of their probes.
    """
    left, right = list(before), list(after)
    matched: list[Pair] = []
    for fits in (_equal, _same_probe, _same_asked):
        for pair in sorted(
            ((a, b) for a in left for b in right if fits(a, b) and _shared(a, b)), key=_distance
        ):
            if pair[0] in left and pair[1] in right:
                matched.append(pair)
                left.remove(pair[0])
                right.remove(pair[1])
    kinds = [Counter(group.kind for group in side) for side in (left, right)]
    for a in list(left):
        for b in list(right):
            if a.kind == b.kind and kinds[0][a.kind] == kinds[1][a.kind] == 1 and _shared(a, b):
                matched.append((a, b))
    return matched


def differences(before: ComparableRuns, after: ComparableRuns) -> tuple[Difference, ...]:
    """Return the requested parameters of one side that the other lacks, by name."""
    names = sorted(before.asked.keys() | after.asked.keys())
    return tuple(
        Difference(name, before.asked.get(name), after.asked.get(name))
        for name in names
        if before.asked.get(name) != after.asked.get(name)
    )


def _equal(a: ComparableRuns, b: ComparableRuns) -> bool:
    return a.comparability == b.comparability


def _same_probe(a: ComparableRuns, b: ComparableRuns) -> bool:
    return (a.probe, a.kind) == (b.probe, b.kind)


def _same_asked(a: ComparableRuns, b: ComparableRuns) -> bool:
    return a.kind == b.kind and bool(a.asked) and a.asked == b.asked


def _shared(a: ComparableRuns, b: ComparableRuns) -> bool:
    return bool(a.stretches.keys() & b.stretches.keys())


def _distance(pair: Pair) -> tuple[int, float, float]:
    a, b = pair
    ages = [(side.newest or _BEGINNING).timestamp() for side in pair if side.newest is not None]
    return len(differences(a, b)), -min(ages, default=0.0), -max(ages, default=0.0)
