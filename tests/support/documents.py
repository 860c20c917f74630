"""Whether a document fits its schema."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema
from scripts.schemas import schema_text


@cache
def _validator(name: str) -> jsonschema.Draft202012Validator:
    schema = json.loads(schema_text(name))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())


def misfits(document: Any, name: str) -> list[str]:
    """Return what in a document does not fit the schema of that name; empty: it fits."""
    return [
        f"{error.json_path}: {error.message}" for error in _validator(name).iter_errors(document)
    ]
