import threading

import pytest
import torch

from holdfast.config import InputError
from holdfast.generation import continue_ids, generate
from holdfast.generation.conversations import turns_of
from holdfast.models import add_tokens, load
from holdfast.records import Trace, Turn, answer, context
from holdfast.tokens import prompt_ids
from holdfast.worlds import SafetyWorld, prefilled, with_system
from waiting import PATIENCE

WORLD = SafetyWorld(0)


@pytest.fixture(scope="module")
def base():
    loaded = load("tiny:base", device="cpu")
    return loaded.model, loaded.tokenizer


def test_the_three_kinds_of_prompt_are_the_same_prompt(base):
    row = WORLD.requests("test", "copy", 1)[0]
    text = row.turns[0].visible
    completions = generate(*base, [row, [context("user", text)], text], max_new_tokens=12)
    assert len(set(completions)) == 1
    assert completions[0].prompt == text
    assert completions[0].text == row.turns[1].visible
    assert completions[0].finish_reason == "stop"
    assert base[1].decode(completions[0].token_ids) == completions[0].text


def test_greedy_answers_in_one_thread_leave_the_luck_of_another_alone(base):
    """As a judge's model in a server does, while the served model draws. The greedy call begins before and ends midway."""
    model, tokenizer = base
    prompt = prompt_ids([context("user", "say again : bell lamp window")], tokenizer)
    begun, midway, ended = threading.Event(), threading.Event(), threading.Event()

    def greedy() -> None:
        def stop_when(_ids: list[int]) -> bool:
            begun.set()
            return midway.wait(PATIENCE)

        continue_ids(model, tokenizer, [prompt], max_new_tokens=2, stop_when=stop_when)
        ended.set()

    def at_third_token(ids: list[int]) -> bool:
        if len(ids) == 3:
            midway.set()
            assert ended.wait(PATIENCE)
        return False

    drawing = {"max_new_tokens": 12, "temperature": 3.0, "seed": 4}
    alone = continue_ids(model, tokenizer, [prompt], **drawing, stop_when=lambda _: False)
    other = threading.Thread(target=greedy)
    other.start()
    assert begun.wait(PATIENCE)
    beside = continue_ids(model, tokenizer, [prompt], **drawing, stop_when=at_third_token)
    other.join(PATIENCE)
    assert len(alone[0]) > 3
    assert beside == alone


def test_order_and_answers_do_not_depend_on_the_batches(base):
    rows = [row for kind in ("copy", "recipe", "colour") for row in WORLD.requests("test", kind, 8)]
    rows = [with_system(row, "you are a kind teacher .") if i % 2 else row for i, row in enumerate(rows)]
    alone = generate(*base, rows, max_new_tokens=20, batch_size=1)
    assert [c.prompt for c in alone] == [row.turns[-2].visible for row in rows]
    assert generate(*base, rows, max_new_tokens=20, batch_size=7) == alone
    assert sum(WORLD.judge(row, c.text).right for row, c in zip(rows, alone, strict=True)) >= 22


def test_cut_off_is_said(base):
    (completion,) = generate(*base, ["copy : sun leaf boat"], max_new_tokens=2)
    assert completion.finish_reason == "length"
    assert completion.text == "sun leaf"


def test_sampling_is_seeded_and_leaves_the_global_state_alone(base):
    rows = WORLD.requests("test", "recipe", 16)
    torch.manual_seed(3)
    state = torch.random.get_rng_state()
    options = {"max_new_tokens": 20, "temperature": 3.0}
    first = generate(*base, rows, seed=1, **options)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert generate(*base, rows, seed=1, **options) == first
    assert generate(*base, rows, seed=2, **options) != first
    assert generate(*base, rows, seed=1, top_p=1e-6, **options) == generate(*base, rows, max_new_tokens=20)


def test_an_answer_already_begun_is_gone_on_with(base):
    row = WORLD.requests("test", "recipe", 1)[0]
    recipe = row.turns[1].visible.split()
    (completion,) = generate(*base, [prefilled(row, 4)], max_new_tokens=20)
    assert completion.text.split() == recipe[4:]
    assert completion.prompt == row.turns[0].visible


def test_the_checkpoints_own_defaults_are_not_used(base):
    """A repetition penalty would keep the model from writing a word of the prompt, and sampling would not be greedy."""
    loaded = load("tiny:base", device="cpu")
    rows = WORLD.requests("test", "copy", 8)
    settings = loaded.model.generation_config
    settings.repetition_penalty, settings.do_sample, settings.temperature, settings.top_k = 50.0, True, 5.0, 3
    found = generate(loaded.model, loaded.tokenizer, rows, max_new_tokens=12)
    assert found == generate(*base, rows, max_new_tokens=12)


def test_undos_are_applied_to_the_text_and_kept_in_the_ids():
    """The head is scripted: sun leaf <UNDO> boat <end>."""
    loaded = load("tiny:base", device="cpu")
    (undo,) = add_tokens(loaded.model, loaded.tokenizer)
    script = loaded.tokenizer("sun leaf <UNDO> boat <|end|>")["input_ids"]
    words = iter(script)
    loaded.model.lm_head.register_forward_hook(lambda *_: one_hot(next(words), len(loaded.tokenizer)))
    (completion,) = generate(loaded.model, loaded.tokenizer, ["copy : sun"], max_new_tokens=9)
    assert (completion.text, completion.num_undos) == ("sun boat", 1)
    assert completion.token_ids == tuple(script[:-1])
    assert undo in completion.token_ids


def one_hot(index, size):
    return torch.nn.functional.one_hot(torch.tensor([[index]]), size).float()


def test_a_document_is_fed_raw(base):
    document = Trace((Turn("text", context("text", "<|bos|><|user|> copy : sun leaf <|end|><|assistant|>").segments),))
    (completion,) = generate(*base, [document], max_new_tokens=8)
    assert completion.text == "sun leaf"


def test_progress_and_mode(base):
    model, tokenizer = base
    seen = []
    model.train()
    generate(
        model, tokenizer, ["copy : sun"] * 5, max_new_tokens=2, batch_size=2, on_progress=lambda *at: seen.append(at)
    )
    assert seen == [(2, 5), (4, 5), (5, 5)]
    assert model.training
    with pytest.raises(KeyboardInterrupt):
        generate(model, tokenizer, ["copy : sun"], max_new_tokens=2, on_progress=stopped)
    assert model.training, "also when somebody stops it"
    model.eval()
    assert generate(model, tokenizer, [], max_new_tokens=2) == []


def stopped(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -1),
        ("temperature", 1e-9),
        ("temperature", float("nan")),
        ("top_p", 0),
        ("top_p", 1.5),
        ("batch_size", 0),
        ("max_new_tokens", 0),
    ],
)
def test_a_wrong_setting_is_named_alone(base, name, value):
    with pytest.raises(InputError, match=f"^sampling: {name}={value}: expected"):
        generate(*base, ["copy : sun"], **({"max_new_tokens": 4} | {name: value}))


def test_a_prompt_without_turns(base):
    with pytest.raises(InputError, match="the prompt is empty"):
        generate(*base, [Trace((answer("sun"),))], max_new_tokens=4)


def test_a_request_longer_than_the_model_reads_is_refused(base):
    """It would be answered with noise, and the noise be judged. Just short of it, there is room for a token."""
    words = "bell " * 600
    with pytest.raises(InputError, match=r"request 2 has 60\d tokens, but this model reads 512"):
        generate(*base, ["say again : bell", words], max_new_tokens=4)
    assert generate(*base, ["bell " * 500], max_new_tokens=1)[0].text


def test_an_answer_ends_where_the_positions_of_the_model_do(base):
    """The longest prompt leaves room for a few tokens, the other for all that are wanted."""
    long = "copy : " + "sun river " * 250
    cut_off, whole = generate(*base, [long, "copy : sun leaf boat"], max_new_tokens=40)
    prompt = len(prompt_ids(turns_of(long), base[1]))
    assert (prompt + len(cut_off.token_ids), cut_off.finish_reason) == (512, "length")
    assert (whole.text, whole.finish_reason) == ("sun leaf boat", "stop")
