"""Parses a survey's ``.detail``, with each OST's figures. Pure: text in, values out.

::

    =======================> ost  1 sz  1638400K rsz 1024K obj    1 thr    1
    =============> Create 1 on localhost:scratch-OST0001_ecc
    create: 1 objects
    create: #1 is object id 0xa
    =============> write localhost:scratch-OST0001_ecc
    Print status every 1 seconds
    --threads: starting 1 threads on device 49 running test_brw 1600 wx q 256 1t10 p256
    1/1 Total: 276.803746/second
    Total: total 1600 threads 1 sec 4.081836 391.980472/second
    =============> write global
    3 276.803746 387.660797
    =============> Destroy 1 on localhost:scratch-OST0001_ecc

A rate is records of ``rsz`` per second: each thread counts one for each write or read it requested
(``shmem_bump``), and the time runs from the start of the last thread to the end of the last one.
``global`` has a row for each OST: seconds, then the rates of the slowest and fastest second, in
records.

Sources: lustre/utils/obd.c (``jt_obd_test_brw``, ``shmem_total``, ``shmem_snap``) and
lustre-iokit/obdfilter-survey/obdfilter-survey (``create_objects``, ``get_stats``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from trimtab.errors import DataError
from trimtab.measure.measurement import agrees, beginning
from trimtab.measure.obdfilter_survey.summary import LINE_START, Shape, shape_of
from trimtab.message import Message

_MARK: Final = "=============> "
_BLOCK_MARK_REST: Final = "=========="
"""Start of a section's marker; that of a block is ten characters longer."""
_TOTAL: Final = re.compile(
    r"Total: total (\d{1,15}) threads (\d{1,6}) sec (\d{1,9}\.\d{6}) (\d{1,12}\.\d{6})/second\n"
)
_ROW: Final = re.compile(r"(-?\d{1,9}) (\d{1,12}\.\d{6}) (\d{1,12}\.\d{6})")
_CREATED: Final = re.compile(r"^create: #\d{1,6} is object id (0x[0-9a-f]{1,16}|\d{1,18})$", re.M)
_DESTROYED: Final = re.compile(
    r"^destroy: #\d{1,6} is object id (0x[0-9a-f]{1,16}|\d{1,18})$", re.M
)
_ROUNDING: Final = 1e-6
_BLOCKS_MAXIMUM: Final = 10_000
"""A survey has one per combination: hundreds at most."""


@dataclass(frozen=True, slots=True)
class TargetRate:
    """The figures of one target in one test.

    Attributes
    ----------
    client
        The echo client, as printed: ``localhost:scratch-OST0001_ecc``.
    bandwidth_bytes_per_s, elapsed_s
        ``None`` if not printed.
    line
        Line of the figure, or of the section's start if there is none.
    reason
        Why it is not credible.
    """

    client: str
    bandwidth_bytes_per_s: float | None
    elapsed_s: float | None
    line: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Extremes:
    """Slowest and fastest second of any target, as in the summary."""

    seconds: int
    slowest_bytes_per_s: float
    fastest_bytes_per_s: float


@dataclass(slots=True)
class Test:
    """One test of all targets; ``extremes`` is ``None`` if its ``global`` part is incomplete."""

    name: str
    rates: list[TargetRate] = field(default_factory=list)
    extremes: Extremes | None = None
    closed: bool = False


@dataclass(slots=True)
class Block:
    """One combination of record size, objects and threads.

    Attributes
    ----------
    destroyed
        Number of targets whose objects were removed at its end.
    damaged
        Why nothing in it is credible.
    """

    shape: Shape
    tests: list[Test] = field(default_factory=list)
    destroyed: int = 0
    damaged: str | None = None

    @property
    def whole(self) -> bool:
        """Whether it is complete: every target's objects were removed."""
        return self.destroyed == self.shape.targets

    def damage(self, text: str) -> None:
        """Mark it as damaged."""
        self.damaged = Message("line-damaged", text)


@dataclass(frozen=True, slots=True)
class Objects:
    """Objects that a survey created on one target."""

    client: str
    ids: tuple[int, ...]


def read_detail(text: str) -> tuple[Block, ...]:
    """Return the blocks of a detail; the last one may be incomplete.

    Raises
    ------
    DataError
        It has more blocks than any survey.
    """
    unix = text.replace("\r\n", "\n") if "\r" in text else text
    sections = unix.split(_MARK)
    blocks: list[Block] = []
    before, line = sections[0], 1 + sections[0].count("\n")
    for section in sections[1:]:
        if before.endswith(_BLOCK_MARK_REST):
            _begin(blocks, section, line)
            if len(blocks) > _BLOCKS_MAXIMUM:
                raise DataError(
                    f"more than {_BLOCKS_MAXIMUM} blocks: too many for a survey",
                    code="too-many-results",
                    line=line,
                )
        elif blocks:
            if before and not before.endswith("\n"):
                blocks[-1].damage(f"line {line} has two entries")
            _take(blocks[-1], section, line)
        before = section
        line += section.count("\n")
    return tuple(blocks)


def objects_left(text: str) -> tuple[Objects, ...]:
    """Return the objects that a survey created and did not remove, according to its detail.

    If killed, it leaves them on its targets, where no file owns them. An object is in the detail as
    soon as it exists, when `lctl create` has ended.
    """
    left: dict[str, dict[int, None]] = {}
    for section in text.replace("\r\n", "\n").split(_MARK)[1:]:
        head, _, body = section.partition("\n")
        words = head.split()
        if len(words) != 4 or words[2] != "on":
            continue
        of_client = left.setdefault(words[3], {})
        if words[0] == "Create":
            of_client |= {int(identifier, 0): None for identifier in _CREATED.findall(body)}
        elif words[0] == "Destroy":
            for object_id in _DESTROYED.findall(body):
                of_client.pop(int(object_id, 0), None)
    return tuple(Objects(client, tuple(ids)) for client, ids in left.items() if ids)


@lru_cache(maxsize=4096)
def target_of(client: str) -> str:
    """Return the target of an echo client, without host and suffix.

    Examples
    --------
    >>> target_of("localhost:scratch-OST000a_ecc")
    'scratch-OST000a'
    """
    name = client.rpartition(":")[2]
    for ending in ("_ecc", "_echo_client"):
        name = name.removesuffix(ending)
    return name


def _begin(blocks: list[Block], section: str, line: int) -> None:
    match = LINE_START.match(section)
    shape = None if match is None else shape_of(match)
    if shape is not None:
        blocks.append(Block(shape))
    elif blocks:
        blocks[-1].damage(f"line {line} does not start an entry: {beginning(section)}")


def _take(block: Block, section: str, line: int) -> None:
    head, ended, body = section.partition("\n")
    word, _, rest = head.partition(" ")
    if word == "Create" or not ended:
        return
    if word == "Destroy":
        block.destroyed += f"destroy: #{rest.partition(' ')[0]} is object id " in body
    elif rest == "global":
        if block.tests and block.tests[-1].name == word and not block.tests[-1].closed:
            _close(block, block.tests[-1], body)
        else:
            block.damage(f"line {line} ends a test that never started")
    elif " " in rest or not rest:
        block.damage(f"line {line} is unreadable: {beginning(head)}")
    else:
        if not block.tests or block.tests[-1].closed:
            block.tests.append(Test(word))
        if block.tests[-1].name != word:
            block.damage(f"line {line} belongs to {beginning(word)}, not {block.tests[-1].name}")
        elif len(block.tests[-1].rates) >= block.shape.targets:
            block.damage(f"line {line} has one target too many")
        else:
            block.tests[-1].rates.append(_rate(block.shape, rest, section, line))


def _rate(shape: Shape, client: str, section: str, line: int) -> TargetRate:
    position = section.rfind("\nTotal: ") + 1
    match = _TOTAL.match(section, position) if position else None
    if match is None:
        reason = Message("no-total", "no total printed for this target")
        return TargetRate(client, None, None, line, reason)
    records, threads, elapsed_s, rate = match.groups()
    elapsed, per_s, reason = float(elapsed_s), float(rate), None
    if "error" in section:
        text = f"lctl printed an error: {beginning(section[section.find('error') :])}"
        reason = Message("tool-error", text)
    elif int(threads) * shape.targets != shape.threads:
        text = f"{threads} threads, but {shape.threads // shape.targets} were requested"
        reason = Message("workload-mismatch", text)
    elif int(records) * shape.record_kib * shape.targets != shape.size_kib:
        text = f"{records} records are not its share of {shape.size_kib}K"
        reason = Message("workload-mismatch", text)
    elif not agrees(per_s, int(records), elapsed, tolerance=_ROUNDING + 1e-6 / (elapsed or 1)):
        text = f"{records} records in {elapsed_s} s do not give {rate} per second"
        reason = Message("figures-disagree", text)
    line += section.count("\n", 0, position)
    return TargetRate(client, per_s * shape.record_kib * 1024, elapsed, line, reason)


def _close(block: Block, test: Test, body: str) -> None:
    test.closed = True
    rows = [_ROW.fullmatch(row) for row in body.split("\n")[:-1]]
    if len(rows) != block.shape.targets or not all(rows):
        return
    seconds, slowest, fastest = zip(*(row.groups() for row in rows if row), strict=True)
    record_bytes = block.shape.record_kib * 1024
    slowest_bytes, fastest_bytes = min(map(float, slowest)), max(map(float, fastest))
    seconds = min(map(int, seconds))
    test.extremes = Extremes(seconds, slowest_bytes * record_bytes, fastest_bytes * record_bytes)
