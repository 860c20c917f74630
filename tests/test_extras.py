"""What is said to install an extra: the wheel or checkout at hand, never a name of an index."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from pathlib import Path

import pytest

from trimtab.base.error import install_command


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file in which an installation records what it was made from."""
    made = tmp_path / "trimtab-1.dist-info"
    made.mkdir()
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: trimtab\nVersion: 1\n")
    monkeypatch.setattr(
        importlib.metadata, "distribution", lambda _: importlib.metadata.PathDistribution(made)
    )
    return made / "direct_url.json"


@pytest.mark.parametrize(
    ("origin", "words"),
    [
        ({"url": "file:///srv/a%20b/t.whl", "archive_info": {}}, "'/srv/a b/t.whl[web]'"),
        ({"url": "file:///src/trimtab", "dir_info": {}}, "'/src/trimtab[web]'"),
        (
            {"url": "file:///src/trimtab", "dir_info": {"editable": True}},
            "--editable '/src/trimtab[web]'",
        ),
    ],
)
def test_what_the_installation_was_made_from_is_named(
    recorded: Path, origin: dict[str, object], words: str
) -> None:
    recorded.write_text(json.dumps(origin))
    assert install_command("web") == f"{sys.executable} -m pip install {words}"


@pytest.mark.parametrize(
    "record", [None, "", "[]", "{", '{"url": 5}', '{"url": "https://stranger.example/t.whl"}']
)
def test_without_a_record_of_it_the_path_is_left_to_the_reader(
    recorded: Path, record: str | None
) -> None:
    if record is not None:
        recorded.write_text(record)
    assert "'WHEEL[web]' (WHEEL: the path" in install_command("web")


def test_a_program_that_was_not_installed_at_all_says_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> importlib.metadata.Distribution:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    assert "'WHEEL[web]'" in install_command("web")
