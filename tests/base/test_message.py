"""A code stays with its sentence: through pickling, into errors, and in one form."""

from __future__ import annotations

import pickle

import pytest

from trimtab.base.error import DataError, JobLost, Message, ToolError, UsageError, code_of


def test_a_code_survives_another_process():
    message = pickle.loads(pickle.dumps(Message("too-few-runs", "3 of at least 24 runs")))
    assert (message, message.code) == ("3 of at least 24 runs", "too-few-runs")


@pytest.mark.parametrize("code", ["", "Too-few", "too_few", "-few", "few-", "too--few", "zu wenig"])
def test_codes_have_one_form(code):
    with pytest.raises(ValueError, match="no code"):
        Message(code, "text")


def test_plain_text_has_no_code():
    assert code_of("as read from a store") is None
    assert code_of(None) is None


def test_an_error_has_the_code_it_was_given_else_its_message_s_else_its_class_s():
    assert UsageError("no such site", code="site-unknown").code == "site-unknown"
    assert UsageError(Message("site-unknown", "no such site")).code == "site-unknown"
    assert ToolError("it failed").code == "tool-failed"
    assert JobLost("node failed", state="NODE_FAIL").code == "job-lost"


def test_a_data_error_keeps_its_code_when_its_file_becomes_known():
    error = DataError("not a number", line=3, code="not-a-number").of("results.csv")
    assert (error.code, error.message) == ("not-a-number", "results.csv:3: not a number")
