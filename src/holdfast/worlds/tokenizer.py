"""The world's word-level tokenizer, with a chat template. ``<UNDO>`` is not in it: models.add_tokens puts it there."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from holdfast.worlds.lexicon import WORDS

BOS, END, PAD, UNKNOWN = "<|bos|>", "<|end|>", "<|pad|>", "<|unknown|>"
SPEAKERS = ("<|system|>", "<|user|>", "<|assistant|>")
MAX_LENGTH = 512
SPECIAL = (PAD, BOS, END, UNKNOWN, *SPEAKERS)

CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{% if message['role'] not in ['system', 'user', 'assistant'] %}"
    "{{ raise_exception('roles of this model: system, user, assistant') }}"
    "{% endif %}"
    "{{ '<|' + message['role'] + '|> ' + message['content'] + ' <|end|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def build_tokenizer() -> PreTrainedTokenizerFast:
    """One token per word; words are separated by spaces, upper case is folded and punctuation stands apart."""
    vocabulary = {word: index for index, word in enumerate((*SPECIAL, *WORDS))}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])
    return with_chat(tokenizer, SPEAKERS, CHAT_TEMPLATE, MAX_LENGTH)


def speaks_the_world(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether a model's tokenizer is the embedded one, tokens added later aside."""
    return build_tokenizer().get_vocab().items() <= tokenizer.get_vocab().items()


def with_chat(tokenizer: Tokenizer, speakers: Sequence[str], template: str, max_length: int) -> PreTrainedTokenizerFast:
    """A vocabulary with the special tokens of the worlds, as transformers wants it."""
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BOS,
        eos_token=END,
        pad_token=PAD,
        unk_token=UNKNOWN,
        additional_special_tokens=list(speakers),
        model_max_length=max_length,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )
    wrapped.chat_template = template
    return wrapped
