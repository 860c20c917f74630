"""The page of who holds the space: over their soft limits first, then the largest. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from trimtab.base.holder import HolderKind, HoldersDocument, Holding, TargetHolders
from trimtab.base.text import minute_text
from trimtab.base.units import format_bytes, format_duration, format_percent, plural
from trimtab.show.document import Document, Row, Section, row, table

_COLUMNS: Final = ("holder", "space>", "soft>?", "hard>?", "files>", "files: soft>?", "grown>")


def holders_document(made: HoldersDocument) -> Document:
    """Return the page of the holders of a site."""
    holders = made.holders
    over = [each for each in holders.holdings if each.over_soft]
    of_kind = {
        kind: [each for each in holders.holdings if each.kind is kind] for kind in HolderKind
    }
    labels = {(each.kind, each.id): each.label for each in holders.holdings}
    since = "no result of a month ago is kept" if made.before is None else minute_text(made.before)
    left_out = f"{plural(holders.left_out, 'smaller holder', ',')} not listed"
    return Document(
        kind="holders",
        heading=made.site,
        subtitle=f"{minute_text(holders.at)}, from {holders.source}; growth since: {since}",
        tone="warning" if over else "info" if not holders.whole else "healthy",
        answer=_answer(made, over, labels),
        sections=(
            Section(
                "Over a soft limit",
                tables=(table(("holder", "over", "grace"), [_over(each, made) for each in over]),),
                tone="warning",
            ),
            *(
                Section(f"{kind.capitalize()}s", tables=(table(_COLUMNS, map(_row, each)),))
                for kind, each in of_kind.items()
            ),
            Section(
                "Who fills each target and pool",
                tables=(
                    table(
                        ("target", "accounted>", "largest users"),
                        [
                            row(each.target, format_bytes(each.accounted_bytes), text)
                            for each in holders.targets
                            if each.kind is HolderKind.USER
                            and (text := _largest(each, labels)) is not None
                        ],
                    ),
                ),
                folded=True,
            ),
            Section(
                "Not known",
                notes=(*holders.problems, *([left_out] if holders.left_out else [])),
            ),
        ),
    )


def _answer(
    made: HoldersDocument, over: list[Holding], labels: dict[tuple[HolderKind, int], str]
) -> str:
    parts = []
    of_fullest = next(
        (
            each
            for each in made.holders.targets
            if each.target == made.fullest and each.kind is HolderKind.USER and each.largest
        ),
        None,
    )
    if of_fullest is not None and made.fullness is not None:
        id_, size = of_fullest.largest[0]
        label = labels.get((HolderKind.USER, id_), f"user {id_}")
        parts.append(
            f"{made.fullest} is {format_percent(made.fullness, 0)} full: {label} has "
            f"{format_bytes(size)} of its {format_bytes(of_fullest.accounted_bytes)}"
        )
    else:
        first = made.holders.holdings[0]
        parts.append(f"{first.label} has most: {format_bytes(first.bytes)}")
    ends = [end for each in over if (end := each.grace_until) is not None]
    if over:
        first_end = f", the first grace {_until(min(ends), made)}" if ends else ""
        parts.append(f"{plural(len(over), 'holder')} over a soft limit{first_end}")
    else:
        parts.append("nobody is over a soft limit")
    return "; ".join(parts) + (" (sums are too small)" if not made.holders.whole else "") + "."


def _until(end: datetime, made: HoldersDocument) -> str:
    left_s = (end - made.holders.at).total_seconds()
    return f"ends in {format_duration(left_s)}" if left_s > 0 else "has ended"


def _over(holding: Holding, made: HoldersDocument) -> Row:
    end = holding.grace_until
    grace = "not known" if end is None else _until(end, made)
    return row(holding.label, " and ".join(holding.over_soft), grace)


def _row(holding: Holding) -> Row:
    before = holding.before_bytes
    grown = "" if before is None else format_bytes(abs(holding.bytes - before))
    sign = "-" if before is not None and holding.bytes < before else ""
    return row(
        holding.label,
        format_bytes(holding.bytes),
        _limit(holding.of_bytes.soft),
        _limit(holding.of_bytes.hard),
        f"{holding.files:,}",
        "" if holding.of_files.soft is None else f"{holding.of_files.soft:,}",
        f"{sign}{grown}",
    )


def _limit(size: int | None) -> str:
    return "" if size is None else format_bytes(size)


def _largest(target: TargetHolders, labels: dict[tuple[HolderKind, int], str]) -> str | None:
    names = (
        f"{labels.get((target.kind, id_), id_)} {format_bytes(size)}"
        for id_, size in target.largest[:4]
    )
    return ", ".join(names) or None
