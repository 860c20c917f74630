"""The schemas are those whose fingerprints are committed, and documents of before fit them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from scripts.schemas import NAMES, committed, differences, fingerprint, schema_text
from tests.support.documents import misfits

EARLIER = Path(__file__).parent / "earlier"
"""Documents as they were before they had a schema_version and codes; long lists are cut."""


def test_the_committed_fingerprints_are_those_of_the_code() -> None:
    made = {name: fingerprint(schema_text(name)) for name in NAMES}
    known = committed()
    differing = sorted(name for name in made | known if made.get(name) != known.get(name))
    assert differing == [], (
        "programs read these documents; see what changed with: python scripts/schemas.py --against "
        "COMMIT; where it is intended, write it into CHANGELOG.md and accept it with: "
        "python scripts/schemas.py --accept"
    )


def test_a_fingerprint_is_of_the_rules_and_not_of_the_words() -> None:
    text = schema_text("error")
    described = json.loads(text)
    described["description"] = "Other words."
    assert fingerprint(json.dumps(described)) == fingerprint(text)
    narrowed = json.loads(text)
    narrowed["required"] = narrowed["required"][1:]
    assert fingerprint(json.dumps(narrowed)) != fingerprint(text)


def test_what_changed_names_the_schema_and_the_rule() -> None:
    error = schema_text("error")
    assert differences({"error": error}, {"error": error}) == ""
    shown = differences({"error": error}, {"error": error.replace('"string"', '"number"', 1)})
    assert "after/error.json" in shown
    assert re.search(r'^-.*"string"', shown, re.M)
    assert re.search(r'^\+.*"number"', shown, re.M)
    assert "+++ after/error.json" in differences({}, {"error": error})


@pytest.mark.system
@pytest.mark.parametrize("file", sorted(EARLIER.glob("*.json")), ids=lambda file: file.stem)
def test_a_document_of_before_fits(file: Path) -> None:
    """What it has is what programs read: keys came, but none went, and none holds another type."""
    document = json.loads(file.read_text())
    assert "schema_version" not in document
    assert misfits(document, file.stem, whole=False) == []
