"""What users are told, in words that follow from the plan: nothing that a run does not keep."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from trimtab.purge.plan.changes import Change
from trimtab.purge.plan.model import Plan, UserTotals
from trimtab.purge.plan.names import escape
from trimtab.units import format_bytes, format_duration, format_exact_percent, plural
from trimtab.visible import visible

WIDTH: Final = 76
_LABEL_WIDTH: Final = 20

TEXT_SUFFIX: Final = ".txt"
LINES_SUFFIX: Final = ".jsonl"
COUNTS_HEAD: Final = "LAST USE         FILES      SIZE           NEW  DIRECTORY\n"
NAMES_SUFFIX: Final = ".nul"


@dataclass(frozen=True, slots=True)
class Facts:
    """What one user's notice says.

    Attributes
    ----------
    plan
        The plan.
    user
        What of this user stands in it.
    account
        The user's name; ``None`` where nobody has the number.
    name
        Of the files, without their suffixes.
    published_at, not_before
        When the list was made public, and the promise that it holds.
    change
        Against the list before; ``None`` where there was none.
    contact
        Whom to ask, in the site's words.
    has_names
        Whether the list names the files; else it counts them by directory.
    """

    plan: Plan
    user: UserTotals
    account: str | None
    name: str
    published_at: datetime
    not_before: datetime
    change: Change | None = None
    contact: str | None = None
    has_names: bool = True


def list_header(facts: Facts) -> str:
    """Return what stands above the names or counts of a list, and the line of column heads."""
    root = visible(facts.plan.file_system.root)
    parts = [
        f"YOUR FILES ON {root} THAT ARE LIKELY TO BE DELETED\n",
        "\n".join(f"{label:{_LABEL_WIDTH}}{value}" for label, value in _totals(facts)) + "\n",
        _section("WHICH FILES", which_files(facts.plan)),
        _section("HOW TO KEEP A FILE", how_to_keep(facts)),
        _section("WHAT HAPPENS", what_happens(facts)),
        _section(
            "HOW THIS LIST IS WRITTEN",
            _how_written(facts) if facts.has_names else _how_counted(facts),
        ),
        "LAST USE        SIZE  LISTED  NAME\n" if facts.has_names else COUNTS_HEAD,
    ]
    return "\n".join(parts)


def which_files(plan: Plan) -> Iterator[str]:
    """Yield the policy in words and how the cut-off came about, a paragraph each."""
    yield f"Regular files that were last used before {_time(plan.before)}."
    yield " ".join(visible(words) for words in plan.rules.words)
    yield from (visible(words) for words in plan.horizon.words)


def how_to_keep(facts: Facts) -> Iterator[str]:
    """Yield what a user can do, a paragraph each."""
    name = facts.name
    copy = "Copy what you need to a place that is not purged (home, project, archive). "
    if facts.has_names:
        yield (
            f"{copy}These names are in {name}{NAMES_SUFFIX} beside this list, each ended by a NUL, "
            "as tools take them:"
        )
    else:
        yield (
            f"{copy}They are too many to be named here: below they are counted by directory. This "
            "command finds them in one of these, and perhaps files that are exempt:"
        )
        yield f"  {find_command(facts)}"
        yield (
            f"On request their names are written to {name}{NAMES_SUFFIX} beside this list, each "
            "ended by a NUL, as tools take them:"
        )
    yield f"  tar --create --file ARCHIVE.tar --null --files-from {name}{NAMES_SUFFIX}"
    yield f"  rsync --archive --from0 --files-from={name}{NAMES_SUFFIX} / HOST:DIRECTORY"
    if facts.plan.rules.reads_count:
        yield (
            "A file that you read or change before it is deleted stays: its age begins anew. "
            "Archiving a file reads it."
        )
    else:
        yield (
            "A file that you change before it is deleted stays: its age begins anew. Reading it "
            "does not keep it, and archiving it is reading it."
        )
    if facts.contact:
        yield f"Questions and exemptions: {visible(facts.contact)}"


def find_command(facts: Facts) -> str:
    """Return a command that finds a user's candidates in a directory: all of them, or more."""
    rules, before_s = facts.plan.rules, facts.plan.horizon.before_s
    unused = [f"! -newer{time[0]}t @{before_s}" for time in rules.counted]
    size = [f"-size +{rules.minimum_size_bytes - 1}c"] if rules.minimum_size_bytes else []
    tests = ["-xdev -type f", f"-uid {facts.user.uid}", *size, *unused]
    return f"find DIRECTORY {' '.join(tests)} -print0"


def what_happens(facts: Facts) -> Iterator[str]:
    """Yield the dates and the order of deletion, a paragraph each."""
    plan, target = facts.plan, format_exact_percent(facts.plan.horizon.target)
    yield (
        f"Nothing on this list is deleted before {_time(facts.not_before)}. From then on files go "
        "in order of the hour of their last use, those of all users together and the oldest "
        f"first, until the file system is no more than {target} full. "
        "The list names more than that is likely to take, so that files near its end may well stay."
    )
    yield (
        "Each file is looked at once more just before: one that was used, changed, renamed, moved "
        "or given to somebody else since the file system was looked at "
        f"({_time(plan.index.ended_at)}) is not deleted by this list."
    )
    yield f"After {_time(plan.expires_at)} nothing is deleted by this list; a later one may follow."


def mail_subject(facts: Facts) -> str:
    """Return the subject of a mail."""
    root = visible(facts.plan.file_system.root)
    after = facts.not_before.astimezone(UTC)
    return f"{root}: {facts.user.files:,} of your files may be deleted after {after:%Y-%m-%d}"


def mail_text(facts: Facts, directory: str) -> str:
    """Return the body of a mail: totals, dates, and where the list is, never the list.

    Parameters
    ----------
    directory
        Where the lists are.
    """
    place = escape(f"{directory}/{facts.name}".encode("utf-8", "surrogateescape"))
    suffixes = (TEXT_SUFFIX, LINES_SUFFIX, *([NAMES_SUFFIX] if facts.has_names else []))
    where = [f"  {place}{suffix}" for suffix in suffixes]
    contents = "Their names, as text, as JSON lines and ended by NULs"
    if not facts.has_names:
        contents = "Their number in each directory, as text and as JSON lines"
    root = visible(facts.plan.file_system.root)
    parts = [
        _wrapped(
            f"Some of your files on {root} have not been used for long and are likely to be "
            "deleted."
        ),
        "\n".join(f"{label:{_LABEL_WIDTH}}{value}" for label, value in _totals(facts)) + "\n",
        f"{contents}, for you alone to read:\n" + "\n".join(where) + "\n",
        _section("WHICH FILES", which_files(facts.plan)),
        _section("HOW TO KEEP A FILE", how_to_keep(facts)),
        _section("WHAT HAPPENS", what_happens(facts)),
    ]
    return "\n".join(parts)


def _totals(facts: Facts) -> Iterator[tuple[str, str]]:
    user, plan = facts.user, facts.plan
    yield "User", f"{visible(facts.account or '(no account)')} ({user.uid})"
    held = "" if user.held_bytes is None else f" of the {format_bytes(user.held_bytes)} you hold"
    yield "Files", f"{plural(user.files, 'file', ',')}, {format_bytes(user.allocated_bytes)}{held}"
    oldest = datetime.fromtimestamp(user.oldest_use_s, UTC)
    newest = datetime.fromtimestamp(user.newest_use_s, UTC)
    yield "Last used", f"{oldest:%Y-%m-%d} to {newest:%Y-%m-%d}"
    if facts.change is not None:
        change = facts.change
        yield (
            "Since the last list",
            f"{change.new:,} new, {change.known:,} again, {change.gone:,} gone",
        )
    yield "Published", _time(facts.published_at)
    yield "Not deleted before", _time(facts.not_before)
    yield "Not deleted after", f"{_time(plan.expires_at)}, by this list"
    notice = format_duration(plan.notice_s)
    yield "Plan", f"{plan.id} (policy {visible(plan.policy.name)}, notice {notice})"


def _how_written(facts: Facts) -> Iterator[str]:
    yield (
        "One file a line, the least recently used first: day of its last use (UTC), length, "
        "whether the list before named it too, name. In names \\n, \\t, \\r, \\\\ and \\xHH (a "
        "byte) stand for what cannot be shown; printf '%b' NAME in bash turns them back. The same "
        f"list for programs: {facts.name}{LINES_SUFFIX} (JSON lines), {facts.name}{NAMES_SUFFIX}."
    )


def _how_counted(facts: Facts) -> Iterator[str]:
    yield (
        "One directory a line, by name: day of the last use (UTC) of its least recently used file, "
        "files, what they take up, how many the list before did not name, and the directory, with "
        f"all that is below it. The same for programs: {facts.name}{LINES_SUFFIX} (JSON lines)."
    )


def _section(title: str, paragraphs: Iterator[str]) -> str:
    return title + "\n" + "\n".join(_wrapped(paragraph) for paragraph in paragraphs)


@functools.lru_cache(maxsize=1000)  # most paragraphs are the same for every user
def _wrapped(paragraph: str) -> str:
    if paragraph.startswith("  "):  # a command, to be taken as it is
        return paragraph + "\n"
    lines = textwrap.wrap(paragraph, WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def _time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
