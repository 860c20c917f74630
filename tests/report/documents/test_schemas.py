"""The committed schemas are those of the code."""

from __future__ import annotations

import json
from typing import Any

from scripts.schemas import schema_texts
from tests.support.documents import SCHEMAS


def rules(schema: Any) -> Any:
    """Return a schema without its descriptions: words may be improved, and change nothing."""
    if isinstance(schema, dict):
        return {
            key: rules(value)
            for key, value in schema.items()
            if key != "description" or not isinstance(value, str)
        }
    return [rules(part) for part in schema] if isinstance(schema, list) else schema


def test_the_committed_schemas_are_those_of_the_code() -> None:
    made = {name: rules(json.loads(text)) for name, text in schema_texts().items()}
    committed = {file.stem: rules(json.loads(file.read_text())) for file in SCHEMAS.glob("*.json")}
    differing = sorted(name for name in made | committed if made.get(name) != committed.get(name))
    assert differing == [], (
        "programs read these documents: where the change is intended, write it into CHANGELOG.md "
        "and accept it with: python scripts/schemas.py docs/schemas"
    )
