"""What lists and mails say, and that the page about notices shows the same.

Lists are held against a slow writer that takes one row at a time. Names of any bytes are one
visible line each, and an account whose name is no plain word names no file.
"""

import base64
import json
import re
import subprocess
import tempfile
import unicodedata
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.purge.notice.making import Book
from tests.purge.plan.making import BEFORE_S, MADE_AT, Row, draft, frame_of, make
from tests.support.codes import raises
from tests.support.manifests import manifest
from tests.support.narrow import present

from trimtab.base.error import DataError, RefusedError
from trimtab.base.units import format_bytes
from trimtab.purge.owner import Account, file_names, find_account, find_accounts
from trimtab.purge.plan.candidate import ListChange
from trimtab.purge.plan.deletion_plan import PLAIN, PlanDraft, escape, unescape
from trimtab.purge.plan.notice_mail import State
from trimtab.purge.plan.notice_text import (
    ListLines,
    NoticeFacts,
    lines_of,
    list_header,
    mail_subject,
    mail_text,
    shown,
    size_texts,
)
from trimtab.purge.purge_policy import Policy
from trimtab.purge.rules_in_force import ReadRecording, RulesInForce, rules_in_force

component = st.binary(min_size=1, max_size=6).map(
    lambda name: name.replace(b"/", b"_").replace(b"\0", b"_")
)
rows = st.lists(
    st.builds(
        Row,
        path=st.lists(component, min_size=1, max_size=3).map(b"/".join),
        uid=st.sampled_from([0, 1000, 2**32 - 2]),
        last_use_s=st.integers(-(2**33), 2**33),
        size_bytes=st.integers(0, 2**63),
        allocated_bytes=st.integers(0, 2**63),
    ),
    max_size=12,
)


def slowly(row: dict[str, Any], prefix: bytes) -> tuple[str, dict[str, Any], bytes]:
    """Return the three forms of one candidate."""
    path = prefix + (row["parent"] + b"/" if row["parent"] else b"") + row["name"]
    used = datetime.fromtimestamp(row["last_use_s"], UTC)
    text, known = escape(path), row["known"]
    listed = {True: "before", False: "new", None: "-"}[known]
    line = f"{used:%Y-%m-%d}  {format_bytes(row['size_bytes']):>8}  {listed:<6}  {text}"
    plain = text.encode() == path
    fields = {
        "path": text,
        "path_base64": None if plain else base64.b64encode(path).decode(),
        "size_bytes": row["size_bytes"],
        "allocated_bytes": row["allocated_bytes"],
        "last_use_s": row["last_use_s"],
        "last_use": f"{used:%Y-%m-%dT%H:%M:%SZ}",
        "listed_before": known,
    }
    return line, fields, path


@pytest.mark.system
@given(
    rows,
    st.sampled_from([None, True, False]),
    st.sampled_from([b"/", b"/scratch/", "/ü/".encode()]),
)
def test_lists_are_those_of_a_slow_writer(
    candidates: list[Row], known: bool | None, prefix: bytes
) -> None:
    frame = frame_of(candidates).with_columns(known=pl.lit(known, pl.Boolean))
    result = {one.uid: one for one in lines_of(frame, prefix)}
    assert sorted(result) == sorted({row.uid for row in candidates})
    for uid, lines in result.items():
        wanted = [slowly(row, prefix) for row in frame.to_dicts() if row["uid"] == uid]
        assert lines.files == len(wanted)
        assert lines.new_files == (len(wanted) if known is False else 0)
        assert lines.text.decode() == "".join(f"{line}\n" for line, _, _ in wanted)
        assert read_lines(lines) == [fields for _, fields, _ in wanted]
        assert lines.names == b"".join(path + b"\0" for _, _, path in wanted)
        for line, fields, path in wanted:
            assert unescape(line[30:]) == path
            exact, text = fields["path_base64"], fields["path"]
            assert path == (text.encode() if exact is None else base64.b64decode(exact))


def read_lines(lines: ListLines) -> list[dict[str, object]]:
    assert lines.lines.endswith(b"\n")
    return [json.loads(line) for line in lines.lines.decode().split("\n")[:-1]]


def test_a_list_is_in_order_of_age_and_marks_what_is_new() -> None:
    frame = frame_of([Row(b"b", 1, 200), Row(b"a", 1, 100), Row(b"c", 2, 50), Row(b"d/e", 1, 300)])
    known = frame.with_columns(known=pl.col("last_use_s") > 150)
    ada, bob = sorted(lines_of(known, b"/s/"), key=lambda lines: lines.uid)
    lines = ada.text.decode().splitlines()
    assert [line[-4:].strip() for line in lines] == ["/s/a", "/s/b", "/d/e"]
    assert [line[22:28] for line in lines] == ["new   ", "before", "before"]
    assert ada.names == b"/s/a\0/s/b\0/s/d/e\0"
    assert (ada.new_files, bob.new_files) == (1, 1)


def test_hostile_names_keep_one_line_each() -> None:
    names = [b"a\nb", b"\x1b[2J", b"\xff", b"<b>", b"-rf", b'"quoted"', b"a,b", "\u202ea".encode()]
    frame = frame_of([Row(name, 1, number) for number, name in enumerate(names)])
    (lines,) = lines_of(frame.with_columns(known=pl.lit(None, pl.Boolean)), b"/s/")
    assert len(lines.text.splitlines()) == len(lines.lines.splitlines()) == len(names)
    assert b"\x1b" not in lines.text + lines.lines
    assert lines.names.split(b"\0")[:-1] == [b"/s/" + name for name in names]
    assert all(line.isprintable() for line in lines.text.decode().splitlines())


near = st.sampled_from([1024**n * k for n in range(6) for k in (1, 1000, 1023, 9.995, 99.95)])


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 2**20) | near.map(int), min_size=1))
def test_sizes_are_those_of_one_at_a_time(sizes: list[int]) -> None:
    sizes = [min(2**64 - 1, size + step) for size in sizes for step in range(3)]
    result = size_texts(pl.Series(sizes, dtype=pl.UInt64))
    assert result.to_list() == [format_bytes(size) for size in sizes]


def test_so_are_those_where_rounding_is_a_tie() -> None:
    ties = [k * 1024**n // 1000 + d for n in (1, 2, 3) for k in range(1000, 9995) for d in (0, 1)]
    # Times ten the second is a tie, which rounds to the first; by itself it lies above.
    ties += [int(15.8 * 1024**6), 18_273_805_848_018_526_208]
    result = size_texts(pl.Series(ties, dtype=pl.UInt64))
    assert result.to_list() == [format_bytes(size) for size in ties]


@given(st.lists(st.binary(max_size=8), max_size=8))
def test_names_are_escaped_as_one_at_a_time(paths: list[bytes]) -> None:
    utf8 = [path for path in paths if path.isascii()] + [b"", b" ", b"a b", "ä".encode()]
    for some in (paths, utf8):
        assert shown(pl.Series(some, dtype=pl.Binary)).to_list() == [escape(path) for path in some]


@pytest.mark.parametrize("size", [0, 1023, 1024, 2**40, 2**64 - 1])
def test_every_size_keeps_its_column(size: int) -> None:
    frame = frame_of([Row(b"x", 1, 0, size_bytes=size)])
    (lines,) = lines_of(frame.with_columns(known=pl.lit(None, pl.Boolean)), b"/s/")
    assert lines.text.decode()[30:] == "/s/x\n"


HOSTILE = [
    b"new\nline",
    b"\x1b[2J\x1b]0;title\x07",
    b"invalid \xff\xfe utf-8",
    b"<script>alert(1)</script>",
    b"-rf",
    b" leading",
    b"trailing ",
    b" ",
    b"back\\slash\\n",
    "right-to-left \u202e gnp.exe".encode(),
    "zero\u200bwidth".encode(),
    "no-break\u00a0space".encode(),
    "line\u2028separator".encode(),
    b"surrogate \xed\xa0\x80",
    b"overlong \xc0\xaf",
    b"tab\tand\rreturn\x00",
    b"$(rm -rf /) `id` 'quoted' \"twice\"",
    b"\\x41",
    b"",
]


@given(st.binary(max_size=60))
def test_every_name_comes_back_from_its_text(name: bytes) -> None:
    assert unescape(escape(name)) == name


@given(st.text(max_size=30))
def test_so_does_every_text(text: str) -> None:
    name = text.encode("utf-8", "surrogatepass")
    assert unescape(escape(name)) == name


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_one_visible_line(name: bytes) -> None:
    text = escape(name)
    assert unescape(text) == name
    assert text.isprintable()
    assert text == text.strip()
    assert text.encode("utf-8").decode("utf-8") == text
    assert all(unicodedata.category(one) != "Cf" for one in text)


def test_an_ordinary_name_is_its_own_text() -> None:
    for name in ("run 1/out.nc", "Übung/データ.h5", "a" * 300, "x"):
        assert escape(name.encode()) == name


@given(st.binary(max_size=40))
def test_the_short_cut_takes_nothing_that_the_long_way_changes(name: bytes) -> None:
    if PLAIN.match(name):
        assert escape(name) == name.decode("ascii")
        assert b"\\" not in name
        assert name.strip(b" ") == name


@pytest.mark.parametrize("text", ["\\", "a\\q", "\\x4", "\\x4G", "\\u202e", "a\\\\\\", "\udcff"])
def test_what_escape_does_not_write_is_refused(text: str) -> None:
    with pytest.raises(DataError):
        unescape(text)


@pytest.mark.system
def test_bash_turns_it_back_as_the_lists_say() -> None:
    for name in HOSTILE:
        if b"\0" in name:  # no file has such a name, and no argument either
            continue
        command = ["bash", "-c", 'printf %b "$1"', "bash", escape(name)]
        assert subprocess.run(command, capture_output=True, check=True).stdout == name


def test_this_host_knows_root_and_not_everybody() -> None:
    result = present(find_account(0))
    assert (result.uid, result.name) == (0, "root")
    assert find_account(3_999_999_999) is None
    assert find_account(2**64) is None


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "a/b", ".hidden", "-rf", "DOMAIN\\ada", "ada@example.org", "a b", "a\nb",
     "", "uid-7", "UID-7", "é", "x" * 65, "\x1b[2J", "\udcff"],
)  # fmt: skip
def test_a_name_that_is_no_plain_word_names_no_file(name: str) -> None:
    assert file_names({5: Account(5, 5, name)}) == {5: "uid-5"}


def test_two_users_never_share_a_file() -> None:
    result = {1: Account(1, 1, "ada"), 2: Account(2, 2, "ada"), 3: Account(3, 3, "ADA"), 4: None}
    names = file_names(result)
    assert names == {1: "uid-1", 2: "uid-2", 3: "uid-3", 4: "uid-4"}
    assert file_names({1: Account(1, 1, "ada.l-2_x"), 2: None}) == {1: "ada.l-2_x", 2: "uid-2"}


def test_a_directory_service_that_is_down_is_noticed() -> None:
    book = Book(ada=1, bob=2, eve=3)
    assert find_accounts([1, 2, 3, 77, 78, 79], book)[77] is None
    with raises(RefusedError, "accounts-unknown"):
        find_accounts([1, 2, 3, 77, 78, 79, 80], book)
    assert find_accounts([77, 78, 79, 80, 81], book, accept_unknown=True)[77] is None
    assert find_accounts([77, 78, 79], book) == {77: None, 78: None, 79: None}


READS_DO_NOT_COUNT = replace(draft().rules, counted=("mtime", "ctime"))


def facts(tmp_path: Path, made: PlanDraft | None = None, **changed: object) -> NoticeFacts:
    rows = [Row(b"one", 1000, BEFORE_S - 86400 * 100), Row(b"two", 1000)]
    plan = make(Path(tempfile.mkdtemp(dir=tmp_path)) / "plan", rows, made).plan
    values = {
        "plan": plan,
        "user": replace(plan.candidates.users[0], held_bytes=3 << 40),
        "account": "ada",
        "name": "ada",
        "published_at": MADE_AT,
        "not_before": MADE_AT + timedelta(days=14),
        "change": ListChange(1200, 11145, 300),
        "contact": "consult@example.org",
    }
    return NoticeFacts(**(values | changed))  # pyrefly: ignore[bad-argument-type]


def rules_of(reads: ReadRecording) -> RulesInForce:
    """Return the rules of the usual policy where reads are recorded so."""
    policy = Policy(name="scratch", root="/scratch", target=0.7)
    at_s = draft().rules.as_of_s
    return rules_in_force(policy, manifest("/scratch", at_s), reads, now_s=at_s)


def test_a_list_says_what_when_and_why(tmp_path: Path) -> None:
    text = list_header(example(tmp_path))
    flat = " ".join(text.split())
    for words in (
        "YOUR FILES ON /scratch",
        "ada (1000)",
        "2 files, 8.00 KiB of the 3.00 TiB you hold",
        "1,200 new, 11,145 again, 300 gone",
        "Not deleted before 2026-12-06 09:00 UTC",
        "last used before 2026-03-01 00:00 UTC",
        "until the file system is at most 70.0 % full",
        "The file system is 80.0 % full.",
        "tar --create --file ARCHIVE.tar --null --files-from ada.nul",
        "After 2026-12-20 09:00 UTC nothing is deleted",
        "last used before 2026-09-27 06:00 UTC (56.0 d) are eligible",
        "(hard links) are kept",
        "consult@example.org",
        "printf '%b' NAME",
    ):
        assert words in flat, words
    assert text.isascii()
    assert max(len(line) for line in text.splitlines()) <= 90
    assert text.endswith("NAME\n")


def test_how_to_keep_a_file_fits_the_policy(tmp_path: Path) -> None:
    reads = " ".join(list_header(facts(tmp_path)).split())
    assert "A file that you read or change before its deletion is kept" in reads
    assert "does not keep" not in reads
    made = draft(rules=READS_DO_NOT_COUNT)
    unread = " ".join(list_header(facts(tmp_path, made)).split())
    assert "Reading it does not keep it" in unread
    assert "read or change" not in unread


def test_a_list_has_the_words_of_the_policy(tmp_path: Path) -> None:
    rules = rules_of(ReadRecording())
    assert not rules.reads_count
    words = replace(READS_DO_NOT_COUNT, words=rules.words)
    text = " ".join(list_header(facts(tmp_path, draft(rules=words))).split())
    assert "Reading a file does not extend its life" in text
    assert "Reads do not count because the site does not declare" in text
    assert "Reading it does not keep it" in text
    assert text.count("(hard links) are kept") == 1


def example(tmp_path: Path) -> NoticeFacts:
    """Return the notice that the page about notices shows."""
    words = rules_of(ReadRecording(declared=True)).words
    return facts(tmp_path, draft(rules=replace(draft().rules, words=words)))


def test_the_page_shows_what_a_list_looks_like_and_names_every_field(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "purge-notices.md").read_text()
    assert list_header(example(tmp_path)) in page
    frame = frame_of([Row(b"x")]).with_columns(known=pl.lit(None, pl.Boolean))
    (lines,) = lines_of(frame, b"/scratch/")
    assert ", ".join(f"`{name}`" for name in json.loads(lines.lines)) in page
    for state in get_args(State):
        assert f"`{state}`" in page


def test_a_mail_has_totals_and_the_place_but_no_name(tmp_path: Path) -> None:
    told = facts(tmp_path)
    text = mail_text(told, "/var/lib/notices/2026-11-22-x")
    for words in ("ada.txt", "ada.nul"):
        assert f"/var/lib/notices/2026-11-22-x/{words}" in text
    assert "/scratch/one" not in text
    assert "2 files, 8.00 KiB" in text
    assert len(text) < 6000
    assert mail_subject(told) == "/scratch: 2 of your files may be deleted after 2026-12-06"


def test_a_mail_about_counts_names_no_file_that_is_not_there(tmp_path: Path) -> None:
    text = mail_text(replace(facts(tmp_path), has_names=False), "/d")
    assert "Their number in each directory" in text
    paths = [line.strip() for line in text.splitlines() if line.startswith("  /d/")]
    assert paths == ["/d/ada.txt", "/d/ada.jsonl"]
    assert "On request their names are written to ada.nul" in " ".join(text.split())


def test_words_of_the_site_cannot_steer_a_terminal(tmp_path: Path) -> None:
    made = draft(
        rules=replace(draft().rules, words=("evil \x1b[2J words",)),
        horizon=replace(draft().horizon, words=("more \u202e of them\nTo: x",)),
    )
    told = facts(tmp_path, made, account="a\x1bda\n", contact="call \x07 us")
    for text in (list_header(told), mail_text(told, "/d\x1b"), mail_subject(told)):
        assert not re.search(r"[^\n -~\u00a0-\uffff]|\u202e", text)
    assert "\nTo: x" not in list_header(told)


def test_what_is_not_known_is_left_out(tmp_path: Path) -> None:
    told = facts(tmp_path, change=None, contact=None, account=None)
    told = replace(told, user=replace(told.user, held_bytes=None))
    text = list_header(told)
    for words in ("Since the last list", "you hold", "Questions"):
        assert words not in text
    assert "(no account) (1000)" in text
