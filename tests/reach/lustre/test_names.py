"""Names of targets and connections, and the two ways in which their numbers are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.narrow import present

from trimtab.reach.lustre.lustre_device import TargetName, parse_name, spelt, target_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("scratch-OST0001_UUID", TargetName("scratch", "OST0001")),
        ("scratch-OST0001", TargetName("scratch", "OST0001")),
        ("scratch-OST000A", TargetName("scratch", "OST000a")),
        ("scratch-OST0001-osc-MDT0000", TargetName("scratch", "OST0001", "MDT0000", "osc")),
        (
            "scratch-OST0001-osc-ffff8881253af000",
            TargetName("scratch", "OST0001", "ffff8881253af000", "osc"),
        ),
        ("scratch-MDT0001-osp-MDT0000", TargetName("scratch", "MDT0001", "MDT0000", "osp")),
        (
            "scratch-MDT0000-mdc-ffff8881253af000",
            TargetName("scratch", "MDT0000", "ffff8881253af000", "mdc"),
        ),
        (
            "scratch-MDT0000-lwp-OST0001_UUID",
            TargetName("scratch", "MDT0000", "OST0001", "lwp"),
        ),
        ("scratch-MDT0000-mdtlov", TargetName("scratch", "MDT0000", None, "mdtlov")),
        ("scratch-MDT0000-mdtlov_UUID", TargetName("scratch", "MDT0000", None, "mdtlov")),
        ("scratch-OST0001-osd", TargetName("scratch", "OST0001", None, "osd")),
        ("my-fs-OST0001-osc-MDT0000", TargetName("my-fs", "OST0001", "MDT0000", "osc")),
        ("OST0002-OST0001", TargetName("OST0002", "OST0001")),
        ("a_b:OST0003", TargetName("a_b", "OST0003")),
    ],
)
def test_every_form_of_a_name(text: str, expected: TargetName) -> None:
    assert parse_name(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "MGS",
        "MGC10.0.2.15@tcp",
        "OST0001",
        "scratch-MDD0000",
        "scratch-QMT0000",
        "scratch-clilov-ffff8881253af000",
        "scratch-OST001",
        "scratch-OST00001",
        "scratch-OST000g",
        "scratch-OST0001-osc-",
        "scratch-OST0001 ",
        "scratch-OST0001\n",
        "ninechars-OST0001",
        "a b-OST0001",
        "-" * 100_000,
    ],
)
def test_what_is_no_such_name(text: str) -> None:
    assert parse_name(text) is None


def test_the_number_is_hexadecimal_in_a_name_and_decimal_for_lfs() -> None:
    name = present(parse_name("scratch-OST0010_UUID"))
    assert (name.index, name.kind) == (16, "ost")
    assert target_of("ost", 10) == "OST000a"
    assert spelt("MDT00FF") == "MDT00ff"


@given(kind=st.sampled_from(("ost", "mdt")), index=st.integers(0, 0xFFFF))
def test_an_index_becomes_a_name_and_back(kind, index: int) -> None:
    target = target_of(kind, index)
    name = present(parse_name(f"fs-{target}_UUID"))
    assert (name.kind, name.index, name.target) == (kind, index, target)


@pytest.mark.parametrize("index", [-1, 0x10000])
def test_an_index_that_lustre_does_not_have(index: int) -> None:
    with pytest.raises(ValueError, match="0 to 65535"):
        target_of("ost", index)


@given(st.text())
def test_any_text_is_a_name_or_none(text: str) -> None:
    found = parse_name(text)
    assert found is None or text.startswith(found.file_system)
