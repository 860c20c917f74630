"""What a terminal shows of documents, targets, sizings and progress, and says of the rest."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import UTC, datetime

import click
import polars as pl
import pytest
from tests.support.command import trimtab
from tests.support.narrow import present
from tests.support.screens import Lines, too_wide

from trimtab.answers.page import targets_document
from trimtab.base.error import Interrupted
from trimtab.base.finding import Severity
from trimtab.base.snapshot import Reading, Setting, Snapshot, Target, TargetSnapshot
from trimtab.explain.status import SiteStanding, SiteState, TargetState, Trouble
from trimtab.purge.index import screen
from trimtab.purge.index.index_query import QueryAnswer
from trimtab.purge.index.screen import (
    answer_document,
    import_progress,
    run_progress,
    scan_progress,
    watched,
)
from trimtab.purge.run.situation import RunProgress
from trimtab.show import command_options, screen_document
from trimtab.show import screen_document as bars
from trimtab.show.command_options import Extent
from trimtab.show.document import FACTS, Document, Section, Table, facts, row, table
from trimtab.show.screen_document import print_document, progress_bar
from trimtab.twin.page import shown as figure_text
from trimtab.twin.page import size_document
from trimtab.twin.scenario_key import preset
from trimtab.twin.whatif.ost_amplification import MiniatureSize
from trimtab.twin.whatif.sizing import Sizing, size
from trimtab.twin.whatif.sizing_figure import SizingFigure
from trimtab.twin.whatif.whatif_request import SizingRequest

LONG_PATH = "/scratch/" + "projects/" * 20


def a_section(count: int, first: int = 8) -> Section:
    return Section(tables=(table(("name",), (row(f"row {n}") for n in range(count)), first=first),))


def test_values_of_facts_are_never_broken(on_screen: Lines):
    made = present(facts([("place", LONG_PATH), ("id", "7")]))
    assert made.columns == FACTS
    lines = on_screen(Document("There it is.", (Section(tables=(made,)),)))
    assert lines == ["There it is.", f"  place  {LONG_PATH}", "  id     7"]


def test_what_is_left_out_is_counted_and_a_whole_screen_does_not_speak_of_more(on_screen: Lines):
    assert on_screen(Document("All.", (a_section(8),)))[-1].strip() == "row 7"
    assert on_screen(Document("All.", (a_section(9, first=9),)))[-1].strip() == "row 8"
    lines = on_screen(Document("Some.", (a_section(10),)))
    assert lines[-2:] == ["... 2 more rows", "--all shows every row and note"]
    everything = on_screen(Document("Some.", (a_section(10),)), extent=Extent(everything=True))
    assert len(everything) == 12


@pytest.mark.parametrize(
    "section",
    [
        Section("Behind", lines=("a line",), folded=True),
        Section("Notes", notes=("a", "b", "c", "d")),
        Section("Folds", lines=("a line",), folds=(("more", None),)),
        Section("Caption", tables=(Table(("name",), (row("a"),), "What the name means."),)),
    ],
)
def test_all_is_spoken_of_where_it_shows_more(on_screen: Lines, section: Section):
    assert on_screen(Document("Some.", (section,)))[-1] == "--all shows every row and note"


def test_a_column_with_two_marks_gives_way_before_a_sentence_becomes_narrow(on_screen: Lines):
    cells = ("2026-11-20 08:00", "the servers were restarted one after another", "journal")
    for sign, heads in (("?", ["at", "what", "source"]), ("??", ["at", "what"])):
        made = table(("at", "what", f"source{sign}"), [row(*cells)])
        lines = on_screen(Document("One.", (Section(tables=(made,)),)), width=50)
        assert lines[1].split() == heads


def test_a_command_that_has_no_all_prints_everything(capsys):
    document = Document("Many.", (a_section(100),))

    @click.command()
    def without() -> None:
        print_document(document)

    @click.command()
    @command_options.brief_options
    @click.option("--all", "everything", is_flag=True)
    def with_another_all(everything: bool) -> None:
        print_document(document)

    for command, last in (
        (without, "row 99"),
        (with_another_all, "--json shows every row and note"),
    ):
        command.main([], standalone_mode=False)
        assert capsys.readouterr().out.splitlines()[-1].strip() == last


def test_the_name_of_a_column_of_a_query_is_that_name(on_screen: Lines):
    frame = pl.DataFrame({"many?": ["yes"], "n>": [1], "a > b": ["x"]})
    lines = on_screen(answer_document(QueryAnswer(frame, cut_off=False, notes=())))
    assert lines[1].split() == ["many?", "n>", "a", ">", "b"]


AT = datetime(2026, 11, 20, 3, tzinfo=UTC)
LONG = (
    Trouble(
        "closed",
        Severity.WARNING,
        "closed to new objects of MDT0000, MDT0001 only: "
        "osp.scratch-OST0003-osc-MDT0000.max_create_count=0 on mds1",
    ),
    Trouble("over-limit", Severity.WARNING, "83.1 % full, limit 75.0 %"),
    Trouble("media-errors", Severity.WARNING, "12 media errors on /dev/nvme0n1"),
)


WIDTHS = (60, 69, 70, 80, 100, 120, 200)


def target(name: str, server: str, troubles: tuple[Trouble, ...] = ()) -> TargetState:
    numbers = {
        "capacity_bytes": 64 * 2**40,
        "used_bytes": 40 * 2**40,
        "available_bytes": 24 * 2**40,
        "inodes_total": 1000,
        "inodes_free": 400,
        "bytes_discarded_total": 123 * 2**40,
    }
    readings = [Reading(key, value, "test") for key, value in numbers.items()]
    readings += [
        Reading("create_enabled", False, "test", label="MDT0000"),
        Reading("create_enabled", True, "test"),
    ]
    options = "mount/options"
    settings = {options: Setting(options, "fstrim,discard", "test")}
    return TargetState(
        TargetSnapshot(Target(name, "ost", server), tuple(readings), settings), troubles
    )


def targets_screen(*targets: TargetState) -> Document:
    """Return the screen of a site with these targets."""
    snapshot = Snapshot(AT, "lustre", True, tuple(one.seen for one in targets))
    return targets_document(SiteStanding("scratch", SiteState("scratch", snapshot, targets)))


def together(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("server", ["oss01", "oss01.storage.site.example.org"])
def test_no_line_is_cut_and_every_word_of_a_trouble_is_there(
    on_screen: Lines, width: int, server: str
) -> None:
    made = targets_screen(target("OST0003", server, LONG), target("MDT0000", "mds1"))
    lines = on_screen(made, width=width)
    text = "\n".join(lines)
    assert too_wide(lines, width) == []
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    assert together("OST0003: " + "; ".join(trouble.text for trouble in LONG)) in together(text)
    for name in ("OST0003", "MDT0000", "mds1", "62.5 %", "60.0 %"):
        assert name in text
    # Who copies half of a parameter's name sets nothing.
    parameters = [word for trouble in LONG for word in trouble.text.split() if "=" in word]
    assert parameters
    assert all(any(word in line for line in lines) for word in parameters)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_long_mount_point_is_folded_and_not_cut(on_screen: Lines, width: int) -> None:
    name = "/mnt/" + "a-long-directory/" * 8 + "end"
    lines = on_screen(targets_screen(target(name, "oss01", LONG)), width=width)
    assert too_wide(lines, width) == []
    assert "\N{HORIZONTAL ELLIPSIS}" not in "\n".join(lines)
    assert together(f"{name}: {LONG[0].text}") in together("".join(lines))


def a_sizing() -> Sizing:
    """Return what is found for a system of 274 OSTs."""
    asked = SizingRequest(
        daily_writes_bytes=2.5e15, drive=preset("pm1733").model, osts=274, limit=0.9,
        write_bytes_per_s=9e12,
    )  # fmt: skip
    return size(asked, miniature=MiniatureSize(groups=4, superblock_units=32, seeds=1))


@pytest.fixture(scope="module")
def found() -> Sizing:
    return a_sizing()


def test_figures_stand_in_peoples_units(found, on_screen: Lines):
    usual = "\n".join(on_screen(size_document(found), width=120))
    for words in ("274 OSTs of 12 x pm1733", "32.9 PiB (37.0 PB)", "not met",
                  "not the requested 9,000 GB/s", "<- asked"):  # fmt: skip
        assert words in usual
    assert found.assumptions[0][:40] not in usual
    text = "\n".join(on_screen(size_document(found), width=120, extent=Extent(everything=True)))
    writes = figure_text(found.figure("host_drive_writes_per_day"))
    unknown = "- (unknown without --files or --mean-file)"
    for words in (writes, "too small for these bytes", "assumed", unknown):
        assert words in text
    assert "raw minus sold size" not in text


def test_every_figure_is_explained_when_asked(found, on_screen: Lines):
    everything = Extent(everything=True)
    lines = on_screen(size_document(found, explained=True), width=200, extent=everything)
    text = " ".join(" ".join(lines).split())
    for figure in (figure for section in found.sections for figure in section.figures):
        assert " ".join(figure.title.split()) in text
        if figure.value is not None:
            assert figure.formula, figure.name
            assert figure.source, figure.name
            assert " ".join(f"{figure.formula}; {figure.source}".split()) in text


def test_no_value_is_a_reason_and_no_zero():
    figure = SizingFigure("x", "x", None, "B", "", "", "nobody knows")
    assert figure_text(figure) == "- (nobody knows)"


@pytest.mark.cli
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--osts", 3), "--daily-writes"),
        (("--osts", 3, "--daily-writes", "1TB", "--raid", "8-2"), "--raid"),
        (("--osts", 3, "--daily-writes", "1TB", "--raid", "10+2+1"), "--drives-per-ost"),
        (("--osts", 3, "--daily-writes", "1TB", "--drive", "floppy"), "pm1733"),
        (("--osts", 3, "--daily-writes", "1TB", "--write-bandwidth", "4 TB"), "--write-bandwidth"),
        (("--osts", 3, "--daily-writes", "1TB", "--fullness", "1"), "--fullness"),
        (("--daily-writes", "1TB"), "--retention"),
        (("--capacity", "1TB", "--osts", 1, "--daily-writes", "1TB"), "--capacity"),
    ],
)
def test_refusals_name_the_option(arguments, said, tmp_path):
    ended = trimtab("size", *arguments, store=tmp_path / "t.db")
    assert ended.code == 2
    assert said in ended.stderr


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch):
    """A clock that a test sets."""
    seconds = [100.0]
    monkeypatch.setattr(screen_document.time, "monotonic", lambda: seconds[0])
    return seconds


def test_a_long_step_says_now_and_then_how_far_it_is_and_what_is_left(capsys, clock):
    with progress_bar() as show:
        for done in range(41):
            show("simulating", done / 100)
            clock[0] += 1.0
    assert capsys.readouterr().err.splitlines() == [
        "[  0%] simulating",
        "[ 10%] simulating, about 90.0 s left",
        "[ 20%] simulating, about 80.0 s left",
        "[ 30%] simulating, about 70.0 s left",
        "[ 40%] simulating, about 60.0 s left",
    ]


def test_what_was_done_before_has_no_share_in_the_pace(capsys, clock):
    with progress_bar() as show:
        show("3 of 4 runs", 0.75)
        clock[0] += 10.0
        show("3 of 4 runs", 0.80)
    assert capsys.readouterr().err.splitlines()[-1].endswith("about 40.0 s left")


def test_nothing_is_estimated_in_the_first_seconds_or_at_the_end(capsys, clock):
    with progress_bar() as show:
        show("looking", 0.0)
        clock[0] += 1.0
        show("judging", 0.5)
        clock[0] += 30.0
        show("judged", 1.0)
    assert "left" not in capsys.readouterr().err


def test_an_interruption_says_what_is_kept_and_how_to_go_on():
    with pytest.raises(Interrupted) as caught, progress_bar(remains="the same command goes on"):
        raise Interrupted("stopped by SIGINT")
    assert caught.value.hint == "the same command goes on"
    with pytest.raises(Interrupted) as caught, progress_bar():
        raise Interrupted("stopped by SIGINT", "go on with the scan")
    assert caught.value.hint == "go on with the scan"


@dataclass
class Seen:
    """What is read of the progress of a scan."""

    entries: int
    elapsed_s: float
    pending: int = 3
    unread: int = 0


def shown_of_scan(*seen: Seen, total: int = 10_000, whole: bool = True) -> tuple[str, float | None]:
    """Return the last line, and the part that is done, of a scan that was seen so."""
    lines: list[tuple[str, float | None]] = []
    show = scan_progress(lambda text, part: lines.append((text, part)), total, whole=whole)
    for each in seen:
        show(each)  # type: ignore[arg-type]
    return lines[-1]


def test_a_scan_says_its_rate_and_how_long_it_takes():
    text, part = shown_of_scan(Seen(0, 0.0), Seen(2000, 2.0))
    for words in ("2,000 names", "1,000/s", "about 8.0 s left"):
        assert words in text
    assert part == pytest.approx(0.2)
    # What was done before a scan that goes on has no share in its rate.
    assert "1,000/s" in shown_of_scan(Seen(5000, 60.0), Seen(6000, 61.0))[0]
    assert "left" not in shown_of_scan(Seen(0, 0.0), Seen(2000, 2.0), total=0)[0]


def test_of_a_part_of_a_file_system_the_estimate_is_a_bound():
    text, part = shown_of_scan(Seen(0, 0.0), Seen(2000, 2.0, unread=1), whole=False)
    assert "at most 8.0 s left" in text
    assert "1 not read" in text
    assert part is None


def test_a_scan_that_stands_still_says_for_how_long():
    seen = [Seen(0, 0.0), Seen(2000, 2.0), Seen(2000, 11.9), Seen(2000, 65.0), Seen(2001, 66.0)]
    *moving, (text, part), going_on = (shown_of_scan(*seen[:count]) for count in range(1, 6))
    assert [line for line, _ in moving if "nothing for" in line] == []
    assert "2,000 names, nothing for 63 s" in text
    assert ("left" in text, part) == (False, None)
    assert "nothing for" not in going_on[0]
    assert "left" in going_on[0]


def test_a_run_says_how_far_it_is_to_the_target_or_the_end_of_its_plan():
    lines: list[tuple[str, float | None]] = []
    show = run_progress(lambda text, part: lines.append((text, part)))
    for left, freed, needed in ((100, 0, 2**20), (90, 2**19, 2**19), (10, 2**19, None)):
        show(
            RunProgress(
                rows=100, rows_left=left, files=100 - left, freed_bytes=freed, needed_bytes=needed,
                doing="checking", latency_s_p99=0.0125,
            )
        )  # fmt: skip
    (text, half), (_, end) = lines[1:]
    assert (half, end) == (0.5, 0.9)
    assert "99 % within 12.5 ms" in text
    assert "512 KiB to the target" in text


def test_progress_that_stands_still_goes_on_to_be_shown(monkeypatch):
    monkeypatch.setattr(screen, "STILL_S", 0.02)
    told = threading.Event()
    lines = []

    def show(text, part):
        lines.append((text, part))
        if "nothing for" in text:
            told.set()

    with watched(show, every_s=0.01) as shown:
        assert not lines  # nothing was shown yet, so nothing stands still
        shown("deleting, 5 files", 0.5)
        assert told.wait(30.0)
    assert lines[0] == ("deleting, 5 files", 0.5)
    assert lines[1][0].startswith("deleting, 5 files, nothing for ")
    assert lines[1][1] == 0.5
    assert not [one for one in threading.enumerate() if one.name == "progress"]


def test_a_log_gets_a_line_at_once_and_then_now_and_then(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(bars.time, "monotonic", lambda: now[0])
    with progress_bar(counts=True) as show:
        for now[0] in (0.0, 1.0, 9.0, 10.0, 15.0):
            show(f"at {now[0]:.0f}", 0.5)
        import_progress(show)
    assert capsys.readouterr().err == "[ 50%] at 0\n[ 50%] at 10\n"
    monkeypatch.setattr(bars, "wants_json", lambda: True)
    with progress_bar(counts=True) as show:
        show("nothing", None)
    assert capsys.readouterr().err == ""
