"""A window of a RAID group as plainly as it can be said: one list of what happens next.

What it must do like the fast one: every draw, every time, every count. Each drive here decides what
to do next when it is free, an event of its own; the fast one knows the end of a write at once.
"""

import heapq
import math
from collections import Counter
from dataclasses import asdict
from typing import Any

from tests.support.narrow import present
from tests.twin.slow_drive import GOLDEN, MASK, scrambled, xoshiro

from trimtab.twin.simulation.ost_rate import WindowTerms

WRITE_END, READ_END, WINDOW_END, READY, ARRIVAL, OTHER_READ, SAMPLE, DECIDE = range(8)
COLLECTION, READS, LAYOUT, ARRIVALS, OTHERS = range(1, 6)
MS = 10**6
COLLECTION_TERMS: dict[str, Any] = {
    "superblock_bytes": float(1 << 30),
    "urgency": 0.1,
    "slice_s": 0.0035,
    "slice_hit": 1.0,
    "erase_s": 0.0035,
    "erase_hit": 0.05,
    "idle_s": 0.1,
}
"""Of drives of which nothing is said, as the core has them."""


class Draws:
    """A stream of an entity."""

    def __init__(self, seed: int, stream: int, number: int) -> None:
        state = mix(seed)
        for part in (stream, number):
            state = mix(state ^ part)
        self.numbers = xoshiro(state)

    def part(self) -> float:
        return (next(self.numbers) >> 11) / 2**53

    def below(self, end: int) -> int:
        return ((next(self.numbers) >> 32) * end) >> 32

    def exponential(self) -> float:
        whole = 0
        while True:
            run = [self.part()]
            while (following := self.part()) < run[-1]:
                run.append(following)
            if len(run) % 2:
                return whole + run[0]
            whole += 1

    def permutation(self, end: int) -> list[int]:
        found = list(range(end))
        for last in range(end - 1, 0, -1):
            other = self.below(last + 1)
            found[last], found[other] = found[other], found[last]
        return found


def mix(number: int) -> int:
    return scrambled((number + GOLDEN) & MASK)


def ns(seconds: float) -> int:
    return math.floor(seconds * 1e9 + 0.5)


class Throttle:
    """Steps and limits of one queue, in the words of the kernel's documentation."""

    def __init__(self, target: int, queue: int) -> None:
        self.target, self.queue = target, queue
        self.step = self.unknown = 0
        self.end: int | None = None
        self.length = 100 * MS
        self.shortest: list[int] = []
        self.writes = 0
        self.last_read = -(10**18)
        self.watched: tuple[int, int] | None = None

    def wanted(self, step: int) -> int:
        start = min(16, self.queue) - 1
        return 1 + (start >> step if step >= 0 else start << -step)

    def depth(self) -> int:
        most = 3 * self.queue // 4
        return self.wanted(self.step) if self.step >= 0 else min(self.wanted(self.step), most)

    def normal(self) -> int:
        depth = self.depth()
        return depth if depth <= 2 else (depth + 1) // 2

    def background(self) -> int:
        depth = self.depth()
        return 1 if depth <= 2 else (depth + 3) // 4

    def limit(self, kind: str, now: int) -> int:
        if kind == "sync":
            return self.depth()
        return self.background() if now - self.last_read < 100 * MS else self.normal()

    def wakes(self, left: int) -> bool:
        room = self.normal() - left
        return left == 0 or (room > 0 and room >= self.background() // 2)

    def judge(self, now: int, in_flight: int) -> bool:
        before = self.step
        waiting = now - self.watched[1] if self.watched else 0
        if waiting > self.length or (waiting > self.target and not self.shortest):
            self.violated()
        elif self.shortest and self.writes >= 3:
            if min(self.shortest) > self.target:
                self.violated()
            else:
                self.rise()
        elif self.writes or in_flight:
            self.rise()
        else:
            self.unknown += 1
            if self.unknown >= 5 and self.step > 0:
                self.rise()
            elif self.unknown >= 5 and self.step < 0:
                self.step, self.unknown = self.step + 1, 0
        self.shortest, self.writes = [], 0
        self.end = None
        if self.step or in_flight:
            self.open(now)
        return self.step < before

    def open(self, now: int) -> int:
        right = max(self.step, 0)
        self.length = (100 * MS) * 16 // math.isqrt((right + 1) * 256) if right else 100 * MS
        self.end = now + self.length
        return self.end

    def violated(self) -> None:
        if self.depth() > 1:
            self.step = self.step + 1 if self.step >= 0 else 0
            self.unknown = 0

    def rise(self) -> None:
        at_most = self.step < 0 and self.wanted(self.step) > 3 * self.queue // 4
        if not at_most:
            self.step, self.unknown = self.step - 1, 0


class Drive:
    """A queue and a server that does one thing at a time."""

    def __init__(self, number: int, terms: dict[str, Any]) -> None:
        self.terms = terms
        slow = terms["slow_drive"]
        factor = slow[1] if slow and slow[0] == number else 1.0
        factor *= 1.0 - terms["rebuild_share"]
        self.write_bytes_per_s: float = terms["write_bytes_per_s"] * factor
        self.read_bytes_per_s: float = terms["read_bytes_per_s"] * factor
        self.write_iops: float = terms["write_iops"] * factor
        self.read_iops: float = terms["read_iops"] * factor
        self.amplification = terms["amplification"]
        self.owed = self.amplification - 1.0
        self.slice_bytes = max(self.write_bytes_per_s * terms["slice_s"], 1.0)
        copies = 1.0 - (1.0 - terms["urgency"]) / self.amplification
        self.between = self.slice_bytes * (1.0 - copies) / copies if copies > 0 else 0.0
        self.sizes = Draws(terms["seed"], COLLECTION, number)
        self.hits = Draws(terms["seed"], READS, number)
        self.threshold = self.next_threshold()
        self.debt = self.sizes.part() * self.threshold
        self.collecting = False
        self.since = 0.0
        self.queue: list[tuple[int, int, int]] = []  # came at, bytes, operation
        self.busy_until = 0
        self.doing: tuple[int, int, int] | str | None = None
        self.slices: list[tuple[int, int]] = []
        self.erases: list[tuple[int, int]] = []
        self.reads_free = 0

    def next_threshold(self) -> float:
        mean = self.terms["superblock_bytes"] * (1.0 - 1.0 / self.amplification)
        return mean * (0.5 + self.sizes.part())

    def write_s(self, size: int) -> float:
        return max(size / self.write_bytes_per_s, 1.0 / self.write_iops)

    def read_s(self, size: int) -> float:
        return max(size / self.read_bytes_per_s, 1.0 / self.read_iops)


class SlowWindow:
    """The group and its load."""

    def __init__(self, **terms: Any) -> None:
        self.terms = t = asdict(WindowTerms(**COLLECTION_TERMS | terms))
        self.alive = t["drives"] - t["failed_drives"]
        self.drives = [Drive(number, t) for number in range(t["drives"])]
        throttled = t["throttle"] and t["write_class"] != "direct"
        target = ns(t["throttle_target_s"])
        self.throttles = [
            Throttle(target, t["queue_depth"]) if throttled else None for _ in self.drives
        ]
        self.in_flight = [0] * t["drives"]
        self.asleep: list[list[int]] = [[] for _ in self.drives]
        self.layout = Draws(t["seed"], LAYOUT, 0)
        self.rows: list[list[int]] = []
        self.arrivals = Draws(t["seed"], ARRIVALS, 0)
        self.others = Draws(t["seed"], OTHERS, 0)
        self.events: list[tuple[Any, ...]] = []
        self.operations: dict[int, dict[str, Any]] = {}
        self.ready: list[int] = []
        self.threads = t["submitters"]
        self.serial_free = 0
        self.backlog: list[int] = []
        self.reads = self.started = self.ended = 0
        self.warm = ns(t["warm_s"])
        self.wrote: list[tuple[int, bool]] = []
        self.read: list[tuple[int, int]] = []
        self.states: Counter[str] = Counter()

    def run(self) -> dict[str, Any]:
        t = self.terms
        self.at(self.warm, SAMPLE)
        if t["reads_per_s"]:
            self.at(ns(self.others.exponential() / t["reads_per_s"]), OTHER_READ)
        for number in range(t["drives"]):
            self.at(0, DECIDE, number)
        if t["operations_per_s"]:
            self.at(ns(self.arrivals.exponential() / t["operations_per_s"]), ARRIVAL)
        else:
            for _ in range(t["depth"]):
                self.start(0, 0)
        end = self.warm + ns(t["duration_s"])
        while (event := heapq.heappop(self.events))[0] < end:
            now, rank, *rest = event
            (
                *(self.write_end, self.read_end, self.window_end, self.is_ready),
                *(self.arrival, self.other_read, self.sample, self.decide),
            )[rank](now, *rest)
        return self.figures()

    def at(self, time: int, rank: int, *rest: Any) -> None:
        heapq.heappush(self.events, (time, rank, *rest))

    # What operations do.

    def start(self, now: int, since: int) -> None:
        t = self.terms
        reads = t["read_share"] > 0 and self.arrivals.part() < t["read_share"]
        number = self.started
        self.started += 1
        accesses = self.reading() if reads else self.writing()
        self.operations[number] = {
            "since": since,
            "writes": not reads,
            "met": False,
            "reads": [one for one in accesses if one[2]],
            "rest": [one for one in accesses if not one[2]],
            "in_flight": 0,
        }
        self.serial_free = max(self.serial_free, now) + ns(t["serial_s"])
        self.at(self.serial_free, READY, number)

    def row(self) -> list[int]:
        if not self.rows:
            drives = self.layout.permutation(self.terms["drives"])
            self.rows = [drives[first:] + drives[:first] for first in range(len(drives))]
        return self.rows.pop()

    def reading(self) -> list[tuple[int, int, bool]]:
        t, row = self.terms, self.row()
        size = min(t["read_bytes"], t["chunk_bytes"])
        if row[0] < self.alive:
            return [(row[0], size, True)]
        if t["kind"] == "raid10":
            return [(row[1], size, True)]
        left = [one for one in row[: t["data"] + t["parity"]] if one < self.alive]
        return [(one, size, True) for one in left[: t["data"]]]

    def writing(self) -> list[tuple[int, int, bool]]:
        left, reads, writes = self.terms["transfer_bytes"], [], []
        whole = self.terms["data"] * self.terms["chunk_bytes"]
        while left > 0:
            first, second = self.row_written(min(left, whole))
            reads += [(drive, size, True) for drive, size in first]
            writes += [(drive, size, False) for drive, size in second if drive < self.alive]
            left -= whole
        return reads + writes

    def row_written(self, size: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        t, row = self.terms, self.row()
        data, parity, chunk = t["data"], t["parity"], t["chunk_bytes"]
        if t["kind"] == "draid":
            each = math.ceil(size / (4096 * data)) * 4096
            return [], [(one, each) for one in row[: data + parity]]
        parts = [min(chunk, size - start) for start in range(0, size, chunk)]
        if t["kind"] == "raid10":
            pairs = zip(row[::2], row[1::2], parts, strict=False)
            return [], [(one, part) for *pair, part in pairs for one in pair]
        height = min(size, chunk)
        parities = [(one, height) for one in row[data : data + parity]]
        writes = list(zip(row, parts, strict=False)) + parities
        if size == data * chunk or not parity:
            return [], writes
        modify = writes[: len(parts)] + [one for one in parities if one[0] < self.alive]
        keep = [(row[k], height - part) for k, part in enumerate(parts) if part < height]
        keep += [(one, height) for one in row[len(parts) : data]]
        ways = [way for way in (modify, keep) if all(one < self.alive for one, _ in way)]
        if ways:
            return min(ways, key=len), writes
        left = [one for one in row[: data + parity] if one < self.alive]
        return [(one, height) for one in left[:data]], writes

    def is_ready(self, now: int, number: int) -> None:
        self.ready.append(number)
        self.hand_out(now)

    def hand_out(self, now: int) -> None:
        while self.threads and self.ready:
            self.threads -= 1
            self.proceed(now, self.ready.pop(0))

    def proceed(self, now: int, number: int) -> None:
        operation = self.operations[number]
        if operation["reads"]:
            for drive, size, _ in operation["reads"]:
                operation["in_flight"] += 1
                self.issue_read(now, drive, size, number)
            operation["reads"] = []
        else:
            while operation["rest"]:
                drive = operation["rest"][0][0]
                if self.asleep[drive] or not self.room(now, drive):
                    self.asleep[drive].append(number)
                    return
                self.issue_write(now, number)
        self.threads += 1

    def room(self, now: int, drive: int) -> bool:
        throttle, most = self.throttles[drive], self.terms["queue_depth"]
        if throttle:
            most = min(most, throttle.limit(self.terms["write_class"], now))
        return self.in_flight[drive] < most

    def issue_write(self, now: int, number: int) -> None:
        operation = self.operations[number]
        drive, size, _ = operation["rest"].pop(0)
        operation["in_flight"] += 1
        self.in_flight[drive] += 1
        self.drives[drive].queue.append((now, size, number))
        self.at(now, DECIDE, drive)
        throttle = self.throttles[drive]
        if throttle and throttle.end is None:
            self.at(throttle.open(now), WINDOW_END, drive)

    def issue_read(self, now: int, drive: int, size: int, number: int) -> None:
        end, met = self.read_on(self.drives[drive], now, size)
        if number >= 0 and met:
            self.operations[number]["met"] = True
        throttle = self.throttles[drive]
        if throttle:
            throttle.last_read = now
            if throttle.watched is None:
                throttle.watched = (self.reads, now)
        self.at(end, READ_END, self.reads, drive, now, size, number)
        self.reads += 1

    def read_on(self, drive: Drive, now: int, size: int) -> tuple[int, bool]:
        stall = None
        busy = [("slice_hit", end) for start, end in drive.slices if start <= now < end]
        busy += [("erase_hit", end) for start, end in drive.erases if start <= now < end]
        if busy and drive.hits.part() < self.terms[busy[0][0]]:
            stall = busy[0][1]
        start = max(drive.reads_free, now)
        service = ns(drive.read_s(size))
        drive.reads_free = start + service
        end = max(start, stall or 0) + service + ns(self.terms["read_latency_s"])
        return end, stall is not None

    # What happens.

    def write_end(self, now: int, drive: int, number: int, met: bool) -> None:
        self.in_flight[drive] -= 1
        self.operations[number]["met"] |= met
        throttle, wakes = self.throttles[drive], True
        if throttle:
            throttle.writes += throttle.end is not None
            wakes = throttle.wakes(self.in_flight[drive])
        if wakes:
            self.wake(now, drive)
        self.access_end(now, number)

    def read_end(self, now: int, read: int, drive: int, since: int, size: int, number: int) -> None:
        throttle = self.throttles[drive]
        if throttle:
            throttle.last_read = now
            if throttle.watched and throttle.watched[0] == read:
                throttle.watched = None
            if throttle.end is not None:
                throttle.shortest.append(now - since)
        if number >= 0:
            self.access_end(now, number)
        elif now >= self.warm:
            self.read.append((now - since, size))

    def window_end(self, now: int, drive: int) -> None:
        throttle = present(self.throttles[drive])
        rose = throttle.judge(now, self.in_flight[drive])
        if throttle.end is not None:
            self.at(throttle.end, WINDOW_END, drive)
        if rose:
            self.wake(now, drive)

    def wake(self, now: int, drive: int) -> None:
        woken = []
        while self.asleep[drive] and self.room(now, drive):
            woken.append(self.asleep[drive].pop(0))
            self.issue_write(now, woken[-1])
        for number in woken:
            self.proceed(now, number)
        self.hand_out(now)

    def access_end(self, now: int, number: int) -> None:
        operation = self.operations[number]
        operation["in_flight"] -= 1
        if operation["in_flight"]:
            return
        if operation["rest"]:
            if number not in [one for queue in self.asleep for one in queue]:
                self.ready.append(number)
                self.hand_out(now)
            return
        del self.operations[number]
        self.ended += 1
        if now >= self.warm and operation["writes"]:
            self.wrote.append((now - operation["since"], operation["met"]))
        elif now >= self.warm:
            self.read.append((now - operation["since"], self.terms["read_bytes"]))
        if not self.terms["operations_per_s"]:
            self.start(now, now)
        elif self.backlog:
            self.start(now, self.backlog.pop(0))

    def arrival(self, now: int) -> None:
        if len(self.operations) < self.terms["depth"]:
            self.start(now, now)
        else:
            self.backlog.append(now)
        self.at(now + ns(self.arrivals.exponential() / self.terms["operations_per_s"]), ARRIVAL)

    def other_read(self, now: int) -> None:
        self.issue_read(now, self.others.below(self.alive), self.terms["read_bytes"], -1)
        self.at(now + ns(self.others.exponential() / self.terms["reads_per_s"]), OTHER_READ)

    def decide(self, now: int, number: int) -> None:
        """What a drive does next; asked whenever something came or ended."""
        drive, t = self.drives[number], self.terms
        if drive.busy_until > now:
            return
        if drive.doing == "slice":
            self.slice_done(drive, now)
        elif isinstance(drive.doing, tuple):
            drive.since += drive.doing[1]
            drive.debt += drive.doing[1] * drive.owed
            if not drive.collecting and drive.owed > 0 and drive.debt >= drive.threshold:
                drive.collecting, drive.since = True, drive.between
        was = drive.doing
        drive.doing = None
        if drive.collecting and (drive.since >= drive.between or not drive.queue):
            self.begin_slice(drive, number, now)
        elif drive.queue:
            came, size, operation = drive.doing = drive.queue.pop(0)
            drive.busy_until = now + ns(drive.write_s(size))
            met = any(end > came for _, end in drive.slices)
            self.at(drive.busy_until, DECIDE, number)
            acknowledged = drive.busy_until + ns(t["write_latency_s"])
            self.at(acknowledged, WRITE_END, number, operation, met)
        elif drive.debt >= drive.slice_bytes:
            if was is None and now >= drive.busy_until + ns(t["idle_s"]):
                drive.collecting = True
                self.begin_slice(drive, number, now)
            else:
                self.at(drive.busy_until + ns(t["idle_s"]), DECIDE, number)

    def begin_slice(self, drive: Drive, number: int, now: int) -> None:
        size = min(drive.debt, drive.slice_bytes)
        drive.doing = "slice"
        drive.busy_until = now + max(ns(size / drive.write_bytes_per_s), 1)
        drive.slices.append((now, drive.busy_until))
        self.at(drive.busy_until, DECIDE, number)

    def slice_done(self, drive: Drive, now: int) -> None:
        drive.debt -= min(drive.debt, drive.slice_bytes)
        drive.since = 0.0
        if drive.debt <= 0:
            drive.collecting = False
            drive.erases.append((now, now + ns(self.terms["erase_s"])))
            drive.threshold = drive.next_threshold()

    def sample(self, now: int) -> None:
        seen = self.states
        for number, drive in enumerate(self.drives[: self.alive]):
            throttle = self.throttles[number]
            step = max(throttle.step, 0) if throttle else 0
            held, quiet = bool(self.asleep[number]), not drive.collecting
            idle = drive.busy_until <= now and not drive.queue
            seen["looks"] += 1
            seen["collecting"] += drive.collecting
            seen["below"] += step > 0
            seen["below_quiet"] += step > 0 and quiet
            seen["held"] += held
            seen["held_quiet"] += held and quiet
            seen["starved_quiet"] += idle and quiet and not self.in_flight[number]
            seen["steps_below"] += step
        self.at(now + MS, SAMPLE)

    def figures(self) -> dict[str, Any]:
        duration_s = self.terms["duration_s"]
        return {
            "write_bytes_per_s": len(self.wrote) * self.terms["transfer_bytes"] / duration_s,
            "read_bytes_per_s": sum(size for _, size in self.read) / duration_s,
            "writes": quantiles([time for time, _ in self.wrote]),
            "reads": quantiles([time for time, _ in self.read]),
            "met": sum(met for _, met in self.wrote) / len(self.wrote) if self.wrote else None,
            "started": self.started,
            "ended": self.ended,
            "outstanding": len(self.operations),
            "sampled": dict(self.states),
        }


def quantiles(times: list[int]) -> dict[str, float] | None:
    if not times:
        return None
    times = sorted(times)
    count = len(times)

    def rank(part: int) -> float:
        return times[-(-count * part // 10000) - 1] / 1e9

    return {
        "count": count,
        "mean_s": sum(times) / count / 1e9,
        "p50_s": rank(5000),
        "p90_s": rank(9000),
        "p99_s": rank(9900),
        "p999_s": rank(9990),
        "p9999_s": rank(9999),
        "max_s": times[-1] / 1e9,
    }
