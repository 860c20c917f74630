"""Convert ``plan.json`` and its signature to bytes and back."""

from __future__ import annotations

import json
from typing import Any, Final, TypeVar

from trimtab.errors import DataError, RefusedError, UsageError, unreleased
from trimtab.purge.plan.key import SigningKey
from trimtab.purge.plan.model import FORMAT, Plan
from trimtab.visible import visible

ALGORITHM: Final = "hmac-sha256"
PLAN: Final = "purge plan"
PUBLICATION: Final = "purge plan published"
_MESSAGE_MAX: Final = 300

Value = TypeVar("Value")


def to_json(value: object) -> bytes:
    """Return a value of this package as human-readable JSON."""
    from pydantic import TypeAdapter

    return TypeAdapter(type(value)).dump_json(value, indent=1) + b"\n"


def of_json(kind: type[Value], data: bytes, noun: str) -> Value:
    """Return the value of a JSON document.

    Raises
    ------
    DataError
        It is not JSON, or a field is missing, unknown or of another type.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_json(data)
    except (ValidationError, UsageError) as error:
        if isinstance(error, UsageError):  # rejected by the class itself
            text = error.message
        else:
            first = error.errors(include_url=False)[0]
            text = f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
        message = visible(text[:_MESSAGE_MAX])
        raise DataError(
            f"{noun} does not match its format: {message}", code="document-malformed"
        ) from error


def plan_of(data: bytes) -> Plan:
    """Return the plan that ``plan.json`` describes.

    Raises
    ------
    DataError
        It is not a plan, or of another format.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DataError("the plan is not JSON", code="document-malformed") from error
    number = document.get("format") if isinstance(document, dict) else None
    if type(number) is int and 0 < number < FORMAT:
        raise unreleased(
            "the plan", "make a new one: trimtab purge plan --index INDEX --policy FILE --out PLAN"
        )
    if type(number) is not int or number != FORMAT:
        raise DataError(
            f"the plan has format {visible(str(number)[:40])}, this version reads {FORMAT}",
            code="format-version-unknown",
            hint="make a new plan",
        )
    return of_json(Plan, data, "the plan")


def signature_of(purpose: str, data: bytes, key: SigningKey) -> dict[str, str]:
    """Return the signature of ``data`` with the name of its key."""
    return {
        "algorithm": ALGORITHM,
        "key": key.fingerprint,
        "signature": key.sign(purpose, data),
    }


def check_signature(purpose: str, data: bytes, signature: Any, key: SigningKey, noun: str) -> None:
    """Refuse data not signed with the key.

    Raises
    ------
    RefusedError
        The key, the algorithm or the content differs.
    """
    fields = signature if isinstance(signature, dict) else {}
    if fields.get("algorithm") != ALGORITHM or not isinstance(fields.get("signature"), str):
        raise RefusedError(
            f"{noun} has no signature known to this version", code="signature-missing"
        )
    if fields.get("key") != key.fingerprint:
        raise RefusedError(
            f"{noun} is signed with a key other than {key.fingerprint}",
            code="key-mismatch",
            hint="it was made at another site, or the key was replaced since: make a new plan",
        )
    if not key.signed(purpose, data, fields["signature"]):
        raise RefusedError(
            f"{noun} differs from what was signed: it was changed or damaged",
            code="signature-mismatch",
            hint="make a new plan, and find out who or what changed this one",
        )


def canonical(document: Any) -> bytes:
    """Return JSON values in the canonical form that is signed."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return text.encode("ascii")
