import json

import pytest

from holdfast.config import InputError
from holdfast.config.rl import GrpoSettings, RlConfig
from holdfast.diagnostics.rl_tasks import read_prompts, task_of


def config(**changes):
    return RlConfig(run="runs/x", model="some/model", rl=GrpoSettings(), **changes)


def test_english_products_are_rewarded_for_the_final_answer():
    task = task_of(config(task="arithmetic", task_options={"text": True, "sizes": ["2x2"], "num": 2}))
    answer = task.prompts[0].answer
    texts = [f"It is 7. Wait, it is {answer}.", f"It is {answer}. Wait, it is 7.", f"It is {answer}", "no idea"]
    ended = [True, True, False, True]
    assert task.reward(texts, [answer] * 4, ended) == [1.0, 0.0, 0.0, 0.0]
    figures = task.observe(texts, [answer] * 4, ended)
    assert figures["p_s"] == pytest.approx(2 / 3)
    assert figures["p_dW"] == 0.5


def test_the_worlds_own_words_with_slips():
    task = task_of(config(task="arithmetic", task_options={"sizes": ["2x1"], "num": 3, "slip": 0.1}, extract="product"))
    assert task.environment is not None
    assert task.reward(["a0.0:3 a0.1:1 stop"], ["8"], [True]) == [1.0]
    assert task.reward(["a0.0:3 a0.1:1"], ["8"], [True]) == [0.0]  # never said stop


def test_prompts_from_a_file(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps({"question": "1+1?", "answer": 2}) + "\n", encoding="utf-8")
    assert read_prompts(path)[0].answer == "2"
    assert len(task_of(config(data=str(path))).prompts) == 1
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
