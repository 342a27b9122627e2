"""Every chat template in TRL's package: what is trained, beside the ``{% generation %}`` masks that TRL ships for it.

TRL trains the same answers, with three differences, each of them stated here and in docs/from-other-trainers.md:

- it trains the newline after an end-of-turn token, and in some templates the header of the turn; a model at inference is given
  the header, and stops before the newline;
- where the generation prompt opens a think block that the answered conversation lacks (DeepSeek, Nemotron), it trains without
  the block, though inference begins inside it;
- GLM's template writes no end-of-turn token: TRL's copy trains the opener of the next turn, we train EOS (as LLaMA-Factory does).
"""

from __future__ import annotations

import pytest
import trl
from trl.chat_template_utils import get_training_chat_template, has_generation_markers

from docs.pages import DOCS
from holdfast.config import InputError
from holdfast.records import Role, Trace, answer, chat_messages, setup
from holdfast.tokens import prompt_ids, tokenize, tokenize_all
from parity.conftest import ParityRow

from .trl_templates import ASKED, FOLDER, NAMES, ONE, TWO, tokenizer, trained, with_table

TRAINED_BY_TRL = [path.stem.removesuffix("_training") for path in sorted(FOLDER.glob("*_training.jinja"))]
MARKED = [name for name in NAMES if has_generation_markers((FOLDER / f"{name}.jinja").read_text(encoding="utf-8"))]
DIFFERENT = {  # by the beginning of a name: a piece of TRL's text, and what stands there in ours
    "deepseek": ("It is 4", "<think>\n\n</think>\n\nIt is 4"),
    "nemotron": ("<think></think>", "<think>\n</think>"),
    "glm4moe": ("café.<|user|>", "café.<|endoftext|>"),
}
PARTS = ("idefics3", "llava_next", "smolvlm")


def theirs(name: str, trace: Trace) -> tuple[list[int], list[int]]:
    """Ids and mask of TRL's training template, as its SFTTrainer makes them."""
    messages = chat_messages(trace.turns)
    if name in PARTS:
        messages = [{**message, "content": [{"type": "text", "text": message["content"]}]} for message in messages]
    template = get_training_chat_template(tokenizer(name)) or tokenizer(name).chat_template
    made = tokenizer(name).apply_chat_template(
        messages, chat_template=template, return_dict=True, return_assistant_tokens_mask=True
    )
    return made["input_ids"], made["assistant_masks"]


def test_there_are_as_many_as_there_were() -> None:
    """With another TRL the table of docs/from-other-trainers.md is another one: write it anew."""
    assert (len(NAMES), len(TRAINED_BY_TRL), MARKED) == (41, 31, ["lfm2_2_5", "lfm2_2_5_v2", "lfm2_2_5_vl"])


@pytest.mark.parametrize("name", [*TRAINED_BY_TRL, *MARKED])
def test_an_answer_is_trained_as_trl_trains_it(name: str) -> None:
    row, decode = tokenize(ONE, tokenizer(name)), tokenizer(name).decode
    start, stop = row.roles.index(Role.RESPONSE), len(row) - row.roles[::-1].index(Role.RESPONSE)
    before, ours, after = decode(row.ids[:start]), decode(row.ids[start:stop]), decode(row.ids[stop:])
    assert row.ids[:start] == prompt_ids(ONE.turns[:1], tokenizer(name))
    ids, mask = theirs(name, ONE)
    piece, stands = next((pair for begin, pair in DIFFERENT.items() if name.startswith(begin)), ("", ""))
    text = decode(ids).replace(piece, stands)
    masked = decode([token for token, bit in zip(ids, mask, strict=True) if bit]).replace(piece, stands)
    assert before + ours + after == text
    header, found, newline = masked.rpartition(ours)
    assert found
    assert before.endswith(header)
    assert newline.strip() in ("", "<|endoftext|>")  # Phi-3: one more token after a finished conversation


@pytest.mark.parametrize("name", NAMES)
def test_every_answer_ends_in_a_trained_stop_token(name: str, parity_row: ParityRow) -> None:
    """Of both turns, in one row or in two; nothing but the answers is trained."""
    rows, report = tokenize_all([TWO], tokenizer(name))
    runs = [text for row in rows for text in trained(row, name)]
    assert len(runs) == 2
    for run, turn in zip(runs, TWO.turns[1::2], strict=True):
        assert turn.visible in run
        assert not any(other.visible in run for other in TWO.turns if other is not turn)
    last = {row.ids[len(row) - row.roles[::-1].index(Role.RESPONSE) - 1] for row in rows}
    assert last <= set(tokenizer(name).added_tokens_decoder)
    assert bool(report.stops) == (name == "glm4moe")
    parity_row(
        "TRL", trl.__version__, f"its {len(NAMES)} chat templates: every answer ends in a trained stop token", "all"
    )


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith(("deepseek", "nemotron"))])
def test_the_six_that_open_a_think_block_train_thoughts_as_they_are_written(name: str) -> None:
    """What the model wrote itself, given its prompt, is what it is taught."""
    itself = "Two and two.\n</think>\n\nIt is 4."
    [row], _ = tokenize_all([Trace((ASKED, answer(itself)))], tokenizer(name))
    prompt = prompt_ids([ASKED], tokenizer(name))
    assert row.ids[: len(prompt)] == prompt
    assert tokenizer(name).decode(prompt).endswith("<think>\n")
    [said] = trained(row, name)
    assert said.startswith(itself)


def test_a_template_that_can_be_told_not_to_think_is_told() -> None:
    """Nemotron's own prompt without thoughts: then our row is TRL's, character by character."""
    name, quiet = "nemotron_3_nano", setup({"chat_template_kwargs": {"enable_thinking": False}})
    row = tokenize(Trace((quiet, *ONE.turns)), tokenizer(name))
    assert tokenizer(name).decode(row.ids) == tokenizer(name).decode(theirs(name, ONE)[0])
    assert trained(row, name) == ["It is 4, naïve café.<|im_end|>"]


def test_a_prompt_without_room_for_thoughts_says_how_to_make_some() -> None:
    name, thought = "qwen3_5_nothink", answer("4", fields={"reasoning_content": "Two and two."})
    with pytest.raises(InputError, match=r'give the row chat_template_kwargs \{"enable_thinking": true\}$'):
        tokenize(Trace((ASKED, thought)), tokenizer(name))
    loud = setup({"chat_template_kwargs": {"enable_thinking": True}})
    assert trained(tokenize(Trace((loud, ASKED, thought)), tokenizer(name)), name) == [
        "Two and two.\n</think>\n\n4<|im_end|>"
    ]


def test_the_table_of_the_page_is_what_happens() -> None:
    """`cd tests && python -m parity.trl_templates` writes it."""
    page = (DOCS / "from-other-trainers.md").read_text(encoding="utf-8")
    assert with_table(page) == page
