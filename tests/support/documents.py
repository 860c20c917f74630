"""Whether a document fits its committed schema."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

SCHEMAS = Path(__file__).resolve().parents[2] / "docs" / "schemas"


@cache
def _validator(name: str) -> jsonschema.Draft202012Validator:
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())


def misfits(document: Any, name: str) -> list[str]:
    """Return what in a document does not fit the schema of that name; empty: it fits."""
    return [
        f"{error.json_path}: {error.message}" for error in _validator(name).iter_errors(document)
    ]
