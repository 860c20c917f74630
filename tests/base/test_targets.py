"""Sets of target names: hexadecimal, unlike every node set."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.codes import raises

from trimtab.base.error import UsageError
from trimtab.base.name_set import fold_targets, unfold_targets

names = st.builds(
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


@given(st.sets(names, min_size=1, max_size=60))
def test_unfolding_undoes_folding(targets: set[str]) -> None:
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
def test_what_is_no_set_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        unfold_targets(text)
    assert "\x1b" not in caught.value.message


def test_what_is_no_target_is_not_folded() -> None:
    with raises(UsageError, "target-name-invalid"):
        fold_targets(["OST0000", "oss1"])
