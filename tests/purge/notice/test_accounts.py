import pytest
from tests.purge.notice.making import Book
from tests.support.codes import raises

from trimtab.base.error import RefusedError
from trimtab.purge.owner import Account, file_names, find_account, find_accounts


def test_this_host_knows_root_and_not_everybody() -> None:
    result = find_account(0)
    assert result is not None
    assert (result.uid, result.name) == (0, "root")
    assert find_account(3_999_999_999) is None
    assert find_account(2**64) is None


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "a/b", ".hidden", "-rf", "DOMAIN\\ada", "ada@example.org", "a b", "a\nb",
     "", "uid-7", "UID-7", "é", "x" * 65, "\x1b[2J", "\udcff"],
)  # fmt: skip
def test_a_name_that_is_no_plain_word_names_no_file(name: str) -> None:
    assert file_names({5: Account(5, 5, name)}) == {5: "uid-5"}


def test_two_users_never_share_a_file() -> None:
    result = {1: Account(1, 1, "ada"), 2: Account(2, 2, "ada"), 3: Account(3, 3, "ADA"), 4: None}
    names = file_names(result)
    assert names == {1: "uid-1", 2: "uid-2", 3: "uid-3", 4: "uid-4"}
    assert file_names({1: Account(1, 1, "ada.l-2_x"), 2: None}) == {1: "ada.l-2_x", 2: "uid-2"}


def test_a_directory_service_that_is_down_is_noticed() -> None:
    book = Book(ada=1, bob=2, eve=3)
    assert find_accounts([1, 2, 3, 77, 78, 79], book)[77] is None
    with raises(RefusedError, "accounts-unknown"):
        find_accounts([1, 2, 3, 77, 78, 79, 80], book)
    assert find_accounts([77, 78, 79, 80, 81], book, accept_unknown=True)[77] is None
    assert find_accounts([77, 78, 79], book) == {77: None, 78: None, 79: None}
