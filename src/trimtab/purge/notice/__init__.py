"""Users told: one list each, theirs alone to read, and mails that say where it is.

::

    plan ─▶ publish ─▶ a directory of lists ─▶ published.json (the notice period begins)
                                                    └─▶ mail ─▶ mails.jsonl (each at most once)
"""

from __future__ import annotations

from trimtab.purge.notice.accounts import Account, Accounts, SystemAccounts
from trimtab.purge.notice.mail import Postman, SmtpPostman, Undelivered
from trimtab.purge.notice.mailing import MailFailure, MailResult
from trimtab.purge.notice.notify import Published, mail, publish

__all__ = [
    "Account",
    "Accounts",
    "MailFailure",
    "MailResult",
    "Postman",
    "Published",
    "SmtpPostman",
    "SystemAccounts",
    "Undelivered",
    "mail",
    "publish",
]
