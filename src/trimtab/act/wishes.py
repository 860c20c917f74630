"""Which settings of which targets the policy holds at a value, by the names that it uses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from trimtab.act.ledger import Key
from trimtab.act.observed import Observed
from trimtab.act.targets import why_left_alone
from trimtab.act.values import leaf_of
from trimtab.message import Message
from trimtab.model.action import Untouched
from trimtab.model.telemetry import NotAvailable, Snapshot, TargetSnapshot

_THRESHOLD: Final = re.compile(r"mb_c[123]_threshold")


@dataclass(frozen=True, slots=True)
class Wish:
    """A setting of a target that the policy holds at a value; ``name`` as the policy has it."""

    seen: TargetSnapshot
    setting: str
    shown: str
    name: str
    value: str

    @property
    def key(self) -> Key:
        """The target and the setting."""
        return self.seen.target.name, self.setting


def matches(name: str, setting: str) -> bool:
    """Return whether a policy's name stands for a setting: its whole name, or how it ends.

    Examples
    --------
    >>> matches("queue/wbt_lat_usec", "drives/queue/wbt_lat_usec"), matches("usec", "lat_usec")
    (True, False)
    """
    return _pattern(name).fullmatch(setting) is not None


@lru_cache(maxsize=1024)
def _pattern(name: str) -> re.Pattern[str]:
    parts = "[^/]*".join(map(re.escape, name.split("*")))
    return re.compile(f"(?:.*/)?{parts}")


def desired(observed: Observed, snapshot: Snapshot) -> tuple[list[Wish], list[Untouched]]:
    """Return what is to be held, by target and setting; what is not readable is untouched."""
    settings = observed.site.policies.tunables.settings
    targets = sorted(snapshot.targets, key=lambda seen: seen.target.name)
    if settings and not any(seen.settings for seen in targets):
        reason = Message("settings-unknown", "the snapshot has no settings of targets")
        return [], [Untouched("", reason)]
    wishes: list[Wish] = []
    untouched: list[Untouched] = []
    having: dict[str, set[str]] = {name: set() for name in settings}
    lacking: list[tuple[str, TargetSnapshot]] = []
    for seen in targets:
        for setting, name in _names(seen, settings).items():
            shown = seen.settings[setting]
            if isinstance(shown, NotAvailable):
                reason = Message("setting-unreadable", f"it cannot be read: {shown.reason}")
                untouched.append(Untouched(seen.target.name, reason, setting))
            else:
                wishes.append(Wish(seen, setting, shown.value, name, settings[name]))
        for name in settings:
            if any(matches(name, setting) for setting in seen.settings):
                having[name].add(seen.target.kind)
            else:
                lacking.append((name, seen))
    untouched += [Untouched("", _absent(name), name) for name in settings if not having[name]]
    untouched += [
        Untouched(seen.target.name, why_left_alone(observed, seen) or _absent(name), name)
        for name, seen in lacking
        if seen.target.kind in having[name]
    ]
    return wishes, untouched


def _names(seen: TargetSnapshot, settings: Mapping[str, str]) -> dict[str, str]:
    """Return setting to the policy's name for it; of several names the longest."""
    ranked = sorted(settings, key=lambda name: (len(name), name), reverse=True)
    pairs = (
        (setting, next((n for n in ranked if matches(n, setting)), None))
        for setting in seen.settings
    )
    return {setting: name for setting, name in pairs if name is not None}


def _absent(name: str) -> Message:
    why = ""
    if _THRESHOLD.fullmatch(leaf_of(name)):
        why = ": ldiskfs of RHEL 9, SLES 15 SP4, Ubuntu 22 and later has none"
    return Message("setting-absent", f"no setting is named {name}{why}")
