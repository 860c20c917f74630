"""What `trimtab.judge` offers by name, and that naming it loads nothing."""

import subprocess
import sys
from importlib import import_module

import pytest

import trimtab.judge


def test_every_name_is_a_function_of_its_own_name():
    for name in trimtab.judge.__all__:
        found = getattr(trimtab.judge, name)
        assert callable(found), name
        assert found.__name__ == name


def test_no_name_is_that_of_a_module():
    # The module would stand under it as soon as somebody had imported it.
    for name in trimtab.judge.__all__:
        with pytest.raises(ModuleNotFoundError):
            import_module(f"trimtab.judge.{name}")


def test_what_is_not_there_is_said():
    with pytest.raises(AttributeError, match="no attribute 'judge_serious'"):
        getattr(trimtab.judge, "judge_" + "serious")


@pytest.mark.system
@pytest.mark.parametrize(
    "module",
    ["run_verdict", "change", "correlation", "series_analysis", "series_level", "variability"],
)
def test_importing_loads_no_heavy_library(module):
    """Of what status, watch and log have on their way; `targets` is loaded with the frames."""
    code = f"import trimtab.judge.{module}, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()
    assert not {"polars", "scipy", "numpy", "pydantic", "sqlalchemy", "altair"} & set(loaded)


@pytest.mark.system
def test_the_package_loads_nothing_of_its_own():
    code = "import trimtab.judge, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()
    assert [name for name in loaded if name.startswith("trimtab.judge.")] == []
