"""MLPerf Storage: runs, reports, and what is no result."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats import of_formats
from tests.formats.damage import sampled
from tests.formats.of_formats import believed
from tests.formats.of_formats import source as source_of
from tests.formats.recorded import FIXTURES, REAL_DATA
from tests.support.narrow import present

from trimtab.base.error import DataError, code_of
from trimtab.base.run import RunStatus
from trimtab.formats.measurement import Measurement, OutputFile
from trimtab.formats.mlperf_storage import FORMAT

REAL = REAL_DATA / "mlperf-storage-v1.0" / "results"
KEPT = FIXTURES / "mlperf-storage"
E1000 = REAL / "Cray_ClusterStor_E1000_10xHDR200_1host"
MIB = 2**20


def real(pattern: str) -> list[Path]:
    found = sorted(REAL.glob(pattern))
    if not found:
        pytest.skip(f"no recorded data under {REAL_DATA} (set TRIMTAB_REAL_DATA)")
    return found


def small(**metric: Any) -> dict[str, Any]:
    """Return a summary in the form of DLIO, two epochs of one accelerator."""
    figures: dict[str, Any] = {
        "train_au_percentage": [96.0, 94.0],
        "train_au_mean_percentage": 95.0,
        "train_au_meet_expectation": "success",
        "train_throughput_samples_per_second": [12.0, 8.0],
        "train_throughput_mean_samples_per_second": 10.0,
        "train_io_mean_MB_per_second": 20.0,
    }
    return {
        "start": "2025-07-11T10:00:00.000000",
        "num_accelerators": 1,
        "num_hosts": 1,
        "hostname": "c1",
        "metric": figures | metric,
        "num_files_train": 64,
        "num_samples_per_file": 1,
        "potential_caching": [0],
        "epochs": 2,
        "end": "2025-07-11T10:10:00.000000",
    }


def measured(document: object, **beside: str) -> Measurement:
    """Return what is read of a summary with files beside it, by the stems of their names."""
    names = {"epochs": "per_epoch_stats.json"}
    others = {names.get(key, f"configs/{key}.yaml"): text.encode() for key, text in beside.items()}
    content = json.dumps(document, indent=4).encode()
    (one,) = FORMAT.read(OutputFile("summary.json", content, others))
    return one


def test_the_e1000_reads_56000_samples_a_second_with_one_client() -> None:
    paths = real("Cray_ClusterStor_E1000_10xHDR200_1host/resnet50_h100/run-*/summary.json")
    runs = [FORMAT.read(source_of(path))[0] for path in paths]
    assert [run.status for run in runs] == [RunStatus.OK] * 5
    epochs = [value for run in runs for value in believed(run, "samples_rate")]
    assert len(epochs) == 25
    mean = sum(filter(None, epochs)) / 25
    assert mean == pytest.approx(55_935.28, abs=0.01)  # the submission's own figure
    assert {run.requested["tasks"] for run in runs} == {34}


def test_a_run_of_the_e1000() -> None:
    (path,) = real("Cray_ClusterStor_E1000_10xHDR200_1host/resnet50_h100/run-1/summary.json")
    source = source_of(path)
    (run,) = FORMAT.read(source)
    assert (run.layer, run.host, run.problem) == ("application", "o186i234", None)
    assert run.requested == {
        "model": "resnet50",
        "accelerator": "h100",
        "tasks": 34,
        "nodes": 1,
        "files": 40010,
        "samples_per_file": 1251,
        "format": "tfrecord",
        "batch_size": 400,
        "read_threads": 8,
        "epochs": 5,
        "computation_time_s": 0.224,
        "record_bytes": 114660.07,
    }
    assert (run.reported["elapsed_s"], present(run.began).tzinfo) == (4823.813086, None)
    lines = source.text.split("\n")
    for sample in run.samples:
        printed = float(lines[present(sample.line) - 1].rpartition(":")[2].strip(" ,"))
        if sample.metric == "samples_rate":
            assert sample.value == printed
        else:
            of_bytes = MIB if sample.statistic == "mean" else 114660.07
            unit = 0.01 if sample.metric == "accelerator_utilization" else of_bytes
            assert sample.value == pytest.approx(printed * unit)
    assert believed(run, "samples_rate")[0] == 57361.04218022743
    assert believed(run, "accelerator_utilization")[2] == pytest.approx(0.8920723666613516)


def kept(name: str) -> Measurement:
    (path,) = KEPT.glob(f"*/{name}/summary.json")
    return FORMAT.read(source_of(path))[0]


def test_a_run_of_our_own() -> None:
    run = kept("success")
    assert (run.status, run.problem, run.requested["model"]) == (RunStatus.OK, None, "unet3d")
    assert (run.requested["batch_size"], run.requested["read_threads"]) == (7, 4)
    assert (run.requested["files"], run.requested["record_bytes"]) == (42, 400_000)
    assert len(believed(run, "samples_rate")) == 2
    rates = zip(believed(run, "read_bandwidth"), believed(run, "samples_rate"), strict=True)
    assert all(moved == pytest.approx((rate or 0) * 400_000) for moved, rate in rates)
    assert code_of(run.warnings[0]) == "data-fits-memory"
    assert "1 of 1" in run.warnings[0]


def test_a_run_of_our_own_that_kept_no_accelerator_busy() -> None:
    run = kept("below")
    assert (run.status, run.codes[0]) == (RunStatus.FAILED, "utilization-too-low")
    assert "32.7 %" in run.problems[0]
    assert "90 %" in run.problems[0]


def test_checkpoints_of_our_own() -> None:
    run = kept("checkpoint")
    assert (run.status, run.problem) == (RunStatus.OK, None)
    writes = [0.075386, 0.019881, 0.021]
    assert believed(run, "write_time") == writes
    assert believed(run, "read_time") == [0.013587, 0.006521]
    assert run.requested["checkpoint_bytes"] == 10_240
    assert believed(run, "write_bandwidth") == pytest.approx([10_240 / time for time in writes])


def test_bytes_that_dlio_got_wrong_are_not_believed() -> None:
    """This version takes a record for 1 byte where its dimensions are not given."""
    run = kept("two-ranks")
    assert (run.status, believed(run, "read_bandwidth")) == (RunStatus.OK, [])
    assert believed(run, "samples_rate") == [23.14525768921911, 21.732195721126928]
    doubts = {one.reason for one in run.samples if one.metric == "read_bandwidth"}
    why = "bytes over samples give 1.00 per sample, but the configuration has 400000.00"
    assert doubts == {why}
    assert (run.requested["tasks"], run.requested["record_bytes"]) == (2, 400_000)


def test_what_lies_beside_a_run_may_be_cut() -> None:
    """A configuration or times that were cut change no figure, and never raise."""
    for source in map(source_of, sorted(KEPT.glob("*/*/summary.json"))):
        whole = of_formats.values(FORMAT.read(source))
        for name, content in source.beside.items():
            for end in range(0, len(content), 37):
                cut = {**source.beside, name: content[:end]}
                found = of_formats.values(FORMAT.read(replace(source, beside=cut)))
                common = found.keys() & whole.keys()
                assert {key: found[key] for key in common} == {key: whole[key] for key in common}


def test_every_run_of_hpe_counts() -> None:
    paths = real("*/*/run-*/summary.json")
    assert len(paths) == 35
    for path in paths:
        source = source_of(path)
        assert of_formats.recognised(source) == ["mlperf-storage"]
        (run,) = FORMAT.read(source)
        assert run.status is RunStatus.OK, (path, run.problem)
        assert all(sample.believed and sample.line for sample in run.samples)
        assert (len(believed(run, "read_bandwidth")), run.warnings) == (5, ())


def test_reports_repeat_the_runs_beside_them() -> None:
    for path in real("*/*/mlperf_storage_report.json"):
        source = OutputFile(str(path), path.read_bytes())
        assert of_formats.recognised(source) == ["mlperf-storage"]
        *runs, overall = FORMAT.read(source)
        assert [run.name for run in runs] == [f"run-{number}" for number in range(1, 6)]
        assert overall.name == "overall"
        assert {run.status for run in (*runs, overall)} == {RunStatus.OK}
        for run in runs:
            summary = path.parent / str(run.name) / "summary.json"
            for own in FORMAT.read(source_of(summary)) if summary.is_file() else ():
                means = {one.metric: one.value for one in own.samples if one.statistic == "mean"}
                assert {s.metric: s.value for s in run.samples}.items() <= means.items()
                assert run.requested.items() <= own.requested.items()


def test_a_report_without_its_runs_is_read_itself() -> None:
    (path,) = real("*_5hosts/unet3d_h100/mlperf_storage_report.json")
    instead = FORMAT.instead(path.name)
    assert "run-1/summary.json" in instead
    assert not any((path.parent / name).exists() for name in instead)
    assert FORMAT.instead("other.json") == ()
    *_, overall = FORMAT.read(OutputFile(str(path), path.read_bytes()))
    printed = json.loads(path.read_bytes())["overall"]
    figures = {sample.metric: sample.value for sample in overall.samples}
    assert figures["samples_rate"] == printed["train_throughput_mean_samples_per_second"]
    assert figures["read_bandwidth"] == printed["train_throughput_mean_MB_per_second"] * MIB
    assert overall.reported == {"runs": 5}


def test_a_report_that_contradicts_itself_is_not_believed() -> None:
    (path,) = real("*_5hosts/unet3d_h100/mlperf_storage_report.json")
    document = json.loads(path.read_bytes())
    document["runs"]["run-2"]["train_throughput_samples_per_second"] *= 1.01
    for run in FORMAT.read(OutputFile("x.json", json.dumps(document).encode())):
        assert (run.status, run.codes) == (RunStatus.FAILED, ("figures-disagree",))
        assert "samples_per_second" in (run.problem or "")


@pytest.mark.parametrize(
    ("model", "below", "above"),
    [
        ("resnet50", 89.9, 90.0),
        ("cosmoflow", 69.9, 70.1),
        ("dlrm", 69.9, 70.1),
        ("retinanet", 84.9, 85.1),
        ("flux", 89.9, 90.1),
    ],
)
def test_too_little_utilization_is_no_result(model: str, below: float, above: float) -> None:
    def at(share: float) -> Measurement:
        summary = small(train_au_percentage=[share, share], train_au_mean_percentage=share)
        return measured(summary, overrides=f"- workload={model}_h100\n")

    enough, one = at(above), at(below)
    assert (enough.status, enough.requested["accelerator"]) == (RunStatus.OK, "h100")
    assert (one.status, one.requested["accelerator"]) == (RunStatus.FAILED, "h100")
    assert one.codes[0] == "utilization-too-low"
    assert f"{below:.1f} %" in (one.problem or "")
    assert not any(sample.believed for sample in one.samples)
    assert [sample.value for sample in one.samples][:2] == [12.0, 8.0]


def test_the_configuration_of_the_run_names_its_own_minimum() -> None:
    figures = {"train_au_percentage": [80.0, 80.0], "train_au_mean_percentage": 80.0}
    config = "workload:\n  model:\n    name: other\n  metric:\n    au: {}\n"
    assert measured(small(**figures), config=config.format(0.75)).status is RunStatus.OK
    assert measured(small(**figures), config=config.format(0.85)).status is RunStatus.FAILED


def test_without_a_configuration_its_own_word_is_taken() -> None:
    assert measured(small()).status is RunStatus.OK
    failed = measured(small(train_au_meet_expectation="fail"))
    assert (failed.status, failed.codes[0]) == (RunStatus.FAILED, "utilization-too-low")
    silent = measured(small(train_au_meet_expectation=None))
    assert (silent.status, silent.codes[0]) == (RunStatus.FAILED, "utilization-unknown")


def test_where_only_hydras_own_file_is_kept_it_names_the_workload() -> None:
    """As in DDN's results of v1.0, with the figures of one of their runs."""
    shares = [70.1396896159923, 70.27851370114631]
    summary = small(train_au_percentage=shares, train_au_mean_percentage=sum(shares) / 2)
    hydra = "hydra:\n  overrides:\n    task:\n      - workload=cosmoflow_h100\n"
    one = measured(summary, hydra=hydra)
    assert (one.status, one.requested["model"]) == (RunStatus.OK, "cosmoflow")
    assert measured(summary).status is RunStatus.OK


def test_a_configuration_of_another_run_is_not_used() -> None:
    config = "workload:\n  model: resnet50\n  dataset:\n    num_files_train: 65\n"
    one = measured(small(), config=config)
    assert "model" not in one.requested
    assert code_of(one.warnings[0]) == "companion-of-another-run"
    assert "num_files_train is 65" in one.warnings[0]


def test_a_summary_of_the_first_version_is_read() -> None:
    """v0.5 has the model in it, and neither hosts nor what fits into their memory."""
    shares = {"train_au_percentage": [91.0, 93.0], "train_au_mean_percentage": 92.0}
    document = {"model": "unet3d", **small(**shares)}
    del document["num_hosts"], document["potential_caching"]
    content = json.dumps(document, indent=4).encode()
    assert of_formats.recognised(OutputFile("summary.json", content)) == ["mlperf-storage"]
    one = measured(document)
    assert (one.status, one.requested["model"]) == (RunStatus.OK, "unet3d")
    assert one.reported["utilization_minimum"] == 0.9
    assert believed(one, "read_bandwidth") == [24 * 2**20, 16 * 2**20]


def test_checkpoints_have_no_epochs_that_could_come_from_memory() -> None:
    one = measured(checkpointing() | {"potential_caching": [1, 0], "epochs": 0})
    assert (one.status, one.warnings) == (RunStatus.OK, ())


def test_data_that_fits_into_memory_is_said() -> None:
    one = measured(small() | {"potential_caching": [1, 0]})
    assert (one.status, code_of(one.warnings[0])) == (RunStatus.OK, "data-fits-memory")
    assert "1 of 2" in one.warnings[0]


def test_a_run_that_did_not_end_is_partial() -> None:
    document = small()
    del document["end"]
    assert measured(document).status is RunStatus.PARTIAL


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("train_throughput_samples_per_second", [12.0, 8.1]),
        ("train_throughput_samples_per_second", [12.0]),
        ("train_throughput_samples_per_second", [12.0, None]),
        ("train_throughput_mean_samples_per_second", 10.1),
        ("train_throughput_mean_samples_per_second", None),
    ],
)
def test_rates_that_do_not_fit_together_are_not_believed(key: str, value: object) -> None:
    one = measured(small(**{key: value}))
    assert believed(one, "samples_rate") == believed(one, "read_bandwidth") == []
    assert believed(one, "accelerator_utilization") == pytest.approx([0.96, 0.94])


def test_a_record_length_that_the_bytes_do_not_bear_out() -> None:
    dataset = "  dataset:\n    num_files_train: 64\n    record_length: {}\n"
    right, wrong = (
        measured(small(), config="workload:\n" + dataset.format(size))
        for size in (2 * MIB, 2 * MIB + 100)
    )
    assert believed(right, "read_bandwidth") == [24.0 * MIB, 16.0 * MIB]
    assert (believed(wrong, "read_bandwidth"), believed(wrong, "samples_rate")) == ([], [12.0, 8.0])


CHECKPOINTS = {
    "1": {
        "start": "x",
        "save_ckpt1": {"start": "x", "end": "x", "duration": 4.0, "throughput": 2.5},
        "save_ckpt2": {"start": "x", "end": "x", "duration": "5.0", "throughput": 2.0},
        "load_ckpt1": {"start": "x", "end": "x", "duration": 2.0, "throughput": 5.0},
    }
}


def checkpointing(**changes: Any) -> dict[str, Any]:
    document = small()
    document["metric"] = {
        "save_checkpoint_io_mean_GB_per_second": 2.25,
        "save_checkpoint_duration_mean_seconds": 4.5,
        "load_checkpoint_io_mean_GB_per_second": 5.0,
        "load_checkpoint_duration_mean_seconds": 2.0,
        "checkpoint_size_GB": 10.0,
    } | changes
    return document


def test_checkpoints() -> None:
    one = measured(checkpointing(), epochs=json.dumps(CHECKPOINTS, indent=4))
    assert (one.status, one.problem) == (RunStatus.OK, None)
    assert believed(one, "write_bandwidth") == [2.5 * 2**30, 2.0 * 2**30]
    assert believed(one, "write_time") == [4.0, 5.0]
    assert believed(one, "read_bandwidth") == [5.0 * 2**30]
    assert one.requested["checkpoint_bytes"] == 10 * 2**30
    assert {sample.output for sample in one.samples if sample.statistic == "total"} == {1}
    first = one.samples[0]
    assert json.dumps(CHECKPOINTS, indent=4).split("\n")[(first.line or 0) - 1].endswith(": 2.5")


def test_checkpoints_that_the_mean_does_not_bear_out() -> None:
    document = checkpointing(save_checkpoint_io_mean_GB_per_second=2.3)
    one = measured(document, epochs=json.dumps(CHECKPOINTS))
    assert believed(one, "write_bandwidth") == believed(one, "write_time") == []
    assert believed(one, "read_bandwidth") == [5.0 * 2**30]


def test_checkpoints_without_their_times_have_their_mean() -> None:
    one = measured(checkpointing())
    assert (one.status, believed(one, "write_bandwidth")) == (RunStatus.OK, [])
    assert {sample.statistic for sample in one.samples} == {"mean"}
    gaps = [gap.what for gap in one.missing]
    assert gaps == ["save of each checkpoint", "load of each checkpoint"]


@pytest.mark.parametrize(
    "content", ["{", "[1]", "{}", '{"metric": 3}', '{"metric": {}} x', "{" * 100_000]
)
def test_what_is_no_summary_is_refused_with_its_line(content: str) -> None:
    with pytest.raises(DataError) as caught:
        FORMAT.read(OutputFile("summary.json", content.encode()))
    assert caught.value.line == 1


def test_an_empty_summary_is_a_failure() -> None:
    one = measured({"metric": {}, "end": "2025-07-11T10:10:00"})
    assert (one.status, one.codes) == (RunStatus.FAILED, ("no-result",))


@sampled
def test_damage_of_a_small_summary() -> None:
    source = OutputFile("summary.json", json.dumps(small(), indent=4).encode())
    of_formats.check_damaged(FORMAT, source)


@sampled
def test_damage_of_real_ones() -> None:
    (path,) = real("Cray_ClusterStor_E1000_10xHDR200_1host/resnet50_h100/run-1/summary.json")
    of_formats.check_damaged(FORMAT, source_of(path))
    (path,) = real("*_5hosts/unet3d_h100/mlperf_storage_report.json")
    of_formats.check_damaged(FORMAT, OutputFile(str(path), path.read_bytes()))


@given(st.integers(0, 4), st.integers(0, 16), st.sampled_from("0123456789"))
@settings(deadline=None)
def test_a_changed_digit_is_noticed(epoch: int, place: int, digit: str) -> None:
    """Every epoch stands beside the mean of all: one that was altered shows."""
    rates = [57361.04218, 55843.17405, 54139.80951, 55274.13917, 54983.85261]
    text = json.dumps(rates[epoch])
    place %= len(text)
    changed = [*rates]
    changed[epoch] = float(text[:place] + digit + text[place + 1 :])
    summary = small(
        train_throughput_samples_per_second=changed,
        train_throughput_mean_samples_per_second=sum(rates) / 5,
        train_au_percentage=[95.0] * 5,
    )
    found = believed(measured(summary | {"epochs": 5}), "samples_rate")
    if abs(changed[epoch] - rates[epoch]) > 5e-3:
        assert found == []
    else:
        assert len(found) in (0, 5)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["metric", "epochs", "runs", "overall", *small()["metric"]]),
                inner,
                max_size=6,
            )
        ),
        max_leaves=20,
    )
)
@settings(deadline=None)
def test_other_shapes_never_raise(value: object) -> None:
    for document in (value, {"metric": value}, small() | {"metric": value}, {"runs": value}):
        content = json.dumps(document).encode()
        of_formats.read_or_none(FORMAT, OutputFile("summary.json", content))
