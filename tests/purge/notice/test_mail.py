import email
import email.policy
import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from email.message import EmailMessage
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.purge.notice.making import Book, clock, open_directory
from tests.purge.plan.making import KEY, Row, make
from tests.support.codes import raises
from tests.support.mailbox import Post, mail_server

from trimtab.base.error import DataError, RefusedError, UsageError
from trimtab.base.notification import MailServer
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


@pytest.fixture
def plan(tmp_path: Path, site: Path) -> LoadedPlan:
    rows = [Row(name.encode(), uid) for name, uid in USERS.items()]
    loaded = make(tmp_path / "plan", rows)
    return publish(loaded, KEY, notices(site), accounts=Book(**USERS), clock=clock()).loaded


def notices(site: Path, **changed: object) -> Notices:
    made = Notices(directory=str(site), mail_to="{user}@example.org", mail_from=SENDER)
    return replace(made, **changed)  # pyrefly: ignore[bad-argument-type]


def send(plan: LoadedPlan, site: Path, server: Post, **options: object) -> MailResult:
    changed = options.pop("notices", notices(site))
    with Mailer(MailServer("127.0.0.1", server.port), timeout_s=5.0) as mailer:
        return mail(plan, changed, mailer, clock=clock(), **options)  # pyrefly: ignore[bad-argument-type]


def test_everybody_gets_one_mail_and_only_one(plan: LoadedPlan, site: Path, server: Post) -> None:
    assert send(plan, site, server) == MailResult(4, 0, (), ())
    assert sorted(one.recipient for one in server.taken) == [
        f"{name}@example.org" for name in USERS
    ]
    assert {one.sender for one in server.taken} == {SENDER}
    assert server.connections == 1
    assert send(plan, site, server) == MailResult(0, 4, (), ())
    assert len(server.taken) == 4


def test_a_mail_is_plain_text_with_safe_headers(plan: LoadedPlan, site: Path, server: Post) -> None:
    send(plan, site, server)
    assert all(len(line) <= 998 for line in server.taken[0].data.split(b"\r\n"))  # RFC 5322, 2.1.1
    message = email.message_from_bytes(server.taken[0].data, policy=email.policy.default)
    assert isinstance(message, EmailMessage)
    assert message.get_content_type() == "text/plain"
    assert message["To"] == "ada@example.org"
    assert message["Auto-Submitted"] == "auto-generated"
    assert message["Message-ID"] == f"<purge.{plan.plan.id}.1001@example.org>"
    assert message["Subject"].startswith("/scratch: 1 of your files")
    text = message.get_content()
    assert f"{plan.publication and plan.publication.directory}/ada.txt" in text
    assert "Not deleted before  2026-12-06 10:00 UTC" in text


def test_a_refused_mail_is_told_and_tried_again(plan: LoadedPlan, site: Path, server: Post) -> None:
    server.refused = ("bob@example.org",)
    result = send(plan, site, server)
    assert result.sent == 3
    (failure,) = result.failures
    assert (failure.uid, failure.account) == (1002, "bob")
    assert failure.reason == "550 no such user \\x1b[2J"
    server.refused = ()
    assert send(plan, site, server) == MailResult(1, 3, (), ())
    assert len(server.taken) == 4


def test_a_connection_that_ends_between_two_mails_is_opened_anew(
    plan: LoadedPlan, site: Path, server: Post
) -> None:
    server.hang_up_after = 1
    assert send(plan, site, server) == MailResult(4, 0, (), ())
    assert server.connections == 4
    assert len(server.taken) == 4


def test_a_mail_that_may_have_gone_out_is_not_sent_again(
    plan: LoadedPlan, site: Path, server: Post
) -> None:
    server.lose_answer_of = {"eve@example.org"}
    result = send(plan, site, server)
    assert result.sent == 3
    assert [one.account for one in result.unclear] == ["eve"]
    server.lose_answer_of = set()
    assert send(plan, site, server).sent == 0
    assert len(server.taken) == 4
    assert send(plan, site, server, again=True) == MailResult(1, 3, (), ())
    first, second = (one.data for one in server.taken if one.recipient == "eve@example.org")
    assert message_id(first) == message_id(second)


def message_id(data: bytes) -> str:
    return str(email.message_from_bytes(data)["Message-ID"])


@pytest.mark.system
def test_no_server_is_found_out_soon(plan: LoadedPlan, site: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = Post(port=taken.getsockname()[1])
        result = send(plan, site, nobody)
    assert result.sent == 0
    assert len(result.failures) == 4
    assert "no mail server" in result.failures[0].reason
    assert "not tried" in result.failures[3].reason


def test_a_kill_between_begun_and_sent_is_unclear(
    plan: LoadedPlan, site: Path, server: Post
) -> None:
    class Killed:
        def deliver(self, message: EmailMessage, recipient: str) -> None:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        mail(plan, notices(site), Killed(), clock=clock())
    result = send(plan, site, server)
    assert result.sent == 3
    assert [one.account for one in result.unclear] == ["ada"]


def test_a_line_that_was_cut_off_does_not_stop_the_next_attempt(
    plan: LoadedPlan, site: Path, server: Post
) -> None:
    send(plan, site, server)
    state = plan.directory / MAILS_FILE
    data = state.read_bytes()
    lines = data.splitlines(keepends=True)
    for size in range(len(b"".join(lines[:-1])), len(data) - 1):  # the last "sent" is cut off
        state.write_bytes(data[:size])
        result = send(plan, site, server)
        assert (result.sent, result.sent_before, len(result.unclear)) == (0, 3, 1), size
    assert len(server.taken) == 4
    begun = len(b"".join(lines[:-2])) + 5  # the last "begun" is
    state.write_bytes(data[:begun])
    assert send(plan, site, server) == MailResult(1, 3, (), ())
    assert all(json.loads(line) for line in state.read_bytes().splitlines() if line.endswith(b"}"))


def test_a_state_that_is_something_else_is_refused(
    plan: LoadedPlan, site: Path, server: Post
) -> None:
    for line in (b'{"uid": "x", "state": "sent"}\n', b'{"uid": 1, "state": "lost"}\n', b"[]\n"):
        (plan.directory / MAILS_FILE).write_bytes(line)
        (plan.directory / MAILS_FILE).chmod(0o600)
        with pytest.raises(DataError):
            send(plan, site, server)
    (plan.directory / MAILS_FILE).unlink()
    (plan.directory / MAILS_FILE).symlink_to("/etc/passwd")
    with pytest.raises(RefusedError):
        send(plan, site, server)


def test_users_without_account_or_address_are_told_of(
    tmp_path: Path, site: Path, server: Post
) -> None:
    accounts = Book(ada=1001)
    accounts.add(Account(1002, 1, "bob\nBcc: all@example.org"))
    accounts.add(Account(1003, 1, "eve,zoe"))
    loaded = make(tmp_path / "odd", [Row(b"%d" % uid, uid) for uid in (1001, 1002, 1003, 9)])
    loaded = publish(loaded, KEY, notices(site), accounts=accounts, clock=clock()).loaded
    result = send(loaded, site, server)
    assert [one.recipient for one in server.taken] == ["ada@example.org"]
    assert [failure.uid for failure in result.failures] == [1002, 1003]
    assert all("not a mail address" in failure.reason for failure in result.failures)


def test_a_map_goes_before_the_pattern(
    plan: LoadedPlan, site: Path, server: Post, tmp_path: Path
) -> None:
    file = tmp_path / "mail.map"
    file.write_text(
        "# who moved\nada ada.l@elsewhere.example\n\nbob  bob@elsewhere.example # new\n"
    )
    file.chmod(0o600)
    result = send(plan, site, server, notices=notices(site, mail_map=str(file), mail_to=None))
    assert sorted(one.recipient for one in server.taken) == [
        "ada.l@elsewhere.example",
        "bob@elsewhere.example",
    ]
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


def test_what_is_missing_is_said(plan: LoadedPlan, site: Path, server: Post) -> None:
    with raises(UsageError, "sender-missing"):
        send(plan, site, server, notices=notices(site, mail_from=None))
    with raises(UsageError, "addresses-missing"):
        send(plan, site, server, notices=notices(site, mail_to=None))
    with raises(RefusedError, "plan-unpublished"):
        send(replace(plan, publication=None), site, server)
    with raises(UsageError, "address-invalid"):
        send(plan, site, server, notices=notices(site, mail_from="evil\n@example.org"))


def test_nothing_is_announced_that_does_not_happen_any_more(
    plan: LoadedPlan, site: Path, server: Post
) -> None:
    with (
        Mailer(MailServer("127.0.0.1", server.port)) as mailer,
        raises(RefusedError, "plan-expired"),
    ):
        mail(plan, notices(site), mailer, clock=clock(plan.plan.expires_at))
    assert server.connections == 0
