"""OpenAPI from the declarations of the documents: one JSON Schema for ``--json`` and the API."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fastapi import FastAPI

_COMPONENTS: Final = "#/components/schemas/"
_DESCRIBED: Final[list[tuple[dict[str, Any], str]]] = []
"""Responses, each with the name of its document in `trimtab.web.documents`: a page needs none."""


def answers(document: str) -> dict[int | str, dict[str, Any]]:
    """Return the ``responses`` of a route that answers with a document, by its name."""
    return {
        200: _response(document, "The document."),
        "4XX": _response("FailureDocument", "Refused, with the reason and its code."),
    }


def _response(document: str, description: str) -> dict[str, Any]:
    content: dict[str, Any] = {}
    _DESCRIBED.append((content, document))
    return {"description": description, "content": content}


def _documents() -> dict[str, type]:
    """Return every document by its name, with which the responses refer to it from now on."""
    from trimtab.web.documents import DOCUMENTS

    names = {document.__name__: name for name, document in DOCUMENTS.items()}
    for content, of_response in _DESCRIBED:
        schema = {"$ref": f"{_COMPONENTS}{names[of_response]}"}
        content["application/json"] = {"schema": schema}
    return {names[document]: DOCUMENTS[names[document]] for _, document in _DESCRIBED}


def described(application: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of an application."""
    from fastapi.openapi.utils import get_openapi

    from trimtab.report.documents.encode import schema

    if application.openapi_schema is None:
        documents = _documents()
        document = get_openapi(
            title="Trimtab", version=application.version, routes=application.routes
        )
        components = document.setdefault("components", {}).setdefault("schemas", {})
        for name, kind in documents.items():
            # Two documents may know types of one name: each has its own.
            text = json.dumps(schema(kind)).replace("#/$defs/", f"{_COMPONENTS}{name}.")
            whole = json.loads(text)
            definitions = whole.pop("$defs")
            whole.pop("$schema")
            components |= {f"{name}.{each}": of for each, of in definitions.items()}
            components[name] = whole
        application.openapi_schema = document
    return application.openapi_schema or {}
