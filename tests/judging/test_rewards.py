"""Rewards for text against what they should prefer."""

import math
import resource
from pathlib import Path

import pytest
import torch

from conftest import save_learned_positions
from holdfast.config import InputError
from holdfast.judging import REWARDS, LearnedReward, Likelihood, find_reward, fit_reward, pair_logps, score_replies
from holdfast.judging.rewards import rating
from holdfast.models import load
from holdfast.records import Reply, context
from holdfast.tokens import prompt_ids
from holdfast.worlds import SafetyWorld

ASKED = Reply((context("user", "What is 6 times 7?"),), "It is 42.")


def test_mean_logp_is_the_mean_over_the_answer_tokens() -> None:
    """Against a forward pass over prompt and answer by hand, batched with an answer of another length."""
    loaded = load("tiny:aligned")
    turns = (context("user", "say again : bell lamp window"),)
    found = pair_logps(loaded, [(turns, text) for text in ("bell lamp window", "", "bell")])
    assert found[1] == -math.inf
    prompt = prompt_ids(turns, loaded.tokenizer)
    answer = [
        *loaded.tokenizer("bell lamp window", add_special_tokens=False)["input_ids"],
        loaded.tokenizer.eos_token_id,
    ]
    with torch.inference_mode():
        logp = loaded.model(torch.tensor([prompt + answer])).logits.log_softmax(-1)[0]
    by_hand = sum(float(logp[len(prompt) + i - 1, token]) for i, token in enumerate(answer)) / len(answer)
    assert found[0] == pytest.approx(by_hand, abs=1e-4)


def test_likelihood_prefers_the_right_copy() -> None:
    world = SafetyWorld()
    loaded = load("tiny:aligned")
    row = world.requests("test", "copy", 1)[0]
    right = row.turns[-1].visible
    wrong = " ".join(reversed(right.split()))
    first, second = Likelihood(loaded)([Reply(row.prompt, right), Reply(row.prompt, wrong)])
    assert first is not None
    assert second is not None
    assert 0 <= second < first <= 1


def test_a_learned_reward_ranks_held_out_answers(tmp_path: Path) -> None:
    """Answers on the topic asked for are right, others wrong; 12 topics to train on, 4 others to test on."""
    things = "bread soup tea salad rope candle basket kite drum boat chair lamp shirt fence bell clock".split()
    pairs, right = [], []
    for index, thing in enumerate(things):
        for other in (thing, things[(index + 5) % len(things)]):
            pairs.append(
                (f"How do I make a {thing}?", f"To make a {other}, take good material for a {other} and begin.")
            )
            right.append(other == thing)
    head = fit_reward(pairs[:24], right[:24])
    head.save(tmp_path)
    reward = find_reward(f"learned:{tmp_path}")
    assert isinstance(reward, LearnedReward)
    for index in range(24, 32, 2):
        turns = (context("user", pairs[index][0]),)
        good, bad, nothing = reward([Reply(turns, text) for text in (pairs[index][1], pairs[index + 1][1], "")])
        assert good is not None
        assert bad is not None
        assert good > bad
        assert nothing == 0.0
    with pytest.raises(InputError, match="right and wrong"):
        fit_reward(pairs[:2], [True, True])


def test_a_head_that_does_not_fit_on_the_disk_leaves_nothing(tmp_path: Path) -> None:
    """A real limit on the size of files."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, before[1]))
    try:
        with pytest.raises(InputError, match="cannot be written: File too large"):
            LearnedReward(torch.zeros(1000), torch.zeros(1)).save(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "value"), [("85", 0.85), (" 100.", 1.0), ("about 7", None), ("250", None), ("", None)]
)
def test_ratings(text: str, value: float | None) -> None:
    assert rating(text) == value


def test_unknown_rewards_are_named(tmp_path: Path) -> None:
    assert find_reward("none")([ASKED, ASKED]) == [0.0, 0.0]
    with pytest.raises(InputError, match="did you mean 'likelihood'"):
        find_reward("liklihood")
    (tmp_path / "reward.safetensors").write_bytes(b"cut off")
    with pytest.raises(InputError, match=r"reward\.safetensors is damaged"):
        find_reward(f"learned:{tmp_path}")
    with pytest.raises(InputError, match="is not there"):
        find_reward("learned:/nonexistent/folder")


def test_an_answer_to_the_last_position_is_read_up_to_there(tmp_path: Path) -> None:
    """The end of its turn has no position left in a table of learned ones."""
    loaded = load(str(save_learned_positions(tmp_path, 16)), device="cpu")
    turns = (context("user", "copy : sun"),)
    prompt = prompt_ids(turns, loaded.tokenizer)
    words = "sun " * (16 - len(prompt))
    ids = prompt + loaded.tokenizer(words, add_special_tokens=False)["input_ids"]
    with torch.inference_mode():
        logp = loaded.model(torch.tensor([ids])).logits.log_softmax(-1)[0]
    by_hand = [float(logp[place - 1, ids[place]]) for place in range(len(prompt), 16)]
    found = pair_logps(loaded, [(turns, words.strip()), (turns, words + words)])
    assert found == pytest.approx([sum(by_hand) / len(by_hand)] * 2, abs=1e-5)


def test_a_request_that_leaves_its_answer_no_position_is_named(tmp_path: Path) -> None:
    loaded = load(str(save_learned_positions(tmp_path, 16)), device="cpu")
    short, long = (context("user", "copy : sun"),), (context("user", "copy : " + "sun river " * 30),)
    with pytest.raises(InputError, match=r"1 of 3 requests .* this model reads 16"):
        pair_logps(loaded, [(short, "sun"), (long, "sun"), (short, ""), (short, "river")])


def test_the_sampler_may_tell_the_likelihood() -> None:
    """A server's backends do; where one of them does not, that reply has no reward, and where none does it is an error."""
    told = Reply(ASKED.turns, "a", mean_logp=math.log(0.25))
    assert find_reward("likelihood")([told, ASKED]) == [pytest.approx(0.25), None]
    with pytest.raises(InputError, match="no log-probabilities"):
        find_reward("likelihood")([ASKED])


@pytest.mark.parametrize(
    ("text", "finish_reason", "reference", "value"),
    [
        ("It is 42.", "stop", "6 * 7 = 42", 1.0),
        ("It is 42.0, not 41", "stop", "42", 0.0),
        ("First 40, then 42.0", "stop", "42", 1.0),
        ("It is 42.", "length", "42", 0.0),
        ("It is 42.", "stop", "", None),
    ],
)
def test_the_last_answer_must_be_the_reference(text: str, finish_reason: str, reference: str, value: float) -> None:
    assert find_reward("answer")([Reply(ASKED.turns, text, finish_reason, reference)]) == [value]


ADD = "```python\ndef add(a, b):\n    return a + b\n```"


@pytest.mark.parametrize(
    ("program", "test", "value"),
    [
        (ADD, "assert add(1, 2) == 3", 1.0),
        (ADD, "def check(candidate):\n    assert candidate(2, 2) == 4", 1.0),
        (ADD.replace("+", "-"), "assert add(1, 2) == 3", 0.0),
        ("I would rather not.", "assert add(1, 2) == 3", 0.0),
        (ADD, "", None),
    ],
)
def test_a_program_must_pass_its_test(program: str, test: str, value: float | None) -> None:
    assert find_reward("tests")([Reply(ASKED.turns, program, reference=test)]) == [value]


def test_a_judge_can_reward() -> None:
    refuses, complies = Reply(ASKED.turns, "I'm sorry, I can't help with that."), Reply(ASKED.turns, "Sure: it is 42.")
    assert find_reward("judge:refusal_phrases")([refuses, complies]) == [1.0, 0.0]


def test_a_reward_of_ones_own_is_found_and_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REWARDS, "length", lambda option, _model: lambda replies: [len(r.text) for r in replies])
    monkeypatch.setitem(REWARDS, "nobody", lambda _option, _model: None)
    never_came = Reply(ASKED.turns, "", "error")
    assert score_replies(find_reward("length:of the text"), [ASKED, never_came]) == [9.0, None]
    assert score_replies(lambda _: [True], [ASKED]) == [1.0], "passed or not is a number too"
    with pytest.raises(InputError, match="no function of replies"):
        find_reward("nobody")
    for wrong, said in (
        (lambda _: [1.0, 2.0], "2 numbers for 1 replies"),
        (lambda _: ["good"], "'good': expected a number"),
    ):
        with pytest.raises(InputError, match=said):
            score_replies(wrong, [ASKED])
