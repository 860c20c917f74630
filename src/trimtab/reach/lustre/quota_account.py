"""Parses the accounts and limits of Lustre's quota, and adds them up over servers. Pure.

``osd-*.*.quota_slave.acct_user`` has the use of every user on one target, in one reading::

    usr_accounting:
    - id:      65534
      usage:   { inodes:            2, kbytes:            4 }

``qmt.*.dt-0x0.glb-usr`` on the MDS with the quota master has every limit; the ``time`` of id 0 is
the grace period, that of others the end of their grace. ``lfs quota -v`` would take a command and
an RPC to every target for each id.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from trimtab.base.error import visible
from trimtab.base.holder import HolderKind, Holders, Holding, QuotaLimit, TargetHolders
from trimtab.base.name_set import fold_names
from trimtab.reach.lustre.lustre_target import parse_name
from trimtab.reach.lustre.lustre_view import ServerView

KINDS: Final = {HolderKind.USER: "usr", HolderKind.GROUP: "grp", HolderKind.PROJECT: "prj"}
LISTED_MOST: Final = 500
"""Holders of a kind that are listed, besides those over a soft limit."""
_LARGEST: Final = 8
_ACCOUNT: Final = re.compile(
    r"- id: +([0-9]{1,10})\n +usage: +\{ inodes: +([0-9]{1,20}), kbytes: +([0-9]{1,20}) \}\n?"
)
_LIMIT: Final = re.compile(
    r"- id: +([0-9]{1,10})\n +limits: +\{ hard: +([0-9]{1,20}), soft: +([0-9]{1,20}), "
    r"granted: +-?[0-9]{1,20}, time: +([0-9]{1,20}) \}\n?"
)
_TIME_END: Final = 1 << 37
"""Larger times carry flags in their upper bits and are no dates."""


def parse_accounts(text: str) -> dict[int, tuple[int, int]] | None:
    r"""Return id to inodes and bytes; ``None`` if the text is not whole or not an account.

    Examples
    --------
    >>> parse_accounts("usr_accounting:\n- id: 7\n  usage:   { inodes: 2, kbytes: 4 }")
    {7: (2, 4096)}
    """
    rows = _rows(text, _ACCOUNT)
    if rows is None or not text.partition("\n")[0].endswith("_accounting:"):
        return None
    return {int(id_): (int(inodes), int(kib) * 1024) for id_, inodes, kib in rows}


def parse_limits(text: str, unit: int) -> dict[int, QuotaLimit] | None:
    """Return id to limits, ``None`` as `parse_accounts`; the defaults of id 0 are left out.

    Parameters
    ----------
    unit
        1024 for bytes (``dt``), 1 for files (``md``).
    """
    rows = _rows(text, _LIMIT)
    if rows is None:
        return None
    return {
        int(id_): QuotaLimit(
            int(soft) * unit or None,
            int(hard) * unit or None,
            datetime.fromtimestamp(int(time), UTC) if 0 < int(time) < _TIME_END else None,
        )
        for id_, hard, soft, time in rows
        if int(id_) > 0
    }


def _rows(text: str, row: re.Pattern[str]) -> list[tuple[str, ...]] | None:
    """Return the fields of every row below the heading, ``None`` if anything else is there."""
    body, rows, at = text.partition("\n")[2], list[tuple[str, ...]](), 0
    while at < len(body) and (match := row.match(body, at)) is not None:
        rows.append(match.groups())
        at = match.end()
    whole = at == len(body) and len({fields[0] for fields in rows}) == len(rows)
    return rows if whole else None


@dataclass
class QuotaTally:
    """The sums over servers; one after the other, since all answers together are large.

    Attributes
    ----------
    pools
        Pool to the indices of its OSTs.
    expected
        Every OST that an MDT knows, and every target that a server has.
    """

    file_system: str
    pools: Mapping[str, Collection[int]] = field(default_factory=dict)
    bytes: Counter[tuple[HolderKind, int]] = field(default_factory=Counter)
    files: Counter[tuple[HolderKind, int]] = field(default_factory=Counter)
    limits: dict[str, dict[tuple[HolderKind, int], QuotaLimit]] = field(
        default_factory=lambda: {"dt": {}, "md": {}}
    )
    targets: dict[tuple[str, HolderKind], TargetHolders] = field(default_factory=dict)
    of_pools: dict[tuple[str, HolderKind], Counter[int]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    expected: set[str] = field(default_factory=set)
    not_whole: set[tuple[str, HolderKind]] = field(default_factory=set)

    def add(self, server: ServerView) -> None:
        """Add what one server counts for its targets, and the limits if it has the master."""
        if (why := server.lacks("parameters")) is not None:
            self.problems.append(why)
            return
        self.expected.update(server.served)
        for name in server.parameters.matching("osp.*.active"):
            device = parse_name(name.split(".")[1])
            if device is not None and device.file_system == self.file_system:
                self.expected.add(device.target)
        for kind, short in KINDS.items():
            for target in sorted(server.served):
                self._account(server, target, kind)
            for part, unit in (("dt", 1024), ("md", 1)):
                pattern = f"qmt.{self.file_system}-QMT*.{part}-0x0.glb-{short}"
                for name, text in server.parameters.matching(pattern).items():
                    limits = parse_limits(text, unit)
                    if limits is None:
                        self.problems.append(f"{name} on {server.name} is not whole")
                    for id_, limit in (limits or {}).items():
                        self.limits[part][kind, id_] = limit

    def _account(self, server: ServerView, target: str, kind: HolderKind) -> None:
        pattern = f"osd-*.{self.file_system}-{target}.quota_slave.acct_{kind}"
        texts = server.parameters.matching(pattern)
        if not texts:
            return
        accounts = parse_accounts(next(iter(texts.values())))
        if accounts is None or (target, kind) in self.targets:
            self.not_whole.add((target, kind))
            return
        for id_, (inodes, size) in accounts.items():
            self.bytes[kind, id_] += size
            if target.startswith("MDT"):
                self.files[kind, id_] += inodes
        sizes = {id_: size for id_, (_, size) in accounts.items()}
        self.targets[target, kind] = _largest(target, kind, sizes)
        for pool, indices in self.pools.items():
            if target.startswith("OST") and int(target[3:], 16) in indices:
                self.of_pools.setdefault((f"pool {pool}", kind), Counter()).update(sizes)

    def holders(self, at: datetime) -> Holders:
        """Return the sums, the largest first."""
        holdings, left_out = list[Holding](), 0
        for kind in KINDS:
            of_kind = [
                Holding(
                    kind, id_, size, self.files[kind, id_],
                    self.limits["dt"].get((kind, id_), QuotaLimit()),
                    self.limits["md"].get((kind, id_), QuotaLimit()),
                )
                for (of, id_), size in self.bytes.items()
                if of is kind
            ]  # fmt: skip
            of_kind.sort(key=lambda holding: (-holding.bytes, holding.id))
            listed = [
                _within_grace(holding)
                for rank, holding in enumerate(of_kind)
                if rank < LISTED_MOST or holding.over_soft
            ]
            left_out += len(of_kind) - len(listed)
            holdings += listed
        unaccounted = []
        for kind in KINDS:
            known = {target for target, of in self.targets if of is kind}
            bad = {target for target, of in self.not_whole if of is kind}
            if not known | bad:
                unaccounted.append(f"no target accounts for {kind}s")
            elif missing := (self.expected - known) | bad:
                where = fold_names(sorted(missing))
                self.problems.append(f"accounts of {kind}s are missing or not whole: {where}")
        pools = (_largest(*place, sizes) for place, sizes in sorted(self.of_pools.items()))
        targets = (*pools, *(self.targets[place] for place in sorted(self.targets)))
        problems = tuple(dict.fromkeys(map(visible, self.problems)))
        source = "quota accounts of the servers (osd-*.*.quota_slave.acct_*)"
        whole = not problems
        problems += tuple(unaccounted)
        return Holders(at, source, tuple(holdings), targets, left_out, problems, whole=whole)


def _largest(target: str, kind: HolderKind, sizes: Mapping[int, int]) -> TargetHolders:
    ordered = sorted(((size, -id_) for id_, size in sizes.items() if size), reverse=True)
    largest = tuple((-id_, size) for size, id_ in ordered[:_LARGEST])
    return TargetHolders(target, kind, sum(sizes.values()), largest)


def _within_grace(holding: Holding) -> Holding:
    """Return a holding without the ends of graces that do not run: it is below that limit."""
    over = holding.over_soft
    if "bytes" not in over:
        holding = replace(holding, of_bytes=replace(holding.of_bytes, grace_until=None))
    if "files" not in over:
        holding = replace(holding, of_files=replace(holding.of_files, grace_until=None))
    return holding
