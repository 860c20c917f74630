"""CPU profile of a server, from the text of ``perf report`` or ``perf script``.

It is a measurement without samples: shares of time explain a bandwidth but are not one. They are in
``reported``; `trimtab.explain.context.CpuProfile` is built from them.

``perf report --stdio`` prints a line for each command, object and symbol, with the function's own
share first, or after the share with callees ("Children") if call chains were recorded. ``perf
script`` prints every sample, with the innermost function first (perf-report(1), perf-script(1);
seen with perf 6.1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from trimtab.base.error import DataError, Message, code_of
from trimtab.base.plain import present, time_of, whole_lines
from trimtab.base.run import RunStatus
from trimtab.formats.measurement import Measurement, OutputFile, OutputFormat, missing

KIND: Final = "perf"
ALLOCATOR: Final = re.compile(r"(?:ldiskfs|ext4)_mb_")
"""Functions of ldiskfs's and ext4's block allocator."""
IDLE: Final = re.compile(
    r"(?:pv_)?(?:native_)?safe_halt|intel_idle|mwait_idle|acpi_(?:safe_halt|idle_|processor_ffh)"
    r"|default_idle|cpuidle_|poll_idle|arch_cpu_idle|cpu_idle_poll"
)
"""Functions of an idle CPU: sampled by a clock, never by counted cycles (arch/x86/kernel/process.c,
drivers/idle/intel_idle.c, drivers/acpi/processor_idle.c)."""
LISTED_MINIMUM: Final = 0.99
"""Share of samples that a report must list to be complete if no tip ends it."""
_NOT_BY_SYMBOL: Final = Message(
    "not-sorted-by-symbol", "not sorted by symbol: use perf report --sort symbol"
)
_GROUP: Final = Message(
    "events-grouped", "events of a group are printed side by side: use perf report --no-group"
)
_FUNCTIONS_MAXIMUM: Final = 1000
_TOLERANCE: Final = 0.001
_ROUNDING: Final = 0.00005
"""Half a unit of the last digit of perf's shares."""

_HEADING: Final = re.compile(r"#\s{0,40}(Overhead|Children)(\s*)([^\w\s]?)")
_EVENT: Final = re.compile(r"# Samples: +(\S{1,20}) +of events? '([^'\n]{1,400})'")
_LOST: Final = re.compile(r"# Total Lost Samples: (\d{1,18})\s*\Z")
_TIP: Final = "# (Tip: "
_ENTRY: Final = re.compile(
    r"\s{0,40}(\d{1,3}\.\d\d)%(?:[\s,;:|/]{1,40}(\d{1,3}\.\d\d)%)?.{0,1000}?\[[k.guHK]\] (.+)"
)
_SAMPLE: Final = re.compile(
    r"(?=\S|\s{0,40}\S).{0,120}?(?<=\s)(\d{1,12}\.\d{6,9}):\s{1,40}(?:(\d{1,18})\s{1,40})?"
    r"(\S{1,200}):(?:\s(.*))?\Z"
)
_FRAME: Final = re.compile(r"\s{1,40}[0-9a-f]{1,16} (.+)")
_ADDRESS: Final = re.compile(r"\s*[0-9a-f]{1,16} (.+)")
_OFFSET: Final = re.compile(r"\+0x[0-9a-f]{1,16}")
_NAMED: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9-]{0,62})\.perf(?:\.|-|\Z)")
_HEADERS: Final = re.compile(
    r"# (hostname|perf version|captured on|time of last sample)\s{0,20}: (.{1,200})"
)


@dataclass(slots=True)
class Profile:
    """The samples of one event.

    Attributes
    ----------
    functions
        Function to its own samples: shares in a report, weights in a script.
    within_allocator
        The same for the allocator including its callees, by command and object; empty without call
        chains.
    chains
        Whether call chains are known.
    entries
        Lines of a report, samples of a script.
    """

    event: str
    functions: dict[str, float] = field(default_factory=dict)
    within_allocator: dict[str, float] = field(default_factory=dict)
    chains: bool = False
    entries: int = 0
    last_s: float = 0.0
    problems: list[str] = field(default_factory=list)

    def add(self, function: str, weight: float) -> None:
        """Count a line or sample."""
        self.entries += 1
        self.functions[function] = self.functions.get(function, 0.0) + weight

    @property
    def listed(self) -> float:
        """The sum over all functions."""
        return sum(self.functions.values())

    def share(self, of: re.Pattern[str]) -> float:
        """Return the samples of functions whose names match."""
        return sum(weight for name, weight in self.functions.items() if of.match(name))


@dataclass(slots=True)
class _Head:
    """The header lines, with ``--header``."""

    facts: dict[str, str] = field(default_factory=dict)
    lost: int = 0
    ended: bool = False

    def take(self, line: str) -> None:
        if (match := _HEADERS.match(line)) is not None:
            self.facts.setdefault(match[1], match[2].strip())
        elif (match := _LOST.match(line)) is not None:
            self.lost += int(match[1])
        elif line.startswith(_TIP):
            self.ended = True

    @property
    def captured(self) -> datetime | None:
        """When the recording was made, in the zone of the machine."""
        return time_of(self.facts.get("captured on", ""), "%a %b %d %H:%M:%S %Y")

    def last_s(self) -> float | None:
        """Return the time of the last recorded sample."""
        text = self.facts.get("time of last sample", "")
        return float(text) if re.fullmatch(r"\d{1,12}\.\d{1,9}", text) else None


def read(source: OutputFile) -> tuple[Measurement, ...]:
    """Return one result for each event.

    Raises
    ------
    DataError
        It has no functions: it was sorted without ``symbol``, or has no samples.
    """
    head = _Head()
    if _is_script(source.head):
        profiles = _script(source.text, head)
        readings = [_of_script(profile, head) for profile in profiles]
    else:
        profiles = _report(source.text, head)
        # An event followed by another one is complete.
        last = profiles[-1:]
        readings = [
            _of_report(profile, ended=head.ended or profile not in last) for profile in profiles
        ]
    if not any(profile.functions for profile in profiles):
        reasons = [problem for profile in profiles for problem in profile.problems]
        reason = reasons[0] if reasons else _NOT_BY_SYMBOL
        code = code_of(reason) or "no-result"
        raise DataError(f"perf printed no function: {reason}", code=code, line=1)
    several = len(profiles) > 1
    return tuple(
        _measurement(profile, shares, problem, head, source, several=several)
        for profile, (shares, problem) in zip(profiles, readings, strict=True)
        if profile.functions
    )


def _report(text: str, head: _Head) -> list[Profile]:
    profiles: list[Profile] = []
    children, separator = False, ""
    for _, line in whole_lines(text):
        if line.startswith("#"):
            head.take(line)
            if (event := _EVENT.match(line)) is not None:
                profiles.append(Profile(event[2]))
                if "group {" in event[2] or ", " in event[2]:
                    profiles[-1].problems.append(_GROUP)
            elif (heading := _HEADING.match(line)) is not None:
                children = heading[1] == "Children"
                separator = "\t" if "\t" in heading[2] else heading[3]
            continue
        entry = _ENTRY.match(line)
        if entry is None or not profiles or children != (entry[2] is not None):
            continue
        function = _symbol(entry[3], separator)
        if not function or profiles[-1].problems:
            continue
        profiles[-1].add(function, float(entry[2] if children else entry[1]) / 100)
        profiles[-1].chains = children
        if children and ALLOCATOR.match(function):
            # Within a thread the outermost allocator function includes all others.
            who = line[entry.end(2) : entry.start(3)]
            most = max(profiles[-1].within_allocator.get(who, 0.0), float(entry[1]) / 100)
            profiles[-1].within_allocator[who] = most
    return profiles


def _symbol(text: str, separator: str) -> str:
    """Return the function; further columns follow two spaces or a separator."""
    first = text.split(separator, 1)[0] if separator else text.split("  ", 1)[0]
    return first.strip()


def _of_report(profile: Profile, *, ended: bool) -> tuple[dict[str, float], str | None]:
    """Return the shares of a report, and why it is incomplete."""
    listed = profile.listed
    slack = _TOLERANCE + _ROUNDING * profile.entries
    if profile.problems:
        return {}, profile.problems[0]
    if listed > 1.0 + slack:
        problem = Message("figures-disagree", f"its shares add up to {100 * listed:.1f} %")
        profile.problems.append(problem)
        return {}, problem
    if ended or listed >= LISTED_MINIMUM - slack:
        return profile.functions, None
    text = f"the end is missing: functions listed have {100 * listed:.1f} % of the samples"
    return profile.functions, Message("end-unknown", text)


def _script(text: str, head: _Head) -> list[Profile]:
    profiles: dict[str, Profile] = {}
    for sample in _samples(text, head):
        profile = profiles.setdefault(sample.event, Profile(sample.event))
        profile.last_s = max(profile.last_s, sample.at_s)
        if not sample.chain:
            continue
        profile.add(sample.chain[0], sample.weight)
        if any(ALLOCATOR.match(function) for function in sample.chain):
            held = profile.within_allocator.get("", 0.0)
            profile.within_allocator[""] = held + sample.weight
        profile.chains = profile.chains or len(sample.chain) > 1
    return list(profiles.values())


@dataclass(slots=True)
class _Sample:
    event: str
    at_s: float
    weight: float
    chain: list[str]


def _samples(text: str, head: _Head) -> Iterator[_Sample]:
    """Yield the complete samples: single lines, and chains with an end."""
    current: _Sample | None = None
    for _, line in whole_lines(text):
        if line.startswith("#"):
            head.take(line)
        elif (match := _SAMPLE.match(line)) is not None:
            # A chain ends with an empty line; one that runs into another sample is incomplete.
            current = _Sample(match[3], float(match[1]), float(match[2] or 1), [])
            inline = _ADDRESS.match(match[4] or "")
            if inline is not None:
                current.chain.append(_function(inline[1]))
                yield current
                current = None
        elif not line.strip():
            if current is not None:
                yield current
            current = None
        elif current is not None and (frame := _FRAME.match(line)) is not None:
            current.chain.append(_function(frame[1]))
        else:
            current = None


def _function(text: str) -> str:
    """Return the name in ``ext4_mb_prefetch+0x7e ([kernel.kallsyms])``."""
    name = _OFFSET.split(text, maxsplit=1)[0]
    if name == text and text.endswith(")") and " (" in text:
        name = text[: text.rfind(" (")]
    return name.strip()


def _of_script(profile: Profile, head: _Head) -> tuple[dict[str, float], str | None]:
    """Return the shares of a script, and why it may be incomplete."""
    total = profile.listed
    shares = {name: weight / total for name, weight in profile.functions.items() if total > 0}
    within = profile.within_allocator
    profile.within_allocator = {who: held / total for who, held in within.items() if total > 0}
    last_s = head.last_s()
    if last_s is not None and profile.last_s >= last_s - 1.0:
        return shares, None
    text = f"the end is missing: this covers the first {profile.entries} samples"
    return shares, Message("end-unknown", text)


def _measurement(
    profile: Profile,
    shares: dict[str, float],
    problem: str | None,
    head: _Head,
    source: OutputFile,
    *,
    several: bool,
) -> Measurement:
    # A file may be named after its host: oss12.perf.txt.
    named = _NAMED.match(source.file_name)
    server = head.facts.get("hostname") or (named[1] if named else None)
    whole = Profile(profile.event, shares)
    reported = present({"server": server})
    if shares:
        reported |= {
            "listed_share": round(whole.listed, 6),
            "allocator_share": round(whole.share(ALLOCATOR), 6),
            "idle_share": round(whole.share(IDLE), 6),
            "shares": _largest(shares),
        }
        if profile.chains:
            within = sum(profile.within_allocator.values())
            reported["allocator_share_with_callees"] = round(within, 6)
    ended = RunStatus.OK if problem is None else RunStatus.PARTIAL
    status = ended if shares else RunStatus.FAILED
    reason = "it has no header (--header), and the file is not named HOST.perf..."
    no_server = missing("server", "no-header", reason)
    lost = Message("samples-lost", f"{head.lost} samples were lost while it was recorded")
    return Measurement(
        kind=KIND,
        status=status,
        problems=() if problem is None else (problem,),
        tool_version=head.facts.get("perf version"),
        name=profile.event if several else None,
        began=head.captured,
        host=server,
        requested={"event": profile.event},
        reported=reported,
        warnings=(lost,) if head.lost else (),
        missing=() if server is not None else (no_server,),
    )


def _largest(shares: dict[str, float]) -> dict[str, float]:
    ordered = sorted(shares.items(), key=lambda item: (-item[1], item[0]))
    return {name: round(share, 6) for name, share in ordered[:_FUNCTIONS_MAXIMUM] if share > 0}


def _is_script(head: str) -> bool:
    """Return whether it lists single samples."""
    for _, line in whole_lines(head):
        if _HEADING.match(line) is not None or _EVENT.match(line) is not None:
            return False
        if _SAMPLE.match(line) is not None:
            return True
    return False


def _recognises(source: OutputFile) -> bool:
    lines = [line for _, line in whole_lines(source.head)]
    if all(any(map(pattern.match, lines)) for pattern in (_HEADING, _EVENT)):
        return True
    # The first line that is not a comment is a sample, with a function in it or below it.
    content = (line for line in lines if not line.startswith("#") and line.strip())
    match = _SAMPLE.match(next(content, ""))
    if match is None or _ADDRESS.match(match[4] or "") is not None:
        return match is not None
    return _FRAME.match(next(content, "")) is not None


FORMAT: Final = OutputFormat(KIND, _recognises, read)
