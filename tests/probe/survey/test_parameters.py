"""What is kept of a survey on the servers: what was asked, and what it moved."""

from __future__ import annotations

from trimtab.base.run import Sample
from trimtab.formats.obdfilter_survey import SurveySpec
from trimtab.probe.survey.server_survey import cost_of

SPEC = SurveySpec(size_bytes=64 * 2**20)


def test_together_stands_only_where_it_is_so() -> None:
    alone = SPEC.compared_settings(together=False)
    together = SPEC.compared_settings(together=True)
    assert "together" not in alone
    assert together == {**alone, "together": True}


def test_each_ended_test_of_each_target_moved_the_whole_size() -> None:
    samples = [
        Sample("write_bandwidth", 1e9, target="OST0000"),
        Sample("rewrite_bandwidth", 1e9, target="OST0000"),
        Sample("read_bandwidth", 1e9, target="OST0000"),
        Sample("write_bandwidth", 1e9, target="OST0001"),
        Sample("rewrite_bandwidth", None, target="OST0001", reason="no total is printed"),
        Sample("write_bandwidth", 2e9),  # of both: the same bytes again
        Sample("write_bandwidth", 2e9, statistic="interval_max"),
    ]
    cost = cost_of(SPEC, samples, begun=True)
    assert cost == {"bytes_written": 3 * SPEC.size_bytes, "bytes_read": SPEC.size_bytes}


def test_what_was_cut_short_is_not_known() -> None:
    assert cost_of(SPEC, [], begun=True) == {"bytes_written": None, "bytes_read": None}
    assert cost_of(SPEC, [], begun=False) == {"bytes_written": 0, "bytes_read": 0}
