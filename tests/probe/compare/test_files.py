"""Result files on either side of a comparison: read as an import reads them, and not kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.command import trimtab

from trimtab.base.error import UnreadableError, UsageError
from trimtab.probe.compare import CompareRequest, as_files, compare_sides, sides_of

pytestmark = pytest.mark.cli
REPORT = Path(__file__).parents[2] / "fixtures/ior/4.0.0/text-shared.out"


def test_two_files_of_a_tool_are_compared_without_a_store(tmp_path: Path) -> None:
    copy, store = tmp_path / "later.out", tmp_path / "none.db"
    copy.write_bytes(REPORT.read_bytes())
    result = compare_sides(CompareRequest(str(REPORT), str(copy), store_url=str(store)))
    assert {effect.ratio for series in result.series for effect in series.effects} == {1.0}
    assert not store.exists()


def test_only_files_that_are_there_are_files(tmp_path: Path) -> None:
    (tmp_path / "a.json").touch()
    (tmp_path / "figures.toml").touch()
    assert as_files(f"{tmp_path}/a.json, {tmp_path}/a.json") == (f"{tmp_path}/a.json",) * 2
    assert as_files(f"{tmp_path}/a.json,{tmp_path}/b.json") == ()
    assert as_files(f"{tmp_path}/figures.toml") == ()
    assert as_files(str(tmp_path)) == ()


def test_a_file_of_no_known_format_is_named(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("nothing\n")
    with pytest.raises(UnreadableError, match=r"notes\.txt cannot be compared"):
        compare_sides(CompareRequest(str(file), str(file), store_url=str(tmp_path / "none.db")))


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory, and the current one, with results in a, b and c."""
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        for number in (1, 2, 3):
            (tmp_path / name / f"{number}.json").write_bytes(REPORT.read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "sides"),
    [
        ("a/1.json b/1.json", ("a/1.json", "b/1.json")),
        ("a/1.json a/2.json", ("a/1.json", "a/2.json")),
        ("a/1.json a/2.json b/1.json", ("a/1.json,a/2.json", "b/1.json")),
        ("b/1.json a/1.json a/2.json", ("b/1.json", "a/1.json,a/2.json")),
        ("./a/1.json b/1.json a/2.json b/2.json", ("./a/1.json,a/2.json", "b/1.json,b/2.json")),
        ("scratch@2026-11-01 lab", ("scratch@2026-11-01", "lab")),
    ],
)
def test_a_directory_is_one_side(results: Path, words: str, sides: tuple[str, str]) -> None:
    assert sides_of(words.split()) == sides


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("", "0 words"),
        ("a/1.json", "1 word for"),
        ("a/1.json a/2.json a/3.json", "files of a,"),
        ("a/1.json b/1.json c/1.json", "files of a, b, c,"),
        ("a/1.json a/2.json b/*.json", r"b/\*.json is not a file"),
        ("a/1.json a/2.json scratch", "scratch is not a file"),
        ("a/1.json,a/2.json b/1.json b/2.json", "a/1.json,a/2.json is not a file"),
    ],
)
def test_other_words_are_refused_with_what_to_type(results: Path, words: str, named: str) -> None:
    with pytest.raises(UsageError, match=named) as refused:
        sides_of(words.split())
    assert "trimtab compare A B" in (refused.value.hint or "")


def test_what_a_shell_makes_of_two_patterns_is_compared(results: Path) -> None:
    words = [f"{side}/{number}.json" for side in "ab" for number in (1, 2, 3)]
    ended = trimtab("compare", *words, store=results / "none.db")
    assert ended.code == 0, ended.stderr
    assert "write bandwidth +0.0 %" in ended.stdout.splitlines()[0]
    assert "A is a/1.json,a/2.json,a/3.json; B is" in ended.stdout
