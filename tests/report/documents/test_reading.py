"""Documents are read as they were written, or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.loop.purging.test_horizons import MANIFEST
from tests.report.pages import swept_policies
from tests.report.purge_pages import TIB, USAGE, horizon_answer_of
from tests.support.codes import raises

from trimtab.errors import DataError
from trimtab.purge.horizon.answer import Answer
from trimtab.purge.horizon.curve import Freed
from trimtab.purge.horizon.horizon import HorizonStatus
from trimtab.purge.horizon.targets import Group, GroupHorizon, GroupHorizons
from trimtab.purge.horizon.usage import Usage
from trimtab.purge.rules import RulesInForce
from trimtab.report.documents.encode import to_json
from trimtab.report.documents.purged import PurgeHorizonDocument
from trimtab.report.documents.reading import ReadHorizon, ReadWhatIf, read_document
from trimtab.report.documents.simulated import WhatIfDocument
from trimtab.report.whatif import whatif_document
from trimtab.whatif.vary import Varied

TOTAL = Freed(21_000_000, 26_500 * TIB)


def horizon_json(answer: Answer, root: bytes = b"/scratch") -> bytes:
    """Return a horizon as `trimtab purge horizon --json` writes it."""
    rules = RulesInForce(
        counted=("mtime",), as_of_s=answer.as_of_s,
        old_enough_before_s=answer.as_of_s // 3600 * 3600 - 14 * 86400, minimum_size_bytes=0,
        exempt_paths=(), exempt_users=(), exempt_groups=(), exempt_projects=(), linked=False,
        minimum_age_s=14 * 86400, reads_count=False, words=("Files younger than 14 d stay.",),
    )  # fmt: skip
    manifest = replace(MANIFEST, root=root)
    document = PurgeHorizonDocument("i", manifest, answer, rules, USAGE, TOTAL, ("6 h old",))
    return to_json(document).encode()


def whatif_json() -> bytes:
    """Return a sweep as `trimtab whatif --json` writes it."""
    return to_json(WhatIfDocument(*swept_policies())).encode()


def with_groups(answer: Answer) -> Answer:
    """Return the answer with what each OST needs, and each pool."""

    def horizons(*groups: Group) -> GroupHorizons:
        rows = tuple(
            GroupHorizon(
                group, Usage(9 * TIB, TIB), HorizonStatus.REACHED, TIB, 400_000,
                None, Freed(5, TIB), Usage(8 * TIB, 2 * TIB),
            )
            for group in groups
        )  # fmt: skip
        needed, hour = answer.needed, (answer.as_of_s // 3600 - 14 * 24)
        return GroupHorizons(hour, needed.cut_off_hour, needed.target, needed.freed, rows)

    osts = horizons(Group("OST", "OST0000", (0,), 0.75), Group("OST", "OST001f", (31,), 0.75))
    return replace(answer, osts=osts, pools=horizons(Group("pool", "flash", (0, 31), 0.8)))


@pytest.mark.parametrize("target", [0.2, 0.7, 0.9])
def test_a_horizon_is_read_as_it_was_written(target):
    answer = with_groups(horizon_answer_of(target))
    read = read_document(horizon_json(answer))
    assert isinstance(read, ReadHorizon)
    assert read.answer == answer
    assert (read.root, read.usage, read.total) == ("/scratch", USAGE, TOTAL)
    assert read.rules == ("Files younger than 14 d stay.",)


@pytest.mark.parametrize(("part", "key"), [("osts", "limit"), ("rules", "words")])
def test_a_horizon_of_an_unreleased_version_is_refused(part, key):
    document = json.loads(horizon_json(with_groups(horizon_answer_of(0.7))))
    for row in document[part] if part == "osts" else [document[part]]:
        del row[key]
    with raises(DataError, "document-damaged", f"'{key}' is missing"):
        read_document(json.dumps(document).encode())


def test_a_what_if_is_read_as_it_was_written():
    scenario, swept = swept_policies()
    read = read_document(whatif_json())
    assert isinstance(read, ReadWhatIf)
    assert read.scenario == scenario.name
    rows = [replace(row, combination=Varied(row.combination.settings)) for row in swept.rows]
    assert list(read.swept.rows) == rows
    page = whatif_document(scenario.name, swept)
    assert whatif_document(read.scenario, read.swept).answer == page.answer
    assert whatif_document(read.scenario, read.swept).sections[0] == page.sections[0]


def test_a_what_if_without_a_figure_is_refused():
    document = json.loads(whatif_json())
    for row in document["combinations"]:
        row["figures"] = [figure for figure in row["figures"] if figure["name"] != "ior_read"]
    with raises(DataError, "document-damaged", "'ior_read' is missing"):
        read_document(json.dumps(document).encode())


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"null", b"\xff", b"[" * 100_000])
def test_what_is_no_document_is_refused(data):
    with pytest.raises(DataError):
        read_document(data)


def test_a_document_of_another_command_or_version_is_none():
    assert read_document(b'{"schema_version": 1, "store": "s", "series": []}') is None
    with pytest.raises(DataError, match="version 2"):
        read_document(b'{"schema_version": 2}')


def damaged(node: Any) -> Iterator[Any]:
    """Yield a document with each of its keys gone, and each of its leaves something else."""
    if isinstance(node, dict):
        for key in node:
            yield {name: value for name, value in node.items() if name != key}
            for other in damaged(node[key]):
                yield {**node, key: other}
    elif isinstance(node, list):
        yield {}
        for other in damaged(node[0]) if node else ():
            yield [other, *node[1:]]
    else:
        yield from ([], "1e999", -1e308, True)


@pytest.mark.parametrize(
    "data", [horizon_json(with_groups(horizon_answer_of(0.7))), whatif_json()], ids=["age", "twin"]
)
def test_a_damaged_document_is_read_whole_or_refused(data):
    document = json.loads(data)
    for name in document.keys() & {"steps", "users", "combinations"}:
        document[name] = document[name][:2]
    count = refused = 0
    for other in damaged(document):
        count += 1
        try:
            read_document(json.dumps(other).encode())
        except DataError:
            refused += 1
    assert count > 90
    assert refused > count / 3
