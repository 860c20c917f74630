"""What ``[alerts]``, ``[webhook.NAME]`` and ``[metrics]`` must be to one another. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trimtab.config.problems import Problem, name_problems
from trimtab.model.site import Site

MAIL: Final = "mail"
"""The receiver that is mail; no webhook may have its name."""


def notify_problems(site: Site) -> Iterator[Problem]:
    """Yield what contradicts itself in who is told, and how."""
    for webhook in site.webhooks:
        location = ("webhook", webhook.name)
        yield from name_problems(webhook.name, location)
        if webhook.name == MAIL:
            text = "is the receiver of [alerts.mail]"
            yield Problem(location, text, "give the webhook another name", code="name-taken")
    mail, location = site.alerts.mail, ("alerts", "mail")
    yield from mail.problems(location)
    paths = {
        ("metrics", "textfile"): site.metrics.textfile,
        ("metrics", "web_config_file"): site.metrics.web_config_file,
        (*location, "ca_file"): mail.ca_file,
    }
    paths |= {("webhook", webhook.name, "ca_file"): webhook.ca_file for webhook in site.webhooks}
    for at, path in paths.items():
        if path is not None and not path.startswith("/"):
            yield Problem(
                at,
                "is not an absolute path",
                "a service starts in another directory: begin with a /",
                code="path-relative",
            )
    textfile = site.metrics.textfile
    if textfile is not None and textfile.endswith("/"):
        yield Problem(
            ("metrics", "textfile"),
            "is a directory",
            f'name a file in it: "{textfile}trimtab.prom"',
            code="path-is-directory",
        )
    if site.metrics.web_config_file is not None and site.metrics.listen is None:
        yield Problem(
            ("metrics", "web_config_file"), "protects nothing: no listen is set", "set listen"
        )
