"""One test over many values: what `pytest.mark.parametrize` is to a few.

Thousands of items cost more to collect and to report than many of them take to run.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet


def for_each(
    names: str, values: Iterable[Any], *, ids: Callable[[Any], object] | Iterable[object] = repr
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator: the test runs with each value in turn, and all that fail are named.

    Parameters
    ----------
    names, values, ids
        As for `pytest.mark.parametrize`. Fixtures of the test are the same for all values.

    Raises
    ------
    ExceptionGroup
        The test failed with some values; each failure carries its value as a note.
    """
    parameters = [name.strip() for name in names.split(",")]
    rows = [_row(value, len(parameters)) for value in values]
    labels = (
        [str(ids(row[0] if len(row) == 1 else row)) for row in rows] if callable(ids) else [*ids]
    )

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(function)
        fixtures = [one for name, one in signature.parameters.items() if name not in parameters]

        @functools.wraps(function)
        def test(**fixed: Any) -> None:
            if not rows:
                pytest.skip(f"no values of {names}")
            failures: list[Exception] = []
            for label, row in zip(labels, rows, strict=True):
                try:
                    function(**fixed, **dict(zip(parameters, row, strict=True)))
                except Exception as failure:  # noqa: BLE001 (all that fail are raised together)
                    failure.add_note(f"with {names} = {label}")
                    failures.append(failure)
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(rows)} values fail", failures)

        test.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return test

    return decorate


def _row(value: Any, width: int) -> tuple[Any, ...]:
    if isinstance(value, ParameterSet):
        assert not value.marks, "values of one test cannot have marks of their own"
        return tuple(value.values)
    return (value,) if width == 1 else tuple(value)
