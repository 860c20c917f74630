"""Parse the statistics of ext4's block allocator (mballoc). Pure: text in, values out.

The same statistics come in four formats; `AllocatorStatistics.family` names the format:

======================== ============================ ========================================
family                   where                        criteria
======================== ============================ ========================================
``criteria-by-name``     ``mb_stats``, Linux 6.5+     ``cr_p2_aligned`` ... ``cr_any_free``
``criteria-by-number``   ``mb_stats``, 5.13 to 6.4,   ``cr0`` ... ``cr3``
                         RHEL 9
``loops-by-number``      ``mb_alloc_stats``, ldiskfs  ``cr0`` ... ``cr3``
                         of RHEL 8 and before
``loops-by-number-       the same before LU-17744:    ``cr0`` ... ``cr2``, put right here
shifted``                every loop carries the name
                         of the next one
======================== ============================ ========================================

Sources: fs/ext4/mballoc.c (``ext4_seq_mb_stats_show``, ``ext4_mb_seq_structs_summary_show``),
Lustre's ldiskfs patch series.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from trimtab.model.telemetry import NotAvailable, not_available
from trimtab.units import is_digits

_SECTION: Final = re.compile(r"(cr[\w.]*?)_stats:")
_FIELD: Final = re.compile(r"([\w^]+):\s*(\d+)(?:/(\d+))?\Z")
_OLD_USELESS: Final = re.compile(r"useless_c(\d)_loops\Z")
_LIST_ORDER: Final = re.compile(r"list_order_(\d+)_groups:\s*(\d+)\Z")


@dataclass(frozen=True, slots=True)
class CriterionStatistics:
    """Of one search criterion: useless loops, groups considered, and hits.

    ``None`` if the format does not count it.
    """

    name: str
    useless_loops: int
    groups_considered: int | None = None
    hits: int | None = None


@dataclass(frozen=True, slots=True)
class AllocatorStatistics:
    """Counters of the block allocator since mount, or since they were cleared.

    Attributes
    ----------
    groups_loaded, groups
        Block groups whose free space is in memory, and all groups; ``None`` if not printed.
    """

    family: str
    requests: int
    criteria: tuple[CriterionStatistics, ...]
    groups_loaded: int | None = None
    groups: int | None = None


@dataclass(frozen=True, slots=True)
class FreeSpaceSummary:
    """Groups sorted by their free space, as ``mb_structs_summary`` lists them.

    Attributes
    ----------
    optimize_scan
        Whether the kernel keeps these lists; with fewer than 16 groups it does not.
    largest_free
        Item ``i``: groups whose largest free chunk is ``2**i`` blocks.
    average_fragment
        Item ``i``: groups whose mean free extent is of the order ``i``, see
        `trimtab.drivers.local.free_space`. Empty before Linux 6.1, which kept a tree instead.
    """

    optimize_scan: bool
    largest_free: tuple[int, ...]
    average_fragment: tuple[int, ...]


def parse_mb_stats(text: str) -> AllocatorStatistics | NotAvailable:
    """Return the counters of ``mb_stats`` (Linux 5.13 and later), or why there are none."""
    if "collection turned off" in text:
        return not_available("counters-off", "the counters are off (mb_stats is 0)")
    top: dict[str, tuple[int, int | None]] = {}
    sections: dict[str, dict[str, int]] = {}
    current: dict[str, int] | None = None
    for line in text.splitlines():
        stripped = line.strip()
        if section := _SECTION.fullmatch(stripped):
            current = sections.setdefault(section.group(1), {})
            continue
        field = _FIELD.fullmatch(stripped)
        if field is None:
            continue
        name, value, of = field.group(1), int(field.group(2)), field.group(3)
        if line.startswith("\t\t") and current is not None:
            current[name] = value
        else:
            # One tab again: the section is over. The lines below it are totals.
            current = None
            top[name] = (value, None if of is None else int(of))
    incomplete = [name for name, section in sections.items() if "useless_loops" not in section]
    # The count of discarded preallocations is the last line in every version.
    if "reqs" not in top or "discarded" not in top or not sections or incomplete:
        return not_available("format-unknown", "mb_stats has an unknown format, or was cut off")
    loaded, groups = top.get("buddies_generated", (None, None))
    numbered = all(re.fullmatch(r"cr[\d.]+", name) for name in sections)
    return AllocatorStatistics(
        family="criteria-by-number" if numbered else "criteria-by-name",
        requests=top["reqs"][0],
        criteria=tuple(
            CriterionStatistics(
                name,
                section["useless_loops"],
                section.get("groups_considered"),
                section.get("hits"),
            )
            for name, section in sections.items()
        ),
        groups_loaded=loaded if groups is not None else None,
        groups=groups,
    )


def parse_mb_alloc_stats(text: str) -> AllocatorStatistics | NotAvailable:
    """Return the counters of the older ``mb_alloc_stats``, each loop under its right name.

    Before LU-17744 (Lustre 2.15.63) the file printed the failures of loop 0 as
    ``useless_c1_loops`` and so on, and no ``useless_c0_loops`` at all: its absence identifies the
    format.
    """
    values: dict[str, int] = {}
    for line in text.splitlines():
        # "useless_c1_loops: 12" in some builds, "12 useless_c1_loops" or "name 12" in others.
        words = line.replace(":", " ").split()
        numbers = [word for word in words if is_digits(word)]
        names = [word for word in words if not is_digits(word)]
        if len(numbers) == 1 and len(names) == 1:
            values[names[0]] = int(numbers[0])
    loops = {
        int(match.group(1)): value
        for name, value in values.items()
        if (match := _OLD_USELESS.match(name))
    }
    if "reqs" not in values or "discarded" not in values or not loops:
        return not_available(
            "format-unknown", "mb_alloc_stats has an unknown format, or was cut off"
        )
    shift = 0 if 0 in loops else 1
    return AllocatorStatistics(
        family="loops-by-number" if shift == 0 else "loops-by-number-shifted",
        requests=values["reqs"],
        criteria=tuple(
            CriterionStatistics(f"cr{number - shift}", value)
            for number, value in sorted(loops.items())
        ),
    )


def parse_structs_summary(text: str) -> FreeSpaceSummary | NotAvailable:
    """Return the lists of ``mb_structs_summary`` (Linux 5.14 and later), or why there are none."""
    optimize = re.search(r"^optimize_scan:\s*(\d)", text, re.MULTILINE)
    if optimize is None:
        return not_available("format-unknown", "mb_structs_summary has an unknown format")
    lists: dict[str, list[int]] = {"max_free_order_lists": [], "avg_fragment_size_lists": []}
    current: list[int] | None = None
    for line in text.splitlines():
        stripped = line.strip()
        if match := _LIST_ORDER.fullmatch(stripped):
            # The lists are in order; a gap means that lines are missing.
            if current is None or int(match.group(1)) != len(current):
                return not_available("format-unknown", "mb_structs_summary has an unknown format")
            current.append(int(match.group(2)))
        else:
            current = lists.get(stripped.rstrip(":"))
    return FreeSpaceSummary(
        optimize_scan=optimize.group(1) == "1",
        largest_free=tuple(lists["max_free_order_lists"]),
        average_fragment=tuple(lists["avg_fragment_size_lists"]),
    )
