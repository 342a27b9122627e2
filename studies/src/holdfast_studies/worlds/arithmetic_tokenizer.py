"""The arithmetic world's word-level tokenizer, with the leanest chat template there is."""

from __future__ import annotations

from holdfast_studies.worlds.arithmetic import ArithmeticWorld
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from holdfast.worlds import BOS, END, PAD, UNKNOWN, with_chat

ASSISTANT = "<|assistant|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] == 'user' %}{{ bos_token + ' ' + message['content'] }}"
    "{% elif message['role'] == 'assistant' %}{{ '<|assistant|> ' + message['content'] + ' <|end|>' }}"
    "{% else %}{{ raise_exception('roles of this model: user, assistant') }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def arithmetic_tokenizer(world: ArithmeticWorld, max_length: int = 1024) -> PreTrainedTokenizerFast:
    """One token per word; words are separated by spaces."""
    vocabulary = {word: index for index, word in enumerate((PAD, BOS, END, UNKNOWN, ASSISTANT, *world.words()))}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return with_chat(tokenizer, [ASSISTANT], CHAT_TEMPLATE, max_length)
