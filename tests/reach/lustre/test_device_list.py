"""What lctl dl prints."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reach.lustre.cuts import ADVERSARIES
from tests.support.each import for_each

from trimtab.reach.lustre.lustre_device import LustreDevice, parse_device_list

TEXT = """\
  0 UP osd-ldiskfs fs-MDT0000-osd fs-MDT0000-osd_UUID 13
  2 UP mgc MGC10.0.2.15@tcp ee1f9370-1a86-4232-848c-81197a3e1acc 5
 10 IN osp fs-OST0001-osc-MDT0000 fs-MDT0000-mdtlov_UUID 5
145 UP osc fs-OST0000-osc-ffff888121acb000 53489c99-3201-4f59-817d-63877e31fede 5 0@lo
"""


DEVICES = (
    LustreDevice("osd-ldiskfs", "fs-MDT0000-osd"),
    LustreDevice("mgc", "MGC10.0.2.15@tcp"),
    LustreDevice("osp", "fs-OST0001-osc-MDT0000"),
    LustreDevice("osc", "fs-OST0000-osc-ffff888121acb000"),
)


def test_rows_with_and_without_a_nid_and_rubbish() -> None:
    rubbish = "\x1b[2Jgarbage\n 1 UP osp a b\n 1 UP osp a b 5 6 7\n\n"
    assert parse_device_list(TEXT) == parse_device_list(TEXT + rubbish) == DEVICES
    assert parse_device_list("") == parse_device_list("\n") == ()


def test_a_cut_list_has_no_other_device() -> None:
    for end in range(len(TEXT)):
        found = parse_device_list(TEXT[:end])
        assert found == DEVICES[: TEXT[:end].count("\n")]


@given(st.text(alphabet=st.sampled_from("01 UPosp@\n\x00\u2028")))
def test_any_text_is_read(text: str) -> None:
    parse_device_list(text)


@pytest.mark.calibration
@for_each("text", ADVERSARIES)
def test_a_megabyte_of_malice_is_read_in_one_pass(text: str) -> None:
    parse_device_list(f" 1 UP osp a b 5 {text}\n{text}")
