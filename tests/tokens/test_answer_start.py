"""Position 0 of an answer is its first token that carries text, whatever the tokenizer writes before it.

Llama-2's tokenizer has words that begin with a space (``▁Sure``) and digits that never do, so that " 42" is a lone ``▁``, 4, 2.
Counted from the lone space, CSFT's schedule would hold a whole answer one token later than Qi et al.'s code does.
"""

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers
from transformers import PreTrainedTokenizerFast

from holdfast.objectives.csft import QI_2024
from holdfast.records import Role, Trace, answer, context
from holdfast.tokens import answer_positions, pack, pad, tokenize
from holdfast.training.collate import target_table

CHAT = (  # Llama-2's, without its checks
    "{% for m in messages %}{% if m.role == 'user' %}{{ bos_token + '[INST] ' + m.content.strip() + ' [/INST]' }}"
    "{% elif m.role == 'assistant' %}{{ ' ' + m.content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"
)


@pytest.fixture(scope="module")
def llama2() -> PreTrainedTokenizerFast:
    """Llama-2's normalizer, decoder and splitting of digits, with a vocabulary of characters and a few words."""
    letters = [chr(code) for code in range(33, 127)]
    words = ["Su", "Sur", "Sure", "▁Sure", "ap", "app", "▁app"]
    tokens = ["<unk>", "<s>", "</s>", "<0x0A>", "▁", *letters, *words]
    merges = [("S", "u"), ("Su", "r"), ("Sur", "e"), ("▁", "Sure"), ("a", "p"), ("ap", "p"), ("▁", "app")]
    bpe = models.BPE(
        {token: number for number, token in enumerate(tokens)}, merges, unk_token="<unk>", byte_fallback=True
    )
    made = Tokenizer(bpe)
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="<unk>", bos_token="<s>", eos_token="</s>", chat_template=CHAT
    )


def asked(*answers: str) -> Trace:
    return Trace(tuple(turn for text in answers for turn in (context("user", "hm"), answer(text))))


@pytest.mark.parametrize(
    ("text", "tokens", "positions"),
    [
        ("Sure", ["▁Sure", "▁", "</s>"], [0, 1, 2]),
        ("42 app", ["▁", "4", "2", "▁app", "▁", "</s>"], [0, 0, 1, 2, 3, 4]),
        ("(a)", ["▁", "(", "a", ")", "▁", "</s>"], [0, 0, 1, 2, 3, 4]),
    ],
)
def test_a_lone_space_is_no_first_token(
    llama2: PreTrainedTokenizerFast, text: str, tokens: list[str], positions: list[int]
) -> None:
    row = tokenize(asked(text), llama2)
    trained = [index for index, role in enumerate(row.roles) if role != Role.PROMPT]
    assert llama2.convert_ids_to_tokens([row.ids[index] for index in trained]) == tokens
    found = answer_positions(row.roles, row.blanks)
    assert [found[index] for index in trained] == positions
    assert {found[index] for index in range(len(row)) if index not in trained} == {-1}


@pytest.mark.parametrize("together", [lambda rows: pad(rows, 0), pack], ids=["padded", "packed"])
def test_every_answer_of_every_row_begins_anew_in_a_batch(llama2: PreTrainedTokenizerFast, together) -> None:
    """Of the first row two answers, of which one begins with a digit; of the second row one, which does too."""
    rows = [tokenize(asked("7 app", "Sure"), llama2), tokenize(asked("123"), llama2)]
    table = target_table(together(rows), [0, 0])
    assert table.position.tolist() == [0, 0, 1, 2, 3, 0, 1, 2, 0, 0, 1, 2, 3, 4]
    beta = QI_2024(table.position)
    assert beta[:5].tolist() == pytest.approx([0.5, 0.5, 2.0, 2.0, 2.0])
    assert len(table.position) == sum(row.num_targets for row in rows)  # the space is trained as before


def test_a_row_that_is_cut_keeps_its_count(llama2: PreTrainedTokenizerFast) -> None:
    row = tokenize(asked("42 app"), llama2)
    first = row.roles.index(Role.RESPONSE)
    cut = row.until(first + 3)
    assert answer_positions(cut.roles, cut.blanks)[first:] == [0, 0, 1]
    assert row.until(first).blanks == ()


def test_only_what_stands_before_the_text_is_left_out() -> None:
    prompt, response = int(Role.PROMPT), int(Role.RESPONSE)
    roles = [prompt, response, response, response, prompt, response]
    assert answer_positions(roles, (1, 2)) == [-1, 0, 0, 0, -1, 0]
    assert answer_positions(torch.tensor([roles])).tolist() == [[-1, 0, 1, 2, -1, 0]]
