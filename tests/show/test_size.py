"""A sizing as people see it, and the refusals of its command."""

from __future__ import annotations

from functools import partial

import pytest
from tests.cli.test_screens import printed
from tests.support.command import trimtab

from trimtab.show.command_options import Extent
from trimtab.show.screen_document import print_document
from trimtab.twin.drive_preset import preset
from trimtab.twin.whatif.ost_amplification import MiniatureSize
from trimtab.twin.whatif.screen_size import shown, size_document
from trimtab.twin.whatif.sizing import Sizing, size
from trimtab.twin.whatif.sizing_figure import SizingFigure
from trimtab.twin.whatif.sizing_request import SizingRequest

COARSE = MiniatureSize(groups=4, superblock_units=32, seeds=1)


@pytest.fixture(scope="module")
def found() -> Sizing:
    asked = SizingRequest(
        daily_writes_bytes=2.5e15, drive=preset("pm1733").model, osts=274, limit=0.9,
        write_bytes_per_s=9e12,
    )  # fmt: skip
    return size(asked, miniature=COARSE)


def test_figures_stand_in_peoples_units(found, capsys, monkeypatch):
    show = partial(print_document, size_document(found))
    usual = "\n".join(printed(show, capsys, monkeypatch, width=120))
    for words in ("274 OSTs of 12 x pm1733", "32.9 PiB (37.0 PB)", "not met",
                  "not the requested 9,000 GB/s", "<- asked"):  # fmt: skip
        assert words in usual
    assert found.assumptions[0][:40] not in usual
    everything = Extent(everything=True)
    text = "\n".join(printed(show, capsys, monkeypatch, width=120, extent=everything))
    for words in (
        shown(found.figure("host_drive_writes_per_day")),
        "too small for these bytes",
        "assumed",
    ):
        assert words in text
    assert "- (unknown without --files or --mean-file)" in text
    assert "raw minus sold size" not in text


def test_every_figure_is_explained_when_asked(found, capsys, monkeypatch):
    show = partial(print_document, size_document(found, explained=True))
    everything = Extent(everything=True)
    text = " ".join(printed(show, capsys, monkeypatch, width=200, extent=everything))
    text = " ".join(text.split())
    for section in found.sections:
        for figure in section.figures:
            assert " ".join(figure.title.split()) in text
            if figure.value is not None:
                assert figure.formula, figure.name
                assert figure.source, figure.name
                assert " ".join(f"{figure.formula}; {figure.source}".split()) in text


def test_no_value_is_a_reason_and_no_zero():
    figure = SizingFigure("x", "x", None, "B", "", "", "nobody knows")
    assert shown(figure) == "- (nobody knows)"


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
