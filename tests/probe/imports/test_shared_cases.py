"""Small files of others' habits on which the judge was wrong, read in place."""

from __future__ import annotations

import pytest
from tests.formats.recorded import REAL_DATA

from trimtab.base.error import UsageError
from trimtab.explain.headline import headline, of_judgement
from trimtab.probe.imports.series_file import FileTerms, judge_file
from trimtab.probe.imports.table_column import NamedColumns

CASES = REAL_DATA / "cases"
pytestmark = [
    pytest.mark.unit,
    pytest.mark.skipif(not CASES.is_dir(), reason="no cases (set TRIMTAB_REAL_DATA)"),
]
ANSWERS = {
    "judge-few-runs-steady/few.csv": "too few runs to look for a change (6 of 24)",
    "judge-few-runs-steady/one.csv": "too few runs to look for a change (1 of 24)",
    "judge-runs-close-together/nights.csv": "bw -20 % since 2026-07-01",
    "judge-runs-close-together/same_stamp.csv": "bw -20 % since 2026-07-01",
    "judge-two-stages/two1.csv": "bw -17 % since 2026-05-10, -20 % from its best level",
    "gap-onset/s0.csv": "between 24 January and 19 February 2026",
    "gap-onset/s1.csv": "between 24 January and 19 February 2026",
    "gap-onset/s2.csv": "between 24 January and 19 February 2026",
    "gap-onset/s3.csv": "between 24 January and 19 February 2026",
    "bimodal-step/s3.csv": "value -12 % since 2026-02-11",
    "bimodal-step/s4.csv": "value -9.8 % since 2026-02-11",
    "bimodal-step/s5.csv": "value -12 % since 2026-02-11",
    "csv-compact-time/c14.csv": "bw -20 % since 2026-08-26",
    "csv-date-and-time-columns/twocol_datetime.csv": "bw_MiBs -20 % since 2026-08-26",
    "csv-number-taken-for-time/jobid_date.csv": "bw -20 % since 2026-08-26",
    "csv-two-operations/mixed_op.csv": "write bw -20 % since 2026-08-26",
    "csv-small/comment.csv": "bw -20 % since 2026-07-31",
    "csv-small/trail2.csv": "bw -20 % since 2026-07-31",
    "csv-small/h.csv.gz": "bw -20 % since 2026-07-31",
    "csv-time-formats/german.csv": "1 series steady",
    "csv-time-formats/grafana.csv": "1 series steady",
    "csv-time-formats/slurmdir.csv": "1 series steady",
    "csv-time-formats/otava.csv": "too few runs to look for a change (2 of 24)",
}


@pytest.mark.parametrize("name", ANSWERS)
def test_what_is_right_of_a_file_is_its_answer(name: str) -> None:
    judgement = judge_file(str(CASES / name), FileTerms()).judgement
    assert ANSWERS[name] in headline(of_judgement(judgement))


@pytest.mark.parametrize("name", ["eu_slash.csv", "us.csv"])
def test_day_and_month_are_asked_for(name: str) -> None:
    with pytest.raises(UsageError, match="may mean"):
        judge_file(str(CASES / "csv-time-formats" / name), FileTerms())


def test_a_missing_head_is_told_with_the_line_to_add() -> None:
    with pytest.raises(UsageError) as refused:
        judge_file(str(CASES / "csv-no-header/noheader.csv"), FileTerms())
    assert "time,value" in str(refused.value.hint)


def test_operations_of_elbencho_are_series() -> None:
    terms = FileTerms(NamedColumns("ISO date", "MiB/s [last]", by="operation"))
    series = judge_file(str(CASES / "elbencho-csv/elbencho.csv"), terms).judgement.series
    levels = {entry.key.probe: entry.regimes[-1].median or 0.0 for entry in series}
    assert sorted(round(level, -2) for level in levels.values()) == [4900, 8900]
