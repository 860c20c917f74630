"""What the pages on comparing and on hints show is what the program prints and takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from trimtab.cli import trimtab
from trimtab.judge.comparison import CompareTerms, compare_summaries
from trimtab.judge.effect_size import busy_targets
from trimtab.probe.compare_side import published, published_file

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {
    name: re.sub(r"\\\n\s*", "", (DOCS / f"{name}.md").read_text()) for name in ("compare", "hints")
}
TYPED = [
    line
    for page in PAGES.values()
    for line in re.findall(r"^(?:\$ )?trimtab (.*?)(?:\s+#.*)?$", page, re.MULTILINE)
]


def made(line: str) -> click.Context:
    name, *words = shlex.split(line)
    context = click.Context(trimtab)
    command = trimtab.get_command(context, name)
    assert command is not None, name
    return command.make_context(name, words, parent=context)


def test_the_pages_have_lines_to_type() -> None:
    assert len(TYPED) >= 10


@pytest.mark.parametrize("line", TYPED)
def test_a_line_that_is_to_be_typed_is_understood(line: str) -> None:
    made(line)


@pytest.mark.parametrize("name", PAGES)
def test_an_example_prints_what_the_page_shows(name: str) -> None:
    """Every line beneath a command of a block, apart from spaces."""
    found = re.findall(r"^\$ trimtab (.*?)\n((?:(?!```).*\n)+)```", PAGES[name], re.M)
    assert found
    for line, shown in found:
        words = shlex.split(line)
        ended = CliRunner().invoke(trimtab, words)
        assert ended.exit_code == 0, ended.output
        printed = {" ".join(one.split()) for one in ended.output.splitlines()}
        for one in shown.splitlines():
            assert " ".join(one.split()) in printed


def test_the_figures_of_the_worked_example() -> None:
    sides = [published(text) for text in ("673320±31779/240 MB/s", "554012±37846/240 MB/s")]
    wide = compare_summaries(sides[0], sides[1], autocorrelation=0.5, terms=CompareTerms())
    assert wide.ratio_interval is not None
    low, high = ((end - 1) * 100 for end in (wide.ratio_interval.low, wide.ratio_interval.high))
    assert f"{low:.1f} to\n{high:.1f} %" in PAGES["compare"]
    factor = busy_targets(2048, 298) / busy_targets(2048, 274)
    assert f"{factor:.3f}" in PAGES["compare"]
    assert f"{298 / 274:.3f}" in PAGES["compare"]


def test_the_file_of_published_results_is_read(tmp_path: Path) -> None:
    (block,) = re.findall(r"```toml\n(.*?)```", PAGES["compare"], re.DOTALL)
    path = tmp_path / "published.toml"
    path.write_text(block)
    found = published_file(str(path))
    assert found is not None
    (one,) = found
    assert (one.mean, one.n, one.window_s) == (673_320e6, 240, 240 * 3600.0)
