"""What the comparison of the allocator with the running kernel's stands on; not how they agree."""

from __future__ import annotations

import pytest
from benchmarks.allocator import compare, kernel, model
from benchmarks.allocator.trace import Phase, phases
from tests.support import loopback

from trimtab.base.error import ToolError

STEPS = [0.5, 0.8]
GIB = 1024**3


def test_a_trace_keeps_to_its_fullness_and_is_a_function_of_its_seed() -> None:
    blocks = 2**19
    found = list(phases(blocks, STEPS, 0.3, 1))
    assert [(phase.fullness, phase.measured) for phase in found] == [
        (0.5, False),
        (0.5, True),
        (0.8, False),
        (0.8, True),
    ]
    sizes, living, used = [], set(), 0
    for phase in found:
        written = 0
        for event in phase.events:
            if event > 0:
                living.add(len(sizes))
                sizes.append(event)
                used += event
                written += event
            else:
                living.remove(-event)
                used -= sizes[-event]
            assert used <= phase.fullness * blocks
        assert used > 0.85 * phase.fullness * blocks
        assert written > 0.3 * blocks
    assert [phase.events for phase in phases(blocks, STEPS, 0.3, 1)] == [
        phase.events for phase in found
    ]
    assert next(phases(blocks, STEPS, 0.3, 2)).events != found[0].events


def test_what_is_taken_lies_between_what_is_free() -> None:
    assert kernel.taken_between(["551-32767", "32770-32775, 32777", "", " 98304-131071"]) == [
        (0, 551),
        (32768, 2),
        (32776, 1),
        (32778, 32758),
        (65536, 32768),
    ]


def test_a_file_needs_a_block_for_its_fifth_extent_and_for_every_340_more() -> None:
    extents = model._Extents()
    apart = [extents.add((0, 2 * number, 1)) for number in range(700)]
    assert [number + 1 for number, needs in enumerate(apart) if needs] == [5, 341, 681]
    joined = model._Extents()
    assert not any(joined.add((0, start, 256)) for start in range(0, 32768, 256))
    assert joined.count == 2, "an unwritten extent has 32,767 blocks at the most"


@pytest.mark.parametrize(
    ("at", "end", "normalised"),
    [
        (0, 1, 4),
        (0, 5, 8),
        (0, 256, 256),
        (256, 512, 512),
        (512, 700, 1024),
        (1024, 1280, 2048),
        (1500, 1536, 2048),
        (2048, 2304, 4096),
        (5000, 5120, 6144),
    ],
)
def test_requests_grow_with_the_offset_at_which_they_end(at, end, normalised) -> None:
    assert model.normalised(at, end) == normalised


def test_what_is_preallocated_serves_the_next_writes_and_goes_with_the_close() -> None:
    layout = model.Layout(groups=4, blocks_per_group=32768, inodes_per_group=512, groups_per_flex=0)
    settings = {"processors": 2, "order2_bits": 2}
    site = model.WritingModel(layout, "ordered", settings, request_blocks=256)
    whole = site.blocks.free
    site.follow(Phase(0.5, measured=False, events=[256 * 10 + 44]), inodes=[12])
    assert whole - site.blocks.free == 256 * 10 + 44
    # 1, 1, 2, 4 and 8 MiB, all but the first where the last one ended.
    assert site.blocks.counts["requests"] == 5
    assert site.blocks.counts["goals"] == 4
    site.follow(Phase(0.5, measured=False, events=[0]), inodes=[12])
    assert site.blocks.free == whole


def test_onset_and_distance_are_those_of_the_rows() -> None:
    def row(full, theirs, ours):
        sides = {"kernel": theirs, "model": ours}
        return {
            "fullness": full,
            **{
                side: {"hits": [1 - part, part], "useless": [part / 10, 0.0]}
                for side, part in sides.items()
            },
        }

    runs = [
        {"criteria": ["a", "b"], "rows": [row(0.6, 0.0, 0.0), row(0.7, 0.02, 0.005)]},
        {"criteria": ["a", "b"], "rows": [row(0.6, 0.0, 0.04), row(0.7, 0.02, 0.04)]},
    ]
    assert compare.compare(runs) == {
        "hits_points_largest": 4.0,
        "hits_points": [4.0, 2.0],
        "onset": {
            "a": {"kernel": [0.7, 0.7], "model": [None, 0.6]},
            "b": {"kernel": [None, None], "model": [None, None]},
        },
    }


@pytest.mark.system
@loopback.needs_loop_devices("ext4")
def test_what_is_written_takes_as_many_blocks_of_both(tmp_path) -> None:
    found = compare.run(tmp_path, size_bytes=2 * GIB, steps=[0.1], churn=0.02, seed=1, writes=True)
    (row,) = found["rows"]
    free = row["kernel"]["free_blocks"]
    assert free == pytest.approx(row["model"]["free_blocks"], rel=0.0005)
    assert found["host_bytes"] > 2 * GIB - free * 4096 - 0.02 * GIB, "it was written"


@pytest.mark.system
@loopback.needs_loop_devices("ext4")
def test_a_file_system_without_lists_is_refused(tmp_path) -> None:
    with pytest.raises(ToolError, match="without lists"):
        compare.run(tmp_path, size_bytes=GIB, steps=STEPS, churn=0.1, seed=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.system
@loopback.needs_loop_devices("ext4")
def test_kernel_and_model_follow_the_same_trace(tmp_path) -> None:
    found = compare.run(tmp_path, size_bytes=3 * GIB, steps=STEPS, churn=0.1, seed=1)
    assert len(found["criteria"]) == len(found["rows"][0]["model"]["hits"])
    for row in found["rows"]:
        for side in ("kernel", "model"):
            assert sum(row[side]["hits"]) == pytest.approx(1)
            assert row[side]["requests"] > 200
        # What was asked for lies on both: the rest is directories, which the model has not.
        assert row["kernel"]["free_blocks"] == pytest.approx(row["model"]["free_blocks"], rel=0.001)
        assert row["kernel"]["free_blocks"] < (1 - 0.9 * row["fullness"]) * 3 * GIB / 4096
    assert found["host_bytes"] < 0.05 * 3 * GIB, "fallocate writes no data"
    assert list(tmp_path.iterdir()) == [], "nothing stays behind"
