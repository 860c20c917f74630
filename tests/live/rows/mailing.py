"""Mails as a mail server gets them: one to each user of a purge plan, and an alert."""

from __future__ import annotations

import email
import email.policy
import os
import pwd
import socketserver
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from pathlib import Path
from typing import Final

from tests.live.rows.purging import POLICY
from tests.live.running import capability, require
from tests.live.subject import Subject

OWNERS: Final = (1, 2)
"""Users that every host has: one without an account gets no mail."""
FILES: Final = 5
_DOMAIN: Final = "example.org"
_NOTICE: Final = """\
mail_to = "{{user}}@{domain}"
mail_from = "storage@{domain}"
[notice.mail]
server = "127.0.0.1"
port = {port}
[caps]
"""


@dataclass
class Mailbox:
    """What a mail server on loopback took: recipients of the envelope, and the mail."""

    port: int = 0
    mails: list[tuple[tuple[str, ...], EmailMessage]] = field(default_factory=list)

    def of(self, address: str) -> list[EmailMessage]:
        """Return the mails of which an address is the only recipient."""
        return [mail for recipients, mail in self.mails if recipients == (address,)]


@contextmanager
def mailbox() -> Iterator[Mailbox]:
    """Have a mail server inside the block, as RFC 5321 has it and no more."""
    box = Mailbox()

    class Session(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            recipients: list[str] = []
            self.say("220 live")
            while line := self.rfile.readline():
                verb, _, rest = line.decode().strip().partition(" ")
                match verb.upper():
                    case "RCPT":
                        recipients.append(rest.partition("<")[2].partition(">")[0])
                    case "DATA":
                        self.say("354 go ahead")
                        box.mails.append((tuple(recipients), self.mail()))
                        recipients.clear()
                    case "QUIT":
                        self.say("221 bye")
                        return
                self.say("250 ok")

        def say(self, text: str) -> None:
            self.wfile.write(f"{text}\r\n".encode())

        def mail(self) -> EmailMessage:
            data = b""
            while (line := self.rfile.readline()) not in (b".\r\n", b""):
                data += line.removeprefix(b".")
            return email.message_from_bytes(data, policy=email.policy.default)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Session) as server:
        server.daemon_threads = True
        box.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield box
        finally:
            server.shutdown()
            thread.join()


def require_one_each(box: Mailbox, addresses: Sequence[str]) -> list[EmailMessage]:
    """Return the mail of each address; raise `Wrong` unless each has one and nobody else any."""
    counts = {address: len(box.of(address)) for address in addresses}
    require(set(counts.values()) == {1}, f"mails that came, by recipient: {counts}")
    others = [recipients for recipients, _ in box.mails if recipients not in {(a,) for a in counts}]
    require(not others, f"mails came for {others}")
    return [box.of(address)[0] for address in addresses]


def _plan(subject: Subject, root: Path, box: Mailbox) -> Path:
    """Make a plan whose users are to be mailed; return its directory."""
    state, lists = subject.state, Path("/run/trimtab-live-mailed")
    index, plan, policy = state / "mail-index", state / "mail-plan", state / "mail-policy.toml"
    subject.cluster.here("rm", "-rf", str(index), str(plan), str(lists))
    lists.mkdir(mode=0o755)
    (state / "roots").write_text(f"{root}\n")
    notice = _NOTICE.format(domain=_DOMAIN, port=box.port)
    text = POLICY.format(root=root, state=state, lists=lists)
    policy.write_text(text.replace("[caps]\n", notice))
    words = ("--sizes", "exact", "--with", "project,layout")
    subject.trimtab("purge", "scan", str(root), "--index", str(index), *words)
    words = ("--policy", str(policy), "--out", str(plan), "--site", subject.site("plain"))
    subject.trimtab("purge", "plan", "--index", str(index), *words)
    return plan


@capability("mails: notices of a plan, an alert", "a mail server on loopback, the host's accounts")
def mails(subject: Subject) -> str:
    """Each user of a plan gets one mail, with the list, and not a second one; an alert arrives."""
    root = subject.place("mailed")
    with subject.cluster.days_ago(200):
        for owner in OWNERS:
            for number in range(FILES):
                file = root / f"{owner} {number}"
                file.write_bytes(os.urandom(65536))
                os.chown(file, owner, owner)
        os.sync()
    accounts = [pwd.getpwuid(owner).pw_name for owner in OWNERS]
    with mailbox() as box:
        notify = ("purge", "notify", str(_plan(subject, root, box)), "--mail")
        document = subject.json(*notify)
        addresses = [f"{account}@{_DOMAIN}" for account in accounts]
        for account, mail in zip(accounts, require_one_each(box, addresses), strict=True):
            shown = Path(document["directory"]) / f"{account}.txt"
            require(str(shown) in mail.get_content(), f"the mail of {account} names no {shown}")
            listed = shown.with_suffix(".nul").read_bytes().count(b"\0")
            require(listed == FILES, f"{shown} names {listed} of {FILES} files")
        subject.json(*notify)
        require_one_each(box, addresses)
        to = f"ops@{_DOMAIN}"
        alerts = {"mail": {"to": [to], "server": "127.0.0.1", "port": box.port}}
        subject.trimtab("alerts", "test", subject.site("mailed", alerts=alerts))
        alert = require_one_each(box, [*addresses, to])[-1]
        require(subject.name in alert["Subject"], f"the alert is {alert['Subject']}")
    return f"{len(accounts)} users with one mail each after two notifies, and an alert"
