"""Texts for the users of a plan: mails, heads of lists, and a line for each candidate. Pure.

They follow from the plan, and promise nothing that a run does not keep.
"""

from __future__ import annotations

import functools
import json
import textwrap
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from trimtab.base.error import visible
from trimtab.base.units import format_bytes, format_duration, format_exact_percent, plural
from trimtab.purge.plan.candidate import ListChange
from trimtab.purge.plan.deletion_plan import DeletionPlan, UserTotals, escape

if TYPE_CHECKING:
    import polars as pl


WIDTH: Final = 76
_LABEL_WIDTH: Final = 20

TEXT_SUFFIX: Final = ".txt"
LINES_SUFFIX: Final = ".jsonl"
COUNTS_HEAD: Final = "LAST USE         FILES      SIZE           NEW  DIRECTORY\n"
NAMES_SUFFIX: Final = ".nul"


@dataclass(frozen=True, slots=True)
class NoticeFacts:
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

    plan: DeletionPlan
    user: UserTotals
    account: str | None
    name: str
    published_at: datetime
    not_before: datetime
    change: ListChange | None = None
    contact: str | None = None
    has_names: bool = True


def list_header(facts: NoticeFacts) -> str:
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


def which_files(plan: DeletionPlan) -> Iterator[str]:
    """Yield paragraphs on the policy and how the cut-off was found."""
    yield f"Regular files that were last used before {_time(plan.before)}."
    yield " ".join(visible(words) for words in plan.rules.words)
    yield from (visible(words) for words in plan.horizon.words)


def how_to_keep(facts: NoticeFacts) -> Iterator[str]:
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


def find_command(facts: NoticeFacts) -> str:
    """Return a command that finds at least all of a user's candidates in a directory."""
    rules, before_s = facts.plan.rules, facts.plan.horizon.before_s
    unused = [f"! -newer{time[0]}t @{before_s}" for time in rules.counted]
    size = [f"-size +{rules.minimum_size_bytes - 1}c"] if rules.minimum_size_bytes else []
    tests = ["-xdev -type f", f"-uid {facts.user.uid}", *size, *unused]
    return f"find DIRECTORY {' '.join(tests)} -print0"


def what_happens(facts: NoticeFacts) -> Iterator[str]:
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


def mail_subject(facts: NoticeFacts) -> str:
    """Return the subject of a mail."""
    root = visible(facts.plan.file_system.root)
    after = facts.not_before.astimezone(UTC)
    return f"{root}: {facts.user.files:,} of your files may be deleted after {after:%Y-%m-%d}"


def mail_text(facts: NoticeFacts, directory: str) -> str:
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


def _totals(facts: NoticeFacts) -> Iterator[tuple[str, str]]:
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


def _how_written(facts: NoticeFacts) -> Iterator[str]:
    yield (
        "One file per line, least recently used first: day of its last use (UTC), size, whether "
        "the previous list had it too, name. In names \\n, \\t, \\r, \\\\ and \\xHH (a byte) stand "
        "for unprintable characters; printf '%b' NAME in bash converts them back. The same list "
        f"for programs: {facts.name}{LINES_SUFFIX} (JSON lines), {facts.name}{NAMES_SUFFIX}."
    )


def _how_counted(facts: NoticeFacts) -> Iterator[str]:
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


COLUMNS: Final = ("parent", "name", "id", "uid", "size_bytes", "allocated_bytes", "last_use_s")
DIRECTORY_DEPTH: Final = 2
"""Components beneath the root by which files are counted: a user's directory and its entries."""
_BEFORE, _NEW, _UNKNOWN = "before", "new   ", "-     "
_NOT_PLAIN: Final = r"[^ -\[\]-~]|\A | \z"
"""The complement of `trimtab.purge.plan.deletion_plan.PLAIN`, in Polars' syntax."""
_SCALE: Final = 1024.0 * 0.9995
_POWER_MAX: Final = 6
"""As in `format_bytes`: the largest unit, EiB; `_SCALE` is where the next unit begins."""


@dataclass(frozen=True, slots=True)
class ListLines:
    """Some candidates of one user, in plan order, in three formats.

    Attributes
    ----------
    uid
        Their owner.
    files, new_files
        Number of files, and of those in no previous list (0 if there was none).
    text
        Human-readable lines.
    lines
        JSON lines.
    names
        Absolute paths in bytes, NUL-terminated.
    """

    uid: int
    files: int
    new_files: int
    text: bytes
    lines: bytes
    names: bytes


def lines_of(piece: pl.DataFrame, prefix: bytes) -> Iterator[ListLines]:
    """Yield the lines of each user in a piece of the candidates.

    Parameters
    ----------
    piece
        Columns ``parent``, ``name`` (bytes), ``uid``, ``size_bytes``, ``allocated_bytes``,
        ``last_use_s``, and ``known`` (Boolean; null without a previous list).
    prefix
        The root with a trailing slash.
    """
    import polars as pl

    lines = _with_lines(piece, prefix)
    by_user = lines.group_by("uid", maintain_order=True).agg(
        pl.len(),
        (~pl.col("known")).sum().alias("new"),
        pl.col("text").str.join("\n"),
        pl.col("line").str.join("\n"),
        pl.col("path"),
    )
    for uid, files, new, text, line, paths in by_user.iter_rows():
        yield ListLines(
            uid=uid,
            files=files,
            new_files=new,
            text=f"{text}\n".encode(),
            lines=f"{line}\n".encode(),
            names=b"\0".join(paths) + b"\0",
        )


def counts_of(piece: pl.DataFrame) -> pl.DataFrame:
    """Return the totals of each user and directory in a piece of the candidates.

    Parameters
    ----------
    piece
        As for `lines_of`.

    Returns
    -------
    polars.DataFrame
        ``uid``, ``directory`` (bytes, `DIRECTORY_DEPTH` components beneath the root), ``files``,
        ``new_files``, ``size_bytes``, ``allocated_bytes``, ``oldest_use_s``, ``newest_use_s``.
    """
    import polars as pl

    parents = piece["parent"].unique()
    tops = [b"/".join(parent.split(b"/")[:DIRECTORY_DEPTH]) for parent in parents.to_list()]
    directories = pl.DataFrame([parents, pl.Series("directory", tops, dtype=pl.Binary)])
    rows = piece.join(directories, on="parent", how="left").with_columns(
        files=pl.lit(1, pl.Int64),
        new_files=(~pl.col("known")).fill_null(value=False).cast(pl.Int64),
        oldest_use_s="last_use_s",
        newest_use_s="last_use_s",
    )
    return added_counts([rows])


def added_counts(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return the sum of several `counts_of`, by user and directory."""
    import polars as pl

    sums = ("files", "new_files", "size_bytes", "allocated_bytes")
    return (
        pl.concat(frames)
        .group_by("uid", "directory")
        .agg(
            *(pl.col(name).cast(pl.Int128).sum() for name in sums),
            pl.min("oldest_use_s"),
            pl.max("newest_use_s"),
        )
        .sort("uid", "directory")
    )


def count_lines(uid: int, counts: pl.DataFrame, prefix: bytes) -> ListLines:
    """Return the lines of a user whose files are counted by directory, without names.

    Parameters
    ----------
    counts
        Rows of `added_counts`, of this user.
    prefix
        The root with a trailing slash.
    """
    text, lines = [], []
    for row in counts.iter_rows(named=True):
        path = (prefix + row["directory"]).rstrip(b"/") or b"/"
        oldest, newest = (
            datetime.fromtimestamp(row[name], UTC) for name in ("oldest_use_s", "newest_use_s")
        )
        size = format_bytes(int(row["allocated_bytes"]))
        text.append(
            f"{oldest:%Y-%m-%d}  {row['files']:>10,}  {size:>8}  {row['new_files']:>12,}  "
            f"{escape(path)}\n"
        )
        values = {
            "directory": escape(path),
            "directory_base64": b64encode(path).decode() if escape(path).encode() != path else None,
            "files": int(row["files"]),
            "new_files": int(row["new_files"]),
            "size_bytes": int(row["size_bytes"]),
            "allocated_bytes": int(row["allocated_bytes"]),
            "oldest_use": f"{oldest:%Y-%m-%dT%H:%M:%SZ}",
            "newest_use": f"{newest:%Y-%m-%dT%H:%M:%SZ}",
        }
        lines.append(json.dumps(values) + "\n")
    return ListLines(
        uid=uid,
        files=int(counts["files"].sum()),
        new_files=int(counts["new_files"].sum()),
        text="".join(text).encode(),
        lines="".join(lines).encode(),
        names=b"",
    )


def shown(paths: pl.Series) -> pl.Series:
    """Return `escape` of every path; most need no escaping, which is checked for all at once."""
    import polars as pl

    try:
        text = paths.cast(pl.String)
    except pl.exceptions.PolarsError:  # one of them is not UTF-8
        return pl.Series(paths.name, [escape(path) for path in paths.to_list()], dtype=pl.String)
    odd = text.str.contains(_NOT_PLAIN).arg_true()
    if len(odd):
        text = text.scatter(odd, [escape(path) for path in paths.gather(odd).to_list()])
    return text


def size_texts(sizes: pl.Series) -> pl.Series:
    """Return `format_bytes` of every size; three digits leave few texts, each formatted once."""
    import numpy as np
    import polars as pl

    value = sizes.to_numpy().astype(np.float64)
    power = np.zeros(len(value), np.int64)
    for _ in range(_POWER_MAX):
        large = value >= _SCALE
        value[large] /= 1024.0
        power[large] += 1
    digits = np.where(power == 0, 0, np.where(value < 9.995, 2, np.where(value < 99.95, 1, 0)))
    scaled = value * 10.0**digits
    # Close to a tie the product may round the wrong way: format these individually.
    tied = np.flatnonzero(np.abs(scaled - np.floor(scaled) - 0.5) < 1e-6)
    figures = np.rint(scaled).astype(np.int64)
    codes = (figures * (_POWER_MAX + 1) + power) * 3 + digits
    _, first, place = np.unique(codes, return_index=True, return_inverse=True)
    made = [format_bytes(int(sizes[int(place_of)])) for place_of in first]
    texts = pl.Series(made, dtype=pl.String).gather(place)
    if len(tied):
        exact = [format_bytes(int(sizes[int(place_of)])) for place_of in tied]
        texts = texts.scatter(tied, exact)
    return texts


def _with_lines(piece: pl.DataFrame, prefix: bytes) -> pl.DataFrame:
    """Return the rows with ``path`` (bytes), ``text`` (human-readable) and ``line`` (JSON)."""
    import polars as pl

    slash = pl.when(pl.col("parent").bin.size() == 0).then(pl.lit(b"")).otherwise(pl.lit(b"/"))
    rows = piece.with_columns(path=pl.lit(prefix) + pl.col("parent") + slash + pl.col("name"))
    rows = rows.with_columns(shown=shown(rows["path"]), size=size_texts(rows["size_bytes"]))
    used = pl.from_epoch("last_use_s", time_unit="s")
    listed = pl.when("known").then(pl.lit(_BEFORE)).otherwise(pl.lit(_NEW))
    escaped = pl.col("shown").cast(pl.Binary) != pl.col("path")
    fields = pl.struct(
        path="shown",
        path_base64=pl.when(escaped).then(pl.col("path").bin.encode("base64")),
        size_bytes="size_bytes",
        allocated_bytes="allocated_bytes",
        last_use_s="last_use_s",
        last_use=used.dt.strftime("%Y-%m-%dT%H:%M:%SZ"),
        listed_before="known",
    )
    return rows.select(
        "uid",
        "known",
        "path",
        text=pl.concat_str(
            used.dt.strftime("%Y-%m-%d  "),
            pl.col("size").str.pad_start(8),
            pl.lit("  "),
            pl.when(pl.col("known").is_null()).then(pl.lit(_UNKNOWN)).otherwise(listed),
            pl.lit("  "),
            "shown",
        ),
        line=fields.struct.json_encode(),
    )
