"""Where files are: paths from the FIDs of directories, and what cannot be told."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from trimtab.purge.follow.lustre_changes import place

ROOT = struct.pack(">QII", 0x2_0000_0007, 1, 0)


def fid(number: int) -> bytes:
    return struct.pack(">QII", 0x2_0000_0402, number, 0)


def test_paths_follow_from_directories() -> None:
    names = {
        fid(1): [(ROOT, b"a")],
        fid(2): [(fid(1), b"b\n")],
        fid(3): [(fid(2), b"file"), (ROOT, b"other name")],
    }
    places = place(names, (), ROOT)
    assert places.directories == {ROOT: b"", fid(1): b"a", fid(2): b"a/b\n"}
    assert (places.missing, places.nowhere) == (frozenset(), frozenset())


def test_a_directory_that_was_not_looked_at_is_missing_and_one_that_is_gone_leads_nowhere() -> None:
    names = {fid(3): [(fid(2), b"file")], fid(4): [(fid(5), b"file")]}
    places = place(names, {fid(5)}, ROOT)
    assert places.missing == {fid(2)}
    assert places.nowhere == {fid(4)}


def test_directories_that_were_moved_while_they_were_looked_at_lead_nowhere() -> None:
    """Each was seen in the other: that never was so at one time."""
    names = {fid(1): [(fid(2), b"a")], fid(2): [(fid(1), b"b")], fid(3): [(fid(2), b"file")]}
    assert place(names, (), ROOT).nowhere == {fid(1), fid(2), fid(3)}
    names = {fid(1): [(ROOT, b"a"), (ROOT, b"b")], fid(3): [(fid(1), b"file")]}
    assert place(names, (), ROOT).nowhere == {fid(3)}


def test_a_stripe_of_a_directory_is_the_directory() -> None:
    stripe = [(fid(1), b"[0x200000402:0x2:0x0]:1")]
    names = {fid(1): [(ROOT, b"wide")], fid(2): stripe, fid(3): [(fid(2), b"file")]}
    assert place(names, (), ROOT, {fid(2)}).directories[fid(2)] == b"wide"
    named = place(names, (), ROOT).directories[fid(2)]
    assert named == b"wide/[0x200000402:0x2:0x0]:1", "a name that somebody chose"


@given(st.dictionaries(st.integers(0, 6), st.integers(0, 7), max_size=7))
def test_every_file_is_placed_or_told_why_not(parents: dict[int, int]) -> None:
    names = {
        fid(number): [(ROOT if parent == 0 else fid(parent), b"%d" % number)]
        for number, parent in parents.items()
        if number
    }
    places = place(names, (), ROOT)
    for file, [(parent, _)] in names.items():
        above, seen = parent, {file}
        while above in names and above not in seen:
            seen.add(above)
            above = names[above][0][0]
        assert (parent in places.directories) == (above == ROOT)
        assert (file in places.nowhere) == (above in seen)
