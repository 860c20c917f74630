"""The report of a month with data that a site could have."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

from tests.judge.frames import series
from tests.show.purge_pages import purge_runs

from trimtab.answers.month import Month
from trimtab.answers.page_month import monthly_document
from trimtab.base.action import Action, ActionKind, Instruction, Outcome
from trimtab.base.error import Message
from trimtab.base.series import SeriesKey, SiteJudgement
from trimtab.explain.headline import of_judgement
from trimtab.explain.status import ProbeCost
from trimtab.judge.series_analysis import judge_series
from trimtab.show.document import render_document
from trimtab.store.history import SpaceAt

FIRST = datetime(2026, 10, 1, tzinfo=UTC)
TIB = 2**40
KEY = SeriesKey("scratch", "hourly", "ior", "write_bandwidth", "B/s")


def month() -> Month:
    """Return a month with a change of level, a purge and two changes of settings."""
    rates = [6.7e11 * (0.8 if hour > 300 else 1) * (1 + 0.01 * (hour % 5)) for hour in range(700)]
    judged = judge_series(series(rates), KEY)
    judgement = SiteJudgement("scratch", FIRST, FIRST, (judged,))
    instruction = Instruction(
        ActionKind.SET, "OST0003", Message("desired", "the site file wants 25"), setting="c2",
        before="15", value="25",
    )  # fmt: skip
    done = Action("01a1f640-bc00", "scratch", "tune", "p1", "root@oss1", FIRST, instruction,
                  outcome=Outcome.DONE)  # fmt: skip
    return Month(
        site="scratch",
        first=date(2026, 10, 1),
        last=date(2026, 10, 31),
        timezone="UTC",
        complete=True,
        judgement=judgement,
        standing=of_judgement(judgement),
        incidents=(),
        space=tuple(
            SpaceAt(
                FIRST + timedelta(days=day),
                (20_000 + 60 * day) * TIB,
                (15_000 - 60 * day) * TIB,
                ("OST0007", 0.66 + 0.003 * day),
            )
            for day in range(31)
        ),
        purges=purge_runs(),
        purge_reason="",
        cost=ProbeCost("scratch", FIRST, FIRST, 744, 700 * TIB, 690 * TIB, 512.0, 0.021, None),
        actions=(done, replace(done, instruction=replace(instruction, target="OST0004"),
                               outcome=Outcome.REFUSED)),
    )  # fmt: skip


def month_page() -> str:
    """Return the page of a month."""
    return render_document(monthly_document(month()))
