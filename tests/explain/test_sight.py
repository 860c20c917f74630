"""What a piece of evidence can see, and what it may say of a cause that acts elsewhere."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.explain.causes.contexts import context

from trimtab.base.incident import Against, Evidence, Explanation, Found, Route
from trimtab.base.plain import packed, unpacked
from trimtab.explain.causes import TABLE
from trimtab.explain.context import Cause, always_at
from trimtab.explain.contrast import Sign
from trimtab.explain.explanation import explain
from trimtab.explain.sight import EVERYWHERE, SEES, Layer, View, settings_see

WELL = Sign("as-ever", Route.TARGETS, "survey", view=View.SURVEY_ON_SERVERS)


def counted(piece: Evidence, *layers: Layer) -> Evidence:
    """Return a piece as it counts for a cause that acts at these layers."""
    acts_on = always_at(*layers)
    cause = Cause("a", "a cause", 0.1, lambda _: (piece,), "measure it", acts_on=acts_on)
    (piece,) = cause.evidence(context())
    return piece


def test_every_view_states_what_it_sees() -> None:
    assert SEES.keys() == set(View)
    assert all(layers <= EVERYWHERE for layers in SEES.values())


def test_what_cannot_see_the_cause_does_not_contradict_it() -> None:
    absent = WELL.weighed("every target as ever", -0.8, against=Against.ABSENT)
    assert counted(absent, "target") == absent
    assert counted(absent, "target", "server") == absent
    for layers in (("client",), ("client", "target"), tuple(EVERYWHERE)):
        piece = counted(absent, *layers)
        assert (piece.found, piece.weight, piece.what.code) == (Found.NEUTRAL, 0.0, "as-ever")
        assert "does not cover: client" in piece.what


@pytest.mark.parametrize("against", [Against.RIVAL, Against.CONDITION])
def test_other_contradictions_need_no_sight(against: Against) -> None:
    piece = WELL.weighed("only OST0003 is slow", -0.8, against=against)
    assert counted(piece, "client") == piece


def test_support_counts_whatever_it_can_see() -> None:
    piece = WELL.weighed("every target is slow", 0.8, against=Against.ABSENT)
    assert counted(piece, "client") == piece


def test_sight_may_depend_on_the_record() -> None:
    settings = Sign("setting-unchanged", Route.EXPECTED, view=View.SETTINGS)
    assert settings.weighed("no setting changed", -0.3).sees == ()
    seen = tuple(sorted(settings_see(["client", "ost"])))
    piece = settings.weighed("no setting changed", -0.3, against=Against.ABSENT, sees=seen)
    assert counted(piece, "client") == piece
    assert counted(piece, "network").found is Found.NEUTRAL


def test_explanations_of_before_are_read() -> None:
    """Kept with neither sight nor onset: they have their defaults."""
    explanation = explain(context())
    document = json.loads(packed(Explanation, explanation))
    for assessed in (*document["causes"], *document["cleared"], *document["not_assessed"]):
        for piece in assessed["evidence"]:
            for name in ("sees", "against", "quantity"):
                del piece[name]
    for name in ("onset", "margin"):
        del document["incident"][name]
    read = unpacked(Explanation, json.dumps(document).encode())
    assert read.incident == explanation.incident
    pairs = zip(read.cleared, explanation.cleared, strict=True)
    for before, now in pairs:
        blank = tuple(replace(piece, sees=(), against=None) for piece in now.evidence)
        assert before == replace(now, evidence=blank)


@pytest.mark.parametrize("cause", TABLE, ids=lambda cause: cause.id)
def test_a_cause_acts_somewhere(cause: Cause) -> None:
    assert frozenset() < cause.acts_on(context()) <= EVERYWHERE
