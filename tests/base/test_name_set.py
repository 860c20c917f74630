"""Node sets and sets of targets: unfolded in their order, nothing hostile let through."""

from __future__ import annotations

import ast
import os
import pwd
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from ClusterShell import NodeUtils
from ClusterShell.NodeSet import set_std_group_resolver
from hypothesis import given
from hypothesis import strategies as st
from tests.support.codes import raises
from tests.support.each import for_each

from trimtab.base import name_set
from trimtab.base.error import UsageError
from trimtab.base.name_set import fold_nodes, fold_targets, unfold_nodes, unfold_targets
from trimtab.base.trusted_file import refuse_below_others

CLUSTERSHELL = {
    "Engine.EPoll", "Engine.Engine", "NodeSet", "NodeUtils", "RangeSet", "Worker.EngineClient",
}  # fmt: skip


class _NeverAsked(NodeUtils.GroupResolver):
    """ClusterShell's default resolver, which knows the examples of its package."""

    def _source(self, *namespace: object) -> NoReturn:
        raise AssertionError(f"ClusterShell's default resolver was asked for {namespace}")


@pytest.fixture(autouse=True)
def no_default_groups() -> Iterator[None]:
    set_std_group_resolver(_NeverAsked())
    yield
    set_std_group_resolver(None)


def configured(directory: Path, monkeypatch: pytest.MonkeyPatch, groups: str) -> Path:
    """Have a configuration of a person of this host, its groups in a file beside it."""
    place = directory / "clustershell"
    place.mkdir()
    (place / "groups.conf").write_text(
        "[Main]\ndefault: site\nautodir: $CFGDIR/groups.d\n"
        "[site]\nmap: sed -n 's/^$GROUP: //p' $CFGDIR/groups\n"
        "list: sed -n 's/: .*//p' $CFGDIR/groups\n"
    )
    (place / "groups").write_text(groups)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(directory))
    # Root uses only what nobody else can exchange, and a temporary directory is not.
    monkeypatch.setattr(name_set, "refuse_below_others", lambda *_: None)
    return place


hosts = st.from_regex(r"[a-z]{1,4}[0-9]{0,3}(-[a-z0-9]{1,3})?(\.x)?", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("oss[08-11]", ("oss08", "oss09", "oss10", "oss11")),
        ("oss2,oss1", ("oss2", "oss1")),
        (" n1 , n2,n1", ("n1", "n2")),
        ("n[1-4/2],mds", ("n1", "n3", "mds")),
        ("n[1-2]x[01-02]", ("n1x01", "n1x02", "n2x01", "n2x02")),
        ("n[1-3]!n2", ("n1", "n3")),
        ("oss1.example.org", ("oss1.example.org",)),
        ("10.0.0.[9-10],fd00::1", ("10.0.0.9", "10.0.0.10", "fd00::1")),
    ],
)
def test_a_node_set_is_unfolded(text: str, names: tuple[str, ...]) -> None:
    assert unfold_nodes(text) == names


addresses = st.ip_addresses().map(str).filter(lambda text: text[0] != ":")


@given(st.lists(hosts | addresses, min_size=1, max_size=20, unique=True))
def test_unfolding_undoes_folding(names: list[str]) -> None:
    assert unfold_nodes(fold_nodes(names)) == tuple(names)


def test_folding_is_short_where_the_order_allows() -> None:
    assert fold_nodes([f"oss{number:03}" for number in range(157)]) == "oss[000-156]"
    assert fold_nodes(["b", "a"]) == "b,a"


@for_each(
    "text",
    [
        "",
        ",",
        "a,,b",
        "n[1-3",
        "n[3-1]",
        "n[a-b]",
        "n[1-3/0]",
        "n]1[",
        "a b",
        "-oProxyCommand=x",
        "a,-b",
        "$(reboot)",
        "a;b",
        "a|b",
        "a\nb",
        "é",
        "n*",
        "%foo",
        "n[1-99999999999999999999]",
        f"n[1-{'9' * 5000}]",
        "n[0-999][0-999]",
        ",".join(f"n{number}[0-999]" for number in range(20)),
        "n" * 200_000,
    ],
)
def test_what_is_no_node_set_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        unfold_nodes(text)
    assert len(caught.value.message) < 400
    assert "\n" not in caught.value.message


@pytest.mark.system
def test_a_group_is_what_the_person_or_the_site_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configured(tmp_path, monkeypatch, "oss: oss[1-2]\nmds: mds1\nnone: \n")
    assert unfold_nodes("@oss") == ("oss1", "oss2")
    assert unfold_nodes("@site:mds,@oss!oss1") == ("mds1", "oss2")
    assert unfold_nodes("@oss!@none") == ("oss1", "oss2")
    for text in ("@gpu", "@oss,@gpu", "@other:oss"):
        with pytest.raises(UsageError, match=re.escape(f"{tmp_path}/clustershell/groups.conf")):
            unfold_nodes(text)


@pytest.mark.system
def test_what_clustershell_is_told_to_use_outranks_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("person", "chosen"):
        (tmp_path / name).mkdir()
    configured(tmp_path / "chosen", monkeypatch, "oss: chosen1\n")
    configured(tmp_path / "person", monkeypatch, "oss: person1\n")
    assert unfold_nodes("@oss") == ("person1",)
    monkeypatch.setenv("CLUSTERSHELL_CFGDIR", str(tmp_path / "chosen" / "clustershell"))
    assert unfold_nodes("@oss") == ("chosen1",)


@pytest.mark.parametrize("text", ["@oss", "@compute", "@nosuch:oss", "n*", "@*"])
def test_the_examples_of_the_package_are_no_groups(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package brings groups of this name in the environment that these tests run in, too."""
    examples = Path(sys.prefix, "etc/clustershell/groups.d/local.cfg")
    if examples.exists():
        assert "oss: example4 example5" in examples.read_text()
    monkeypatch.setattr(name_set, "group_files", lambda: (tmp_path / "groups.conf",))
    with pytest.raises(UsageError) as caught:
        unfold_nodes(text)
    assert str(tmp_path / "groups.conf") in caught.value.message
    assert "define the group" in (caught.value.hint or "")


def test_only_the_sites_and_the_persons_configuration_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("XDG_CONFIG_HOME", "CLUSTERSHELL_CFGDIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/ann")
    site = Path("/etc/clustershell/groups.conf")
    for user, home in ((1000, "/home/ann"), (0, pwd.getpwuid(0).pw_dir)):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        assert name_set.group_files() == (
            site, Path(home, ".config/clustershell/groups.conf"),
        )  # fmt: skip
    monkeypatch.setenv("XDG_CONFIG_HOME", "/srv/xdg")
    monkeypatch.setenv("CLUSTERSHELL_CFGDIR", "/srv/chosen")
    assert [str(file.parent) for file in name_set.group_files()] == [
        "/etc/clustershell", "/srv/xdg/clustershell", "/srv/chosen",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["groups", "groups.conf", "groups.d", "groups.d/more.yaml", "."])
def test_root_uses_no_configuration_that_others_can_change(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("of root")
    place = configured(tmp_path, monkeypatch, "oss: oss1\n")
    (place / "groups.d").mkdir()
    (place / "groups.d" / "more.yaml").write_text("more:\n  oss: oss1\n")
    assert unfold_nodes("@more:oss") == ("oss1",)
    (place / name).chmod(0o777)
    with pytest.raises(UsageError, match=r"can be written by everyone.* runs as root"):
        unfold_nodes("@more:oss")
    (place / name).chmod(0o755)
    os.chown(place / name, 65534, -1)
    with pytest.raises(UsageError, match="belongs to user 65534"):
        unfold_nodes("@more:oss")
    assert unfold_nodes("oss[1-2]") == ("oss1", "oss2"), "names need no configuration"


def test_root_uses_no_configuration_below_a_directory_of_others(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("of root")
    place = tmp_path / "person" / "clustershell"
    place.mkdir(parents=True)
    refuse_below_others(place, "it")
    os.chown(place.parent, 65534, -1)
    with pytest.raises(UsageError, match=r"it is below .*/person, which belongs to user 65534"):
        refuse_below_others(place, "it")
    link = tmp_path / "link"
    link.symlink_to(place)
    further = tmp_path / "further"
    further.symlink_to(link)
    for path in (link, further, further / "groups.conf"):
        with pytest.raises(UsageError, match="belongs to user 65534"):
            refuse_below_others(path, "it")
    os.chown(place.parent, 0, 0)
    refuse_below_others(further / "groups.conf", "it")
    place.parent.chmod(0o777)
    with pytest.raises(UsageError, match="can be written by everyone"):
        refuse_below_others(place, "it")
    place.parent.chmod(0o1777)
    refuse_below_others(place, "it")
    os.chown(place.parent, 65534, -1)
    with pytest.raises(UsageError, match="belongs to user 65534"):
        refuse_below_others(place, "it")


@pytest.mark.system
@pytest.mark.parametrize("group", ["x' /dev/null;touch {};'", "$(touch {})", "-x", "oss -x", "a|b"])
def test_no_shell_runs_what_the_name_of_a_group_says(
    group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configured(tmp_path, monkeypatch, "oss: oss1\n")
    with pytest.raises(UsageError):
        unfold_nodes("@" + group.format(tmp_path / "made"))
    assert not (tmp_path / "made").exists()


def test_a_file_that_is_no_configuration_is_an_error_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = configured(tmp_path, monkeypatch, "oss: oss1\n")
    (place / "groups.conf").write_text("no section\n")
    for _ in range(2):
        with pytest.raises(UsageError, match="no section headers"):
            unfold_nodes("@oss")


def test_every_node_set_names_its_resolver() -> None:
    """ClusterShell's default one is used wherever none is named; no Task or worker is used at all.

    Those read paths and options of ssh, and classes to import, from the package's own files.
    """
    source, made = Path(name_set.__file__).parents[1], 0
    texts = {file: file.read_text() for file in source.rglob("*.py")}
    for file, text in texts.items():
        for node in ast.walk(ast.parse(text if "ClusterShell" in text else "")):
            if isinstance(node, ast.Call) and "NodeSet" in ast.unparse(node.func).split("."):
                assert "resolver" in {keyword.arg for keyword in node.keywords}, file
                made += 1
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [a.name for a in node.names] if isinstance(node, ast.Import) else []
            for module in modules:
                if module.startswith("ClusterShell"):
                    assert module.removeprefix("ClusterShell.") in CLUSTERSHELL, (file, module)
    assert made >= 3


targets = st.builds(
    lambda kind, index: f"{kind}{index:04x}",
    st.sampled_from(["OST", "MDT"]),
    st.one_of(st.integers(0, 40), st.integers(0, 0xFFFF)),
)


def test_indices_are_hexadecimal() -> None:
    assert unfold_targets("OST[0009-000a]") == ("OST0009", "OST000a")
    assert unfold_targets("OST[00fe-0101]") == ("OST00fe", "OST00ff", "OST0100", "OST0101")
    assert fold_targets(["OST0010", "OST000f"]) == "OST[000f-0010]"
    assert fold_targets(["OST0009", "OST0010"]) == "OST[0009,0010]"


def test_the_order_is_that_of_the_text() -> None:
    assert unfold_targets(" OST0001 , MDT0000,OST000A") == ("OST0001", "MDT0000", "OST000a")
    assert unfold_targets("OST[0005, 0001-0002]") == ("OST0005", "OST0001", "OST0002")


def test_the_target_of_a_site_with_298_osts() -> None:
    osts = [f"OST{index:04x}" for index in range(298)]
    assert fold_targets([*osts, "MDT0000"]) == "MDT0000,OST[0000-0129]"
    assert unfold_targets("OST[0000-0129]") == tuple(osts)


@given(st.sets(targets, min_size=1, max_size=60))
def test_unfolding_undoes_folding_of_targets(targets: set[str]) -> None:
    assert set(unfold_targets(fold_targets(targets))) == targets


@given(st.text(alphabet="OSTMD0123459af[],-x \n", max_size=40))
def test_any_text_is_a_set_or_an_error(text: str) -> None:
    try:
        found = unfold_targets(text)
    except UsageError:
        return
    assert set(unfold_targets(fold_targets(found))) == set(found)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "OST",
        "OST1",
        "OST00001",
        "ost0001",
        "OST[0000-0003",
        "OST[]",
        "OST[0003-0001]",
        "OST[0-3]",
        "OST0000,",
        "OST0000 OST0001",
        "OST0000,OST0000",
        "OST[0000-0002,0001]",
        "scratch-OST0000",
        "OST00٣0",
        "\x1b[31m",
    ],
)
def test_what_is_no_set_of_targets_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        unfold_targets(text)
    assert "\x1b" not in caught.value.message


def test_what_is_no_target_is_not_folded() -> None:
    with raises(UsageError, "target-name-invalid"):
        fold_targets(["OST0000", "oss1"])
