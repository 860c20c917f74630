"""Each layer by hand, on figures that one can follow with a pencil."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.twin.scenario import Clients, DriveModel, Osts, Raid, Server
from trimtab.twin.scenario_key import preset
from trimtab.twin.simulation import hardware as network
from trimtab.twin.simulation import hardware as raid
from trimtab.twin.simulation import job, ost_array
from trimtab.twin.simulation.hardware import (
    E1000,
    E2000,
    FITTED,
    hardware,
    platform_of,
    small_operations_per_s,
)
from trimtab.twin.simulation.job import SURVEY_THREADS, survey_share

DRIVE = DriveModel("d", 15e12, 4e9, 3e9, 1e6, 1e5, 0.1, 1)
PLAIN = replace(
    FITTED,
    raid_write_efficiency=0.9,
    client_path_efficiency=0.8,
    lnet_efficiency=0.9,
    lnet_write_slingshot=0.5,
    memory_passes=2.0,
    allocator_s_per_group=1e-7,
    host_factor_e2000=2.0,
    checksum_core_s_per_byte=1e-9,
    process_bytes_per_s=5e9,
)
OSTS = Osts(4, DRIVE, Raid(drives=10, spares=0))
MACHINE = hardware(OSTS, Server(32, 50e9))
OF_PLAIN = ost_array.ceilings_of(MACHINE, constants=PLAIN)


def test_an_array_writes_its_data_share_of_the_drives() -> None:
    assert raid.array_write_bytes_per_s(MACHINE, PLAIN) == pytest.approx(10 * 3e9 * 0.8 * 0.9)
    assert raid.array_read_bytes_per_s(MACHINE, PLAIN) == pytest.approx(10 * 4e9)
    mirrored = hardware(replace(OSTS, raid=Raid("raid10", 10, 1, 1)), Server())
    assert raid.array_write_bytes_per_s(mirrored, PLAIN) == pytest.approx(10 * 3e9 * 0.5 * 0.9)


def test_a_small_write_is_three_reads_and_three_writes() -> None:
    assert raid.small_write_operations(Raid()) == 3
    assert raid.small_write_operations(Raid("raid10", data=1, parity=1)) == 2
    quick = replace(PLAIN, small_write_s=1e-9)
    assert raid.small_writes_per_s(MACHINE, quick) == pytest.approx(10 * 1e5 / 3)
    assert raid.small_writes_per_s(MACHINE, replace(PLAIN, small_write_s=1e-4)) == 1e4


LAYOUTS = st.builds(
    Raid,
    kind=st.sampled_from(["gridraid", "draid"]),
    drives=st.integers(10, 64),
    spares=st.integers(0, 2),
    rebuild_share=st.floats(0.01, 0.99),
) | st.builds(
    Raid, kind=st.just("raid10"), drives=st.integers(2, 64), data=st.just(1), parity=st.just(1)
)


@given(LAYOUTS)
def test_a_rebuilding_array_is_never_faster_than_a_degraded_one(layout: Raid) -> None:
    """With 12 drives it read 64 % of a healthy one where a degraded one reads 58 %."""
    write, read = raid.rebuilding_factors(layout)
    assert 0 < read < raid.degraded_read_factor(layout) <= raid.short_factor(layout) < 1
    assert 0 < write < raid.short_factor(layout)


@given(LAYOUTS, st.floats(1.01, 4), st.floats(0.2, 0.99))
def test_a_rebuild_lasts_by_size_and_rate_of_the_drives(
    layout: Raid, more: float, share: float
) -> None:
    machine = hardware(replace(OSTS, raid=layout), Server())
    lasts = raid.rebuild_s(machine)
    larger = replace(machine, drive_capacity_bytes=machine.drive_capacity_bytes * more)
    assert raid.rebuild_s(larger) == pytest.approx(more * lasts)
    assert raid.rebuild_s(machine, share) == pytest.approx(share * lasts)
    faster = replace(
        machine,
        drive_read_bytes_per_s=machine.drive_read_bytes_per_s * more,
        drive_write_bytes_per_s=machine.drive_write_bytes_per_s * more,
    )
    assert raid.rebuild_s(faster) == pytest.approx(lasts / more)


def test_a_rebuild_by_hand() -> None:
    """Of 12 drives in 8+2+1 eleven read 8 and write 1 byte for each of 15.36 TB, in 30 %."""
    machine = hardware(replace(OSTS, drive=preset("pm1733").model, raid=Raid()), Server())
    by_hand = 15.36e12 * (8 / 3.5e9 + 1 / 3.2e9) / 11 / 0.3
    assert raid.rebuild_s(machine) == pytest.approx(by_hand)
    assert by_hand == pytest.approx(3.36 * 3600, rel=0.01)


def test_a_faster_host_shrinks_what_it_loses_and_no_more() -> None:
    assert raid.shrunk(0.9, 1) == pytest.approx(0.9)
    assert 0.9 < raid.shrunk(0.9, 2) < raid.shrunk(0.9, 4) < 1


def test_drives_of_two_controllers_are_reached_by_two_links() -> None:
    fast = replace(DRIVE, read_bytes_per_s=14e9, write_bytes_per_s=6e9)
    shared = Osts(4, fast, Raid(drives=32, shared=4), per_server=2, link_bytes_per_s=5e9)
    assert hardware(shared, Server()).drive_read_bytes_per_s == 10e9
    assert hardware(shared, Server()).drives == 8
    one = replace(shared, raid=Raid(drives=16, shared=2))
    assert hardware(one, Server()).drive_read_bytes_per_s == 5e9
    assert hardware(one, Server()).drive_write_bytes_per_s == 5e9
    assert hardware(replace(one, link_bytes_per_s=None), Server()).drive_read_bytes_per_s == 14e9
    assert hardware(shared, Server(32, 100e9)).network_bytes_per_s == 50e9


def test_a_generation_is_a_key_and_no_drive_turns_a_server_into_another() -> None:
    """A drive a thousandth faster once wrote 18 % more: its server had become an E2000."""
    for server, platform in ((Server(), E1000), (Server(generation="e2000"), E2000)):
        assert platform_of(server) is platform
        rates = [
            float(
                ost_array.ceilings_of(
                    hardware(replace(OSTS, drive=replace(DRIVE, write_bytes_per_s=speed)), server),
                    from_clients=True,
                )
                .rates()
                .write
            )
            for speed in np.linspace(4.99e9, 5.01e9, 5)
        ]
        assert np.diff(rates) / rates[0] == pytest.approx(0.001, abs=0.0011)
        assert hardware(OSTS, server).platform is platform


def test_write_amplification_divides_and_a_window_multiplies() -> None:
    fresh = 10 * 3e9 * 0.8 * 0.9
    got = OF_PLAIN.rates(np.array([1.0, 2.0]), window=np.array([1.0, 0.9]))
    assert got.write.tolist() == pytest.approx([fresh, fresh / 2 * 0.9])
    assert float(got.read) == pytest.approx(40e9)


def test_looking_through_groups_takes_the_cores_that_writes_need() -> None:
    """10,000 groups at 100 ns are 1 ms beside the base of a request."""
    got = OF_PLAIN.rates(groups_considered=np.array([0.0, 1e4, 1e5]))
    per_core = [1 / (ost_array.BASE_CORE_S + seconds) for seconds in (0, 1e-3, 1e-2)]
    processor = processor_of(np.array([0.0, 1e4, 1e5]))
    assert processor.tolist() == pytest.approx([32 * n * 2**20 for n in per_core])
    assert got.write[2] == processor[2] < float(OF_PLAIN.drives())


def processor_of(groups: np.ndarray, **of: Any) -> np.ndarray:
    """Return what processors of an OST's server write, where nothing else limits."""
    ceilings = ost_array.ceilings_of(MACHINE, **of, constants=PLAIN)
    alone = replace(ceilings, fresh_bytes_per_s=np.inf, line_bytes_per_s=None)
    return np.asarray(alone.rates(groups_considered=groups).write)


def test_clients_pass_the_network_and_pay_for_checksums() -> None:
    local = OF_PLAIN.rates()
    remote = ost_array.ceilings_of(MACHINE, from_clients=True, constants=PLAIN).rates()
    assert float(remote.write) == pytest.approx(min(float(local.write), 50e9 * 0.9 * 0.5) * 0.8)
    assert float(remote.read) == pytest.approx(40e9 * 0.8)
    request_s = ost_array.BASE_CORE_S + 2**20 * 1e-9
    checked = processor_of(np.zeros(1), from_clients=True, checksums=True)
    assert checked.tolist() == pytest.approx([32 / request_s * 2**20])
    unpaid = ost_array.ceilings_of(MACHINE, checksums=True, constants=PLAIN).rates()
    assert float(unpaid.write) == float(local.write)


def test_a_server_that_carries_another_ost_gives_half() -> None:
    shared = ost_array.ceilings_of(MACHINE, server_share=np.array([1.0, 0.5]), constants=PLAIN)
    got = shared.rates(groups_considered=1e5)
    assert got.write[1] == pytest.approx(got.write[0] / 2)
    half = np.array([0.5])
    through = ost_array.ceilings_of(MACHINE, server_share=half, from_clients=True, constants=PLAIN)
    assert through.read[0] == pytest.approx(25e9 * 0.9 * 0.8)


@given(st.floats(1, 8), st.floats(1, 8), st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0.1, 1))
def test_nothing_that_is_worse_makes_an_ost_faster(
    low: float, more: float, few: float, further: float, window: float
) -> None:
    of_machine = ost_array.ceilings_of(MACHINE)
    better = of_machine.rates(low, groups_considered=few)
    worse = of_machine.rates(low * more, groups_considered=few + further, window=window)
    assert 0 < worse.write <= better.write
    assert worse.read == better.read


def test_a_node_moves_less_with_saferet_checksums_or_fewer_processes() -> None:
    plain = replace(PLAIN, node_bytes_per_s=20e9, saferet_cost=0.25)
    quiet = Clients(32, 100e9)
    assert job.processor_bytes_per_s(quiet, 10**9, constants=plain) == pytest.approx(20e9)
    saferet = job.processor_bytes_per_s(replace(quiet, saferet=True), 10**9, constants=plain)
    assert saferet == pytest.approx(16e9)
    checked = job.processor_bytes_per_s(replace(quiet, checksums=True), 10**9, constants=plain)
    assert checked == pytest.approx(1 / (1 / 20e9 + 1e-9 / 64))
    one = job.processor_bytes_per_s(quiet, 1, constants=plain)
    assert one == pytest.approx(1 / (1 / 5e9 + 1 / 20e9))
    assert job.processor_bytes_per_s(quiet, 10**9, 128, plain) == pytest.approx(40e9)


def test_a_node_moves_no_more_than_its_ports() -> None:
    limits = job.node_limits(Clients(1, 10e9), E1000, 64, constants=PLAIN)
    assert limits.write_bytes_per_s == pytest.approx(10e9 * 0.9 * 0.5 * 0.8)
    assert limits.read_bytes_per_s == pytest.approx(10e9 * 0.9 * 0.8)
    assert network.port_write_bytes_per_s(10e9, E2000, PLAIN) == pytest.approx(9e9)


def test_small_reads_are_the_sheets_the_lanes_or_the_cores() -> None:
    assert small_operations_per_s(1e6, 4096 * 5e5) == 5e5
    assert small_operations_per_s(1e5, 4096 * 5e5) == 1e5
    slow = replace(PLAIN, small_read_core_s=1e-3)
    assert ost_array.small_reads_per_s(MACHINE, slow) == pytest.approx(32 / 1e-3)
    quick = replace(PLAIN, small_read_core_s=1e-9)
    assert ost_array.small_reads_per_s(MACHINE, quick) == pytest.approx(10 * 4e9 / 4096)
    assert job.small_reads_per_s(48) == job.small_reads_per_s(96) / 2
    assert job.small_writes_per_s(200) == job.SMALL_WRITES_PER_S


def test_a_survey_sees_the_half_speed_ost_and_what_users_take() -> None:
    write = np.array([20e9, 10e9, 20e9])
    users = np.array([0.0, 0.0, 4e9])
    assert survey_share(write, users, np.full(3, 40.0)).tolist() == pytest.approx(
        [20e9, 10e9, 16e9]
    )
    assert survey_share(np.full(3, 40e9), np.zeros(3)).tolist() == [40e9] * 3


def test_users_cannot_push_a_survey_below_its_share() -> None:
    share = survey_share(np.array([20e9]), np.array([100e9]), np.array([64.0]))
    assert share.tolist() == [20e9 * SURVEY_THREADS / (SURVEY_THREADS + 64)]


def test_the_survey_passes_neither_network_nor_checksums() -> None:
    """The survey's OSTs rose in the months in which checksums slowed the hourly probe."""
    without = ost_array.ceilings_of(MACHINE).rates(1.5)
    assert without.write == ost_array.ceilings_of(MACHINE, checksums=True).rates(1.5).write
