"""Paths of a list: beneath the root, or refused."""

from __future__ import annotations

import posixpath

from hypothesis import given
from hypothesis import strategies as st
from tests.support.each import for_each

from trimtab.purge.index.list_reading import ROOT_ITSELF, split_paths

ROOT = b"/scratch"


def _one(path: bytes, root: bytes = ROOT, beneath: bytes = b"") -> tuple[bytes, bytes] | str:
    parents, names, reasons = split_paths([path], root, beneath=beneath)
    return reasons.get(0, (parents[0], names[0]))


@for_each(
    "path, found",
    [
        (b"/scratch/a/b", (b"a", b"b")),
        (b"/scratch/a", (b"", b"a")),
        (b"a/b/c", (b"a/b", b"c")),
        (b"./a/b", (b"a", b"b")),
        (b"/scratch//a///b", (b"a", b"b")),
        (b"/scratch/./a/.", (b"", b"a")),
        (b"/scratch/a/", (b"", b"a")),
        (b"/scratch/...", (b"", b"...")),
        (b"/scratch/.a/.b", (b".a", b".b")),
        (b"..a", (b"", b"..a")),
        (b"-rf/\xff\n", (b"-rf", b"\xff\n")),
        (b"/scratch", ROOT_ITSELF),
        (b"/scratch/", ROOT_ITSELF),
        (b".", ROOT_ITSELF),
        (b"./", ROOT_ITSELF),
        (b"/scratch2/a", "it is not beneath the root"),
        (b"/etc/passwd", "it is not beneath the root"),
        (b"/scratch/../etc/passwd", "its path goes through .., which may lead anywhere"),
        (b"../etc", "its path goes through .., which may lead anywhere"),
        (b"a/..", "its path goes through .., which may lead anywhere"),
        (b"", "it has no path"),
        (b"a/b\0c", "there is a NUL in its path"),
    ],
)
def test_a_path_is_beneath_the_root(path: bytes, found: object) -> None:
    assert _one(path) == found


def test_the_root_of_all_is_a_root() -> None:
    assert _one(b"/a/b", b"/") == (b"a", b"b")
    assert _one(b"/", b"/") == ROOT_ITSELF


def test_what_relative_paths_begin_with_is_taken_off() -> None:
    assert _one(b"proj/a/b", beneath=b"proj") == (b"a", b"b")
    assert _one(b"proj", beneath=b"proj") == ROOT_ITSELF
    assert _one(b"other/a", beneath=b"proj") == "it is not beneath the root"
    assert _one(b"/scratch/a", beneath=b"proj") == (b"", b"a")
    assert _one(b"project/a", beneath=b"proj") == "it is not beneath the root"


@given(st.lists(st.lists(st.sampled_from([b"", b".", b"..", b"a", b"b\xff", b"\0"]), max_size=4)))
def test_many_paths_are_parted_as_each_of_them(parted: list[list[bytes]]) -> None:
    paths = [before + b"/".join(parts) for parts in parted for before in (b"/scratch/", b"")]
    parents, names, reasons = split_paths(paths, ROOT)
    assert len(parents) == len(names) == len(paths)
    for at, path in enumerate(paths):
        assert reasons.get(at, (parents[at], names[at])) == _one(path)


component = st.binary(min_size=1, max_size=4).filter(
    lambda name: b"/" not in name and b"\0" not in name and name not in (b".", b"..")
)


@given(st.lists(component, min_size=1, max_size=6), st.sampled_from([b"/scratch/", b"./", b""]))
def test_the_parts_make_the_path_again(parts: list[bytes], before: bytes) -> None:
    path = b"/".join(parts)
    result = _one(before + path)
    assert not isinstance(result, str)
    assert posixpath.join(*result) == path


@given(st.binary(max_size=12))
def test_no_path_leaves_the_root(path: bytes) -> None:
    result = _one(path)
    if not isinstance(result, str):
        parts = posixpath.join(*result).split(b"/")
        assert all(part not in (b"", b".", b"..") for part in parts)
