"""Files on their OSTs: spread evenly, read back, and refused where one goes elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from tests.support.codes import raises

from trimtab.base.error import RefusedError, ToolError, UsageError
from trimtab.probe.file_placement import Pinned, Striped, pin, pin_usable
from trimtab.reach.process import ProcessResult, utc_now


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40))
def test_every_target_gets_as_many_files_and_as_many_from_each_node(
    nodes: int, per_node: int, count: int
) -> None:
    targets = [f"OST{number:04x}" for number in range(count)]
    try:
        pinned = pin(nodes * per_node, per_node, targets)
    except UsageError:
        assert (nodes * per_node) % count or (per_node % count and count % per_node)
        return
    assert set(Counter(pinned).values()) == {nodes * per_node // count}
    for node in range(nodes):
        assert len(set(Counter(pinned[node * per_node : (node + 1) * per_node]).values())) == 1


class Lfs:
    """Answers as lfs does; a closed OST passes files on to OST 0, with exit code 0."""

    def __init__(self, closed: frozenset[int] = frozenset(), code: int = 0) -> None:
        self.closed, self.code = closed, code
        self.places: dict[str, int] = {}
        self.counts: dict[str, str] = {}

    def __call__(self, argv: Sequence[str], **_: object) -> ProcessResult:
        output = b""
        match argv[1:]:
            case ["setstripe", "-c", "1", "-i", index, *paths]:
                for path in paths:
                    self.places[path] = 0 if int(index) in self.closed else int(index)
            case ["setstripe", "-c", count, path]:
                self.counts[path] = count
            case ["getstripe", "-i", path]:
                output = f"{self.places[path]}\n\n".encode()
            case ["getstripe", "-d", "-c", path]:
                output = f"{self.counts[path]}\n\n".encode()
            case _:
                raise AssertionError(argv)
        return ProcessResult(tuple(argv), output, b"", self.code, None, utc_now(), 0.1, 60.0)


def test_files_are_made_on_their_targets_and_read_back() -> None:
    lfs, made = Lfs(), []
    place = Pinned(
        lambda parent, name: made.append((parent, name)), pin(4, 4, ("OST0000", "OST000a")), lfs
    )
    place("/scratch/", "p")
    assert made == [("/scratch/", "p")]
    assert lfs.places == {f"/scratch/p/data.{n:08d}": (n % 2) * 10 for n in range(4)}


def test_a_file_that_went_elsewhere_is_refused() -> None:
    place = Pinned(lambda *_: None, ("OST0000", "OST0001"), Lfs(frozenset({1})))
    with raises(RefusedError, "placement-refused"):
        place("/scratch", "p")


def test_a_layout_is_read_back() -> None:
    lfs = Lfs()
    Striped(lambda *_: None, -1, lfs)("/scratch", "p")
    assert lfs.counts == {"/scratch/p": "-1"}


def test_what_lfs_refuses_is_told() -> None:
    with raises(ToolError, "lfs-failed"):
        Striped(lambda *_: None, 4, Lfs(code=22))("/scratch", "p")


@given(
    st.integers(1, 6),
    st.integers(1, 4),
    st.integers(1, 12),
    st.sets(st.integers(0, 11), max_size=6),
)
def test_what_is_left_out_takes_its_files_with_it_and_is_said(
    nodes: int, files: int, count: int, lost: set[int]
) -> None:
    targets = [f"OST{number:04x}" for number in range(count)]
    unusable = {f"OST{number:04x}": "it is lost" for number in lost}
    tasks = files * count
    if tasks % nodes:
        return
    try:
        placed, left_out = pin_usable(tasks, nodes, targets, unusable)
    except UsageError:
        return  # uneven with all of them
    except RefusedError:
        assert set(targets) & set(unusable)
        return
    assert not set(placed) & set(unusable)
    assert set(Counter(placed).values()) == {files}
    assert len(placed) % nodes == 0
    named = {text.split()[0] for text in left_out}
    assert named | set(placed) == set(targets)
    assert not named & set(placed)
    if not set(targets) & set(unusable):
        assert placed == pin(tasks, tasks // nodes, targets)
        assert not left_out
