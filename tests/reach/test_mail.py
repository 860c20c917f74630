"""The one mail server, real ones on loopback: with TLS and a login, and with everything wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from email.message import EmailMessage
from pathlib import Path
from typing import Literal

import pytest
from tests.support.mailbox import Post, certificate, mail_server

from trimtab.base.error import Undelivered
from trimtab.base.site_policy import MailServer
from trimtab.reach.mail import Mailer

pytestmark = pytest.mark.system
PASSWORD = "wonderful"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def login(tmp_path: Path) -> dict[str, str]:
    secret = tmp_path / "secret"
    secret.write_text(f"{PASSWORD}\n")
    secret.chmod(0o400)
    return {"user": "trimtab", "password": f"file:{secret}"}


@pytest.fixture(params=["starttls", "tls"])
def post(request: pytest.FixtureRequest, tls: tuple[Path, Path]) -> Iterator[Post]:
    with mail_server(tls, implicit=request.param == "tls") as post:
        post.passwords = {"trimtab": PASSWORD}
        yield post


@pytest.fixture
def settings(
    request: pytest.FixtureRequest, post: Post, tls: tuple[Path, Path], login: dict[str, str]
) -> MailServer:
    security = request.node.callspec.params["post"]
    return MailServer("localhost", post.port, security, **login, ca_file=str(tls[0]))


def message() -> EmailMessage:
    mail = EmailMessage()
    mail["From"] = "trimtab@example.org"
    mail["To"] = "ada@example.org"
    mail.set_content("your list")
    return mail


def failure(settings: MailServer, *recipients: str) -> Undelivered:
    with Mailer(settings, timeout_s=5.0) as mailer, pytest.raises(Undelivered) as raised:
        mailer.deliver(message(), *recipients or ("ada@example.org",))
    return raised.value


def test_mails_go_encrypted_after_a_login_over_one_connection(
    post: Post, settings: MailServer
) -> None:
    with Mailer(settings) as mailer:
        for name in ("ada", "bob"):
            assert mailer.deliver(message(), f"{name}@example.org") == ()
    assert [each.recipient for each in post.taken] == ["ada@example.org", "bob@example.org"]
    assert all(each.encrypted for each in post.taken)
    assert {each.sender for each in post.taken} == {"trimtab@example.org"}
    assert post.connections == len(post.logins) == 1


def test_a_certificate_of_another_authority_or_name_is_refused(
    post: Post, settings: MailServer, tmp_path: Path
) -> None:
    other = certificate(tmp_path, "elsewhere.example")[0]
    for wrong in (
        replace(settings, ca_file=None),
        replace(settings, ca_file=str(other)),
        replace(settings, server="127.0.0.1"),
        replace(settings, ca_file=str(tmp_path / "none.pem")),
    ):
        error = failure(wrong)
        assert (error.code, error.unreachable, error.unclear) == (
            "receiver-unreachable", True, False,
        )  # fmt: skip
    assert post.taken == post.logins == []


def test_a_wrong_password_sends_nothing_and_is_not_repeated(
    post: Post, settings: MailServer, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("sesame\n")
    wrong.chmod(0o400)
    error = failure(replace(settings, password=f"file:{wrong}"))
    assert (error.code, error.unreachable) == ("receiver-refused", True)
    assert "535" in error.message
    assert "sesame" not in error.message
    assert post.logins  # the server said it
    assert post.taken == []


def test_a_login_that_is_missing_or_cannot_be_written_sends_nothing(
    post: Post, settings: MailServer, tmp_path: Path
) -> None:
    error = failure(replace(settings, user=None, password=None))
    assert (error.code, error.message) == ("receiver-refused", "530 log in first")
    foreign = tmp_path / "foreign"
    foreign.write_text("caf\u00e9\n", encoding="utf-8")
    foreign.chmod(0o400)
    error = failure(replace(settings, password=f"file:{foreign}"))
    assert error.code == "secret-unreadable"
    assert "\u00e9" not in error.message
    foreign.chmod(0o444)
    assert failure(replace(settings, password=f"file:{foreign}")).code == "secret-exposed"
    assert post.taken == []


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_a_server_without_tls_gets_nothing_when_tls_is_asked_for(
    security: Literal["starttls", "tls"], login: dict[str, str]
) -> None:
    with mail_server() as plain:
        plain.greeting = "220 plain"
        error = failure(MailServer("localhost", plain.port, security, **login))
    assert error.unreachable
    assert plain.logins == plain.taken == []


def test_refused_recipients_are_named_and_all_of_them_an_error() -> None:
    with mail_server() as post:
        post.refused = ("gone@example.org", "left@example.org")
        settings = MailServer("localhost", post.port)
        with Mailer(settings) as mailer:
            some = mailer.deliver(message(), "ada@example.org", "gone@example.org")
        error = failure(settings, *post.refused)
    assert some == ("gone@example.org",)
    assert error.message == "550 no such user \\x1b[2J"
    assert (error.code, error.unreachable, error.unclear) == ("receiver-refused", False, False)
    assert post.recipients == [["ada@example.org"]]


@pytest.mark.parametrize("verb", ["RCPT", "DATA", "BODY"])
def test_a_connection_lost_in_the_middle_is_unclear_and_the_next_mail_goes(
    post: Post, settings: MailServer, verb: str
) -> None:
    with Mailer(settings, timeout_s=5.0) as mailer:
        post.breaks_at = verb
        with pytest.raises(Undelivered) as raised:
            mailer.deliver(message(), "ada@example.org")
        post.breaks_at = ""
        mailer.deliver(message(), "bob@example.org")
    assert (raised.value.unclear, raised.value.unreachable) == (True, False)
    assert [each.recipient for each in post.taken] == ["bob@example.org"]


def test_a_server_may_say_what_it_wants_and_is_shown_shortened() -> None:
    with mail_server() as post:
        post.after_data = "554 " + "\x1b[2J" * 1000
        error = failure(MailServer("localhost", post.port))
    assert error.message.startswith("554 \\x1b[2J")
    assert len(error.message) <= 500
