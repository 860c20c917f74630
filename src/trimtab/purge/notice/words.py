"""Texts for users, derived from the plan: they promise nothing that a run does not keep."""

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
    """Contents of one user's notice.

    Attributes
    ----------
    plan
        The plan.
    user
        The user's totals in the plan.
    account
        The user's name; ``None`` if the number has no account.
    name
        Base name of the files.
    published_at, not_before
        When the list is published, and the time before which it promises no deletion.
    change
        Changes from the previous list; ``None`` if there was none.
    contact
        Contact for questions, in the site's words.
    has_names
        Whether the list names the files; otherwise it counts them by directory.
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
    """Return the text above the names or counts of a list, with the line of column heads."""
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
    """Yield paragraphs on the policy and how the cut-off was found."""
    yield f"Regular files that were last used before {_time(plan.before)}."
    yield " ".join(visible(words) for words in plan.rules.words)
    yield from (visible(words) for words in plan.horizon.words)


def how_to_keep(facts: Facts) -> Iterator[str]:
    """Yield paragraphs on how to keep files."""
    name = facts.name
    copy = "Copy what you need to a place that is not purged (home, project, archive). "
    if facts.has_names:
        yield (
            f"{copy}These names are in {name}{NAMES_SUFFIX} beside this list, NUL-terminated, for "
            "use with tools:"
        )
    else:
        yield (
            f"{copy}The files are too many to list, so they are counted by directory below. This "
            "command finds them in one of these directories, and perhaps some that are exempt:"
        )
        yield f"  {find_command(facts)}"
        yield (
            f"On request their names are written to {name}{NAMES_SUFFIX} beside this list, "
            "NUL-terminated, for use with tools:"
        )
    yield f"  tar --create --file ARCHIVE.tar --null --files-from {name}{NAMES_SUFFIX}"
    yield f"  rsync --archive --from0 --files-from={name}{NAMES_SUFFIX} / HOST:DIRECTORY"
    if facts.plan.rules.reads_count:
        yield (
            "A file that you read or change before its deletion is kept: its age starts again. "
            "Archiving a file reads it."
        )
    else:
        yield (
            "A file that you change before its deletion is kept: its age starts again. Reading it "
            "does not keep it, and archiving only reads it."
        )
    if facts.contact:
        yield f"Questions and exemptions: {visible(facts.contact)}"


def find_command(facts: Facts) -> str:
    """Return a command that finds at least all of a user's candidates in a directory."""
    rules, before_s = facts.plan.rules, facts.plan.horizon.before_s
    unused = [f"! -newer{time[0]}t @{before_s}" for time in rules.counted]
    size = [f"-size +{rules.minimum_size_bytes - 1}c"] if rules.minimum_size_bytes else []
    tests = ["-xdev -type f", f"-uid {facts.user.uid}", *size, *unused]
    return f"find DIRECTORY {' '.join(tests)} -print0"


def what_happens(facts: Facts) -> Iterator[str]:
    """Yield paragraphs on the dates and order of deletion."""
    plan, target = facts.plan, format_exact_percent(facts.plan.horizon.target)
    yield (
        f"Nothing on this list is deleted before {_time(facts.not_before)}. From then on files of "
        "all users are deleted by the hour of their last use, oldest first, until the file system "
        f"is at most {target} full. The lists have more files than that is likely to take, so "
        "files near the end of a list may well be kept."
    )
    yield (
        "Each file is checked again just before its deletion: a file that was used, changed, "
        "renamed, moved or given to another user since the scan of the file system "
        f"({_time(plan.index.ended_at)}) is not deleted by this list."
    )
    yield f"After {_time(plan.expires_at)} nothing is deleted by this list; a later one may follow."


def mail_subject(facts: Facts) -> str:
    """Return the subject of a mail."""
    root = visible(facts.plan.file_system.root)
    after = facts.not_before.astimezone(UTC)
    return f"{root}: {facts.user.files:,} of your files may be deleted after {after:%Y-%m-%d}"


def mail_text(facts: Facts, directory: str) -> str:
    """Return the body of a mail: totals, dates and the location of the list, never the list.

    Parameters
    ----------
    directory
        Directory of the lists.
    """
    place = escape(f"{directory}/{facts.name}".encode("utf-8", "surrogateescape"))
    suffixes = (TEXT_SUFFIX, LINES_SUFFIX, *([NAMES_SUFFIX] if facts.has_names else []))
    where = [f"  {place}{suffix}" for suffix in suffixes]
    contents = "Their names, as text, as JSON lines and NUL-terminated"
    if not facts.has_names:
        contents = "Their number in each directory, as text and as JSON lines"
    root = visible(facts.plan.file_system.root)
    parts = [
        _wrapped(
            f"Some of your files on {root} have not been used for a long time and are likely to be "
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
        "One file per line, least recently used first: day of its last use (UTC), size, whether "
        "the previous list had it too, name. In names \\n, \\t, \\r, \\\\ and \\xHH (a byte) stand "
        "for unprintable characters; printf '%b' NAME in bash converts them back. The same list "
        f"for programs: {facts.name}{LINES_SUFFIX} (JSON lines), {facts.name}{NAMES_SUFFIX}."
    )


def _how_counted(facts: Facts) -> Iterator[str]:
    yield (
        "One directory per line, by name: day of last use (UTC) of its least recently used file, "
        "files, allocated size, files not in the previous list, and the directory, including "
        f"everything below it. The same for programs: {facts.name}{LINES_SUFFIX} (JSON lines)."
    )


def _section(title: str, paragraphs: Iterator[str]) -> str:
    return title + "\n" + "\n".join(_wrapped(paragraph) for paragraph in paragraphs)


@functools.lru_cache(maxsize=1000)  # most paragraphs are the same for every user
def _wrapped(paragraph: str) -> str:
    if paragraph.startswith("  "):  # a command, not to be wrapped
        return paragraph + "\n"
    lines = textwrap.wrap(paragraph, WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def _time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
