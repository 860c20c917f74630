"""Every command that is printed as a next step, a hint or a fix works as it is printed."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from tests.support.next_steps import commands_in, literals, template_text, without_prose

pytestmark = pytest.mark.unit

SOURCE = Path(__file__).parents[2] / "src/trimtab"


def test_every_command_in_the_code_and_the_pages_is_one() -> None:
    """What is spoken of (docstrings, help) has to exist; what is printed has to be complete."""
    wrong = []
    for file in sorted(SOURCE.rglob("*.py")):
        for line, text, is_spoken in literals(file) if "trimtab " in file.read_text() else ():
            wrong += [f"{file.name}:{line}: {problem}" for problem in _problems(text, is_spoken)]
    for file in sorted(SOURCE.rglob("*.j2")):
        wrong += [f"{file.name}: {problem}" for problem in _problems(template_text(file), False)]
    assert not wrong, "\n".join(wrong)


def _problems(text: str, is_spoken: bool) -> list[str]:
    problems = []
    for words in commands_in(text):
        try:
            without_prose(words, is_name_enough=is_spoken)
        except click.UsageError as error:
            problems.append(f"trimtab {' '.join(words)}: {error.format_message()}")
    return problems
