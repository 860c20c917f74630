"""Indexes of which nothing but a few facts matters."""

from trimtab.purge.index.manifest import IndexSource, Lack, Manifest, TimeTrust


def manifest(
    root: str = "/scratch",
    ended_s: int = 0,
    *,
    lacking: frozenset[Lack] = frozenset(),
    times: TimeTrust = TimeTrust.EXACT_NS,
) -> Manifest:
    """Return the manifest of a scan without rows that ended at a time."""
    return Manifest(
        index_id="01a1f640-bc00-7000-8000-000000000001",
        root=root.encode(),
        filesystem=None,
        source=IndexSource.SCAN,
        tool="trimtab",
        started_ns=None,
        ended_ns=ended_s * 10**9,
        times=times,
        time_resolution_ns=1,
        lacking=lacking,
        complete=True,
        shards=(),
    )
