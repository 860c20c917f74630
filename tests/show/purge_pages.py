"""The pages of a purge with data that a site could have."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta

from trimtab.purge.fullness import Usage
from trimtab.purge.horizon.age_curve import HOUR_S, AgeCurve, Freed
from trimtab.purge.horizon.horizon import DAY_S, Horizon, OwnedBy, find_horizon, steps
from trimtab.purge.horizon.horizon_answer import HorizonAnswer, HorizonResult
from trimtab.purge.horizon.page import horizon_document, runs_document
from trimtab.purge.run.purge_report import Day, Measured, PlanStanding, PurgeReport, RunDay, UserDay
from trimtab.show.document import render_document

NOW = datetime(2026, 10, 20, tzinfo=UTC)
TIB = 2**40
USAGE = Usage(26_800 * TIB, 8_200 * TIB)


def horizon_answer_of(target: float) -> HorizonAnswer:
    """Return the horizon of a target on a curve of two years."""
    chance = random.Random(11)
    hour = int(NOW.timestamp()) // HOUR_S
    ages = [chance.expovariate(1 / 90) for _ in range(4000)]
    curve = AgeCurve.of(
        [hour - int(age * 24) for age in ages], [5_000] * len(ages), [6 * TIB] * len(ages)
    )
    youngest = hour - 14 * 24

    def horizon(required: int | None = None) -> Horizon:
        return find_horizon(
            curve, USAGE, target, youngest_hour=youngest, required_bytes=required,
            kept_back={"too_young": (1_200_000, 2_300 * TIB), "exempt_path": (90_000, 300 * TIB)},
        )  # fmt: skip

    needed = horizon()
    as_of_s = int(NOW.timestamp())
    users = tuple(
        OwnedBy(
            20_000 + number,
            Freed(int(2e5 / number), int(900 * TIB / number)),
            Freed(int(2e5 / number), int(930 * TIB / number)),
            Freed(int(4e5 / number), int(2_000 * TIB / number)),
        )
        for number in range(1, 31)
    )
    return HorizonAnswer(
        as_of_s=as_of_s,
        needed=needed,
        published=horizon(needed.required_bytes + 400 * TIB),
        growth=None,
        osts=None,
        pools=None,
        steps=steps(curve, USAGE, as_of_s=as_of_s, ages_days=(14, 28, 56, 84, 112, 182, 365)),
        users=users if needed.cut_off_hour is not None else (),
        projects=(),
        words=needed.words(as_of_s),
    )


def horizon_page() -> str:
    """Return the page of a horizon that reaches its target."""
    result = HorizonResult(
        "/scratch",
        "i",
        horizon_answer_of(0.70),
        USAGE,
        rules=("Files younger than 14 d stay.", "Last use is the later of atime and mtime."),
        total=Freed(21_000_000, 26_500 * TIB),
        notes=("The index is 6 h old.",),
    )
    return render_document(horizon_document(result))


def purge_runs() -> PurgeReport:
    """Return a dry run, two days of deletion, and an interrupted run."""

    def measured(used: float, at: datetime) -> Measured:
        return Measured(at, Usage(int(used * 35_000 * TIB), int((1 - used) * 35_000 * TIB)))

    def run(number: int, day: int, end: str | None, *objections: str) -> RunDay:
        at = datetime(2026, 10, day, 2, tzinfo=UTC)
        words = None if end is None else "every row has an outcome"
        name = f"01a1f640-bc00-700{number}"
        return RunDay(
            name, "plan-2026-10", at, at - timedelta(days=84), "root", end, words, objections
        )

    def day(number: int, files: int, used: tuple[float, float], *runs: RunDay, dry: bool) -> Day:
        at = datetime(2026, 10, number, 2, tzinfo=UTC)
        return Day(
            day=date(2026, 10, number),
            dry=dry,
            files=files,
            bytes=files * 260 * 2**20,
            freed_bytes=0 if dry else files * 255 * 2**20,
            kept={"used_since": 1_204, "changed": 88},
            horizons=(at - timedelta(seconds=84 * DAY_S),),
            before=measured(used[0], at),
            after=measured(used[1], at + timedelta(hours=3)),
            users=tuple(
                UserDay(20_000 + n, files // n // 3, files // n * 2**26) for n in (1, 2, 3)
            ),
            runs=runs,
        )

    held = run(1, 11, "refused", "use is not measured for 3 OSTs")
    return PurgeReport(
        (
            day(11, 3_100_000, (0.766, 0.766), held, dry=True),
            day(12, 2_100_000, (0.766, 0.751), run(2, 12, "pace"), dry=False),
            day(13, 980_000, (0.753, 0.744), run(3, 13, None), dry=False),
        ),
        (
            PlanStanding("plan-2026-10", "/scratch", "scratch", 3_200_000,
                         {"deleted": 3_080_000, "used_since": 1_204}, 118_708, 88),
        ),
    )  # fmt: skip


def runs_page() -> str:
    """Return the page of what runs did."""
    return render_document(runs_document(purge_runs(), "/var/lib/trimtab/purge"))
