"""What a terminal shows of a document, and what it says of the rest."""

from __future__ import annotations

from functools import partial

import click
import polars as pl
import pytest
from tests.cli.test_screens import printed

from trimtab.purge.index.index_query import QueryAnswer
from trimtab.purge.index.screen import answer_document
from trimtab.show import command_options
from trimtab.show.command_options import Extent
from trimtab.show.document import FACTS, Document, Section, Table, facts, row, table
from trimtab.show.screen_document import print_document

LONG = "/scratch/" + "projects/" * 20


def rows(count: int, first: int = 8) -> Section:
    return Section(tables=(table(("name",), (row(f"row {n}") for n in range(count)), first=first),))


@pytest.fixture
def shown(capsys, monkeypatch):
    def show(document: Document, width: int = 80, extent: Extent | None = None) -> list[str]:
        screen = partial(print_document, document)
        return printed(screen, capsys, monkeypatch, width=width, extent=extent)

    return show


def test_values_of_facts_are_never_broken(shown):
    made = facts([("place", LONG), ("id", "7")])
    assert made is not None
    assert made.columns == FACTS
    lines = shown(Document("There it is.", (Section(tables=(made,)),)))
    assert lines == ["There it is.", f"  place  {LONG}", "  id     7"]


def test_what_is_left_out_is_counted_and_a_whole_screen_does_not_speak_of_more(shown):
    assert shown(Document("All.", (rows(8),)))[-1].strip() == "row 7"
    assert shown(Document("All.", (rows(9, first=9),)))[-1].strip() == "row 8"
    lines = shown(Document("Some.", (rows(10),)))
    assert lines[-2:] == ["... 2 more rows", "--all shows every row and note"]
    everything = shown(Document("Some.", (rows(10),)), extent=Extent(everything=True))
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
def test_all_is_spoken_of_where_it_shows_more(shown, section):
    assert shown(Document("Some.", (section,)))[-1] == "--all shows every row and note"


def test_a_column_with_two_marks_gives_way_before_a_sentence_becomes_narrow(shown):
    cells = ("2026-11-20 08:00", "the servers were restarted one after another", "journal")
    for sign, heads in (("?", ["at", "what", "source"]), ("??", ["at", "what"])):
        made = table(("at", "what", f"source{sign}"), [row(*cells)])
        lines = shown(Document("One.", (Section(tables=(made,)),)), width=50)
        assert lines[1].split() == heads


def test_a_command_that_has_no_all_prints_everything(capsys):
    document = Document("Many.", (rows(100),))

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


def test_the_name_of_a_column_of_a_query_is_that_name(shown):
    frame = pl.DataFrame({"many?": ["yes"], "n>": [1], "a > b": ["x"]})
    lines = shown(answer_document(QueryAnswer(frame, cut_off=False, notes=())))
    assert lines[1].split() == ["many?", "n>", "a", ">", "b"]
