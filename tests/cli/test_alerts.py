"""``trimtab alerts``: the ledger, and a test message to every receiver."""

from __future__ import annotations

import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.command import trimtab
from tests.support.documents import misfits
from tests.support.mailbox import mail_server, web_server
from tests.watch.alert.parcels_of import NOON, TITLE, alert

from trimtab.base.finding import Delivery, DeliveryState, Phase
from trimtab.store.slot import Slot, SlotState
from trimtab.store.store import Store


def site_file(directory: Path, more: str = "") -> Path:
    file, path = directory / "scratch.toml", directory / "scratch"
    path.mkdir(exist_ok=True)
    file.write_text(f'[site]\nname = "scratch"\ndriver = "local"\npath = "{path}"\n{more}')
    return file


def test_a_test_message_reaches_everybody_and_shows_no_secret(tmp_path: Path) -> None:
    with mail_server() as post, web_server() as web:
        (tmp_path / "url").write_text(f"{web.url}/SECRET\n")
        (tmp_path / "url").chmod(0o400)
        site = site_file(
            tmp_path,
            f'[alerts.mail]\nto = ["ops@example.org"]\nserver = "127.0.0.1"\nport = {post.port}\n'
            f'[webhook.chat]\nkind = "slack"\nurl = "file:{tmp_path}/url"\n',
        )
        ended = trimtab("alerts", "test", site, "--json", store=tmp_path / "t.db")
    assert ended.code == 0, ended.stderr
    assert misfits(ended.document, "alerts-test") == []
    assert [entry["receiver"] for entry in ended.document["receivers"]] == ["mail", "chat"]
    assert "SECRET" not in ended.stdout + ended.stderr
    assert len(post.mails) == len(web.bodies) == 1
    assert "test of the alerts of scratch" in post.mails[0]["Subject"]


def test_a_receiver_that_is_down_is_named_and_the_others_are_tried(tmp_path: Path) -> None:
    with web_server() as web, socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        down = f"http://127.0.0.1:{unused.getsockname()[1]}/SECRET"
        site = site_file(
            tmp_path, f'[webhook.down]\nurl = "{down}"\n[webhook.up]\nurl = "{web.url}"\n'
        )
        ended = trimtab("alerts", "test", site, store=tmp_path / "t.db")
        document = trimtab("alerts", "test", site, "--json", store=tmp_path / "t.db").document
    assert ended.code == 3
    assert "SECRET" not in ended.stdout + ended.stderr
    assert [entry["delivered"] for entry in document["receivers"]] == [False, True]
    assert document["receivers"][0]["reason_code"] == "receiver-unreachable"
    assert len(web.bodies) == 2


def test_without_a_receiver_there_is_nothing_to_test(tmp_path: Path) -> None:
    ended = trimtab("alerts", "test", site_file(tmp_path), "--json", store=tmp_path)
    assert (ended.code, ended.document["error"]["code"]) == (2, "receiver-missing")


@pytest.mark.parametrize("words", [("alerts",), ("alerts", "list")])
def test_the_ledger_lists_what_was_sent_and_who_has_it(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    with Store.open(tmp_path / "t.db") as store:
        store.add_alert(alert(1, deliveries=(Delivery("mail", DeliveryState.WAITING, NOON),)))
        store.add_alert(alert(2, phase=Phase.NOTED, title=""))
        store.put_delivery(alert(1).id, Delivery("mail", DeliveryState.DELIVERED, NOON))
    site = site_file(tmp_path)
    document = trimtab(*words, site, "--json", store=tmp_path / "t.db").document
    assert misfits(document, "alerts") == []
    (entry,) = document["alerts"]
    assert entry["title"] == TITLE
    assert entry["deliveries"][0]["state"] == "delivered"
    shown = trimtab(*words, site, store=tmp_path / "t.db")
    assert shown.code == 0
    later = trimtab(*words, site, "--since", "2026-12-01", "--json", store=tmp_path / "t.db")
    assert later.document["alerts"] == []


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ('[alerts.mail]\nto = ["a@b"]\nuser = "u"\npassword = "sesame"\n', "secret-inline"),
        ('[webhook.chat]\nurl = "https://me:sesame@example.org/"\n', "secret-inline"),
        ('[webhook.chat]\nurl = "ftp://example.org/sesame"\n', "url-invalid"),
        ('[webhook.mail]\nurl = "https://example.org/"\n', "name-taken"),
        ('[alerts.mail]\nto = ["a@b"]\nuser = "u"\n', "login-incomplete"),
        (
            '[alerts.mail]\nto = ["a@b"]\nuser = "u"\npassword = "env:P"\nserver = "post"\n',
            "password-in-the-clear",
        ),
        ('[alerts.mail]\nto = ["Me <a@b>"]\n', "address-invalid"),
        ('[alerts.mail]\nto = ["a@b\\r\\nBcc: c@d"]\n', "control-character"),
        ('[metrics]\nlisten = "9188"\n', "address-invalid"),
        ('[metrics]\ntextfile = "trimtab.prom"\n', "path-relative"),
        ('[metrics]\ntextfile = "/var/lib/node_exporter/"\n', "path-is-directory"),
        ('[metrics]\nweb_config_file = "web.yml"\nlisten = "[::1]:9188"\n', "path-relative"),
        ('[metrics]\nweb_config_file = "/etc/trimtab/web.yml"\n', "contradiction"),
    ],
)
def test_what_a_site_file_may_not_say_of_alerts(more: str, code: str, tmp_path: Path) -> None:
    ended = trimtab("site", site_file(tmp_path, more), "--json", store=tmp_path)
    assert (ended.code, ended.document["error"]["code"]) == (2, code)
    assert "sesame" not in ended.stdout + ended.stderr


def test_cron_reports_a_watch_that_is_gone_and_says_nothing_of_one_that_runs(
    tmp_path: Path,
) -> None:
    with web_server() as web:
        more = f'[snapshot]\nschedule = "every 1h"\n[webhook.up]\nurl = "{web.url}"\n'
        site, store = site_file(tmp_path, more), tmp_path / "t.db"
        with Store.open(store) as opened:
            now = datetime.now(UTC)
            opened.ensure_site("scratch", driver="local")
            opened.finish_slot(Slot("scratch", "snapshot", now - timedelta(days=2), SlotState.DONE))
            until = now + timedelta(hours=1)
            opened.take_lease("scratch", "elsewhere:1:1:1", now=now, until=until)
            watched = trimtab("watch", site, "--check", store=store)
            opened.release_lease("scratch", "elsewhere:1:1:1")
        gone = [trimtab("watch", site, "--check", store=store) for _ in range(2)]
    assert (watched.code, watched.stdout, watched.stderr) == (0, "", "")
    assert [ended.code for ended in gone] == [3, 3]
    assert "no process watches scratch" in gone[0].stderr
    assert len(web.bodies) == 1
