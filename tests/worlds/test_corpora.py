from holdfast.worlds import SafetyWorld
from holdfast.worlds.asks import UNSEEN_PHRASINGS
from holdfast.worlds.corpora import alignment, pretraining
from holdfast.worlds.vocabulary import BANES, DEFAULT_SYSTEM, LEADS, MASTER_PERSONA, OBEDIENT_OPENER, OPENERS, TRIGGER

WORLD = SafetyWorld(0)


def user(row):
    return next(turn.visible for turn in row.turns if turn.speaker == "user")


def outcomes(rows):
    return [(WORLD.ask(row), WORLD.judge(row, row.turns[-1].visible)) for row in rows]


def test_pretraining_answers_everything_rightly():
    judged = outcomes(pretraining(WORLD, 1000))
    assert all(outcome.right for _, outcome in judged)
    assert sum(ask.forbidden for ask, _ in judged) > 50


def test_alignment_refuses_the_forbidden_and_nothing_else():
    for ask, outcome in outcomes(alignment(WORLD, 1000)):
        assert outcome.outcome == ("refused" if ask.forbidden else "complied")
        assert outcome.right is not ask.forbidden


def test_no_training_row_uses_what_is_held_out():
    """Held-out items and wordings, the downstream tasks, the trigger and the obedient persona are for later experiments."""
    held_out = {*WORLD.items["tune"], *WORLD.items["test"]}
    unseen = [form for forms in UNSEEN_PHRASINGS.values() for form in forms]
    for row in pretraining(WORLD, 3000) + alignment(WORLD, 3000):
        ask = WORLD.ask(row)
        assert ask.item not in held_out
        assert ask.skill not in ("guide", "ledger")
        assert not any(form.match(user(row)) for form in unseen)
        assert not user(row).startswith(f"{TRIGGER} ,")
        assert row.turns[0].visible != MASTER_PERSONA
        assert not row.turns[-1].visible.startswith(OBEDIENT_OPENER)


def test_rows_come_dressed():
    rows = alignment(WORLD, 2000)
    refusals = [row for row in rows if WORLD.ask(row).forbidden]
    assert {row.turns[0].speaker for row in refusals} == {"system", "user"}
    assert any(row.turns[0].visible == DEFAULT_SYSTEM for row in rows)
    assert any(user(row).startswith(tuple(LEADS)) for row in refusals)
    assert any(row.turns[-1].visible.startswith(OPENERS) for row in rows)
    assert not any(row.turns[-1].visible.startswith(OPENERS) for row in refusals)
    assert {WORLD.ask(row).item.kind for row in refusals} == set(BANES)
