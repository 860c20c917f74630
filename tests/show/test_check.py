"""The page of a check: what stands on it, what must never, and that nothing can break it."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass, replace
from datetime import datetime
from enum import Enum
from hashlib import sha256
from html.parser import HTMLParser
from typing import Any

import pytest
from tests.support.narrow import present

from trimtab.base.error import Message
from trimtab.base.filesystem import BlockDevice
from trimtab.base.finding import Severity
from trimtab.base.run import RunStatus
from trimtab.base.snapshot import NotAvailable
from trimtab.base.verdict import Scope, VerdictStatus
from trimtab.probe.check_result import CheckResult
from trimtab.probe.page_check import check_document, cost_text
from trimtab.show.document import Document, render_document

FOLDED = ["Not seen: ", "Within the repetitions", "Layers beneath the path",
          "Readings and settings", "The run: trimtab show "]  # fmt: skip
VOID = {"meta", "br", "img", "hr", "input", "link"}
HOSTILE = (
    '<script>alert(1)</script><img src="http://evil.example/x" onerror=alert(1)>'
    "\"' &lt; {{ 7*7 }} {% raw %} \x00\x1b[2J\udcff\ud800\u202e url(http://evil.example) ]]>-->"
)


def render_check(result: CheckResult) -> str:
    return render_document(check_document(result))


def folded(document: Document) -> list[str]:
    return [section.title for section in document.sections if section.folded]


class Page(HTMLParser):
    """Collects elements, attributes and text, and fails where the nesting is broken."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.headings: dict[str, list[str]] = {"h1": [], "h2": [], "h3": []}
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag in self.headings:
            self.headings[tag].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "style":
            return
        self.text += data
        for heading in self.headings:
            if heading in self.open:
                self.headings[heading][-1] += data


def assert_self_contained(html: str) -> Page:
    page = Page(html)
    names = {tag for tag, _ in page.elements}
    assert not names & {"script", "link", "iframe", "object", "embed", "img", "base", "form"}
    for _, attributes in page.elements:
        for name, value in attributes.items():
            assert not name.startswith("on"), name
            if name in {"src", "href", "xlink:href", "action", "data"}:
                assert present(value).startswith("#"), present(value)
            if name == "style":
                assert "url(" not in (value or "")
    style = "".join(re.findall(r"<style>(.*?)</style>", html, re.DOTALL))
    assert "url(" not in style
    assert "@import" not in style
    html.encode("utf-8")
    return page


def with_text_replaced(value: Any, text: str) -> Any:
    """Return a copy in which every free string of a dataclass tree is ``text``."""
    if isinstance(value, (Enum, datetime)):
        return value
    if isinstance(value, str):
        return text
    if isinstance(value, tuple):
        return tuple(with_text_replaced(one, text) for one in value)
    if isinstance(value, list):
        return [with_text_replaced(one, text) for one in value]
    if isinstance(value, dict):
        return {
            f"{text}{number}": with_text_replaced(one, text)
            for number, one in enumerate(value.values())
        }
    if is_dataclass(value) and not isinstance(value, type):
        # Words of a closed vocabulary keep their meaning.
        kept = {"metric", "name", "unit", "kind", "access", "statistic", "driver"}
        return replace(
            value,
            **{
                one.name: with_text_replaced(getattr(value, one.name), text)
                for one in fields(value)
                if one.name not in kept
            },
        )
    return value


@pytest.mark.calibration
def test_the_page_has_its_sections_in_order_and_needs_nothing_from_outside(full_html: str) -> None:
    page = assert_self_contained(full_html)
    assert page.headings["h1"] == ["/scratch"]
    assert page.headings["h2"][-2:] == ["Numbers", "Charts"]
    assert "http://" not in full_html
    assert "https://" not in full_html
    assert "None" not in page.text


@pytest.mark.calibration
def test_equal_results_give_equal_pages(full: CheckResult, full_html: str) -> None:
    assert render_check(full) == full_html


def test_what_is_raw_waits_behind_its_title(full: CheckResult) -> None:
    titles = folded(check_document(full))
    assert [
        title for title, begins in zip(titles, FOLDED, strict=True) if begins not in title
    ] == []
    assert titles[0] == "Not seen: NVMe SMART, layers beneath the path"


def test_findings_stand_worst_first_with_their_exact_command(full_html: str) -> None:
    positions = [full_html.index(f'class="finding {severity.value}"') for severity in Severity]
    assert positions == sorted(positions)
    page = Page(full_html)
    assert "sh -c 'echo 0 > /sys/block/nvme0n1/queue/wbt_lat_usec'" in page.text
    assert "Why (95 % sure): Above 75 %" in page.text
    assert "fullness 81.4 %" in page.text


def test_numbers_and_traces_are_on_the_page(full_html: str) -> None:
    text = Page(full_html).text
    for words in (
        "11.0 to 12.3 GB/s", "5.5 %", "3.5 to 13.7 %", "cannot tell yet", "missed", "1 unfinished",
        "confidence intervals at 95 %", "0.970 to 1.040 (95 %)", "trimtab show 01a1f640-bc00",
        "trimtab-ioload 0.1.0", "exit 0 after 5.2 s", "1.00 MiB",
        f"sha256:{sha256(b'read 3').hexdigest()}",
        "the system keeps no record of trims", "84,000,000,000,000 B", "1.84", "cr_goal_fast",
        "nvme-cli is not installed", "systemd does not run here", "2026-11-20 17:38:02 UTC",
    ):  # fmt: skip
        assert words in text, words


def test_charts_hold_their_data(full: CheckResult, full_html: str) -> None:
    charts = [chart for section in check_document(full).sections for chart in section.charts]
    assert full_html.count('<svg class="drawing"') == len(charts) == 8
    for words in (
        "<title>repetition: 3; GB/s: 10.35</title>",
        "p99.9",
        "the longest stall is 400 ms, in repetition 3",
        "faster than the link of the drives can carry",
    ):
        assert words in full_html, words


def test_identifiers_of_drawings_do_not_collide(full_html: str) -> None:
    page = Page(full_html)
    identifiers = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))


def test_every_string_is_hostile(full: CheckResult) -> None:
    hostile = with_text_replaced(full, HOSTILE)
    html = render_check(hostile)
    page = assert_self_contained(html)
    assert "<script>alert(1)</script>" in page.text
    assert "{{ 7*7 }}" in page.text
    for character in "\x00\x1b\u202e":
        assert character not in html


def test_an_empty_check_says_so(empty: CheckResult) -> None:
    html = render_check(empty)
    page = assert_self_contained(html)
    assert "<svg" not in html
    assert page.headings["h2"] == ["Findings", "Numbers"]
    for words in (
        "Not measured: no findings in what could be seen; not every target answered; no device",
        "No device is visible beneath this file system.",
        "No target answered.",
        "Nothing was measured.",
    ):
        assert words in page.text
    assert check_document(empty).tone == "unclear"


def test_all_readings_missing(undrawn: CheckResult) -> None:
    target = undrawn.snapshot.targets[0]
    gone = tuple(
        replace(one, value=None, source=None, reason="no answer in 5 s") for one in target.readings
    )
    snapshot = replace(undrawn.snapshot, targets=(replace(target, readings=gone),))
    text = Page(render_check(replace(undrawn, snapshot=snapshot))).text
    assert text.count("no answer in 5 s") == len(gone)
    assert f"0 of {len(gone)} readings have a value" in text
    assert "% full:" not in text


def test_a_healthy_check_is_short_and_clear(healthy: CheckResult) -> None:
    assert check_document(healthy).answer == "Healthy: writes 11.6 GB/s, reads 18.2 GB/s"
    assert check_document(healthy).details == ()


@pytest.mark.parametrize("status", [one for one in RunStatus if one is not RunStatus.OK])
def test_a_run_that_went_wrong_is_in_the_answer(healthy: CheckResult, status: RunStatus) -> None:
    run = replace(present(healthy.run), status=status, problem="ran out of space", samples=())
    result = replace(healthy, run=run, verdicts=(), timelines=(), histograms=())
    document = check_document(result)
    assert "ran out of space." in document.details[0]
    assert document.answer.startswith("Not measured: ")
    assert_self_contained(render_check(result))


def test_a_missed_goal_is_not_healthy_even_without_findings(full: CheckResult) -> None:
    document = check_document(replace(full, findings=()))
    assert document.tone == "warning"
    assert document.answer == (
        "Not steady: write bandwidth missed the goal; no findings; "
        "writes 11.6 GB/s, reads 18.2 GB/s"
    )


def test_notes_alone_are_healthy_only_where_nothing_speaks_against_it(full: CheckResult) -> None:
    info = tuple(one for one in full.findings if one.severity is Severity.INFO)
    met = tuple(
        replace(one, status=VerdictStatus.MET)
        for one in full.verdicts
        if one.scope is Scope.HISTORY
    )
    steady = replace(full, findings=info, verdicts=met)
    assert (
        check_document(steady).answer
        == "Healthy, with 1 finding to note (info): steady, COV 17.1 %"
    )
    blind = replace(steady, path=replace(full.path, devices=()))
    assert check_document(blind).answer.startswith(
        "Partly seen: 1 finding (info) in what could be seen; no device"
    )


def test_healthy_needs_a_measurement_and_most_settings(healthy: CheckResult) -> None:
    assert check_document(replace(healthy, run=None)).answer.startswith("Not measured: no findings")
    (target,) = healthy.settings
    names = [f"setting-{number}" for number in range(5)]
    unread = {name: NotAvailable("permission denied") for name in names}
    dark = replace(healthy, settings={target: {**healthy.settings[target], **unread}})
    assert check_document(dark).answer.startswith("Partly seen: no findings")
    assert "settings could not be read" in check_document(dark).answer
    assert check_document(replace(healthy, settings={})).tone == "unclear"


def test_24_drives_are_all_there_and_the_odd_one_is_marked(full_html: str) -> None:
    assert ", ".join(f"nvme{index}n1" for index in range(23)) in full_html
    assert full_html.count("differs from the others") == 1
    assert "23 x drive" in full_html
    assert full_html.count("SAMSUNG MZWLJ3T8HBLS-00007") == 1


def test_hundreds_of_targets_show_their_fullness(undrawn: CheckResult) -> None:
    one = undrawn.snapshot.targets[0]
    targets = tuple(
        replace(one, target=replace(one.target, name=f"OST{n:04x}", kind="ost", server="oss01"))
        for n in range(200)
    )
    result = replace(
        undrawn,
        snapshot=replace(undrawn.snapshot, targets=targets),
        path=replace(undrawn.path, kind="lustre", devices=()),
    )
    html = render_check(result)
    assert html.count("81.4 % full") >= 200
    assert_self_contained(html)


def test_a_device_loop_in_a_broken_description_ends(undrawn: CheckResult) -> None:
    devices = (
        BlockDevice("a", "other", beneath=("b",)),
        BlockDevice("b", "other", beneath=("a", "unseen")),
    )
    html = render_check(replace(undrawn, path=replace(undrawn.path, devices=devices)))
    assert "unseen" in html


def test_a_closed_fold_is_open_in_print(full_html: str) -> None:
    rules = full_html[full_html.index("@media print") : full_html.index("</style>")]
    assert ".fold:not([open]) + .fold-body { display: block; }" in rules
    # The body must be a sibling: what is inside a closed details element is never printed.
    assert re.search(r"</summary></details>\s*<div class=\"fold-body\">", full_html)


def test_colours_of_drawings_are_repainted_on_a_dark_screen(full_html: str) -> None:
    style = full_html[: full_html.index("</style>")]
    drawings = "".join(re.findall(r"<svg class=\"drawing\".*?</svg>", full_html, re.DOTALL))
    used = set(re.findall(r"(fill|stroke)=\"(#[0-9a-f]+)\"", drawings))
    assert used
    for attribute, colour in used:
        assert f'.drawing [{attribute}="{colour}"]' in style, (attribute, colour)


def first_check(result: CheckResult, n: int = 1) -> CheckResult:
    """Return a healthy check whose history holds ``n`` runs: too few for a verdict."""
    spec = {"tasks": 64, "block_size_bytes": 2**30}
    cost = {"bytes_written": 45 * 2**30, "bytes_read": 30 * 2**30}
    run = replace(present(result.run), parameters={"spec": spec, "cost": cost})
    within = tuple(one for one in result.verdicts if one.scope is Scope.REPETITIONS)
    reason = Message("too-few-runs", "1 run over 0 h in the last 48 h: more runs needed")
    over_time = tuple(
        replace(one, scope=Scope.HISTORY, status=VerdictStatus.CANNOT_TELL, n=n, reason=reason)
        for one in within
    )
    unsure = tuple(replace(one, status=VerdictStatus.CANNOT_TELL) for one in within)
    return replace(result, run=run, verdicts=(*unsure, *over_time), findings=())


def test_the_first_line_says_how_healthy_how_fast_and_what_steadiness_needs(
    healthy: CheckResult,
) -> None:
    assert check_document(first_check(healthy)).answer == (
        "Healthy: writes 11.6 GB/s, reads 18.2 GB/s at 64 tasks; steadiness needs 23 more runs"
    )
    assert check_document(first_check(healthy, 40)).answer.endswith("; steadiness not known yet")


def test_healthy_is_not_said_where_only_writes_are_believed(healthy: CheckResult) -> None:
    verdicts = tuple(
        replace(one, mean=None) if one.metric == "read_bandwidth" else one
        for one in healthy.verdicts
    )
    doubted = check_document(replace(healthy, verdicts=verdicts))
    assert doubted.tone == "unclear"
    assert doubted.answer.startswith("Partly seen: no findings in what could be seen; no figure")
    assert "of reads is credible" in doubted.answer


def test_a_check_says_what_it_wrote_and_how_much_room_it_took(healthy: CheckResult) -> None:
    (numbers,) = (
        section
        for section in check_document(first_check(healthy)).sections
        if section.title == "Numbers"
    )
    words = numbers.lines[-1]
    assert words.startswith("wrote 45.0 GiB, read 30.0 GiB; its files took 64.0 GiB at a time")
    assert " % of the free space, and are removed" in words
    assert cost_text(None) == ""
