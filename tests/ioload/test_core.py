"""The binding: module, stub, signals, threads."""

import ast
import inspect
import json
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from trimtab import _core
from trimtab.base.code_version import __version__

STUB = Path(inspect.getfile(__import__("trimtab"))).parent / "_core.pyi"


def stub_names() -> dict[str, ast.stmt]:
    names: dict[str, ast.stmt] = {}
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names[node.name] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names[node.target.id] = node
    # What begins with one underscore is a shape, for the type checker alone.
    return {name: names[name] for name in names if name.startswith("__") or name[0] != "_"}


def test_the_stub_and_the_built_module_agree() -> None:
    hidden = {"__all__", "__doc__", "__file__", "__loader__", "__name__", "__package__", "__spec__"}
    assert set(stub_names()) == set(dir(_core)) - hidden
    for name, node in stub_names().items():
        if isinstance(node, ast.FunctionDef):
            assert ast.get_docstring(node), name
            built = inspect.signature(getattr(_core, name))
            written = [argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)]
            assert list(built.parameters) == written, name


def test_one_version() -> None:
    assert _core.__version__ == __version__


def test_a_report_comes_back_as_text(tmp_path: Path) -> None:
    arguments = ["--dir", tmp_path, "--write", "--read", "--verify", "--block-size", "1MiB"]
    text, exit_code = _core.ioload(arguments)
    report = json.loads(text)
    assert exit_code == 0
    assert [phase["access"] for phase in report["phases"]] == ["write", "read"]
    assert report["phases"][1]["verify"]["mismatches"] == 0
    assert list(tmp_path.iterdir()) == []


def test_wrong_use_is_a_value_error_and_a_failed_run_a_report(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="hint: create it first"):
        _core.ioload(["--dir", tmp_path / "missing", "--write"])
    text, exit_code = _core.ioload(["--dir", tmp_path, "--read"])
    assert exit_code == 3
    assert json.loads(text)["error"]["errno"] == 2


def test_the_interpreter_goes_on_and_keeps_its_signal_handlers(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    ticks = 0
    done = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.wait(0.005):
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    arguments = ["--dir", tmp_path, "--write", "--block-size", "1MiB", "--minimum-duration", "0.3"]
    _core.ioload(arguments)
    done.set()
    thread.join()
    # With the lock held for the whole run there would be none.
    assert ticks > 5
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.system
def test_the_program_prints_one_object_and_its_exit_code_counts(
    program: str, tmp_path: Path
) -> None:
    command = [program, "--dir", str(tmp_path), "--write", "--block-size", "1MiB"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["argv"][0] == "ioload"
    done = subprocess.run([program, "--nonsense"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("ioload: error: ")


@pytest.mark.system
def test_ctrl_c_ends_the_program_with_a_report_and_no_traceback(
    program: str, tmp_path: Path
) -> None:
    duration = ["--deadline", "30", "--minimum-duration", "30", "--block-size", "1MiB"]
    command = [program, "--dir", str(tmp_path), "--write", "--keep", *duration]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        file = tmp_path / "ioload.00000000"
        while not file.exists():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert process.returncode == 130
    assert json.loads(out)["status"] == "interrupted"
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []
