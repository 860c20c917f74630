"""Connections as import parameters tell of them, of old and new versions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reach.lustre.cuts import ADVERSARIES, whole_lines
from tests.support.each import for_each
from tests.support.narrow import present

from trimtab.reach.lustre.lustre_device import Import, parse_import

NEW = """\
import:
    name: fs-OST0001-osc-MDT0000
    target: fs-OST0001_UUID
    state: DISCONN
    connect_flags: [ lov_index, version, adaptive_timeouts ]
    connect_data:
       flags: 0xa040401443000026
       instance: 3
       target_version: 2.17.57.0
       mdt_index: 0
       target_index: 1
    import_flags: [ IMPF_INVALID, IMPF_DEACTIVE ]
    connection:
       failover_nids: [ "10.0.0.11@o2ib1", "10.0.0.12@o2ib1" ]
       nids_stats:
          "10.0.0.11@o2ib1": { connects: 27, replied: 1, uptodate: uptodate, sec_ago: 6 }
       current_connection: "10.0.0.12@o2ib1"
       connection_attempts: 27
       generation: 3
"""
OLD = """\
import:
    name: fs-OST0001-osc-ffff88083bdc3000
    target: fs-OST0001_UUID
    state: FULL
    instance: 7
    connect_flags: [ write_grant, server_lock ]
    import_flags: [ replayable, pingable, connect_tried ]
    connection:
       failover_nids: [ 10.0.0.11@o2ib, 10.0.0.12@o2ib ]
       current_connection: 10.0.0.11@o2ib
       connection_attempts: 1
"""


def test_a_connection_of_2_17() -> None:
    assert parse_import(NEW) == Import(
        name="fs-OST0001-osc-MDT0000",
        target="fs-OST0001_UUID",
        state="DISCONN",
        failover_nids=("10.0.0.11@o2ib1", "10.0.0.12@o2ib1"),
    )


def test_a_connection_of_an_old_version_has_no_quotes() -> None:
    found = present(parse_import(OLD))
    assert found.failover_nids == ("10.0.0.11@o2ib", "10.0.0.12@o2ib")
    assert found.state == "FULL"


def test_some_lines_are_enough() -> None:
    kept = ("name", "target", "state", "failover_nids", "current_connection", "connection_attempts")
    text = "\n".join(line for line in NEW.split("\n") if line.strip().startswith(kept))
    assert parse_import(text) == parse_import(NEW)


@pytest.mark.parametrize("text", [NEW, OLD])
def test_a_cut_text_has_no_other_value(text: str) -> None:
    whole = present(parse_import(text))
    for end in range(len(text)):
        found = parse_import(whole_lines(text[:end]))
        for name in Import.__slots__ if found is not None else ():
            assert getattr(found, name) in (None, (), getattr(whole, name))


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("state: NO; rm -rf", "state"),
        ("state: full", "state"),
        ("failover_nids: [ 10.0.0.1@tcp, 10.0", "failover_nids"),
        ("failover_nids: [ 10.0.0.1@tcp, rubbish ]", "failover_nids"),
    ],
)
def test_an_odd_value_is_no_value(line: str, field: str) -> None:
    found = present(parse_import(f"    target: fs-OST0000_UUID\n    {line}\n"))
    assert getattr(found, field) in (None, ())


def test_what_is_no_import() -> None:
    assert parse_import("") is None
    assert parse_import("import:\n    connection:\n") is None


@given(st.text(alphabet=st.sampled_from('name:target [],"@\n\x00a1')))
def test_any_text_is_read(text: str) -> None:
    parse_import(text)
    parse_import("name: a\nfailover_nids: " + text)


@for_each("text", ADVERSARIES)
def test_a_megabyte_of_malice_is_read_in_one_pass(text: str) -> None:
    parse_import(text)
    parse_import(
        f"name: {text}\nfailover_nids: [{text[:60_000]}]\nimport_flags: [ {text[:60_000]} ]"
    )
