"""Hints for jobs: what was measured comes out, nothing contradicts itself, text can be run."""

import shlex
import subprocess
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.command import trimtab

from trimtab.explain.hint import (
    HintBasis,
    HintKind,
    JobRequest,
    Mpi,
    advise,
    paste_text,
    setstripe_argv,
)

KIB, MIB, GIB = 1024, 1024**2, 1024**3

requests = st.builds(
    JobRequest,
    osts=st.integers(1, 3000),
    nodes=st.integers(1, 10_000),
    tasks_per_node=st.integers(1, 256),
    mpi=st.sampled_from(Mpi),
    shared=st.booleans(),
    file_size_bytes=st.none() | st.integers(1, 2**50),
    transfer_size_bytes=st.none() | st.integers(1, 2**34),
    overstriping=st.booleans(),
)


def values(request, kind=None):
    return {h.name: h.value for h in advise(request) if kind is None or h.kind is kind}


def advised(**job):
    """Return what is advised to a job, by the names of the hints."""
    return values(JobRequest(**job))


def test_what_wrf_was_measured_with():
    """32 nodes, 4 OSTs, writes of 10 to 100 KB: the appendix of the E2000 paper."""
    chosen = advised(osts=4, nodes=32, tasks_per_node=64, transfer_size_bytes=64 * KIB)
    assert chosen["stripe_size"] == str(MIB)
    assert chosen["stripe_count"] == "-1"
    assert chosen["romio_cb_write"] == "enable"
    assert chosen["cray_cb_nodes_multiplier"] == "8"
    assert chosen["cray_cb_write_lock_mode"] == "2"
    assert chosen["romio_ds_write"] == chosen["romio_ds_read"] == "disable"


def test_lockahead_costs_and_says_so():
    (hint,) = (
        h for h in advise(JobRequest(osts=4, nodes=32)) if h.name == "cray_cb_write_lock_mode"
    )
    assert hint.reason.code == "lockahead"
    assert hint.basis is HintBasis.MEASURED


def test_without_a_second_aggregator_there_is_no_lock_to_wait_for():
    chosen = advised(osts=64, nodes=32)
    assert chosen["cray_cb_nodes_multiplier"] == "1"
    assert "cray_cb_write_lock_mode" not in chosen
    assert chosen["stripe_count"] == "32"
    assert chosen["striping_factor"] == "32"


def test_romio_gets_a_stripe_for_each_aggregator():
    """32 stripes on 4 OSTs, the paper's other good choice."""
    chosen = advised(osts=4, nodes=32, mpi=Mpi.ROMIO)
    assert chosen["overstripe_count"] == chosen["cb_nodes"] == "32"
    assert chosen["cb_config_list"] == "*:1"
    assert "striping_factor" not in chosen
    plain = advised(osts=4, nodes=32, mpi=Mpi.ROMIO, overstriping=False)
    assert "overstripe_count" not in plain
    assert plain["cb_nodes"] == "4"


def test_openmpi_is_told_romio_and_what_ompio_would_take():
    request = JobRequest(osts=8, nodes=4, mpi=Mpi.OPENMPI)
    mca = values(request, HintKind.MCA)
    assert mca["io"] == "^ompio"
    assert mca["fs_lustre_stripe_size"] == str(MIB)
    assert mca["fs_lustre_stripe_width"] == "4"
    assert values(request, HintKind.MPI_IO)["striping_factor"] == "4"


def test_every_ost_is_minus_one():
    """An explicit number of all OSTs fails as soon as one is closed."""
    assert advised(osts=4, nodes=4)["stripe_count"] == "-1"
    assert "striping_factor" not in advised(osts=4, nodes=4)
    assert advised(osts=1, nodes=4)["stripe_count"] == "1"


@pytest.mark.parametrize(
    ("size", "stripes"), [(4 * KIB, "1"), (512 * MIB, "4"), (GIB, "4"), (GIB + 1, "-1")]
)
def test_small_files_get_few_stripes(size, stripes):
    assert advised(osts=16, nodes=16, file_size_bytes=size)["stripe_count"] == stripes


@pytest.mark.parametrize(
    ("transfer", "stripe"),
    [(None, MIB), (4 * KIB, MIB), (MIB, MIB), (3 * MIB, 4 * MIB), (64 * MIB, 16 * MIB)],
)
def test_a_write_fits_into_a_stripe(transfer, stripe):
    chosen = advised(osts=4, nodes=4, transfer_size_bytes=transfer)
    assert chosen["stripe_size"] == str(stripe)


def test_large_writes_are_left_to_the_library():
    assert advised(osts=4, nodes=4, transfer_size_bytes=16 * MIB)["romio_cb_write"] == "automatic"


def test_own_files_are_not_collected():
    chosen = advised(osts=4, nodes=4, tasks_per_node=8, shared=False)
    assert chosen["stripe_count"] == "1"
    assert chosen["romio_cb_write"] == "disable"
    assert "cray_cb_nodes_multiplier" not in chosen


def test_uneven_files_are_told():
    """2,048 files over 274 OSTs: 8 on some, 7 on others."""
    hint = advise(JobRequest(osts=274, nodes=32, tasks_per_node=64, shared=False))[0]
    assert hint.reason.code == "files-spread-unevenly"
    assert "8 on some and 7 on others" in hint.reason
    assert "2,192 tasks" in hint.reason


def test_few_large_own_files_use_idle_osts():
    assert advised(osts=64, nodes=4, shared=False)["stripe_count"] == "8"
    assert advised(osts=64, nodes=4, shared=False, file_size_bytes=MIB)["stripe_count"] == "1"


@given(requests)
def test_hints_never_contradict_themselves(request):
    hints = advise(request)
    assert all(hint.reason and hint.source and hint.value for hint in hints)
    names = [(hint.kind, hint.name) for hint in hints]
    assert len(set(names)) == len(names)
    chosen = {hint.name: hint.value for hint in hints}
    assert ("stripe_count" in chosen) != ("overstripe_count" in chosen)
    stripes = int(chosen.get("stripe_count", chosen.get("overstripe_count", "0")))
    assert stripes == -1 or 1 <= stripes <= 2000
    if "overstripe_count" not in chosen:
        assert stripes <= request.osts
    assert int(chosen["stripe_size"]) % 65536 == 0
    if "cb_nodes" in chosen:
        assert int(chosen["cb_nodes"]) <= request.tasks
        per_node = int(chosen["cb_config_list"].removeprefix("*:"))
        assert per_node * request.nodes >= int(chosen["cb_nodes"])
        assert per_node <= request.tasks_per_node
    if "cb_buffer_size" in chosen:
        assert int(chosen["cb_buffer_size"]) % int(chosen["stripe_size"]) == 0
    if "striping_factor" in chosen:
        assert int(chosen["striping_factor"]) == stripes


@given(requests)
def test_no_protection_is_ever_switched_off(request):
    words = " ".join(f"{h.name} {h.value} {h.reason}" for h in advise(request)).lower()
    assert "checksum" not in words
    assert "mitigation" not in words


@pytest.mark.cli
@given(requests)
def test_the_text_is_a_script(request):
    text = paste_text(request, advise(request), "/scratch/my run")
    checked = subprocess.run(
        ["bash", "-n"], input=text, text=True, capture_output=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
    first = shlex.split(text.splitlines()[0])
    assert first == list(setstripe_argv(advise(request), "/scratch/my run"))
    assert first[-1] == "/scratch/my run"


@pytest.mark.cli
def test_the_text_gives_the_program_what_was_said(tmp_path):
    """Run by a real shell: the hints file and the environment hold every hint."""
    for mpi in Mpi:
        request = JobRequest(osts=64, nodes=16, tasks_per_node=4, mpi=mpi)
        script = "lfs() { :; }\n" + paste_text(request, advise(request), "/x")
        ended = subprocess.run(
            ["bash", "-c", script + "env"], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        environment = dict(line.split("=", 1) for line in ended.stdout.splitlines() if "=" in line)
        hints = values(request, HintKind.MPI_IO)
        if mpi is Mpi.CRAY:
            pattern, *pairs = environment["MPICH_MPIIO_HINTS"].split(":")
            assert pattern == "*"
            assert dict(pair.split("=") for pair in pairs) == hints
        else:
            lines = (tmp_path / "romio-hints.txt").read_text().splitlines()
            assert dict(line.split(" ") for line in lines) == hints
            assert environment["ROMIO_HINTS"] == str(tmp_path / "romio-hints.txt")
        if mpi is Mpi.OPENMPI:
            assert environment["OMPI_MCA_io"] == "^ompio"


@pytest.mark.parametrize("name", ["osts", "nodes", "tasks_per_node", "transfer_size_bytes"])
def test_nothing_is_refused(name):
    changed: dict[str, Any] = {name: 0}
    with pytest.raises(ValueError, match=name):
        replace(JobRequest(osts=1, nodes=1), **changed)


@pytest.mark.cli
def test_the_command(tmp_path):
    arguments = ("hints", "--ost", 4, "--nodes", 32, "--transfer-size", "64KiB")
    ended = trimtab(*arguments, "--directory", "/scratch/run", store=tmp_path / "t.db")
    assert ended.code == 0, ended.stderr
    assert "lfs setstripe -c -1 -S 1048576 /scratch/run" in ended.stdout
    assert "cray_cb_write_lock_mode=2" in ended.stdout
    document = trimtab(*arguments, "--json", store=tmp_path / "t.db").document
    assert document["job"]["transfer_size_bytes"] == 65536
    assert document["setstripe"][:2] == ["lfs", "setstripe"]
    assert all(hint["source"] for hint in document["hints"])
    assert trimtab("hints", "--ost", 4, store=tmp_path / "t.db").code == 2
    zero = trimtab(*arguments[:-1], "0", store=tmp_path / "t.db")
    assert zero.code == 2


def test_more_osts_than_a_file_can_have_stripes_are_not_called_all_of_them():
    hints = {hint.name: hint for hint in advise(JobRequest(osts=2001, nodes=3000))}
    count = hints["stripe_count"]
    assert count.value == "2000"
    assert count.reason.code == "most-stripes-of-a-file"
    assert "2,000 of 2,001" in count.reason
    of_large = {hint.name: hint for hint in advise(JobRequest(osts=2000, nodes=3000))}
    assert of_large["stripe_count"].reason.code == "all-osts"


@pytest.mark.parametrize("size", [10, 1024**2, 1024**3])
def test_a_small_file_gets_no_lockahead(size):
    small = JobRequest(osts=4, nodes=32, file_size_bytes=size)
    hints = {hint.name: hint for hint in advise(small)}
    assert "cray_cb_write_lock_mode" not in hints
    multiplier = hints["cray_cb_nodes_multiplier"]
    assert multiplier.value == "1"
    assert multiplier.reason.code == "file-too-small"
    large = JobRequest(osts=4, nodes=32, file_size_bytes=1024**3 + 1)
    assert "cray_cb_write_lock_mode" in {hint.name for hint in advise(large)}
