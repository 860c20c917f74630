"""Screens of the steps around measuring, at three widths: sites, alerts, purge plans."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.cells import cell_len
from syrupy.assertion import SnapshotAssertion
from tests.cli.test_screens import WIDTHS, printed
from tests.watch.alert.parcels_of import NOON, alert

from trimtab.base.alert import Delivery, DeliveryState
from trimtab.base.error import Message
from trimtab.base.site import Checked, Servers, Site
from trimtab.explain.status import SiteStanding
from trimtab.probe.page_site import (
    found_sections,
    installed_document,
    site_document,
    written_document,
)
from trimtab.probe.site_draft import Discovery
from trimtab.purge.horizon.horizon import HorizonStatus
from trimtab.purge.plan.screen import armed_document, notified_document, plan_document
from trimtab.purge.run.recovery import AsideFile
from trimtab.purge.run.screen import recovered_document
from trimtab.show.command_options import Extent
from trimtab.show.screen_document import SCREEN_LINES, print_document
from trimtab.store.command import copied_document
from trimtab.store.maintenance import Copied
from trimtab.store.store_document import StoreCopyDocument
from trimtab.watch.alert.receiver import ReceiverRow
from trimtab.watch.page import alerts_document, trial_document

pytestmark = pytest.mark.cli
DAY = datetime(2026, 11, 20, tzinfo=UTC)
DAY_S = 86400
PLAN = Path("/var/lib/trimtab/purge/scratch.plan")
USERS = tuple(
    SimpleNamespace(
        uid=4_000_000_000 + number, files=1000 * number, allocated_bytes=number * 2**40,
        held_bytes=None if number == 3 else 9 * number * 2**40,
        oldest_use_s=DAY.timestamp() - 900 * DAY_S, newest_use_s=DAY.timestamp() - 90 * DAY_S,
    )
    for number in range(1, 31)
)  # fmt: skip
PURGE = cast(
    Any,
    SimpleNamespace(
        id="01a1a0e2-ff6e-76a4-b07c-02e49591dc3c",
        file_system=SimpleNamespace(root="/scratch"),
        candidates=SimpleNamespace(files=465_000, users=USERS, allocated_bytes=465 * 2**40),
        horizon=SimpleNamespace(target=0.7, words=("The file system is 80.0 % full.",)),
        rules=SimpleNamespace(words=("Open files are kept.",)),
        notice_s=14 * DAY_S,
        before=DAY - timedelta(days=90),
        expires_at=DAY + timedelta(days=28),
    ),
)
PUBLICATION = SimpleNamespace(
    lists=tuple(SimpleNamespace(new_files=100) for _ in USERS), directory="/var/lists/2026-11-20",
    published_at=DAY, not_before=DAY + timedelta(days=14),
)  # fmt: skip
LOADED = SimpleNamespace(plan=PURGE, directory=PLAN, publication=PUBLICATION)
NOTES = ("No site is named: whether reads are recorded is not known (--site NAME).",)


def _plan(status: HorizonStatus) -> None:
    answer = SimpleNamespace(published=SimpleNamespace(status=status))
    horizon = SimpleNamespace(answer=answer)
    made = SimpleNamespace(directory=PLAN, plan=PURGE, horizon=horizon, new_key=True, notes=NOTES)
    place = SimpleNamespace(key="/etc/trimtab/purge.key")
    print_document(plan_document(cast(Any, made), cast(Any, place)))


def _notified(*, fresh: bool) -> None:
    failures = tuple(
        SimpleNamespace(account=f"user{n}", uid=n, reason="mailbox unavailable") for n in range(20)
    )
    mails = SimpleNamespace(sent=10, sent_before=0, failures=failures, unclear=())
    published = SimpleNamespace(loaded=LOADED, publication=PUBLICATION, fresh=fresh, notes=())
    told = cast(Any, mails if fresh else None)
    print_document(notified_document(cast(Any, published), told, NOTES))


def _armed(effective_at: datetime | None) -> None:
    by = SimpleNamespace(name="olga", person=1001)
    armed = cast(Any, SimpleNamespace(loaded=LOADED, by=by, effective_at=effective_at))
    print_document(armed_document(armed))


def _recovered(count: int) -> None:
    fates = ("waits", "waits", "name_taken")
    files = tuple(
        AsideFile(
            b".trimtab-purge-1", b".trimtab-purge-1/%d" % n, b"projects/m1234/run %d/restart" % n,
            n, 4_000_000_001, 2**30, fates[n % 3],
        )
        for n in range(count)
    )  # fmt: skip
    interrupted = (PURGE.id,) if count else ()
    recovered = SimpleNamespace(root="/scratch", files=files, interrupted=interrupted)
    print_document(recovered_document(cast(Any, recovered)))


STANDING = SiteStanding("scratch", searched=True)


def _alerts() -> None:
    states = (DeliveryState.DELIVERED, DeliveryState.WAITING)
    alerts = [
        alert(
            number, at=NOON + timedelta(hours=number),
            deliveries=(
                Delivery("mail", states[number % 2], NOON), Delivery("chat", states[0], NOON),
            ),
        )
        for number in range(30)
    ]  # fmt: skip
    print_document(alerts_document(STANDING, alerts))


def _written() -> None:
    discovery = Discovery(SITE, list(FOUND), ["no flash: oss3"])
    print_document(written_document("scratch.toml", "scratch", found_sections(discovery)))


SITE = Site(
    "scratch", "lustre", "/scratch", source="/etc/trimtab/sites/scratch.toml",
    servers=Servers(mds=("mds1", "mds2"), oss=("oss1", "oss2", "oss3")),
)  # fmt: skip
CHECKED = (
    Checked("path /scratch", True, "lustre 10.0.0.1@o2ib:/scratch"),
    Checked("server oss3", False, "no answer within 20.0 s"),
    Checked("probe hourly", None, "ior is looked for on the nodes of its job"),
)
FOUND = ("Lustre 2.15.5, file system scratch", "4 OSTs and 2 MDTs")
INSTALLED = ("/etc/trimtab/sites/scratch.toml", "/etc/systemd/system/trimtab-watch@.service")
COPIED = StoreCopyDocument(
    "scratch.db", "postgresql://trimtab@db/trimtab",
    Copied({"run": 70_000, "sample": 1_792_000, "snapshot": 6751}, 75_600, ("ab" * 32,), {}),
)  # fmt: skip
REFUSED = Message("receiver-unreachable", "it cannot be reached: Connection refused")
TRIED = (ReceiverRow("mail", True), ReceiverRow("chat", False, REFUSED))

SCREENS: dict[str, Callable[[], None]] = {
    "alerts": _alerts,
    "alerts of none": lambda: print_document(alerts_document(STANDING, ())),
    "alerts test": lambda: print_document(trial_document("scratch", TRIED)),
    "init": _written,
    "init installed": lambda: print_document(
        installed_document("scratch", INSTALLED, ("systemctl daemon-reload",))
    ),
    "purge arm": partial(_armed, DAY + timedelta(days=1)),
    "purge arm of two": partial(_armed, None),
    "purge notify": partial(_notified, fresh=True),
    "purge notify again": partial(_notified, fresh=False),
    "purge plan": partial(_plan, HorizonStatus.REACHED),
    "purge plan out of reach": partial(_plan, HorizonStatus.OUT_OF_REACH),
    "purge recover": partial(_recovered, 40),
    "purge recover of none": partial(_recovered, 0),
    "site": lambda: print_document(
        site_document(SITE, ("[limits] cov is 0.3: most sites hold 0.1",), ())
    ),
    "site validated": lambda: print_document(site_document(SITE, (), CHECKED)),
    "store copy": lambda: print_document(copied_document(COPIED)),
}


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> Any:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_fits_its_terminal(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    snapshot: SnapshotAssertion,
    name: str,
    width: int,
) -> None:
    lines = printed(SCREENS[name], capsys, monkeypatch, width=width)
    assert len(lines) <= SCREEN_LINES
    assert [line for line in lines if cell_len(line) > width] == []
    assert "\n".join(lines) == snapshot


@pytest.mark.parametrize("name", SCREENS)
def test_brief_is_the_answer_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    usual = printed(SCREENS[name], capsys, monkeypatch, width=400)
    brief = printed(SCREENS[name], capsys, monkeypatch, width=400, extent=Extent(brief=True))
    assert brief == usual[:1]
    assert brief[0].endswith(".")


def test_a_plan_says_its_target_as_it_was_set_and_that_nobody_is_given_notice(capsys):
    horizon = SimpleNamespace(target=0.005, words=())
    plan = SimpleNamespace(**{**vars(PURGE), "horizon": horizon, "notice_s": 0})
    answer = SimpleNamespace(published=SimpleNamespace(status=HorizonStatus.OUT_OF_REACH))
    made = SimpleNamespace(
        directory=PLAN,
        plan=plan,
        horizon=SimpleNamespace(answer=answer),
        new_key=False,
        notes=(),
    )
    print_document(plan_document(cast(Any, made), cast(Any, SimpleNamespace(key="k"))))
    said = " ".join(capsys.readouterr().out.split())
    assert "as soon as it is published and armed: the plan has no notice period" in said
    assert "that does not reach 0.5 %." in said
    loaded = SimpleNamespace(plan=plan, directory=PLAN, publication=PUBLICATION)
    by = SimpleNamespace(person=7, name="ada")
    effective_at = datetime(2001, 9, 9, tzinfo=UTC)
    armed = cast(Any, SimpleNamespace(loaded=loaded, by=by, effective_at=effective_at))
    print_document(armed_document(armed))
    assert "no notice period: users cannot object" in " ".join(capsys.readouterr().out.split())
