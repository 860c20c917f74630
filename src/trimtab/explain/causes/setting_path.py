"""On which path a setting acts: that of bytes, that of metadata operations, or neither. Pure.

Lustre's manual groups parameters by purpose. Those for debugging, accounting of jobs, recovery and
placement are passed by neither path while every server answers; those of ``mdc`` and ``mdt`` are
passed by operations alone. What no group has may act on either.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from trimtab.base.incident import Incident

Path = Literal["bytes", "operations"]
_ON_NAMES: Final = ("file_", "directory_", "metadata_")
"""Metrics of metadata operations, which touch no OST."""

_BOTH: Final[frozenset[Path]] = frozenset({"bytes", "operations"})
_GROUPS: Final[tuple[tuple[frozenset[Path], re.Pattern[str]], ...]] = tuple(
    (frozenset(paths), re.compile(words, re.I))
    for paths, words in (
        # A mask that logs more costs every request; the size and place of its buffer do not.
        (_BOTH, r"(?:\A|/|subsystem_)debug\Z"),
        ((), r"debug_(?:mb|path|file)|panic_on|dump_on|printk"),
        ((), r"jobid_|job_(?:cleanup|stats)"),
        ((), r"timeout|\bat_(?:min|max|history)|\bping(?:er)?_|recovery_time"),
        # They weigh free space for files of few stripes: those over all targets lie as before.
        ((), r"qos_(?:prio_free|threshold_rr|maxage)"),
        (("operations",), r"statahead|identity|nodemap|changelog|md[cdt][/.]|\bdir_|atime|xattr"),
        (("bytes",), r"checksum|pages_per_rpc|dirty|read_?ahead|queue/|brw_size|mb_|wbt|max_sectors"
                     r"|discard"),
        (_BOTH, r"rpcs|(?:kernel_release|_version|firmware)\Z|governor|stripe|cache|journal|threads"
                r"|nrs|mtu|credits|lnd|numa|smt|mitigation|bios|microcode|c_?state|turbo|lru|mount"),
    )
)  # fmt: skip
"""Groups of settings: the paths on which they act, and words of their names."""


def paths_of(text: str) -> frozenset[Path] | None:
    """Return the paths of all settings that a name or a sentence has; ``None``: of none known.

    Examples
    --------
    >>> paths_of("statahead_max"), paths_of("debug_mb set"), paths_of("obdfilter/soft_sync_limit")
    (frozenset({'operations'}), frozenset(), None)
    """
    groups = [paths for paths, words in _GROUPS if words.search(text)]
    return frozenset[Path]().union(*groups) if groups else None


def passed_by(incident: Incident) -> frozenset[Path]:
    """Return the paths on which something became slow; both if that is unknown."""
    key = incident.key
    if key is None:
        return _BOTH
    slow: list[Path] = ["operations" if key.metric.startswith(_ON_NAMES) else "bytes"]
    slow += ["bytes" for series in incident.moved_with if "bandwidth" in series]
    return frozenset(slow)
