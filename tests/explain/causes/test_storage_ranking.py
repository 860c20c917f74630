"""Ten broken sites, each explained by its own cause; ten sites that were always broken."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.explain.causes.contexts import (
    BAD_FROM,
    END,
    HOUR,
    OSTS,
    counter,
    event,
    gauge,
    incident,
    runs,
    setting,
    space,
    survey,
)
from tests.explain.causes.storage import (
    DAY,
    FAST,
    NIGHTLY,
    OST_WRITE,
    SIZE,
    SLOW,
    WELL,
    allocator,
    sound,
    sound_settings,
    trim,
)

from trimtab.base.event import EventKind
from trimtab.base.incident import Shape
from trimtab.explain.explanation import explain
from trimtab.explain.site_explanation import standing_conditions

ONE = OSTS[4:5]
_CLOSED = OSTS[:10]


def _slow(targets: tuple[str, ...], rate: float = 8e9) -> list[dict[str, object]]:
    return survey(OST_WRITE, rate, slow_targets=targets)


def _defaults() -> list[dict[str, object]]:
    remaining = [row for row in sound_settings() if "mb_c2" not in row["name"]]
    return [*remaining, *setting("ldiskfs/md0/mb_c2_threshold", "15")]


BROKEN = {
    "targets-over-limit": lambda: sound(
        space(0.7, 0.79, targets=OSTS[:6]), surveys=_slow(OSTS[:6])
    ),
    "target-filling": lambda: sound(space(0.6, 0.93, targets=ONE), surveys=_slow(ONE)),
    "few-targets-open": lambda: sound(
        gauge("create_enabled", True, False, targets=_CLOSED), writes=0.6, reads=0.6,
        events=[*NIGHTLY, event(EventKind.TARGET_CLOSED, BAD_FROM - HOUR / 2, "over 75 % full",
                                targets=_CLOSED, source="journal")],
    ),
    "target-silent": lambda: sound(
        counter("client_bytes_written_total", 0.06 * SIZE / DAY, 0.0, targets=ONE),
        surveys=_slow(ONE, 1e6), runs=runs(WELL, None), of=incident(effect=None, unfinished=12),
    ),
    "failover": lambda: sound(
        gauge("server", "oss0", "oss1", targets=OSTS[:2]), surveys=_slow(OSTS[:4]), reads=0.7
    ),
    "array-degraded": lambda: sound(
        gauge("degraded", False, True, targets=ONE), surveys=_slow(ONE), reads=0.7
    ),
    "trim-overdue": lambda: sound(
        counter("bytes_written_total", 0.4 * SIZE / DAY),
        events=[*(event(EventKind.TRIM, BAD_FROM - timedelta(days=day)) for day in (11, 12, 13)),
                trim(12.5)],
        writes=0.88, now=END + 24 * HOUR, of=incident(Shape.DRIFT, effect=0.88, until=END),
    ),
    "garbage-collection": lambda: sound(
        space(0.73, 0.74),
        gauge("drive_write_amplification", 1.6, 3.1, label="nvme0n1"), tail=9.0,
    ),
    "writeback-throttling": lambda: sound(
        gauge("wbt_latency_s", 0.0, 0.002, label="md0"), writes=0.9, tail=3.0,
        of=incident(effect=0.9),
    ),
    "allocator-loops": lambda: sound(
        space(0.74, 0.76, targets=SLOW), allocator(0.0, 0.06, targets=SLOW),
        allocator(0.0, targets=FAST), gauge("server_cpu_fraction", 0.3, 0.85, targets=SLOW),
        surveys=_slow(SLOW), settings=_defaults(),
    ),
}  # fmt: skip
STANDING = {
    "targets-over-limit": lambda: sound(space(0.85), good=()),
    "few-targets-open": lambda: sound(
        gauge("create_enabled", False, targets=_CLOSED), good=()
    ),
    "failover": lambda: sound(gauge("server", "oss1", targets=OSTS[:2]), good=()),
    "array-degraded": lambda: sound(gauge("degraded", True, targets=ONE), good=()),
    "trim-overdue": lambda: sound(gauge("bytes_discarded_total", SIZE), events=[], good=()),
    "garbage-collection": lambda: sound(
        space(0.75), gauge("drive_write_amplification", 3.4, label="nvme0n1"), good=()
    ),
    "writeback-throttling": lambda: sound(
        gauge("wbt_latency_s", 0.002, label="md0"), good=()
    ),
    "allocator-loops": lambda: sound(
        space(0.8), allocator(0.05), settings=_defaults(), good=()
    ),
}  # fmt: skip


@pytest.mark.calibration
@pytest.mark.parametrize("cause", BROKEN)
def test_what_was_broken_is_named_first(cause: str) -> None:
    explained = explain(BROKEN[cause]())
    assert not explained.unexplained
    assert explained.causes[0].cause == cause


def test_a_sound_site_is_unexplained() -> None:
    explained = explain(sound(writes=0.8, reads=0.8))
    storage = {cause.cause for cause in explained.causes if cause.confidence >= 0.5} & set(BROKEN)
    assert not storage


def test_full_targets_that_were_closed_are_the_reason_of_the_closing() -> None:
    of = sound(
        space(0.7, 0.8, targets=_CLOSED), gauge("create_enabled", True, False, targets=_CLOSED),
        writes=0.5, reads=0.6,
        events=[*NIGHTLY, event(EventKind.TARGET_CLOSED, BAD_FROM - HOUR / 2, "over 75 % full",
                                targets=_CLOSED, source="journal")],
    )  # fmt: skip
    first = explain(of).causes[0]
    assert (first.cause, first.because_of) == ("few-targets-open", "targets-over-limit")


@pytest.mark.calibration
@pytest.mark.parametrize("cause", STANDING)
def test_what_was_wrong_in_all_hours_is_a_standing_condition(cause: str) -> None:
    of = STANDING[cause]()
    assert cause in [standing_condition.cause for standing_condition in standing_conditions(of, of)]


def test_drives_that_collect_for_want_of_a_trim_say_so() -> None:
    of = sound(
        counter("bytes_written_total", 0.4 * SIZE / DAY),
        gauge("drive_write_amplification", 1.5, 3.1, label="nvme0n1"),
        space(0.74), tail=9.0, writes=0.8, now=END + 24 * HOUR,
        events=[*(event(EventKind.TRIM, BAD_FROM - timedelta(days=day)) for day in (9, 10, 11)),
                trim(12.5)],
        of=incident(Shape.DRIFT, effect=0.8, until=END),
    )  # fmt: skip
    first, second = explain(of).causes[:2]
    assert (first.cause, first.because_of) == ("garbage-collection", "trim-overdue")
    assert second.cause == "trim-overdue"


def test_a_sound_site_has_no_standing_condition_of_storage() -> None:
    of = sound(good=(), writes=1.0)
    assert not {
        standing_condition.cause for standing_condition in standing_conditions(of, of)
    } & set(BROKEN)
