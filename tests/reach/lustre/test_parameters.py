"""What lctl get_param prints: whole, cut, hostile; and its complaints."""

from __future__ import annotations

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reach.lustre.cuts import ADVERSARIES
from tests.support.each import for_each
from tests.support.narrow import present

from trimtab.reach.lustre.parameter import Parameters, parse_parameters

TEXT = """\
version=2.17.57
jobid_name=%e.%u
nis=
nid                      status alive refs peer  rtr   max    tx   min
10.0.2.15@tcp                up    -1    1    8    0   256   256   255
stats=0 4 0 1740 1740 0 0 1696496 1696496 0 0
daemon_file=
osp.fs-OST0000-osc-MDT0000.active=1
osp.fs-OST0001-osc-MDT0000.active=0
lod.fs-MDT0000-mdtlov.qos_prio_free=90%
osc.fs-OST0000-osc-MDT0000.import=
import:
    name: fs-OST0000-osc-MDT0000
    state: FULL
flags=0xa04
flags2=0x8
mdt.fs-MDT0000.exports.10.73.20.12@tcp.uuid=
fs-MDT0001-mdtlov_UUID
obdfilter.fs-OST0000.job_stats=
obdfilter.fs-OST0000.exports.0@lo.stats=
snapshot_time             1716295737.288440278 secs.nsecs
obdfilter.fs-OST0000.stats=
snapshot_time             1716295737.287969347 secs.nsecs
mgc.MGC10.0.2.15@tcp.active=1
"""


@pytest.fixture(scope="module")
def parameters() -> Parameters:
    return parse_parameters(TEXT)


def test_values_of_one_line_and_of_several(parameters: Parameters) -> None:
    assert parameters.complete
    assert parameters.get("version") == "2.17.57"
    assert parameters.get("jobid_name") == "%e.%u"
    assert parameters.get("daemon_file") == ""
    assert parameters.get("obdfilter.fs-OST0000.job_stats") == ""
    assert parameters.get("nosuch") is None
    assert parameters.get("mdt.fs-MDT0000.exports.10.73.20.12@tcp.uuid") == "fs-MDT0001-mdtlov_UUID"
    nis = present(parameters.get("nis"))
    assert nis.startswith("nid  ")
    assert nis.endswith("255")


def test_a_line_of_a_value_may_have_an_equals_sign(parameters: Parameters) -> None:
    value = present(parameters.get("osc.fs-OST0000-osc-MDT0000.import"))
    assert value.split("\n")[-2:] == ["flags=0xa04", "flags2=0x8"]
    assert "flags" not in parameters.names


def test_numbers_are_numbers_only(parameters: Parameters) -> None:
    assert parameters.number("osp.fs-OST0001-osc-MDT0000.active") == 0
    assert parameters.number("lod.fs-MDT0000-mdtlov.qos_prio_free") is None
    assert parameters.number("version") is None
    assert parameters.number("daemon_file") is None
    assert parameters.number("nosuch") is None
    assert parse_parameters("timeout=" + "9" * 10_000 + "\n").number("timeout") is None
    assert parse_parameters("timeout=\u0661\n").number("timeout") is None
    assert parse_parameters("osp.a.prealloc_status=-108\n").number("osp.a.prealloc_status") == -108


def test_a_pattern_stays_within_one_part(parameters: Parameters) -> None:
    def names(pattern: str) -> list[str]:
        return list(parameters.matching(pattern))

    assert parameters.matching("osp.*.active") == {
        "osp.fs-OST0000-osc-MDT0000.active": "1",
        "osp.fs-OST0001-osc-MDT0000.active": "0",
    }
    assert names("obdfilter.*.stats") == ["obdfilter.fs-OST0000.stats"]
    assert names("obdfilter.*.exports.*.stats") == ["obdfilter.fs-OST0000.exports.0@lo.stats"]
    assert names("mdt.*.exports.*.uuid") == ["mdt.fs-MDT0000.exports.10.73.20.12@tcp.uuid"]
    assert names("mgc.*.active") == ["mgc.MGC10.0.2.15@tcp.active"]
    assert names("os?.*OST0000*.active") == ["osp.fs-OST0000-osc-MDT0000.active"]
    assert names("osc.*-osc-[!M]*.import") == []
    assert names("osc.*-osc-[M]*.import") == ["osc.fs-OST0000-osc-MDT0000.import"]
    assert names("*.*.active") == [name for name in parameters.names if name.endswith(".active")]
    assert names("version") == ["version"]
    assert names("osp.[.active") == []
    assert names("") == []


def test_the_backend_may_be_any() -> None:
    found = parse_parameters("osd-zfs.a.kbytesfree=5\nosd-ldiskfs.b.kbytesfree=6\n")
    assert list(found.matching("osd-*.*.kbytesfree").values()) == ["5", "6"]


def test_what_may_be_cut_is_left_out() -> None:
    values = "stats=1 2 3\nnis=\nnid status\n0@lo up\n"
    assert parse_parameters(values, complete=True).names == ("stats", "nis")
    # Stopped at the end of a line: the value of several lines may go on, that of one cannot.
    assert parse_parameters(values, complete=False).names == ("stats",)
    assert parse_parameters("nis=\n", complete=False).names == ()
    assert parse_parameters("stats=1 2\n", complete=False).names == ("stats",)
    # Stopped within a line: nobody needs to say that it was cut.
    assert parse_parameters("stats=1 2", complete=True).names == ()
    assert not parse_parameters("stats=1 2", complete=True).complete
    # A line that begins a parameter ends the one before it, even when it is cut itself.
    assert parse_parameters("nis=\n0@lo up\nstats=1", complete=True).names == ("nis",)


def test_of_two_values_the_first_is_kept() -> None:
    assert parse_parameters("timeout=1\ntimeout=2\n").get("timeout") == "1"


@pytest.mark.parametrize("text", [TEXT, "a=b\n" + TEXT, TEXT[:-1]])
def test_a_cut_text_never_shows_another_value(text: str) -> None:
    whole = parse_parameters(TEXT)
    for end in range(len(text)):
        part = parse_parameters(text[:end], complete=False)
        for name in part.names:
            assert part.get(name) == whole.get(name)


def test_names_are_not_taken_from_text() -> None:
    text = (
        "osc.a.import=\nuser=root\nflags=1\nosc.a b.active=1\n osc.c.active=1\nosc=1\n"
        "osd-.x.y=1\nzzz.a.active=1\n\u00e9.a=1\nosc.\u00e9.active=1\nactive=1\n"
    )
    assert parse_parameters(text).names == ("osc.a.import",)


@given(st.text(alphabet=st.sampled_from("osc.ap=*\n\r\t 1%\x00\x1c\u2028\udcff"), max_size=200))
def test_any_text_gives_values_that_stand_in_it(text: str) -> None:
    found = parse_parameters(text)
    for name in found.names:
        assert name in text
        value = present(found.get(name))
        assert value in text
        assert found.matching(name.replace("*", "?")) or "[" in name


@pytest.mark.calibration
@given(
    names=st.lists(
        st.from_regex(r"(osp|osc)\.[a-b]{1,2}(-[a-b])?\.(active|state|act)", fullmatch=True)
    ),
    pattern=st.from_regex(r"(osp|os\*|\*)\.[ab*?]{1,3}\.(active|act\*|\*)", fullmatch=True),
)
def test_patterns_are_those_of_the_shell_where_no_dot_is_in_play(
    names: list[str], pattern: str
) -> None:
    found = parse_parameters("".join(f"{name}=1\n" for name in names))
    expected = [name for name in dict.fromkeys(names) if fnmatch.fnmatchcase(name, pattern)]
    assert list(found.matching(pattern)) == expected


@pytest.mark.calibration
@for_each("text", ADVERSARIES)
def test_a_megabyte_of_malice_is_read_in_one_pass(text: str) -> None:
    for one in (text, f"osc.a.import=\n{text}\n", f"osc.{text}=1\n", f"error: get_param: '{text}"):
        found = parse_parameters(one)
        found.matching("osc.*.active")
        found.matching("*.*.*")


def test_a_pattern_of_malice_is_not_tried_for_ever() -> None:
    found = parse_parameters(f"osc.{'a' * 399}.b=1\nosc.{'1.' * 150}x=1\n")
    assert found.matching("osc.*a*a*a*a*.c") == {}
    assert found.matching("osc.*.*.*.*.x") == {}
