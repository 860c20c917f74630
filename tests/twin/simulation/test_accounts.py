import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab._core import book
from trimtab.twin.scenario import Users
from trimtab.twin.simulation.population import Accounts, planned_shares

PLANS = st.sampled_from([False, False, False, True])
USERS = Users(
    count=50,
    fullness=0.5,
    daily_writes_bytes=1e15,
    daily_reads_bytes=1e15,
    quota_bytes=20e12,
    quota_inodes=20e6,
)
LIVES = np.array([0.5, 0.3, 0.2])


def accounts(users=USERS, stored=100e12):
    return Accounts(users, 3, LIVES * stored, 4)


def limits(of, users):
    return np.minimum(users.quota_bytes, users.quota_inodes * of.file_bytes[:-1])


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.0, 2e15), st.lists(st.floats(0.1, 1.0), min_size=3, max_size=3)))
)
def test_no_user_ever_holds_more_than_a_quota_and_no_byte_is_lost(epochs):
    of = accounts()
    held = of.held.copy()
    for wanted, kept in epochs:
        accepted = of.accept(of.shares * wanted)
        assert accepted.accepted + accepted.refused == pytest.approx(wanted, rel=1e-9, abs=1.0)
        of.write(accepted, LIVES)
        of.shrink(np.array(kept))
        held = (held + np.outer(LIVES, accepted.by_user)) * np.array(kept)[:, None]
        np.testing.assert_allclose(of.held, held, rtol=1e-9, atol=1.0)
        assert (of.by_user[:-1] <= limits(of, USERS) * (1 + 1e-9)).all()


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0.0, 2e13), st.floats(0.0, 1.1), st.floats(0.5, 1.0), PLANS),
        max_size=40,
    )
)
def test_what_is_planned_is_accepted_and_booked_as_if_each_user_were_looked_at(epochs):
    """Quotas are asked for, and books are kept, once for many epochs: to the last bit the same."""
    quick, slow = accounts(), accounts()
    for total, part, kept, plans_anew in epochs:
        planned, looked_at = quick.accept_planned(total), slow.accept(slow.shares * total)
        assert planned.by_user.tolist() == looked_at.by_user.tolist()
        assert (planned.wanted, planned.accepted) == (looked_at.wanted, looked_at.accepted)
        for of, accepted in ((quick, planned), (slow, looked_at)):
            of.write(accepted, LIVES, part)
            of.shrink(np.array([kept, 1.0, 1.0]))
            if plans_anew:
                of.plan(USERS)
    assert quick.held.tolist() == slow.held.tolist()
    assert quick.creates().tolist() == slow.creates().tolist()


def test_without_quotas_nothing_is_refused_and_shares_are_zipfs():
    of = accounts(replace(USERS, quota_bytes=None, quota_inodes=None))
    assert of.accept(of.shares * 1e18).refused == 0.0
    assert of.shares[0] / of.shares[9] == pytest.approx(10**USERS.skew)
    assert of.shares.sum() == pytest.approx(1.0)


def test_the_quota_of_inodes_holds_those_with_small_files():
    of = accounts(replace(USERS, quota_bytes=None))
    full = of.accept(np.full(51, 1e18))
    of.write(full, LIVES)
    files = of.by_user[:-1] / of.file_bytes[:-1]
    np.testing.assert_allclose(files, 20e6)
    assert full.by_user[-1] == 1e18, "what belongs to nobody has no quota"


def test_heavy_users_plan_by_their_quota_and_the_rest_goes_to_the_others():
    wished = np.array([0.7, 0.2, 0.1])
    limit = np.array([50.0, 50.0, math.inf])
    # Nine tenths of 50 in 100 is 0.45; the rest is two to one, of which 0.367 fits.
    np.testing.assert_allclose(planned_shares(wished, limit, 100.0), [0.45, 0.55 * 2 / 3, 0.55 / 3])
    np.testing.assert_allclose(
        planned_shares(wished, np.array([10.0, 10.0, 20.0]), 100.0), [0.25, 0.25, 0.5]
    )
    np.testing.assert_allclose(planned_shares(wished, limit, 0.0), wished)


def test_inodes_of_mdts_follow_first_letters():
    of = accounts(stored=1e15)
    files = of.by_user / of.file_bytes
    assert of.inodes().sum() == pytest.approx(files.sum())
    for mdt in range(4):
        assert of.inodes()[mdt] == pytest.approx(files[of.mdt == mdt].sum())
    before = of.creates()
    taken = of.accept(of.shares * 1e12)
    of.write(taken, LIVES)
    assert (of.creates() - before).sum() == pytest.approx((taken.by_user / of.file_bytes).sum())


def test_many_deletions_do_not_lose_what_is_written_after():
    of = accounts()
    for _ in range(200):
        of.shrink(np.array([0.1, 0.5, 1.0]))
        of.write(of.accept(of.shares * 1e9), LIVES)
    assert of.held[0].sum() == pytest.approx(0.5e9 / 0.9 - 0.0, rel=0.2)
    assert np.isfinite(of.held).all()


@pytest.mark.parametrize(("lives", "users", "shares"), [(3, 50, 3), (3, 51, 2), (2, 51, 3)])
def test_books_of_another_size_are_refused(lives, users, shares):
    held, plan = np.zeros((lives, 51)), np.ones(51)
    with pytest.raises(ValueError, match="each user and lifetime"):
        book(held, np.zeros(users), plan, [(1.0, [0.1] * shares, 1.0)])
    assert not held.any()
