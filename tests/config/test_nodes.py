"""Node sets of the site file: unfolded in their order, nothing hostile let through."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ClusterShell import NodeUtils
from ClusterShell.NodeSet import set_std_group_resolver
from hypothesis import given
from hypothesis import strategies as st
from tests.support.each import for_each

from trimtab.config.nodes import fold_nodes, unfold_nodes
from trimtab.errors import UsageError


@pytest.fixture(autouse=True)
def no_groups() -> Iterator[None]:
    """Give ClusterShell no groups, whatever this host configures: its default ones run a shell."""
    set_std_group_resolver(NodeUtils.GroupResolver())
    yield
    set_std_group_resolver(None)


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
def test_a_group_is_what_clustershell_says(tmp_path: Path) -> None:
    (tmp_path / "groups.conf").write_text(
        "[Main]\ndefault: site\n[site]\nmap: echo oss[1-2]\nlist: echo oss\n"
    )
    set_std_group_resolver(NodeUtils.GroupResolverConfig(str(tmp_path / "groups.conf")))
    assert unfold_nodes("@oss") == ("oss1", "oss2")


@pytest.mark.parametrize("text", ["@oss", "@nosuch:oss"])
def test_an_unknown_group_is_refused_with_a_way_out(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        unfold_nodes(text)
    assert "nodeset" in (caught.value.hint or "")
