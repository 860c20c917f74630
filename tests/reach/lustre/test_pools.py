"""Which OSTs are in which pool: whole answers, and none from what is cut, hostile or rubbish."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fake_lustre.state import FakeLustre, Fault
from tests.reach.hosts import real_data
from tests.reach.lustre.cuts import ADVERSARIES, cuts
from tests.support.each import for_each

from trimtab.base.error import ToolError
from trimtab.base.site import Servers
from trimtab.base.snapshot import NotAvailable
from trimtab.reach.lustre.lustre_client import parse_members, parse_pools, read_pools
from trimtab.reach.lustre.lustre_driver import LustreDriver

POOLS = {"flash": ["OST0000", "OST0002", "OST0001"], "disk": ["OST0003"], "empty": []}
LIST = "Pools from scratch:\nscratch.flash\nscratch.disk\nscratch.empty\n"
FLASH = "Pool: scratch.flash\nscratch-OST0000_UUID\nscratch-OST000a_UUID\n"


def driver_of(fake: FakeLustre) -> LustreDriver:
    return LustreDriver(
        "/scratch", fake.file_system, Servers(), execute=fake.execute, fan_out=fake.fan_out
    )


def reason(found: object) -> str:
    assert isinstance(found, NotAvailable), found
    assert found.reason.isprintable()
    return found.reason


def test_the_pools_of_a_file_system() -> None:
    fake = FakeLustre.small(pools=dict(POOLS))
    found = driver_of(fake).pools()
    assert found == {"flash": (0, 1, 2), "disk": (3,), "empty": ()}
    assert driver_of(FakeLustre.small()).pools() == {}


def test_recorded_lists() -> None:
    """The recording has lctl's lists of both kinds, and after them lfs's of the pools."""
    text = (real_data("lustre-2.17") / "create_gating" / "40_pool.out").read_text()
    pools = text[text.index("Pools from") : text.index("Pool: ")]
    members = text[text.index("Pool: ") : text.rindex("Pools from")]
    assert parse_pools("scratch", pools) == ("flash",)
    assert parse_members("scratch.flash", members) == (0, 1)


def test_numbers_of_osts_are_hexadecimal_and_in_order() -> None:
    assert parse_members("scratch.flash", FLASH) == (0, 10)
    turned = "Pool: scratch.flash\nscratch-OST000a_UUID\nscratch-OST0000_UUID\n"
    assert parse_members("scratch.flash", turned) == (0, 10)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "Pools from scratch:",
        "Pools from other:\n",
        "Pools from scratch:\nother.flash\n",
        "Pools from scratch:\nscratch\n",
        "Pools from scratch:\nscratch.\n",
        "Pools from scratch:\nscratch.sixteen_letters!\n",
        "Pools from scratch:\nscratch.a-very-long-name\n",
        "Pools from scratch:\nscratch.fl\x1b[2Jash\n",
        "Pools from scratch:\nscratch.fl\udcffash\n",
        "Pools from scratch:\nscratch.fl ash\n",
        "Pools from scratch:\nscratch.a/b\n",
        "Pools from scratch:\nscratch.flash\n\n",
        "Pools from scratch:\nscratch.flash\nscratch.flash\n",
        "Pools from scratch:\n scratch.flash\n",
        "lfs pool_list: something else\nPools from scratch:\n",
    ],
)
def test_what_is_no_list_of_pools(text: str) -> None:
    reason(parse_pools("scratch", text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Pool: scratch.flash",
        "Pool: scratch.disk\n",
        "Pool: scratch.flash\nother-OST0000_UUID\n",
        "Pool: scratch.flash\nscratch-MDT0000_UUID\n",
        "Pool: scratch.flash\nscratch-OST0000-osc-MDT0000\n",
        "Pool: scratch.flash\nscratch-OST0000\n",
        "Pool: scratch.flash\nscratch-OST00000_UUID\n",
        "Pool: scratch.flash\nscratch-OST0000_UUID\nscratch-OST0000_UUID\n",
        "Pool: scratch.flash\nscratch-OST000A_UUID\nscratch-OST000a_UUID\n",
        "Pool: scratch.flash\nscratch-OST0000_UUID inactive\n",
        "Pool: scratch.flash\n\x1b]0;evil\x07\n",
    ],
)
def test_what_is_no_list_of_members(text: str) -> None:
    reason(parse_members("scratch.flash", text))


def test_a_cut_list_is_unknown_or_ends_with_a_whole_line() -> None:
    for text in cuts(LIST):
        found = parse_pools("scratch", text)
        if not isinstance(found, NotAvailable):
            assert text.endswith("\n")
            assert found == ("flash", "disk", "empty")[: len(found)]
    for length in range(len(FLASH)):
        found = parse_members("scratch.flash", FLASH[:length])
        if not isinstance(found, NotAvailable):
            assert FLASH[length - 1] == "\n"
            assert found == (0, 10)[: len(found)]


@for_each("text", ADVERSARIES)
def test_a_megabyte_of_anything_is_answered(text: str) -> None:
    for head in ("", "Pools from scratch:\n", "Pool: scratch.flash\n"):
        parse_pools("scratch", head + text)
        parse_members("scratch.flash", head + text)


@given(st.text(alphabet="Pols from:\nscratch.fla-OST0_UID", max_size=80))
def test_rubbish_never_raises(text: str) -> None:
    for head in ("", "Pools from scratch:\n", "Pool: scratch.flash\n"):
        for found in (parse_pools("scratch", head + text), parse_members("s.f", head + text)):
            assert isinstance(found, (tuple, NotAvailable))


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault("hang", command="lfs"), "still running"),
        (Fault("exit", command="lfs", code=2), "exit code 2"),
        (Fault("garbage", command="lfs"), "cannot be read"),
        (Fault("empty", command="lfs"), "cannot be read"),
        (Fault("half", command="lfs", bytes=30), "cut off"),
        (Fault("garbage", command="lfs", after_calls=2), "cannot be read"),
        (Fault("half", command="lfs", after_calls=1, bytes=35), "cut off"),
    ],
    ids=lambda value: value.kind if isinstance(value, Fault) else value,
)
def test_what_goes_wrong_makes_all_pools_unknown(fault: Fault, said: str) -> None:
    found = driver_of(FakeLustre.small(pools=dict(POOLS), faults=[fault])).pools()
    assert said in reason(found)


def test_a_pool_that_goes_meanwhile_makes_all_of_them_unknown() -> None:
    fake = FakeLustre.small(pools=dict(POOLS))

    def execute(argv, **options):
        result = fake.execute(argv, **options)
        fake.pools.pop("disk", None)
        return result

    assert "lfs pool_list" in reason(read_pools("scratch", execute))


def test_without_lfs_it_is_said() -> None:
    def execute(argv, **options):
        raise ToolError("lfs is not installed")

    assert "lfs is not installed" in reason(read_pools("scratch", execute))


def test_nothing_else_is_asked() -> None:
    fake = FakeLustre.small(pools=dict(POOLS))
    asked: list[tuple[str, ...]] = []

    def execute(argv, **options):
        asked.append(tuple(argv))
        return fake.execute(argv, **options)

    assert read_pools("scratch", execute) == driver_of(fake).pools()
    assert asked == [
        ("lfs", "pool_list", "scratch"),
        *(("lfs", "pool_list", f"scratch.{name}") for name in POOLS),
    ]
