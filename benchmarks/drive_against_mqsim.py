"""The simulated drive beside MQSim on the same traces: `make compare-mqsim MQSIM=DIR`.

DIR is a checkout of MQSim; it is built in a folder of its own and nothing of it is kept here, but
the ratios. Each trace is written once and read by both: a fill from end to end, then writes of one
page each. Flash pages written for each of the host are counted from the first write to the last.

MQSim has no trim. A page that is given back right before another is written is to a drive what an
overwrite is: the trace that MQSim gets has the new page under the old one's name.

It places a page on the plane that its address says, each plane with a frontier for new pages and
one for copies. Here the same is simulated (a drive for each plane), and superblocks over all
planes, both with copies apart and mixed with new pages. Planes of MQSim hold back `POOL` erased
blocks, which are no spare here.

Latencies are those of the uniform trace at a part of what the drive takes, with each plane on a
channel of its own, against seconds of four drives without parity, with MQSim's own times
(`flash::window`).
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trimtab._core import FlashDrive, run_window
from trimtab.twin.simulation.ost_rate import WindowTerms

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.flash_against_mqsim import BUILD, DEVICE, built  # noqa: E402
from benchmarks.measured import measured_on  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "drive_against_mqsim.json"
PLANES, BLOCKS, PAGES, OVERPROVISIONED = 4, 512, 64, 0.20
PAGE_BYTES, SECTORS = 8192, 16
LOGICAL = PLANES * int(BLOCKS * PAGES * (1 - OVERPROVISIONED))
POOL = 10
"""Erased blocks that a plane of MQSim keeps: its limit of collections at a time, wired in."""
PROGRAM_S, READ_S, ERASE_S = 750e-6, 75e-6, 3.8e-3
"""As MQSim comes."""
COLLECTS_BELOW = 0.03
"""As MQSim comes, where time counts: else it collects only when it serves no writes any more."""
HOT, HOT_SHARE = 0.2, 0.8
LIVE = 0.8
FILE_PAGES = 64
SPACING_NS = 3_000_000
"""Between two writes where only pages are counted: long enough that none waits for ever."""
Pages = NDArray[np.int64]


@dataclass(frozen=True)
class Trace:
    """Writes after the fill, and the page that each one replaces, which is given back first."""

    filled: int
    written: Pages
    given_back: Pages | None = None

    def renamed(self) -> Pages:
        """Return the writes as a drive without trim gets them: each over what it replaces."""
        if self.given_back is None:
            return self.written
        names = {page: page for page in range(self.filled)}
        result = np.empty_like(self.written)
        for at, (new, old) in enumerate(zip(self.written, self.given_back, strict=True)):
            names[new] = result[at] = names.pop(old)
        return result


def uniform(writes: int, draws: np.random.Generator) -> Trace:
    """Return writes to any page."""
    return Trace(LOGICAL, draws.integers(0, LOGICAL, writes))


def hot_and_cold(writes: int, draws: np.random.Generator) -> Trace:
    """Return four writes in five to a fifth of the pages."""
    hot = int(LOGICAL * HOT)
    to_hot = draws.random(writes) < HOT_SHARE
    pages = np.where(to_hot, draws.integers(0, hot, writes), draws.integers(hot, LOGICAL, writes))
    # Hot pages lie anywhere: planes share them evenly.
    return Trace(LOGICAL, draws.permutation(LOGICAL)[pages])


def sequential(writes: int, _draws: np.random.Generator) -> Trace:
    """Return writes from one end to the other, over and over."""
    return Trace(LOGICAL, np.arange(writes) % LOGICAL)


def mixed_with_trim(writes: int, draws: np.random.Generator) -> Trace:
    """Return files of up to 64 pages that come and go, and half as many single pages, 80 % live.

    With each page of a new file one of the file that goes is given back.
    """
    live, free = list(range(int(LOGICAL * LIVE))), list(range(int(LOGICAL * LIVE), LOGICAL))
    written, given = np.empty(writes, np.int64), np.empty(writes, np.int64)
    at = 0
    while at < writes:
        length = 1 if draws.random() < 0.5 else int(draws.integers(2, FILE_PAGES + 1))
        first = int(draws.integers(0, len(live)))
        for page in range(min(length, writes - at)):
            place = (first + page) % len(live)
            new = free.pop(0)  # a pointer that goes around all that is free
            written[at], given[at] = new, live[place]
            free.append(live[place])
            live[place] = new
            at += 1
    return Trace(int(LOGICAL * LIVE), written, given)


TRACES: dict[str, Callable[[int, np.random.Generator], Trace]] = {
    "uniform": uniform,
    "hot-cold": hot_and_cold,
    "sequential": sequential,
    "mixed-trim": mixed_with_trim,
}


def ours(trace: Trace, *, by_plane: bool, separate: bool) -> float:
    """Return the amplification of the simulated drive: one, or one for each plane."""
    parts = PLANES if by_plane else 1
    frontiers = 3  # MQSim's: new pages, copies, its map
    usable = (PLANES // parts) * (BLOCKS - POOL - frontiers)
    if not by_plane:
        usable //= PLANES  # superblocks of a block of each plane
    units = PAGES if by_plane else PAGES * PLANES
    spare = 1 - LOGICAL / parts / (usable * units)
    drives = [FlashDrive(usable, units, spare, separate=separate) for _ in range(parts)]
    names = trace.renamed() if by_plane else trace.written
    for page in range(trace.filled):
        drives[page % parts].write(page // parts)
    for at, page in enumerate(names.tolist()):
        if not by_plane and trace.given_back is not None:
            drives[0].trim(int(trace.given_back[at]))
        drives[page % parts].write(page // parts)
    counts = [drive.counts for drive in drives]
    return 1 + sum(copied for _, copied, _, _ in counts) / sum(host for host, _, _, _ in counts)


@dataclass(frozen=True)
class Theirs:
    """What MQSim says: pages written for each of the host, and latencies in seconds, sorted."""

    amplification: float
    latencies_s: NDArray[np.float64]


def theirs(
    program: Path,
    trace: Trace,
    arrivals_ns: NDArray[np.int64],
    policy: str,
    *,
    channels: int = 1,
    collects_below: float = 0.001,
) -> Theirs:
    """Return MQSim's run of a trace.

    Parameters
    ----------
    channels
        That the planes are on: those of one die take turns, those of other channels do not.
    collects_below
        Part of a plane's blocks; under `POOL` of them it serves no writes.

    Raises
    ------
    SystemExit
        It died, or served fewer writes than asked.
    """
    device = (program.parent / "ssdconfig.xml").read_text()
    settings = {
        **DEVICE,
        "Overprovisioning_Ratio": OVERPROVISIONED,
        "GC_Block_Selection_Policy": policy,
        "GC_Exec_Threshold": collects_below,
        "Flash_Channel_Count": channels,
        "Plane_No_Per_Die": PLANES // channels,
        "Block_No_Per_Plane": BLOCKS,
        "Page_No_Per_Block": PAGES,
        "Enable_ResponseTime_Logging": "true",
        "ResponseTime_Logging_Period_Length": 1,
    }
    for name, value in settings.items():
        device = re.sub(rf"<{name}>[^<]*</{name}>", f"<{name}>{value}</{name}>", device)
    pages = np.concatenate([np.arange(trace.filled), trace.renamed()])
    lines = (
        f"{when} 0 {page * SECTORS} {SECTORS} 0"
        for when, page in zip(arrivals_ns.tolist(), pages.tolist(), strict=True)
    )
    (BUILD / "pages.trace").write_text("\n".join(lines) + "\n")
    flow = {
        "Priority_Class": "HIGH",
        "Device_Level_Data_Caching_Mode": "TURNED_OFF",
        "Channel_IDs": ",".join(map(str, range(channels))),
        **{f"{part}_IDs": 0 for part in ("Chip", "Die")},
        "Plane_IDs": ",".join(map(str, range(PLANES // channels))),
        "Initial_Occupancy_Percentage": 0,
        "File_Path": "pages.trace",
        "Percentage_To_Be_Executed": 100,
        "Relay_Count": 1,
        "Time_Unit": "NANOSECOND",
    }
    inner = "".join(f"<{name}>{value}</{name}>" for name, value in flow.items())
    kind = "IO_Flow_Parameter_Set_Trace_Based"
    (BUILD / "device.xml").write_text(device)
    (BUILD / "flow.xml").write_text(
        '<?xml version="1.0" encoding="us-ascii"?>\n<MQSim_IO_Scenarios><IO_Scenario>'
        f"<{kind}>{inner}</{kind}></IO_Scenario></MQSim_IO_Scenarios>\n"
    )
    output = BUILD / "flow_scenario_1.xml"
    output.unlink(missing_ok=True)
    argv = [str(program), "-i", "device.xml", "-w", "flow.xml"]
    ended = subprocess.run(
        argv, check=False, cwd=BUILD, stdin=subprocess.DEVNULL, capture_output=True
    )
    if ended.returncode != 0 or not output.exists():
        raise SystemExit(f"MQSim died: {ended.stdout[-400:]!r}")
    text = output.read_text()
    served = re.search(r"<Request_Count>(\d+)", text)
    cleaned = re.search(r'Total_GC_Executions="(\d+)"', text)
    # Not the programs that are issued: one of several planes counts once.
    each = re.search(r'Average_Page_Movement_For_GC="([\d.]+)"', text)
    if served is None or cleaned is None or each is None or int(served[1]) != len(pages):
        raise SystemExit(f"MQSim served {served and served[1]} of {len(pages):,} writes")
    logs = sorted(BUILD.glob("*.log"), key=lambda path: path.stat().st_mtime)
    latencies = np.loadtxt(logs[-1], skiprows=1, usecols=1) * 1e-6 if logs else np.zeros(0)
    copied = int(cleaned[1]) * float(each[1])
    return Theirs(1 + copied / len(pages), np.sort(latencies[-len(trace.written) // 2 :]))


def window(amplification: float, per_s: float, seconds: float) -> dict[str, float]:
    """Return latencies of four planes as drives of a group without parity, with MQSim's times."""
    figures = run_window(
        WindowTerms(
            write_bytes_per_s=PAGE_BYTES / PROGRAM_S,
            read_bytes_per_s=PAGE_BYTES / READ_S,
            write_iops=1 / PROGRAM_S,
            read_iops=1 / READ_S,
            amplification=amplification,
            drives=PLANES,
            data=1,
            parity=0,
            chunk_bytes=PAGE_BYTES,
            throttle=False,
            submitters=4096,
            write_latency_s=0.0,
            read_latency_s=0.0,
            transfer_bytes=PAGE_BYTES,
            depth=4096,
            operations_per_s=per_s,
            superblock_bytes=PAGES * PAGE_BYTES,
            urgency=1.0,
            slice_s=1.0,
            slice_hit=0.0,
            erase_s=ERASE_S,
            idle_s=10.0,
            warm_s=5.0,
            duration_s=seconds,
        )
    )
    return {name: figures["writes"][name] for name in ("mean_s", "p50_s", "p99_s", "p999_s")}


def amplifications(program: Path, writes: int, seed: int) -> Iterator[dict[str, object]]:
    """Yield a row for each trace and policy of picking victims."""
    for name, make in TRACES.items():
        trace = make(writes, np.random.default_rng(seed))
        at = np.arange(trace.filled + writes, dtype=np.int64) * SPACING_NS
        one = {
            f"{mapping}, {stream}": ours(trace, by_plane=by_plane, separate=separate)
            for mapping, by_plane in (("by plane", True), ("over all planes", False))
            for stream, separate in (("copies apart", True), ("mixed", False))
        }
        for policy in ("GREEDY", "RGA"):
            other = theirs(program, trace, at, policy).amplification
            row: dict[str, object] = {
                "trace": name,
                "mqsim_policy": policy,
                "mqsim": other,
                "trimtab": one,
                "ratio": {label: value / other for label, value in one.items()},
            }
            print(json.dumps(row), flush=True)
            yield row


def latencies(program: Path, writes: int, seed: int) -> Iterator[dict[str, object]]:
    """Yield a row for each load: quantiles of both."""
    draws = np.random.default_rng(seed)
    trace = uniform(writes, draws)
    steady = ours(trace, by_plane=True, separate=True)
    for load in (0.2, 0.4):
        # Per plane, of what programs, copies and erases leave.
        page_s = PROGRAM_S + (steady - 1) * (PROGRAM_S + READ_S) + steady * ERASE_S / PAGES
        gap_s = page_s / PLANES / load
        gaps = np.concatenate(
            [np.full(trace.filled, SPACING_NS), draws.exponential(gap_s * 1e9, writes)]
        )
        arrivals = np.cumsum(gaps).astype(np.int64)
        got = theirs(
            program, trace, arrivals, "GREEDY", channels=PLANES, collects_below=COLLECTS_BELOW
        )
        part = {"p50_s": 0.5, "p99_s": 0.99, "p999_s": 0.999}
        other = {name: float(np.quantile(got.latencies_s, at)) for name, at in part.items()}
        other["mean_s"] = float(got.latencies_s.mean())
        one = window(got.amplification, 1 / gap_s, 60.0)
        row: dict[str, object] = {
            "load": load,
            "mqsim": other,
            "trimtab": one,
            "ratio": {name: one[name] / other[name] for name in other},
        }
        print(json.dumps(row), flush=True)
        yield row


def _ratios(row: dict[str, object]) -> dict[str, object]:
    """Return a row without the figures of either."""
    return {name: value for name, value in row.items() if name not in {"mqsim", "trimtab"}}


def main() -> None:
    """Compare, print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mqsim", type=Path, required=True, help="A checkout of MQSim.")
    parser.add_argument("--writes", type=int, default=400_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-write", action="store_true", help="Leave the committed result.")
    asked = parser.parse_args()
    program = built(asked.mqsim.resolve())
    result = {
        "what": "flash pages written for each of the host, and latencies of writes, on one trace",
        **measured_on(),
        "planes": PLANES,
        "blocks_per_plane": BLOCKS,
        "pages_per_block": PAGES,
        "overprovisioned": OVERPROVISIONED,
        "writes": asked.writes,
        "seed": asked.seed,
        "amplification": [
            _ratios(row) for row in amplifications(program, asked.writes, asked.seed)
        ],
        "latency": [_ratios(row) for row in latencies(program, asked.writes, asked.seed)],
    }
    if not asked.no_write:
        RESULT.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
