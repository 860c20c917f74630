"""The trace on the twin's allocator, with what ext4 does around it that is not the allocator's."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.allocator.trace import Phase

from trimtab._core import BlockAllocator

STREAM_BLOCKS = 16
"""``mb_stream_req``: files longer than this are served where the last one of them was."""

EXTENTS_IN_INODE = 4
EXTENTS_IN_BLOCK = 340
"""Extents of 12 bytes in a block of 4 KiB, after its head and before its checksum."""

LONGEST_UNWRITTEN_EXTENT = 32767


@dataclass(frozen=True, slots=True)
class Layout:
    """What of a file system's geometry decides where a file's search begins."""

    groups: int
    blocks_per_group: int
    inodes_per_group: int
    groups_per_flex: int


class Model:
    """The allocator of one family, asked as ext4 asks its own for fallocate.

    Up to 128 MiB a call of fallocate is not normalised, nothing is preallocated, and what follows
    a file's last extent is not tried first.
    """

    def __init__(
        self, layout: Layout, family: str, settings: dict[str, int], request_blocks: int
    ) -> None:
        terms = dict(settings)
        processors = terms.pop("processors")
        # From 6.17 on large requests of different files go on from different places.
        goals = min(processors, -(-layout.groups // 4)) if family == "ordered" else 1
        self.blocks = BlockAllocator(
            layout.groups,
            layout.blocks_per_group,
            family=family,
            enter=None,
            flex_groups=layout.groups_per_flex,
            stream_goals=goals,
            **terms,
        )
        self.layout = layout
        self.request_blocks = request_blocks
        self._files: list[list[tuple[int, int, int]]] = []

    def occupy(self, taken: list[tuple[int, int]]) -> None:
        """Mark what the metadata of the file system takes."""
        for start, length in taken:
            self.blocks.occupy(*divmod(start, self.layout.blocks_per_group), length)

    def free_groups(self) -> list[tuple[int, int]]:
        """Return free blocks and free runs of every group."""
        found = [self.blocks.group(number) for number in range(self.layout.groups)]
        return [one[:2] for one in found if one is not None]

    def follow(self, phase: Phase, inodes: list[int]) -> None:
        """Make and delete the files of a phase; file number i got ``inodes[i]``."""
        for event in phase.events:
            if event > 0:
                self._files.append(self._write(event, inodes[len(self._files)]))
            else:
                for extent in self._files[-event]:
                    self.blocks.release(*extent)
                self._files[-event] = []

    def _write(self, blocks: int, inode: int) -> list[tuple[int, int, int]]:
        home = self._home(inode)
        taken: list[tuple[int, int, int]] = []
        extents = _Extents()
        for start in range(0, blocks, self.request_blocks):
            at, end = start, min(start + self.request_blocks, blocks)
            while at < end:
                found = self._piece(at, end, taken, home, inode)
                if found is None:
                    return taken
                taken.append(found)
                at += found[2]
                if extents.add(found) and (index := self._index_block(home)):
                    taken.insert(0, index)
        self._close()
        return taken

    def _piece(
        self, at: int, end: int, taken: list[tuple[int, int, int]], home: int, inode: int
    ) -> tuple[int, int, int] | None:
        """Return where a file's blocks go from ``at`` on, as far as one search took them."""
        return self.blocks.allocate(
            end - at,
            goal=(taken[-1][0] if taken else home, 0),
            exact=False,
            stream=end > STREAM_BLOCKS,
            pointer=inode,
        )

    def _close(self) -> None:
        """Give back what was preallocated for the file; nothing is, for fallocate."""

    def _index_block(self, home: int) -> tuple[int, int, int] | None:
        return self.blocks.allocate(1, goal=(home, 0), exact=False, data=False)

    def _home(self, inode: int) -> int:
        """Return the group where the search for a new file's first blocks begins."""
        group = (inode - 1) // self.layout.inodes_per_group
        flex = self.layout.groups_per_flex
        # The first group of a flexible one is for directories and metadata.
        return group // flex * flex + 1 if flex >= 4 else group


class WritingModel(Model):
    """The allocator asked as ext4 asks its own for writes that extend a file, one after another.

    A request is made larger by the offset at which it ends, what is left of it is kept for the
    writes that follow and given back as the file is closed, and what follows a file's last extent
    is tried first. Files of up to 16 blocks would be packed together, and are not to be in a trace.
    """

    _kept: tuple[int, int, int] | None = None

    def _piece(
        self, at: int, end: int, taken: list[tuple[int, int, int]], home: int, inode: int
    ) -> tuple[int, int, int] | None:
        kept, self._kept = self._kept, None
        if kept is None:
            after = self._after(taken)
            kept = self.blocks.allocate(
                normalised(at, end) - at,
                goal=after or (taken[-1][0] if taken else home, 0),
                exact=after is not None,
                least=end - at,
                stream=True,
                pointer=inode,
            )
        if kept is None:
            return None
        group, start, length = kept
        used = min(length, end - at)
        if used < length:
            self._kept = group, start + used, length - used
        return group, start, used

    def _close(self) -> None:
        if self._kept is not None:
            self.blocks.release(*self._kept)
            self._kept = None

    def _after(self, taken: list[tuple[int, int, int]]) -> tuple[int, int] | None:
        if not taken:
            return None
        group, start, length = taken[-1]
        size = self.layout.blocks_per_group
        following = divmod(group * size + start + length, size)
        return following if following[0] < self.layout.groups else None


def normalised(at: int, end: int) -> int:
    """Return the block at which the request ends that is made of one for ``at`` to ``end``.

    Blocks are of 4 KiB, and the request lies within one MiB of the file. Up to 1 MiB from the
    beginning of the file the end goes up to a power of two; then the request fills the 2, 4 or
    8 MiB in which it begins, the more the further on.
    """
    for power in range(2, 9):
        if end <= 1 << power:
            return 1 << power
    chunk = 512 if end <= 1024 else 1024 if end <= 2048 else 2048
    return at // chunk * chunk + chunk


class _Extents:
    """How many extents a file has, neighbours joined."""

    def __init__(self) -> None:
        self.count = 0
        self._last = (-1, 0, 0)

    def add(self, found: tuple[int, int, int]) -> bool:
        """Count one more; return whether it needs another block of the extent tree."""
        group, start, length = self._last
        joined = length + found[2]
        if found[:2] == (group, start + length) and joined <= LONGEST_UNWRITTEN_EXTENT:
            self._last = group, start, joined
            return False
        self._last = found
        self.count += 1
        if self.count <= EXTENTS_IN_BLOCK:
            return self.count == EXTENTS_IN_INODE + 1
        return self.count % EXTENTS_IN_BLOCK == 1
