"""Mails as a mail server gets them: one to each user of a purge plan, and an alert."""

from __future__ import annotations

import os
import pwd
from collections.abc import Sequence
from email.message import EmailMessage
from pathlib import Path
from typing import Final

from tests.live.rows.purging import POLICY
from tests.live.running import capability, require
from tests.live.subject import Subject
from tests.support.mailbox import Post, mail_server

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


def require_one_each(post: Post, addresses: Sequence[str]) -> list[EmailMessage]:
    """Return the mail of each address; raise `Wrong` unless each has one and nobody else any."""
    mails = [*zip(post.recipients, post.mails, strict=True)]
    came = [[mail for taken, mail in mails if taken == [one]] for one in addresses]
    counts = {address: len(mails) for address, mails in zip(addresses, came, strict=True)}
    require(set(counts.values()) == {1}, f"mails that came, by recipient: {counts}")
    others = [taken for taken in post.recipients if taken not in [[one] for one in addresses]]
    require(not others, f"mails came for {others}")
    return [mail for (mail,) in came]


def _plan(subject: Subject, root: Path, box: Post) -> Path:
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
    with mail_server() as box:
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
