"""The mail that each user gets once, whatever the server does and whenever a process ends."""

import email
import email.policy
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace
from email.message import EmailMessage
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.purge.notice.making import Book, clock, open_directory
from tests.purge.plan.making import KEY, Row, make
from tests.support.codes import raises
from tests.support.mailbox import Post, mail_server
from tests.support.narrow import instance, present

from trimtab.base.error import DataError, RefusedError, UsageError
from trimtab.base.site_policy import MailServer
from trimtab.purge.owner import Account
from trimtab.purge.plan.notice import mail, publish
from trimtab.purge.plan.notice_mail import (
    ADDRESS,
    MAILS_FILE,
    MailResult,
    address_of,
    parse_mail_map,
)
from trimtab.purge.plan.plan_directory import LoadedPlan
from trimtab.purge.purge_policy import Notices
from trimtab.reach.mail import Mailer

pytestmark = pytest.mark.system

USERS = {"ada": 1001, "bob": 1002, "eve": 1003, "zoe": 1004}
SENDER = "storage@example.org"


@pytest.fixture
def server() -> Iterator[Post]:
    with mail_server() as state:
        yield state


@pytest.fixture
def site() -> Iterator[Path]:
    yield from open_directory()


def notices(site: Path, **changed: object) -> Notices:
    made = Notices(directory=str(site), mail_to="{user}@example.org", mail_from=SENDER)
    return replace(made, **changed)  # pyrefly: ignore[bad-argument-type]


@dataclass
class Mailing:
    """A published plan and the server that takes its mails."""

    plan: LoadedPlan
    site: Path
    server: Post

    def send(self, **options: object) -> MailResult:
        usual = {"notices": notices(self.site), "clock": clock()}
        with Mailer(MailServer("127.0.0.1", self.server.port), timeout_s=5.0) as mailer:
            return mail(self.plan, postman=mailer, **usual | options)  # pyrefly: ignore[bad-argument-type]


@pytest.fixture
def mailing(tmp_path: Path, site: Path, server: Post) -> Mailing:
    loaded = make(tmp_path / "plan", [Row(name.encode(), uid) for name, uid in USERS.items()])
    published = publish(loaded, KEY, notices(site), accounts=Book(**USERS), clock=clock())
    return Mailing(published.loaded, site, server)


def test_everybody_gets_one_mail_and_only_one(mailing: Mailing) -> None:
    assert mailing.send() == MailResult(4, 0, (), ())
    taken = mailing.server.taken
    assert sorted(one.recipient for one in taken) == [f"{name}@example.org" for name in USERS]
    assert ({one.sender for one in taken}, mailing.server.connections) == ({SENDER}, 1)
    assert mailing.send() == MailResult(0, 4, (), ())
    assert len(mailing.server.taken) == 4


def test_a_mail_is_plain_text_with_safe_headers(mailing: Mailing) -> None:
    mailing.send()
    data = mailing.server.taken[0].data
    assert all(len(line) <= 998 for line in data.split(b"\r\n"))  # RFC 5322, 2.1.1
    message = email.message_from_bytes(data, policy=email.policy.default)
    assert message.get_content_type() == "text/plain"
    assert message["To"] == "ada@example.org"
    assert message["Auto-Submitted"] == "auto-generated"
    assert message["Message-ID"] == f"<purge.{mailing.plan.plan.id}.1001@example.org>"
    assert message["Subject"].startswith("/scratch: 1 of your files")
    text = instance(EmailMessage, message).get_content()
    assert f"{present(mailing.plan.publication).directory}/ada.txt" in text
    assert "Not deleted before  2026-12-06 10:00 UTC" in text


def test_a_refused_mail_is_told_and_tried_again(mailing: Mailing) -> None:
    mailing.server.refused = ("bob@example.org",)
    result = mailing.send()
    (failure,) = result.failures
    assert (result.sent, failure.uid, failure.account) == (3, 1002, "bob")
    assert failure.reason == "550 no such user \\x1b[2J"
    mailing.server.refused = ()
    assert mailing.send() == MailResult(1, 3, (), ())
    assert len(mailing.server.taken) == 4


def test_a_connection_that_ends_between_two_mails_is_opened_anew(mailing: Mailing) -> None:
    mailing.server.hang_up_after = 1
    assert mailing.send() == MailResult(4, 0, (), ())
    assert (mailing.server.connections, len(mailing.server.taken)) == (4, 4)


def test_a_mail_that_may_have_gone_out_is_not_sent_again(mailing: Mailing) -> None:
    mailing.server.lose_answer_of = {"eve@example.org"}
    result = mailing.send()
    assert (result.sent, [one.account for one in result.unclear]) == (3, ["eve"])
    mailing.server.lose_answer_of = set()
    assert mailing.send().sent == 0
    assert len(mailing.server.taken) == 4
    assert mailing.send(again=True) == MailResult(1, 3, (), ())
    first, second = (
        email.message_from_bytes(one.data)["Message-ID"]
        for one in mailing.server.taken
        if one.recipient == "eve@example.org"
    )
    assert first == second


def test_no_server_is_found_out_soon(mailing: Mailing) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = Post(port=taken.getsockname()[1])
        result = replace(mailing, server=nobody).send()
    assert result.sent == 0
    first, _, _, last = (failure.reason for failure in result.failures)
    assert ("no mail server" in first, "not tried" in last) == (True, True)


def test_a_kill_between_begun_and_sent_is_unclear(mailing: Mailing) -> None:
    class Killed:
        def deliver(self, message: EmailMessage, recipient: str) -> None:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        mail(mailing.plan, notices(mailing.site), Killed(), clock=clock())
    result = mailing.send()
    assert (result.sent, [one.account for one in result.unclear]) == (3, ["ada"])


def test_a_line_that_was_cut_off_does_not_stop_the_next_attempt(mailing: Mailing) -> None:
    mailing.send()
    state = mailing.plan.directory / MAILS_FILE
    data = state.read_bytes()
    lines = data.splitlines(keepends=True)
    for size in range(len(b"".join(lines[:-1])), len(data) - 1):  # the last "sent" is cut off
        state.write_bytes(data[:size])
        result = mailing.send()
        assert (result.sent, result.sent_before, len(result.unclear)) == (0, 3, 1), size
    assert len(mailing.server.taken) == 4
    begun = len(b"".join(lines[:-2])) + 5  # the last "begun" is
    state.write_bytes(data[:begun])
    assert mailing.send() == MailResult(1, 3, (), ())
    assert all(json.loads(line) for line in state.read_bytes().splitlines() if line.endswith(b"}"))


def test_a_state_that_is_something_else_is_refused(mailing: Mailing) -> None:
    state = mailing.plan.directory / MAILS_FILE
    for line in (b'{"uid": "x", "state": "sent"}\n', b'{"uid": 1, "state": "lost"}\n', b"[]\n"):
        state.write_bytes(line)
        state.chmod(0o600)
        with pytest.raises(DataError):
            mailing.send()
    state.unlink()
    state.symlink_to("/etc/passwd")
    with pytest.raises(RefusedError):
        mailing.send()


def test_users_without_account_or_address_are_told_of(
    tmp_path: Path, site: Path, server: Post
) -> None:
    accounts = Book(ada=1001)
    accounts.add(Account(1002, 1, "bob\nBcc: all@example.org"))
    accounts.add(Account(1003, 1, "eve,zoe"))
    loaded = make(tmp_path / "odd", [Row(b"%d" % uid, uid) for uid in (1001, 1002, 1003, 9)])
    loaded = publish(loaded, KEY, notices(site), accounts=accounts, clock=clock()).loaded
    result = Mailing(loaded, site, server).send()
    assert [one.recipient for one in server.taken] == ["ada@example.org"]
    assert [failure.uid for failure in result.failures] == [1002, 1003]
    assert all("not a mail address" in failure.reason for failure in result.failures)


def test_a_map_goes_before_the_pattern(mailing: Mailing, tmp_path: Path) -> None:
    file = tmp_path / "mail.map"
    file.write_text("# who moved\nada ada.l@elsewhere.org\n\nbob  bob@elsewhere.org # new\n")
    file.chmod(0o600)
    result = mailing.send(notices=notices(mailing.site, mail_map=str(file), mail_to=None))
    recipients = sorted(one.recipient for one in mailing.server.taken)
    assert recipients == ["ada.l@elsewhere.org", "bob@elsewhere.org"]
    assert [failure.reason for failure in result.failures] == ["no address known"] * 2


@pytest.mark.parametrize(
    "text", ["ada\n", "ada a@b c\n", "ada a@b\nada b@c\n", "ada nobody\n", "ada a@b,c@d\n"]
)
def test_a_map_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"mail\.map:"):
        parse_mail_map(text, "mail.map")


@given(st.text(max_size=20))
def test_no_name_makes_a_header_or_a_second_recipient(name: str) -> None:
    try:
        address = address_of(name, "{user}@example.org", {})
    except UsageError:
        return
    assert ADDRESS.fullmatch(address)
    assert address.isascii()
    assert not set(address) & set(' \t\r\n,;:<>()[]\\"')
    assert address.count("@") == 1


@pytest.mark.parametrize(
    "address",
    ["", "ada", "@x", "ada@", "a b@c", "ada@-x", "a@b@c", "a@b\n", "a@b\r\nBcc: c@d", "-oQ@b",
     "a@b.", ".a@b", "a..b@c", "é@b", "a@b," , "<a@b>", '"a"@b', "a@" + "b" * 300],
)  # fmt: skip
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError):
        address_of("ada", None, {"ada": address})


def test_what_is_missing_is_said(mailing: Mailing) -> None:
    for code, change in (
        ("sender-missing", {"mail_from": None}),
        ("addresses-missing", {"mail_to": None}),
        ("address-invalid", {"mail_from": "evil\n@example.org"}),
    ):
        with raises(UsageError, code):
            mailing.send(notices=notices(mailing.site, **change))
    with raises(RefusedError, "plan-unpublished"):
        replace(mailing, plan=replace(mailing.plan, publication=None)).send()


def test_nothing_is_announced_that_does_not_happen_any_more(mailing: Mailing) -> None:
    with raises(RefusedError, "plan-expired"):
        mailing.send(clock=clock(mailing.plan.plan.expires_at))
    assert mailing.server.connections == 0
