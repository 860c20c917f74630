"""Policies of any kind, for tests of properties."""

from __future__ import annotations

from datetime import date

from hypothesis import strategies as st

from trimtab.base.site_policy import MailServer
from trimtab.purge.purge_policy import (
    DAY_S,
    TIMES,
    Arming,
    Exemption,
    ExemptionKind,
    Guards,
    Notices,
    Policy,
    RunCaps,
    Throttle,
    Treatment,
)

ROOT = "/scratch"
_IDS = st.integers(0, 2**32 - 2)
_DAYS = st.none() | st.dates(date(1990, 1, 1), date(2100, 1, 1))
_FRACTIONS = st.floats(0.001, 1.0) | st.sampled_from([0.07, 0.29, 0.7, 0.75, 1.0])
_PERIODS = st.just(0) | st.integers(DAY_S, 5000 * DAY_S)
_SECONDS = st.integers(0, 5000 * DAY_S)
_TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=20).filter(
    lambda text: bool(text.strip())
)
_NAMES = st.from_regex(r"[a-z_@\\é][a-z0-9_.@$\\-]{0,15}", fullmatch=True)
_HOSTS = st.from_regex(r"[a-z][a-z0-9.-]{0,15}", fullmatch=True)
_COMPONENTS = (
    st.binary(min_size=1, max_size=8)
    .map(lambda name: name.replace(b"/", b"_").replace(b"\0", b"_"))
    .filter(lambda name: name not in (b".", b".."))
)


@st.composite
def _paths(draw: st.DrawFn) -> Exemption:
    value = b"/".join(draw(st.lists(_COMPONENTS, max_size=4)))
    whole = ROOT.encode() + (b"/" + value if value else b"")
    try:
        name = whole.decode()
    except UnicodeDecodeError:
        name = ""
    if any(ord(sign) < 32 or 127 <= ord(sign) < 160 for sign in name):
        name = ""
    return Exemption("path", value, draw(_DAYS), draw(st.just("") | _TEXTS), name)


@st.composite
def _accounts(draw: st.DrawFn) -> Exemption:
    kinds: tuple[ExemptionKind, ...] = ("user", "group")
    kind = draw(st.sampled_from(kinds))
    name = draw(st.just("") | _NAMES)
    return Exemption(kind, draw(_IDS), draw(_DAYS), draw(st.just("") | _TEXTS), name)


_PROJECTS = st.builds(
    Exemption, st.just("project"), st.integers(1, 2**32 - 2), _DAYS, st.just("") | _TEXTS
)

_POOLS = st.dictionaries(
    st.from_regex(r"[A-Za-z0-9_.-]{1,15}", fullmatch=True), _FRACTIONS, min_size=1, max_size=3
)

exemptions = _paths() | _accounts() | _PROJECTS
_SERVERS = st.builds(
    MailServer,
    server=_HOSTS,
    port=st.integers(1, 65535),
    security=st.sampled_from(["starttls", "tls"]),
    user=st.just("trimtab"),
    password=st.sampled_from(["file:/etc/trimtab/smtp", "env:SMTP"]),
    ca_file=st.none() | st.just("/etc/ssl/site.pem"),
) | st.builds(MailServer, server=_HOSTS)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Return a policy that a file can say."""
    aim = draw(st.sampled_from(["target", "target_ost", "target_pool"]))
    choices: tuple[Treatment, ...] = ("keep", "delete")
    treatments = st.sampled_from(choices)
    mail = draw(st.booleans())
    return Policy(
        name=draw(st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)),
        root=ROOT,
        target=draw(_FRACTIONS) if aim == "target" else None,
        target_ost=draw(_FRACTIONS) if aim == "target_ost" else None,
        target_pool=tuple(sorted(draw(_POOLS).items())) if aim == "target_pool" else (),
        counted=tuple(name for name, counts in zip(TIMES, draw(_some()), strict=True) if counts),
        minimum_age_s=draw(_PERIODS),
        minimum_size_bytes=draw(st.integers(0, 2**53)),
        exemptions=tuple(draw(st.lists(exemptions, max_size=4))),
        keep_root_files=draw(st.booleans()),
        open_files=draw(treatments),
        linked_files=draw(treatments),
        notice_s=draw(_PERIODS),
        valid_s=draw(st.integers(DAY_S, 5000 * DAY_S)),
        publish_factor=draw(st.floats(1, 100)),
        forecast_s=draw(st.none() | st.integers(DAY_S, 5000 * DAY_S)),
        caps=RunCaps(
            draw(st.none() | st.integers(1, 10**15)),
            draw(st.none() | st.integers(1, 2**53)),
            draw(st.none() | _FRACTIONS),
            draw(st.none() | _FRACTIONS),
        ),
        arming=Arming(draw(st.sampled_from(["delay", "second-person"])), draw(_SECONDS)),
        guards=Guards(
            index_age_max_s=draw(_SECONDS),
            clock_difference_max_s=draw(_SECONDS),
            jump_factor=draw(st.floats(1, 1000)),
            settle_s=draw(_SECONDS),
        ),
        throttle=Throttle(
            draw(st.floats(1e-6, 1e6)), draw(st.integers(1, 4096)), draw(st.integers(1, 256))
        ),
        notices=Notices(
            directory=draw(st.none() | st.just("/var/spool/lists")),
            mail_to="{user}@example.org" if mail else None,
            mail_map=draw(st.none() | st.just("/etc/addresses")) if mail else None,
            mail_from="storage@example.org" if mail else None,
            mail=draw(_SERVERS),
            names_most=draw(st.none() | st.integers(1, 10**9)),
            contact=draw(st.none() | _TEXTS),
        ),
    )


def _some() -> st.SearchStrategy[tuple[bool, bool, bool]]:
    return st.tuples(st.booleans(), st.booleans(), st.booleans()).filter(any)
