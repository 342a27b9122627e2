import json

import pytest

from holdfast.config import InputError
from holdfast.config.rl import GrpoSettings, RlConfig
from holdfast.diagnostics.rl_tasks import read_prompts, task_of
from holdfast.records import Reply, context


def config(**changes):
    return RlConfig(run="runs/x", model="some/model", rl=GrpoSettings(), **changes)


def replied(text, answer, *, ended=True):
    return Reply((context("user", "a product"),), text, "stop" if ended else "length", answer)


def test_english_products_are_rewarded_for_the_final_answer():
    task = task_of(config(task="arithmetic", task_options={"text": True, "sizes": ["2x2"], "num": 2}))
    answer = task.prompts[0].answer
    texts = [f"It is 7. Wait, it is {answer}.", f"It is {answer}. Wait, it is 7.", f"It is {answer}", "no idea"]
    ended = [True, True, False, True]
    given = [replied(text, answer, ended=end) for text, end in zip(texts, ended, strict=True)]
    assert task.reward(given) == [1.0, 0.0, 0.0, 0.0]
    figures = task.observe(given)
    assert figures["p_s"] == pytest.approx(2 / 3)
    assert figures["p_dW"] == 0.5


def test_the_worlds_own_words_with_slips():
    task = task_of(config(task="arithmetic", task_options={"sizes": ["2x1"], "num": 3, "slip": 0.1}, extract="product"))
    assert task.environment is not None
    assert task.reward([replied("a0.0:3 a0.1:1 stop", "8"), replied("a0.0:3 a0.1:1", "8")]) == [
        1.0,
        0.0,
    ]  # never said stop


def test_prompts_from_a_file(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps({"question": "1+1?", "answer": 2}) + "\n", encoding="utf-8")
    assert read_prompts(path)[0].answer == "2"
    task = task_of(config(data=str(path)))
    assert len(task.prompts) == 1
    assert task.reward([replied("It is 2.", "2"), replied("It is 3.", "2")]) == [1.0, 0.0]
    named = task_of(config(data=str(path), reward="judge:refusal_phrases"))
    assert named.reward([replied("I cannot say.", "2"), replied("It is 2.", "2")]) == [1.0, 0.0]
    with pytest.raises(InputError, match="reward 'judg': no such reward; did you mean 'judge'"):
        task_of(config(data=str(path), reward="judg"))
    path.write_text('{"question": "1+1?"}\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"p\.jsonl:1: expected a column reference"):
        read_prompts(path)


def test_a_task_without_its_prompts_or_with_foreign_options_is_refused():
    with pytest.raises(InputError, match="field 'data': expected a file"):
        task_of(config())
    with pytest.raises(InputError, match=r"task_options.*nosuch"):
        task_of(config(task="arithmetic", task_options={"nosuch": 1}))
    with pytest.raises(InputError, match="use number"):
        task_of(config(task="arithmetic", task_options={"text": True}, extract="product"))
