"""Completion, man pages and suggestions: derived from the commands, and true to them."""

from __future__ import annotations

import shutil
import subprocess
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import click
import pytest
from tests.support.command import TRIMTAB, trimtab
from tests.support.narrow import present

from trimtab.cli import COMMANDS

pytestmark = pytest.mark.cli
ROOT = Path(__file__).resolve().parents[2]


def completed(*words: str, **environment: str) -> list[str]:
    """Return what bash would offer for the last of these words."""
    line = " ".join(("trimtab", *words))
    variables = {"COMP_WORDS": line, "COMP_CWORD": str(len(words)), **environment}
    ended = trimtab(store="unused", timeout_s=60.0, _TRIMTAB_COMPLETE="bash_complete", **variables)
    assert ended.code == 0, ended.stderr
    return [word.partition(",")[2] for word in ended.stdout.splitlines()]


def test_commands_and_options_are_completed() -> None:
    assert completed("ju") == ["judge"]
    assert completed("purge", "ho") == ["horizon"]
    assert completed("judge", "--br") == ["--brief"]


def test_names_are_completed(tmp_path: Path) -> None:
    site = '[site]\nname = "scratch"\ndriver = "local"\npath = "/"\n[probe.nightly]\n'
    (tmp_path / "scratch.toml").write_text(f'{site}benchmark = "builtin"\n')
    sites = {"TRIMTAB_SITES": str(tmp_path)}
    assert completed("judge", "sc", **sites) == ["scratch"]
    assert completed("probe", "n", **sites) == ["nightly"]
    assert completed("twin", "show", "perl") == ["perlmutter"]
    assert completed("judge", "--metric", "write_b") == ["write_bandwidth"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script_that_calls_it(shell: str) -> None:
    ended = trimtab("--completion", shell, store="unused")
    assert f"_TRIMTAB_COMPLETE={shell}_complete" in ended.stdout
    program = shutil.which(shell)
    if program is not None:
        subprocess.run((program, "-n"), input=ended.stdout, text=True, check=True)


@pytest.mark.system
def test_a_real_bash_completes(tmp_path: Path) -> None:
    script = tmp_path / "trimtab.bash"
    script.write_text(trimtab("--completion", "bash", store="unused").stdout)
    line = (
        f"source {script}; COMP_WORDS=(trimtab inc); COMP_CWORD=1; "
        f"_trimtab_completion {TRIMTAB}; echo ${{COMPREPLY[@]}}"
    )
    ended = subprocess.run(("bash", "-c", line), capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["incidents"]


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (("jugde",), "judge"),
        (("purge", "horzon"), "horizon"),
        (("twin", "shwo"), "show"),
        (("twin", "show", "perlmuter"), "perlmutter"),
        (("twin", "wa", "--drive", "pm1753"), "pm17"),
    ],
)
def test_a_mistyped_word_gets_a_suggestion(words: tuple[str, ...], near: str) -> None:
    ended = trimtab(*words, store="unused")
    assert ended.code == 2
    assert f"did you mean '{near}" in ended.stderr


@pytest.mark.parametrize("command", ["status", "judge", "alerts", "tune", "targets"])
def test_a_mistyped_site_gets_a_suggestion(command: str, tmp_path: Path) -> None:
    site = '[site]\nname = "scratch"\ndriver = "local"\npath = "/"\n'
    (tmp_path / "scratch.toml").write_text(site)
    ended = trimtab(command, "scrtch", store=tmp_path / "none.db", TRIMTAB_SITES=str(tmp_path))
    assert ended.code != 0
    assert "hint: did you mean 'scratch'?" in ended.stderr


def test_every_command_has_a_man_page_with_its_options(tmp_path: Path) -> None:
    spec = present(spec_from_file_location("shell_files", ROOT / "scripts/shell_files.py"))
    module = module_from_spec(spec)
    present(spec.loader).exec_module(module)
    written = module.write(tmp_path)
    pages = {path.stem: path.read_text() for path in written if path.suffix == ".1"}
    assert {f"trimtab-{name}" for name in COMMANDS} <= set(pages)
    root = click.Context(module.trimtab, info_name="trimtab")
    for command, context in module.commands(module.trimtab, root):
        page = pages[context.command_path.replace(" ", "-")].replace(r"\-", "-")
        names = [name for option in command.params for name in option.opts]
        assert [name for name in names if name.startswith("--") and name not in page] == []
    assert (tmp_path / "bash-completion/completions/trimtab").is_file()
    if (groff := shutil.which("groff")) is not None:
        argv = (groff, "-man", "-ww", "-z", "-Tutf8", *map(str, written[: len(pages)]))
        ended = subprocess.run(argv, capture_output=True, text=True, check=True)
        assert ended.stderr == ""
