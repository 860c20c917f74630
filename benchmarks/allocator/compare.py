"""One trace on the kernel and on the model, and how far they are apart."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.allocator.kernel import GROUP_BLOCKS, MKFS_OPTIONS, Kernel, taken_at_first
from benchmarks.allocator.model import STREAM_BLOCKS, Layout, Model, WritingModel
from benchmarks.allocator.trace import phases
from tests.support import loopback

ONSET = 0.001
"""Useless loops a request from which on a criterion counts as failing."""

Counts = dict[str, list[int]]


def run(
    directory: Path,
    *,
    size_bytes: int,
    steps: list[float],
    churn: float,
    seed: int,
    request_blocks: int = 256,
    writes: bool = False,
) -> dict:
    """Run one seed's trace on the kernel, then on the model.

    Parameters
    ----------
    directory
        Where the sparse file and the mount point are made; both are gone afterwards.
    steps, churn, seed
        As `benchmarks.allocator.trace.phases` takes them.
    request_blocks
        Blocks that one request is for.
    writes
        Whether files are written instead of taken with fallocate: the file beneath then comes to
        hold as much as the file system.

    Returns
    -------
    dict
        ``family``, ``criteria``, ``settings``, ``host_bytes`` that the file beneath came to hold,
        seconds, and ``rows``: for each step hits (part of all), useless loops and groups considered
        (a request) by criterion, ``free_blocks`` and the mean ``free_extent_blocks``, of kernel and
        model.
    """
    blocks = size_bytes // 4096
    # Smaller files would be packed into preallocations of each processor.
    smallest = STREAM_BLOCKS + 1 if writes else 1
    began = time.monotonic()
    with loopback.mounted(
        directory, fs="ext4", size_bytes=size_bytes, mkfs_options=MKFS_OPTIONS
    ) as mounted:
        kernel = Kernel(mounted, request_blocks, writes=writes)
        taken, layout = taken_at_first(mounted.device.path), _layout(mounted.device.path)
        settings, family, criteria = kernel.settings(), kernel.family(), kernel.criteria()
        theirs = []
        for phase in phases(blocks, steps, churn, seed, smallest):
            before = kernel.counts()
            kernel.follow(phase)
            if phase.measured:
                theirs.append(_row(kernel.counts(), before, kernel.free_groups()))
        os.sync()
        host_bytes = mounted.device.backing_file.stat().st_blocks * 512
    kernel_s, began = time.monotonic() - began, time.monotonic()
    kind = WritingModel if writes else Model
    model = kind(layout, family, settings, request_blocks)
    model.occupy(taken)
    ours = []
    for phase in phases(blocks, steps, churn, seed, smallest):
        before = model.blocks.loops
        model.follow(phase, kernel.inodes)
        if phase.measured:
            ours.append(_row(model.blocks.loops, before, model.free_groups()))
    sides = zip(steps, theirs, ours, strict=True)
    return {
        "seed": seed,
        "family": family,
        "criteria": criteria,
        "settings": settings,
        "host_bytes": host_bytes,
        "kernel_s": kernel_s,
        "model_s": time.monotonic() - began,
        "rows": [{"fullness": full, "kernel": a, "model": b} for full, a, b in sides],
    }


def compare(runs: Sequence[dict]) -> dict:
    """Return how far kernel and model are apart over all seeds.

    Returns
    -------
    dict
        ``hits_points``: largest difference of a criterion's part of the hits at each fullness, in
        points; ``onset``: the fullness from which on a criterion fails, of both sides by seed
        (``None``: it never does).
    """
    criteria = runs[0]["criteria"]
    points = [max(map(_apart, rows)) for rows in zip(*(run["rows"] for run in runs), strict=True)]
    return {
        "hits_points_largest": round(max(points), 2),
        "hits_points": [round(one, 2) for one in points],
        "onset": {
            name: {
                side: [_onset(run["rows"], side, number) for run in runs]
                for side in ("kernel", "model")
            }
            for number, name in enumerate(criteria)
        },
    }


def _apart(row: dict) -> float:
    pairs = zip(row["kernel"]["hits"], row["model"]["hits"], strict=True)
    return 100 * max(abs(theirs - ours) for theirs, ours in pairs)


def _onset(rows: list[dict], side: str, criterion: int) -> float | None:
    return next((row["fullness"] for row in rows if row[side]["useless"][criterion] >= ONSET), None)


def _row(now: Counts, before: Counts, free: list[tuple[int, int]]) -> dict:
    counts = {
        name: [after - then for after, then in zip(now[name], before[name], strict=True)]
        for name in ("hits", "useless", "considered")
    }
    requests = sum(counts["hits"])
    runs = sum(runs for _, runs in free)
    return {
        "requests": requests,
        **{
            name: [round(value / requests, 6) for value in values]
            for name, values in counts.items()
        },
        "free_blocks": sum(blocks for blocks, _ in free),
        "free_extent_blocks": round(sum(blocks for blocks, _ in free) / max(1, runs), 1),
    }


def _layout(device: Path) -> Layout:
    argv = ["dumpe2fs", "-h", str(device)]
    text = subprocess.run(argv, capture_output=True, text=True, check=True).stdout

    def field(name: str) -> int:
        found = re.search(rf"^{name}:\s+(\d+)$", text, re.MULTILINE)
        return int(found.group(1)) if found else 0

    return Layout(
        groups=field("Block count") // GROUP_BLOCKS,
        blocks_per_group=GROUP_BLOCKS,
        inodes_per_group=field("Inodes per group"),
        groups_per_flex=field("Flex block group size"),
    )
