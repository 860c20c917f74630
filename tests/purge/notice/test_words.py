import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import get_args

import polars as pl
from tests.purge.plan.making import BEFORE_S, MADE_AT, Row, draft, frame_of, make
from tests.support.manifests import manifest

from trimtab.purge.plan.candidate import ListChange
from trimtab.purge.plan.deletion_plan import PlanDraft
from trimtab.purge.plan.notice_mail import State
from trimtab.purge.plan.notice_text import (
    NoticeFacts,
    lines_of,
    list_header,
    mail_subject,
    mail_text,
)
from trimtab.purge.purge_policy import Policy
from trimtab.purge.rules_in_force import ReadRecording, rules_in_force

READS_DO_NOT_COUNT = replace(draft().rules, counted=("mtime", "ctime"))


def facts(tmp_path: Path, made: PlanDraft | None = None, **changed: object) -> NoticeFacts:
    rows = [Row(b"one", 1000, BEFORE_S - 86400 * 100), Row(b"two", 1000)]
    plan = make(tmp_path / "plan", rows, made).plan
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
    (tmp_path / "a").mkdir()
    reads = " ".join(list_header(facts(tmp_path / "a")).split())
    assert "A file that you read or change before its deletion is kept" in reads
    assert "does not keep" not in reads
    made = draft(rules=READS_DO_NOT_COUNT)
    (tmp_path / "b").mkdir()
    unread = " ".join(list_header(facts(tmp_path / "b", made)).split())
    assert "Reading it does not keep it" in unread
    assert "read or change" not in unread


def test_a_list_has_the_words_of_the_policy(tmp_path: Path) -> None:
    policy = Policy(name="scratch", root="/scratch", target=0.7)
    index = manifest("/scratch", draft().rules.as_of_s)
    rules = rules_in_force(policy, index, ReadRecording(), now_s=draft().rules.as_of_s)
    assert not rules.reads_count
    words = replace(READS_DO_NOT_COUNT, words=rules.words)
    text = " ".join(list_header(facts(tmp_path, draft(rules=words))).split())
    assert "Reading a file does not extend its life" in text
    assert "Reads do not count because the site does not declare" in text
    assert "Reading it does not keep it" in text
    assert text.count("(hard links) are kept") == 1


def example(tmp_path: Path) -> NoticeFacts:
    """Return the notice that the page about notices shows."""
    policy = Policy(name="scratch", root="/scratch", target=0.7)
    index = manifest("/scratch", draft().rules.as_of_s)
    reads = ReadRecording(declared=True)
    rules = rules_in_force(policy, index, reads, now_s=draft().rules.as_of_s)
    return facts(tmp_path, draft(rules=replace(draft().rules, words=rules.words)))


def test_the_page_shows_what_a_list_looks_like(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "purge-notices.md").read_text()
    assert list_header(example(tmp_path)) in page


def test_the_page_names_every_field_of_the_lines(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "purge-notices.md").read_text()
    frame = frame_of([Row(b"x")]).with_columns(known=pl.lit(None, pl.Boolean))
    (lines,) = lines_of(frame, b"/scratch/")
    assert ", ".join(f"`{name}`" for name in json.loads(lines.lines)) in page
    for state in get_args(State):
        assert f"`{state}`" in page


def test_a_mail_has_totals_and_the_place_but_no_name(tmp_path: Path) -> None:
    told = facts(tmp_path)
    text = mail_text(told, "/var/lib/notices/2026-11-22-x")
    assert "/var/lib/notices/2026-11-22-x/ada.txt" in text
    assert "/var/lib/notices/2026-11-22-x/ada.nul" in text
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
    assert "Since the last list" not in text
    assert "you hold" not in text
    assert "Questions" not in text
    assert "(no account) (1000)" in text
