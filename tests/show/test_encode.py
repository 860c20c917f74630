"""Text and documents as they are shown and written: safe, exact, and of their schema."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, timezone
from enum import StrEnum
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripts.schemas import NAMES, ROOT, SITE_FILE, committed, differences, fingerprint, schema_text

from trimtab.base.encode import dumps, schema, shape, to_json
from trimtab.base.error import Message, shell_text
from trimtab.base.run import RawOutput, Run, RunStatus, Sample
from trimtab.base.snapshot import Reading
from trimtab.base.text import moment_text, one_line, parameter_text, printable, reading_text
from trimtab.base.units import EpochHour, EpochNs, EpochS
from trimtab.base.verdict import Interval, Scope, Trend, TrendDirection, Verdict
from trimtab.explain.status import SeriesStatus, Status, StatusDocument
from trimtab.probe.check_result import CheckDocument, CheckResult
from trimtab.store.page import OutputRow, RunsDocument, ShowDocument
from trimtab.store.store import Store

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


class Colour(StrEnum):
    """An enumeration."""

    RED = "red"


@dataclass(frozen=True, slots=True)
class Inner:
    """A value in another."""

    size_bytes: int
    hidden: bytes = b""


@dataclass(frozen=True, slots=True)
class Whole:
    """One field for each rule."""

    from_: datetime
    day: date
    colour: Colour
    mean_interval: Interval | None
    cov_interval: Interval | None
    reason: Message | None
    notes: tuple[str, ...]
    detail: str
    counts: dict[str, float]
    inner: Inner | None
    used_s: EpochS | None = 0
    ended_ns: EpochNs = 1_500_000_000
    cut_off_hour: EpochHour | None = None
    name: bytes = b"caf\xe9\n"
    place: Path = Path("/x")
    extra: Any = None


shape(
    Inner,
    omit=["hidden"],
    derive={"double": (int, lambda inner: 2 * inner.size_bytes)},
)
shape(Whole, inline={"inner": ("double",)})


def whole(**changes: Any) -> Whole:
    values: dict[str, Any] = {
        "from_": NOON,
        "day": NOON.date(),
        "colour": Colour.RED,
        "mean_interval": None,
        "cov_interval": Interval(0.1, 0.2, 0.9),
        "reason": Message("too-few-runs", "3 of 24 runs"),
        "notes": ("plain", Message("clock-skewed", "the clocks differ")),
        "detail": "a word",
        "counts": {"a": 1.5},
        "inner": Inner(3),
    }
    return Whole(**(values | changes))


def document(**changes: Any) -> dict[str, Any]:
    value = json.loads(to_json(whole(**changes)))
    jsonschema.Draft202012Validator(schema(Whole)).validate(value)
    return value


def test_each_rule() -> None:
    assert document() == {
        "schema_version": 2,
        "from": "2026-11-20T12:00:00Z",
        "day": "2026-11-20",
        "colour": "red",
        "mean_interval": None,
        "cov_interval": [0.1, 0.2],
        "level": 0.9,
        "reason": "3 of 24 runs",
        "reason_code": "too-few-runs",
        "notes": ["plain", "the clocks differ"],
        "notes_codes": [None, "clock-skewed"],
        "detail": "a word",
        "counts": {"a": 1.5},
        "double": 6,
        "used": "1970-01-01T00:00:00Z",
        "ended": "1970-01-01T00:00:01Z",
        "cut_off": None,
        "name": "caf\\xe9\\n",
        "place": "/x",
        "extra": None,
    }


def test_what_is_absent_is_null() -> None:
    value = document(reason=None, inner=None, cov_interval=None)
    keys = ("reason", "reason_code", "double", "cov_interval", "level")
    assert [value[key] for key in keys] == [None] * 5


def test_text_from_a_store_has_no_code() -> None:
    assert document(reason="3 of 24 runs")["reason_code"] is None


@pytest.mark.parametrize("at_s", [2**62, -(2**62), 253402300800, None])
def test_a_time_that_no_calendar_has_is_null(at_s: int | None) -> None:
    assert document(used_s=at_s)["used"] is None


def test_hours_are_times() -> None:
    assert document(cut_off_hour=49)["cut_off"] == "1970-01-03T01:00:00Z"


def test_a_time_keeps_its_offset() -> None:
    at = NOON.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert document(from_=at)["from"] == "2026-11-20T17:30:00+05:30"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_none_is_an_error(value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_json(whole(extra={"x": value}))


def test_every_key_is_required() -> None:
    rules = schema(Whole)
    assert {"schema_version", "reason_code", "notes_codes"} <= set(rules["required"])
    assert set(rules["properties"]) == set(rules["required"])
    assert rules["additionalProperties"] is False


def test_the_schema_refuses_another_type() -> None:
    validator = jsonschema.Draft202012Validator(schema(Whole))
    for key, value in (("colour", "blue"), ("cov_interval", [0.1]), ("double", 0.5), ("new", 1)):
        assert not validator.is_valid(document() | {key: value}), key


def test_a_shape_that_names_no_field_is_a_bug() -> None:
    @dataclass(frozen=True, slots=True)
    class Bare:
        size_bytes: int

    with pytest.raises(TypeError, match="sise"):
        shape(Bare, omit=["sise"])
    with pytest.raises(TypeError, match="twice"):
        shape(Whole)


def test_a_shape_holds_for_a_type_that_was_written_before() -> None:
    @dataclass(frozen=True)
    class Late:
        cause: str

    assert json.loads(dumps(Late("full"))) == {"cause": "full"}
    shape(Late, omit=["cause"], derive={"id": "cause"})
    assert json.loads(dumps(Late("full"))) == {"id": "full"}


ODD = 'caf\udce9\x00\x1b[2J"\\\u2028\u202e\U0001f4be</script>'


def _run() -> Run:
    output = RawOutput(ODD, ("fio", f"--directory={ODD}"), ODD.encode("utf-8", "surrogateescape"))
    return Run(
        "0190aaaa-0000-7000-8000-000000000000",
        ODD,
        ODD,
        "fio",
        RunStatus.OK,
        NOON,
        tool_version=ODD,
        host=ODD,
        path=ODD,
        problem=ODD,
        parameters={"spec": {"tasks": 4}, ODD: [ODD, {ODD: ODD}]},
        samples=(Sample("write_bandwidth", 2e9, 0, target=ODD, reason=ODD),),
        outputs=(output,),
    )


def _status(full: CheckResult) -> object:
    def odd(verdict: Verdict) -> Verdict:
        return replace(verdict, probe=ODD, target=ODD, reason=Message("goal-met", ODD))

    verdict = odd(next(one for one in full.verdicts if one.scope is Scope.HISTORY))
    trend = Trend(
        "write_bandwidth", "B/s", ODD, TrendDirection.CANNOT_TELL, Message("too-few-days", ODD), 0
    )
    series = SeriesStatus(ODD, ODD, "fio", 7, NOON, 2e9, verdict, trend)
    return StatusDocument(Status(ODD, 172800.0, (ODD,), (series,), (_run(),)))


def _runs(_: CheckResult) -> object:
    return RunsDocument(ODD, (_run(),))


def _check(full: CheckResult) -> object:
    path = replace(full.path, path=ODD, source=ODD, notes=(ODD,), options=(ODD,))
    return CheckDocument(replace(full, site=ODD, path=path, run=_run(), report=ODD))


@pytest.mark.parametrize("document", [_status, _runs, _check])
def test_odd_text_comes_back_from_the_document(
    full: CheckResult, document: Callable[[CheckResult], object]
) -> None:
    text = to_json(document(full))
    assert text.isascii()
    assert text.isprintable()
    assert "\n" not in text
    run = json.loads(text)["runs"][0]
    assert run["site"] == run["path"] == run["samples"][0]["target"] == ODD
    assert run["parameters"][ODD] == [ODD, {ODD: ODD}]
    assert run["outputs"][0]["argv"] == ["fio", f"--directory={ODD}"]
    assert os.fsencode(run["path"]) == ODD.encode("utf-8", "surrogateescape")


def test_odd_text_comes_back_from_the_store_and_show(tmp_path: Path) -> None:
    with Store.open(tmp_path / "caf\udce9.db") as store:
        store.add_run(_run())
        run = store.run("0190")
        outputs = store.outputs(run.id)
        rows = [OutputRow(one, str(store.raw.file(one.stdout_sha256))) for one in outputs]
        text = to_json(ShowDocument(str(store.location), run, tuple(rows)))
    found = json.loads(text)
    assert text.isascii()
    assert found["store"].endswith("caf\udce9.db")
    assert found["run"]["parameters"][ODD] == [ODD, {ODD: ODD}]
    assert found["outputs"][0]["label"] == ODD
    assert found["outputs"][0]["argv"][1] == f"--directory={ODD}"


def test_what_has_no_form_in_json_is_a_bug() -> None:
    for value, kind in ((math.nan, ValueError), (object(), TypeError)):
        with pytest.raises(kind):
            to_json(RunsDocument("s", (replace(_run(), parameters={"x": value}),)))


ARGUMENTS = st.lists(
    st.binary(max_size=12).map(lambda raw: os.fsdecode(raw.replace(b"\x00", b"'"))),
    min_size=1,
    max_size=4,
)


@given(st.text(st.characters(codec=None), max_size=80))
def test_printable_can_always_be_encoded_and_shown(text: str) -> None:
    shown = printable(text)
    shown.encode("utf-8")
    assert all(character.isprintable() or character in "\n\t" or character.isspace()
               for character in shown)  # fmt: skip
    assert "\n" not in one_line(text)


def test_printable_leaves_ordinary_text_alone() -> None:
    assert printable("Größe 75 % • größer\n\tok") == "Größe 75 % • größer\n\tok"


def test_very_long_text_is_cut_and_says_so() -> None:
    assert printable("x" * 10_000).endswith("… (6,000 more characters)")


@pytest.mark.system
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@settings(max_examples=25, deadline=None)
@given(ARGUMENTS)
def test_a_shown_command_gives_bash_exactly_the_arguments(arguments: list[str]) -> None:
    line = shell_text(["printf", "%s\\0", *arguments])
    assert printable(line) == line
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=True)
    assert done.stdout.split(b"\0")[:-1] == [os.fsencode(one) for one in arguments]


def test_moments_say_their_zone() -> None:
    at = datetime(2026, 11, 20, 17, 38, 2, tzinfo=UTC)
    assert moment_text(at) == "2026-11-20 17:38:02 UTC"
    east = at.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert moment_text(east) == "2026-11-20 23:08:02 +05:30"
    west = at.astimezone(timezone(-timedelta(hours=3, minutes=30)))
    assert moment_text(west) == "2026-11-20 14:08:02 -03:30"
    assert "not known" in moment_text(at.replace(tzinfo=None))
    assert moment_text(None) == "not known"


def test_write_amplification_is_a_factor_and_wear_a_part() -> None:
    assert reading_text(Reading("drive_write_amplification", 1.84)) == "1.84"
    assert reading_text(Reading("drive_percentage_used", 0.03)) == "3.0 %"
    assert reading_text(Reading("errors_total", 0)) == "0 errors"
    assert reading_text(Reading("last_trim_at", None, reason="r")) == "not known"


def test_parameters_take_the_unit_in_their_name() -> None:
    assert parameter_text("bandwidth_bytes_per_s", 2e9) == "2.00 GB/s"
    assert parameter_text("tasks", 8) == "8"
    assert parameter_text("direct", True) == "yes"
    assert parameter_text("flags", None) == "not known"
    assert parameter_text("options", {"b": 1, "a": [2]}) == '{"a": [2], "b": 1}'


def test_the_committed_fingerprints_are_those_of_the_code() -> None:
    made = {name: fingerprint(schema_text(name)) for name in NAMES}
    known = committed()
    differing = sorted(name for name in made | known if made.get(name) != known.get(name))
    assert differing == [], (
        "programs read these documents; see what changed with: python scripts/schemas.py --against "
        "COMMIT; where it is intended, write it into CHANGELOG.md and accept it with: "
        "python scripts/schemas.py --accept"
    )


_EACH_BY_ITSELF = """
import os
from scripts.schemas import DOCUMENTS, fingerprint, schema_text
for name in DOCUMENTS:
    if os.fork() == 0:
        print(fingerprint(schema_text(name)), name, flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.mark.system
def test_how_a_document_is_written_needs_no_module_but_its_own() -> None:
    """No command imports more: what another module declares would be missing in its JSON."""
    command = [sys.executable, "-c", _EACH_BY_ITSELF]
    output = subprocess.check_output(command, cwd=ROOT, text=True)
    made = {name: digest for digest, name in map(str.split, output.splitlines())}
    assert made == {name: digest for name, digest in committed().items() if name != SITE_FILE}


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
