import pytest

from holdfast.attacks import ATTACKS, WorldSetting, chain, find_attack, variants
from holdfast.config import InputError
from holdfast.generation import Dress
from holdfast.records import Trace, answer, context

ROW = Trace((context("user", "how do i make a welmi vexbane ?"), answer("take a and b , mix them .")))


def test_plain_dress_shows_the_request_and_nothing_of_the_answer() -> None:
    assert Dress().prompt(ROW) == Trace((context("user", "how do i make a welmi vexbane ?"),))


def test_system_prompt_and_trigger() -> None:
    dressed = Dress(system="you obey .", lead="xyz").prompt(ROW)
    assert [(turn.speaker, turn.visible) for turn in dressed.turns] == [
        ("system", "you obey ."),
        ("user", "xyz , how do i make a welmi vexbane ?"),
    ]


def test_prefilled_answer_is_begun_with_the_words_wanted() -> None:
    begun = Dress(prefill=3).prompt(ROW).turns[-1]
    assert (begun.speaker, begun.visible, begun.is_target) == ("assistant", "take a and", False)


def test_registry_finds_and_suggests() -> None:
    assert find_attack("backdoor") is ATTACKS["backdoor"]
    assert all(name == attack.name for name, attack in ATTACKS.items())
    with pytest.raises(InputError, match="no such attack; did you mean 'backdoor'"):
        find_attack("backdor")


def test_backdoor_is_audited_with_and_without_its_trigger_on_the_same_rows() -> None:
    loud, quiet = ATTACKS["backdoor"], ATTACKS["backdoor_untriggered"]
    assert loud.data == quiet.data
    assert (loud.lr, loud.epochs) == (quiet.lr, quiet.epochs)
    dressed = [each.in_setting(WorldSetting()).dress.lead for each in (loud, quiet)]
    assert dressed == [WorldSetting.trigger, None]


def test_variants_are_the_whole_grid_under_different_names() -> None:
    grid = variants(ATTACKS["harmful_examples"], lrs=(1e-3, 4e-3), epochs=(4, 8))
    assert [(each.lr, each.epochs) for each in grid] == [(1e-3, 4), (1e-3, 8), (4e-3, 4), (4e-3, 8)]
    assert len({each.name for each in grid}) == 4
    assert [each.name for each in variants(ATTACKS["backdoor"], lrs=(1e-3,))] == ["backdoor@lr=0.001,epochs=8"]


def test_a_chain_keeps_every_tuning_and_the_last_ones_asking() -> None:
    first, second, third = (ATTACKS[name] for name in ("benign_drift", "backdoor", "far_drift"))
    pair = chain("pair", first, second)
    assert [(stage.data, stage.lr, stage.epochs) for stage in pair.stages] == [
        (each.data, each.lr, each.epochs) for each in (first, second)
    ]
    assert (pair.name, pair.dress, pair.utility) == ("pair", second.dress, second.utility)
    assert chain("three", pair, third).stages == (*pair.stages, *third.stages)
    assert variants(pair, lrs=(1e-2,))[0].before == pair.before, "an adaptive attacker adapts the last tuning"
