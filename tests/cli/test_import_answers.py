"""What an import says: what of it can never be judged, why, and commands that work as printed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tests.formats.recorded import FIXTURES
from tests.support.command import Ended, trimtab

AT = "2026-11-20T06:00:00Z"
LFS_DF = """\
[root@client ~]# lfs df
UUID                   1K-blocks        Used   Available Use% Mounted on
demo-MDT0000_UUID       41699840        3840    41693952   1% /mnt/demo[MDT:0]
demo-OST0000_UUID       98706432     5615616    93088768   6% /mnt/demo[OST:0]

filesystem_summary:     98706432     5615616    93088768   6% /mnt/demo

"""
JOBS = """\
JobIDRaw|State|Start|End|NNodes
1|COMPLETED|2026-02-28T23:00:00|2026-03-01T00:00:00|1
2|COMPLETED|2026-03-01T06:00:00|2026-03-01T07:00:00|4
"""
IOR = (FIXTURES / "ior" / "4.0.0" / "direct.out").read_bytes()
MDTEST = (FIXTURES / "mdtest" / "4.0.0" / "directories.out").read_bytes()
CHOICES = {"ZONE": "Europe/Zurich", "TIME": "2026-03-01T12:00Z"}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "t.db"


def imported(store: Path, content: str | bytes, *options: str) -> Ended:
    path = store.parent / "a file.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return trimtab("import", path, "--site", "demo", *options, store=store)


def flat(text: str) -> str:
    """Return a screen as if its terminal had no width."""
    return " ".join(text.split())


def printed(text: str, before: str) -> list[str]:
    """Return the arguments of the command that is printed behind a word, placeholders chosen."""
    text = flat(text)
    command = text[text.index(f"{before}trimtab ") + len(before) :].split(" next: ")[0]
    return [CHOICES.get(word, word) for word in shlex.split(command)[1:]]


def test_what_is_not_of_runs_is_shown_without_a_site_file(store: Path) -> None:
    refused = imported(store, LFS_DF)
    assert "None of them can be judged: 1 without a time" in flat(refused.stdout)
    assert "All files are ok" not in refused.stdout
    kept = imported(store, LFS_DF, "--at", AT)
    shown = trimtab(*printed(kept.stdout, "next: "), store=store)
    assert (shown.code, "OST0000" in shown.stdout) == (0, True)
    assert "TARGET" in shown.stdout
    status = trimtab("status", "demo", store=store)
    assert "Nothing is kept" not in status.stdout
    command = re.search("trimtab (targets .*) shows it", status.stdout)
    assert command is not None
    assert trimtab(*command[1].split(), store=store).stdout == shown.stdout
    judged = trimtab("judge", "demo", store=store)
    assert judged.code == 2
    assert trimtab(*printed(judged.stderr, "hint: "), store=store).stdout == shown.stdout


def test_jobs_are_imported_with_the_zone_that_the_hint_asks_for(store: Path) -> None:
    refused = imported(store, JOBS)
    assert (refused.code, "give it with --timezone" in flat(refused.stdout)) == (5, True)
    again = trimtab(*printed(refused.stderr, "hint: "), store=store)
    assert again.code == 0, again.stderr
    shown = flat(trimtab(*printed(again.stdout, "next: "), store=store).stdout)
    assert "2026-02-28 23:00" in shown
    assert "busy_nodes 6 values (mean 0, most 0)" in shown


def test_results_without_a_time_are_counted_and_the_command_mends_them(store: Path) -> None:
    undated = imported(store, IOR)
    assert "None of them can be judged: 1 with a time in a zone that is not known." in flat(
        undated.stdout
    )
    judged = trimtab("judge", "demo", store=store)
    assert (judged.code, "1 without a time" in judged.stderr) == (2, True)
    mended = trimtab(*printed(undated.stdout, "so that they have a time: "), store=store)
    assert "All files are ok." in mended.stdout
    assert trimtab(*printed(mended.stdout, "next: "), store=store).code == 0
    # A later import that does not say the zone takes nothing back.
    assert "cannot be judged" not in imported(store, IOR).stdout


def test_summaries_alone_are_never_judged_and_judge_ends_with_what_it_left_out(
    store: Path,
) -> None:
    summaries = imported(store, MDTEST, "--timezone", "UTC")
    assert "None of them can be judged: 1 with summaries alone." in flat(summaries.stdout)
    assert "mdtest prints each repetition only with -v" in summaries.stdout
    imported(store, IOR, "--timezone", "UTC")
    last = flat(trimtab("judge", "demo", store=store).stdout)[-120:]
    assert "left out: 1 with summaries alone (for several iterations run mdtest with -v)" in last


def test_of_no_file_nothing_is_said_to_be_well(store: Path) -> None:
    empty = store.parent / "empty"
    empty.mkdir()
    ended = trimtab("import", empty, store=store)
    assert ended.code != 0
    assert "ok" not in ended.stdout


def test_the_next_command_is_of_the_site_and_the_store_that_were_imported_into(
    store: Path,
) -> None:
    """Not of whatever other site the store has, and not of another store."""
    imported(store, IOR, "--timezone", "UTC", "--site", "another")
    other = store.parent / "other store.db"
    ended = imported(store, IOR, "--timezone", "UTC", "--site", "zebra", "--store", str(other))
    arguments = printed(ended.stdout, "next: ")
    assert arguments == ["judge", "zebra", "--store", str(other)]
    assert trimtab(*arguments, store=store).code == 0
