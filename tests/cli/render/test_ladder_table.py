"""The ladder on terminals of every width: columns give way, words are never squeezed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from rich.cells import cell_len
from tests.cli.test_screens import printed

from trimtab.cli.ladder import print_ladder
from trimtab.cli.options import Extent
from trimtab.judge.ladder.build import build_ladder
from trimtab.loop.ladder import of_file
from trimtab.model.ladder import Ladder
from trimtab.site.ladder_file import load_ladder

ROOT = Path(__file__).resolve().parents[3]
ALL = "layer rate interval of what carries it of data sheet"


@pytest.fixture(scope="module")
def perlmutter() -> Ladder:
    return build_ladder(of_file(load_ladder(ROOT / "docs" / "examples" / "perlmutter.toml")))


@pytest.fixture
def lines_at(
    perlmutter: Ladder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[[int], list[str]]:
    """Return what gives all lines of the ladder on a terminal of a width."""
    show, everything = partial(print_ladder, perlmutter), Extent(everything=True)
    return lambda width: printed(show, capsys, monkeypatch, width=width, extent=everything)


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (56, "layer rate of what carries it"),
        (70, "layer rate of what carries it of data sheet"),
        (80, ALL),
        (120, f"{ALL} measured by"),
        (200, f"{ALL} measured by"),
    ],
)
def test_columns_give_way_in_order(
    lines_at: Callable[[int], list[str]], width: int, columns: str
) -> None:
    lines = lines_at(width)
    header = lines[lines.index("write bandwidth") + 1]
    assert header.split() == columns.split()


@pytest.mark.parametrize("width", [56, 70, 80, 100, 120, 200])
def test_what_measured_can_be_read_at_every_width(
    lines_at: Callable[[int], list[str]], width: int
) -> None:
    lines = lines_at(width)
    assert sum("LNet selftest, 42 GB/s" in line for line in lines) == 1
    assert any("obdfilter-survey, 31 GB/s" in line for line in lines)


@pytest.mark.parametrize("width", [40, 56, 80, 120])
def test_no_line_is_wider_than_the_terminal(
    lines_at: Callable[[int], list[str]], width: int
) -> None:
    assert all(cell_len(line) <= width for line in lines_at(width))


def test_on_a_narrow_terminal_it_stands_below_its_layer(
    lines_at: Callable[[int], list[str]],
) -> None:
    lines = lines_at(80)
    client = next(index for index, line in enumerate(lines) if line.startswith("client "))
    assert "64.3 % of network" in lines[client + 1]
    assert lines[client + 2] == "    IOR, 20 to 250 clients, 27 GB/s"


@pytest.mark.parametrize("width", [56, 80, 120])
def test_what_was_printed_and_what_it_is_of_can_be_read(
    lines_at: Callable[[int], list[str]], width: int
) -> None:
    lines = lines_at(width)
    row = next(index for index, line in enumerate(lines) if line.split()[:2] == ["88.4", "%"])
    words = " ".join(" ".join(lines[row : row + 3]).split())
    assert "NVMe write bandwidth" in words
    assert "88.82 %" in lines[row]
