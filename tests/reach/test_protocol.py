"""Every driver has every member of the protocol, and nothing looks for one by its name."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest
from tests.support.memory_driver import MemoryDriver

import trimtab
from trimtab.base.error import UsageError
from trimtab.base.filesystem import DRIVERS
from trimtab.reach.driver_protocol import ChangelogRegistrar, Driver
from trimtab.reach.local_driver import LocalDriver
from trimtab.reach.lustre.changelog import Registrar
from trimtab.reach.lustre.lustre_driver import LustreDriver
from trimtab.site.lookup import opener_of
from trimtab.twin.twin_driver import TwinDriver, TwinPath

PROTOCOLS: list[tuple[type, type]] = [
    (kind, Driver) for kind in (LocalDriver, LustreDriver, MemoryDriver, TwinDriver, TwinPath)
]
PROTOCOLS.append((Registrar, ChangelogRegistrar))
SOURCES = sorted(Path(trimtab.__file__).parent.rglob("*.py"))
OF_MODULES = {"open_site": ["site", "clock"], "open_for_acting": ["site", "clock", "token", "who"]}


def members(protocol: type) -> set[str]:
    return {name for name in vars(protocol) if not name.startswith("_")}


def parameters(function: object) -> list[tuple[str, object, object]]:
    assert callable(function)
    return [
        (one.name, one.kind, one.default) for one in inspect.signature(function).parameters.values()
    ]


@pytest.mark.parametrize(("kind", "protocol"), PROTOCOLS, ids=lambda kind: kind.__name__)
def test_methods_have_the_signature_of_the_protocol(kind: type, protocol: type) -> None:
    for name in members(protocol):
        declared = inspect.getattr_static(protocol, name)
        if not isinstance(declared, property):
            assert parameters(inspect.getattr_static(kind, name)) == parameters(declared), name


def test_attributes_of_the_protocol_are_there() -> None:
    for driver in (LocalDriver, LustreDriver, TwinDriver, TwinPath, MemoryDriver()):
        assert members(Driver) <= set(dir(driver))


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_driver_is_opened_by_functions_of_its_module(driver: str) -> None:
    module = opener_of(driver)
    for name, expected in OF_MODULES.items():
        function = getattr(module, name)
        assert list(inspect.signature(function).parameters) == expected


def of_drivers(call: ast.Call, names: set[str]) -> bool:
    """Return whether a call asks what a driver has, or which one it is."""
    function = call.func.id if isinstance(call.func, ast.Name) else ""
    if function in {"isinstance", "issubclass"}:
        return "Driver" in ast.unparse(call.args[1])
    if function not in {"getattr", "hasattr"}:
        return False
    word = call.args[1].value if isinstance(call.args[1], ast.Constant) else None
    return "driver" in ast.unparse(call.args[0]).lower() or word in names


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("getattr(driver, name, None)", True),
        ('hasattr(module, "open_for_acting")', True),
        ('getattr(one, "dead_man_s", None)', True),
        ("isinstance(one, LustreDriver)", True),
        ('getattr(error, "message", None)', False),
        ("isinstance(answer, NotAvailable)", False),
    ],
)
def test_what_asks_for_a_member_by_its_name_is_seen(text: str, found: bool) -> None:
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    assert of_drivers(call, asked_for_by_name()) is found


def asked_for_by_name() -> set[str]:
    """Return the names that nothing may ask for; others have a name and a run, too."""
    return members(Driver) - {"name", "run"} | members(ChangelogRegistrar) | set(OF_MODULES)


def test_no_member_of_a_driver_is_looked_for_by_its_name() -> None:
    """A renamed member would be taken for one that is absent, and what rests on it switched off.

    What one driver alone can do is a member of the protocol, `NotAvailable` in the others.
    """
    names, problems = asked_for_by_name(), []
    assert len(SOURCES) > 100
    for path in SOURCES:
        data = path.read_bytes()
        if b"attr(" in data or b"Driver" in data:
            problems += [
                f"{path}:{node.lineno}: {ast.unparse(node)}"
                for node in ast.walk(ast.parse(data))
                if isinstance(node, ast.Call) and of_drivers(node, names)
            ]
    assert not problems


def test_a_driver_that_is_not_installed_is_said_so() -> None:
    with pytest.raises(UsageError, match="driver beegfs is not installed"):
        opener_of("beegfs")
