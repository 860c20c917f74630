"""What the layers predict for each printed figure that needs no simulation.

Machines are as [S1] to [S5] describe them; no value here is fitted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from benchmarks.reproduction.classes import FITTED_ON, classes_of
from benchmarks.reproduction.statements import Row, SeededRow, needing, row

from trimtab.twin.scenario import Clients, Osts, ProbeLoad, Raid, Server
from trimtab.twin.scenario_key import preset
from trimtab.twin.simulation import hardware as network
from trimtab.twin.simulation import hardware as raid
from trimtab.twin.simulation import job as client
from trimtab.twin.simulation import ost_array
from trimtab.twin.simulation.hardware import (
    E1000,
    E2000,
    FITTED,
    Constants,
    OstHardware,
    hardware,
    small_operations_per_s,
)
from trimtab.twin.simulation.job import placed_job

MIB: Final = 1024**2
PM1733: Final = preset("pm1733").model
PM1733A: Final = preset("pm1733a").model
PM1743: Final = preset("pm1743").model
GEN5_LINK: Final = 7 * 1024**3
"""Printed: about 7 GiB/s to one slot from one controller (source S5)."""
GEN4_LINK: Final = GEN5_LINK / 2

PERLMUTTER: Final = Osts(274, PM1733, capacity_bytes=133e12)
E1000_F: Final = Osts(2, PM1733A, link_bytes_per_s=GEN4_LINK)
_SHARED = Raid(drives=32, shared=4)
E2000_F: Final = Osts(4, PM1743, _SHARED, per_server=2, link_bytes_per_s=GEN5_LINK)
E2000_2X16: Final = Osts(2, PM1743, Raid(drives=16), link_bytes_per_s=GEN5_LINK)
E2000_4X16: Final = replace(E2000_F, raid=Raid(drives=16, shared=2))

_E1000_BOTH = replace(E1000_F, raid=Raid(drives=24, shared=2))
"""All drives from both servers at once, as fio reads them."""

_E1000_SERVER = Server(32, 50e9)
_E2000_SERVER = Server(32, 100e9, "e2000")
_MDTS: Final = 16
_CPU_NODE = Clients(3072, 25e9)
_GPU_NODE = Clients(1536, 100e9, saferet=True)
_TEST_NODE = Clients(32, 50e9)
_AGGREGATORS: Final = 32
_SMALL_PART: Final = 0.75
"""Of WRF's writes, with 10 to 100 KB each (source S5)."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the twin says of one row.

    Attributes
    ----------
    rests_on
        What it follows from, in a few words.
    low, high
        Where something is not printed that decides it: what its least and greatest value give.
    """

    value: float
    rests_on: str
    low: float | None = None
    high: float | None = None


def _perlmutter() -> OstHardware:
    return hardware(PERLMUTTER, _E1000_SERVER)


def _of(osts: Osts, write: bool, from_clients: bool, constants: Constants) -> float:
    """Return bytes per second of all OSTs of fresh drives together."""
    machine = hardware(osts, _E2000_SERVER if osts.drive is PM1743 else _E1000_SERVER)
    rates = ost_array.ceilings_of(machine, from_clients=from_clients, constants=constants).rates()
    return osts.count * float(rates.write if write else rates.read)


def _probe(clients: Clients, constants: Constants) -> float:
    """Return the hourly probe's mean write on OSTs that write what the first surveys say."""
    limits = client.node_limits(clients, E1000, 64, constants=constants)
    most = _job_write(15.1e9, 15.1e9, limits, _ior(32, 64, 125e12))
    return most * client.mean_run_share(constants)


def _whole(nodes: int, tasks: int, constants: Constants) -> float:
    """Return the acceptance test's write of file per process with so many nodes."""
    limits = client.node_limits(_CPU_NODE, E1000, tasks, cores=128, constants=constants)
    rates = ost_array.ceilings_of(_perlmutter(), from_clients=True, constants=constants).rates()
    job = _ior(nodes, tasks, nodes * tasks * 1e9)
    return _job_write(float(rates.write), float(rates.read), limits, job)


def _ior(nodes: int, tasks_per_node: int, bytes_written: float) -> ProbeLoad:
    return ProbeLoad("job", "ior", "hourly", nodes, tasks_per_node, bytes_written=bytes_written)


def _job_write(write: float, read: float, limits: client.NodeLimits, job: ProbeLoad) -> float:
    """Return what a job writes whose files go around 274 OSTs alike, bytes per second."""
    placed = np.arange(job.tasks) % 274
    rates = (np.full(274, write), np.full(274, read))
    return placed_job(placed, *rates, clients=limits, job=job).write_bytes_per_s


def _drive_rows(constants: Constants) -> dict[str, Prediction]:
    machine = _perlmutter()
    sheet = "12 drives of the data sheet"
    lanes = 2 * 32e9 / 8 * 128 / 130 * 512 / 536
    return {
        "2-read": Prediction(12 * machine.drive_read_bytes_per_s, sheet),
        "2-write": Prediction(12 * machine.drive_write_bytes_per_s, sheet),
        "2-read-iops": Prediction(
            12 * small_operations_per_s(PM1733.read_iops, PM1733.read_bytes_per_s),
            "4 KiB reads fill the lanes of one server before the sheet's 1,450 kIOPS",
        ),
        "2-write-iops": Prediction(12 * PM1733.write_iops, sheet),
        "41-drives": Prediction(12.0 * (PERLMUTTER.count + _MDTS), "12 of each OST and MDT"),
        "5-link": Prediction(
            lanes, "2 lanes x 32 GT/s x 128/130, packets of 512 bytes with 24 around them"
        ),
    }


def _raid_rows(constants: Constants) -> dict[str, Prediction]:
    machine = _perlmutter()
    write = raid.array_write_bytes_per_s(machine, constants)
    read = raid.array_read_bytes_per_s(machine, constants)
    fio_write = 12 * machine.drive_write_bytes_per_s * machine.raid.data_share
    fio_read = 12 * machine.drive_read_bytes_per_s
    small = raid.small_write_operations(machine.raid)
    ior_write = _of(PERLMUTTER, True, True, constants) / 274
    ior_read = _of(PERLMUTTER, False, True, constants) / 274
    small_fio = 12 * small_operations_per_s(PM1733.read_iops, PM1733.read_bytes_per_s)
    array = "12 drives x 8/10 x RAID efficiency"
    e1000 = {write: _of(E1000_F, write, False, constants) for write in (True, False)}
    e2000 = {write: _of(E2000_F, write, False, constants) for write in (True, False)}
    sheet = {True: 0.8 * 24 * PM1733A.write_bytes_per_s, False: 24 * PM1733A.read_bytes_per_s}
    sheet_2 = {True: 0.8 * 32 * PM1743.write_bytes_per_s, False: 32 * PM1743.read_bytes_per_s}
    host = "the E1000's overhead on a host faster by the factor; x 32 drives"
    link = "32 drives, each through the 7 GiB/s of one controller's link"
    return {
        "10-write": Prediction(write / fio_write, array),
        "10-read": Prediction(read / fio_read, "drives are the limit"),
        "11-write": Prediction(write, array),
        "11-read": Prediction(read, "12 drives"),
        "12-write": Prediction(ior_write / fio_write, f"{array} x client path"),
        "12-read": Prediction(ior_read / fio_read, "12 drives x client path"),
        "13-write": Prediction(
            raid.small_writes_per_s(machine, constants) / (12 * PM1733.write_iops / small),
            "arrays take small writes one by one; drives could do a third of theirs",
        ),
        "13-read": Prediction(
            ost_array.small_reads_per_s(machine, constants) / small_fio, "cores of the server"
        ),
        "14-write": Prediction(_of(E2000_2X16, True, False, constants), host),
        "14-read": Prediction(_of(E2000_2X16, False, False, constants), link),
        "15-write-4x16": Prediction(_of(E2000_4X16, True, False, constants), host),
        "15-read-4x16": Prediction(_of(E2000_4X16, False, False, constants), link),
        "15-write-4x32": Prediction(e2000[True], host),
        "15-read-4x32": Prediction(e2000[False], "memory of two servers / passes"),
        "16-write": Prediction(e2000[True] / e1000[True], f"{host}; E1000 by its x2 links"),
        "16-read": Prediction(e2000[False] / e1000[False], "memory over the E1000's x2 links"),
        "16-write-peak": Prediction(e2000[True], host),
        "16-read-peak": Prediction(e2000[False], "memory of two servers / passes"),
        "figure-3-write": Prediction(e2000[True] / sheet_2[True] - e1000[True] / sheet[True], host),
        "figure-3-fio-e1000": Prediction(
            _of(_E1000_BOTH, False, False, constants) / sheet[False], "memory of two servers"
        ),
        "figure-3-fio-e2000": Prediction(e2000[False] / sheet_2[False], "memory of two servers"),
        "figure-3-read": Prediction(
            e2000[False] / sheet_2[False] - e1000[False] / sheet[False],
            "memory over 14 GB/s a drive, less x2 links over 7.5",
        ),
        "figure-3-read-e2000": Prediction(e2000[False] / sheet_2[False], "memory of two servers"),
        "figure-3-raid-write": Prediction(e2000[True] / sheet_2[True], host),
    }


def _network_rows(constants: Constants) -> dict[str, Prediction]:
    rows: dict[str, Prediction] = {}
    efficiency = "line rate x LNet"
    for number, line, platform in (("29", 50e9, E1000), ("31", 100e9, E2000)):
        write = network.port_write_bytes_per_s(line, platform, constants)
        read = network.port_read_bytes_per_s(line, constants)
        for suffix in ("",) if number == "29" else ("-cpt4", "-cpt8", "-cpt16"):
            rows[f"{number}-write{suffix}"] = Prediction(write, efficiency)
            rows[f"{number}-read{suffix}"] = Prediction(read, efficiency)
    ports = (
        ("e1000-single", 25e9, E1000),
        ("e1000-dual", 50e9, E1000),
        ("e2000-single", 50e9, E2000),
        ("e2000-dual", 100e9, E2000),
    )
    for name, line, platform in ports:
        write = network.port_write_bytes_per_s(line, platform, constants)
        both = min(write, network.port_read_bytes_per_s(line, constants))
        rows[f"30-{name}"] = Prediction(both, f"{efficiency}, the slower direction")
    return rows


def _server_rows(constants: Constants) -> dict[str, Prediction]:
    machine = _perlmutter()
    return {
        "26-write": Prediction(_of(PERLMUTTER, True, True, constants) / 274, "OST x client path"),
        "26-read": Prediction(_of(PERLMUTTER, False, True, constants) / 274, "OST x client path"),
        "26-write-iops": Prediction(raid.small_writes_per_s(machine, constants), "one array"),
        "26-read-iops": Prediction(ost_array.small_reads_per_s(machine, constants), "32 cores"),
        "35-peak": Prediction(_of(PERLMUTTER, True, True, constants), "274 x one OST"),
    }


def _client_rows(constants: Constants) -> dict[str, Prediction]:
    plain = _probe(replace(_GPU_NODE, saferet=False), constants)
    saferet = _probe(_GPU_NODE, constants)
    both = _probe(replace(_GPU_NODE, checksums=True), constants)
    limits = client.node_limits(_CPU_NODE, E1000, 32, cores=128, constants=constants)
    few, many = _whole(691, 4, constants), _whole(4147, 2, constants)
    node = "processor of a node"
    balanced = "274 OSTs x client path x balance of the files over them"
    locks = "file per process x what locks leave"
    rows = {
        "36-saferet": Prediction(saferet / plain - 1, node),
        "37-without": Prediction(saferet, node),
        "37-with": Prediction(both, f"{node}, and checksums"),
        "37-ratio": Prediction(both / saferet - 1, node),
        "35-node-write": Prediction(limits.write_bytes_per_s, "one port x LNet x client path"),
        "35-node-read": Prediction(limits.read_bytes_per_s, "one port x LNet x client path"),
        "35-fpp-691": Prediction(few, balanced),
        "35-fpp-4147": Prediction(many, balanced),
        "35-fpp-128mib": Prediction(few, f"{balanced}; the size of transfers plays no part"),
        "35-shared-691": Prediction(few * constants.shared_file_factor, locks),
        "35-shared-4147": Prediction(many * constants.shared_file_factor, locks),
        "35-random-691": Prediction(
            4096
            * min(
                691 * client.small_reads_per_s(48),
                274 * ost_array.small_reads_per_s(_perlmutter(), constants),
            ),
            "half of the processes of the one node, on 691: each waits for one read at a time",
        ),
    }
    return rows | _scaling_rows(constants) | _application_rows(constants)


def _scaling_rows(constants: Constants) -> dict[str, Prediction]:
    """Return the rows of Figures 4 and 18 of source S5: one scalable unit, from clients."""

    def small(osts: Osts, server: Server, write: bool) -> float:
        machine = hardware(osts, server)
        ost_rate = raid.small_writes_per_s if write else ost_array.small_reads_per_s
        return osts.count * ost_rate(machine, constants)

    def nodes_to_peak(peak: float, per_node: float) -> float:
        return next((n for n in (1, 2, 4, 8, 16) if n * per_node >= 0.99 * peak), 32)

    ratio = {
        write: _of(E2000_F, write, True, constants) / _of(E1000_F, write, True, constants)
        for write in (True, False)
    }
    eight = client.node_limits(_TEST_NODE, E2000, 8, constants=constants)
    small_2 = {write: small(E2000_F, _E2000_SERVER, write) for write in (True, False)}
    small_1 = {write: small(E1000_F, _E1000_SERVER, write) for write in (True, False)}
    arrays = "twice the arrays, each faster by the host"
    knee = "what 8 processes of a node move, against the servers' ceiling"
    return {
        "39-write": Prediction(ratio[True], "drives and their hosts, both through clients"),
        "39-read": Prediction(ratio[False], "E2000 by its network, E1000 by its drives' links"),
        "39-write-iops": Prediction(small_2[True] / small_1[True], arrays),
        "39-read-iops": Prediction(small_2[False] / small_1[False], "cores, faster by the host"),
        "34-write": Prediction(
            nodes_to_peak(_of(E2000_F, True, True, constants), eight.write_bytes_per_s), knee
        ),
        "34-read": Prediction(
            nodes_to_peak(_of(E2000_F, False, True, constants), eight.read_bytes_per_s), knee
        ),
        "34-write-iops": Prediction(
            nodes_to_peak(small_2[True], client.small_writes_per_s(8)), knee
        ),
        "34-read-iops": Prediction(
            nodes_to_peak(small_2[False], client.small_reads_per_s(8)), knee
        ),
    }


def _application_rows(constants: Constants) -> dict[str, Prediction]:
    """Return the rows of MLPerf Storage and WRF: what clients and servers allow them."""
    nodes = client.node_limits(_TEST_NODE, E2000, constants=constants)
    read_2 = _of(E2000_F, False, True, constants)
    read_1 = _of(E1000_F, False, True, constants)
    write_2 = _of(E2000_F, True, True, constants)

    def readers(count: int, servers: float) -> float:
        return min(count * nodes.read_bytes_per_s, servers)

    rank = constants.process_bytes_per_s
    least, most = (
        (part * small + (1 - part) * large for part, small, large in (sizes,))
        for sizes in ((_SMALL_PART, 10e3, 100e3), (_SMALL_PART, 100e3, float(MIB)))
    )
    once_s = client.SMALL_PROCESSES / client.SMALL_WRITES_PER_S
    slow, fast = (
        min(_AGGREGATORS * size / (once_s + size / rank), write_2)
        for sizes in (least, most)
        for size in sizes
    )
    wrf = Prediction(
        float(np.sqrt(slow * fast)),
        "each write waits as one of 4 KiB does; the mean size is 33 to 337 KB, for that of a "
        "quarter of the writes is not printed",
        slow,
        fast,
    )
    ceiling = "clients' ports, or the servers"
    return {
        "mlperf-unet3d-10": Prediction(readers(10, read_2), ceiling),
        "mlperf-unet3d-20": Prediction(readers(20, read_2), ceiling),
        "mlperf-unet3d-ratio": Prediction(readers(5, read_2) / readers(5, read_1), ceiling),
        "mlperf-resnet50-client": Prediction(readers(1, read_2), ceiling),
        "38-rank": Prediction(rank, "a process that writes 1 MiB at a time"),
        "38-wrf-e2000": wrf,
        "38-wrf-e1000": wrf,
        "38-wrf-gain": Prediction(0.0, "ranks are the limit on either, servers on neither"),
        "38-wrf-saved": Prediction(0.13 * 2900 - 0.124 * 1485, "shares of the printed times"),
        "38-wrf-aggregators": Prediction(
            min(_AGGREGATORS * rank, write_2) / min(4 * rank, write_2),
            "ranks add up until the servers are the limit",
        ),
        "38-wrf-lockahead": Prediction(1 / constants.shared_file_factor, "what locks leave"),
        "38-wrf-stripes": Prediction(1.0, "no contention either way; opening costs nothing"),
    }


LAYERS: Final[tuple[Callable[[Constants], dict[str, Prediction]], ...]] = (
    _drive_rows,
    _raid_rows,
    _server_rows,
    _network_rows,
    _client_rows,
)


def predictions(constants: Constants = FITTED) -> dict[str, Prediction]:
    """Return what the layers say of each row of ``statements.csv``, by its id."""
    rows: dict[str, Prediction] = {}
    for layer in LAYERS:
        rows |= layer(constants)
    return rows


def layer_rows(constants: Constants = FITTED) -> list[Row]:
    """Return every statement that needs no simulation beside what the layers predict."""
    return [seeded.row for seeded in layers(constants)]


def layers(constants: Constants = FITTED) -> list[SeededRow]:
    """Return the same with the interval of what is not printed."""
    predicted, classes = predictions(constants), classes_of(predictions)
    rows: list[SeededRow] = []
    for statement in needing("layers"):
        prediction = predicted.get(statement.id)
        if prediction is None:
            rows.append(SeededRow(row(statement, None)))
            continue
        layer_class = classes[statement.id]
        statement_row = row(
            statement,
            prediction.value,
            prediction.rests_on,
            fitted=statement.id in FITTED_ON,
            computed=layer_class.row_class,
            rests_on=layer_class.rests_on if statement.declared is None else (),
        )
        rows.append(SeededRow(statement_row, prediction.low, prediction.high))
    return rows
