"""Small real tokenizers with the chat templates of well-known families, made on the spot."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from holdfast.tokens import UNDO_TOKEN

CORPUS = [
    "The capital of France is Paris. The capital of Spain is Madrid, and not Lisbon.",
    "You are a helpful guide. Hello there! How are you today? Fine, thank you.\n\n",
    "What is two plus two? It is 4, not 5.",
    "[INST] Please sort the words: river stone leaf [/INST] leaf river stone\nThe words are sorted now.",
    "system user assistant model <start_of_turn>user\n the end of the turn, naïve café, déjà vu.",
] * 4

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA3 = (
    "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m['role'] }}<|end_header_id|>\n\n"
    "{{ m['content'] | trim }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
GEMMA = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for m in messages %}<start_of_turn>{{ 'model' if m['role'] == 'assistant' else m['role'] }}\n"
    "{{ m['content'] | trim }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
MISTRAL = (
    "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'assistant' %}{{ ' ' + m['content'] + eos_token }}"
    "{% else %}{{ '[INST] ' + m['content'] + ' [/INST]' }}{% endif %}{% endfor %}"
)
# As Qwen3: thoughts are dropped from every turn but the last, and the last has at least an empty think block.
REASONING = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['role'] == 'assistant' and loop.last %}{% if '</think>' in m['content'] %}"
    "<think>\n{{ m['content'].split('</think>')[0].split('<think>')[-1].strip() }}\n</think>\n\n"
    "{{ m['content'].split('</think>')[-1].lstrip() }}"
    "{% else %}<think>\n\n</think>\n\n{{ m['content'] }}{% endif %}"
    "{% else %}{{ m['content'].split('</think>')[-1].lstrip() }}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# As Phi-3: the end-of-turn token swallows the newline after it, and a finished conversation gets one more token.
PHI3 = (
    "{% for m in messages %}<|{{ m['role'] }}|>\n{{ m['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% else %}{{ eos_token }}{% endif %}"
)
LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass(frozen=True)
class Style:
    """A template family: what a trained answer looks like in it."""

    name: str
    lead: str = ""  # what the template puts between its prompt and an answer
    end: str = ""  # the end-of-turn token
    after: str = ""  # context after the end-of-turn token
    num_bos: int = 0
    trims: bool = False  # strips the answer

    @property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        return make_tokenizer(self.name)


STYLES = [
    Style("chatml", end="<|im_end|>", after="\n"),
    Style("llama3", end="<|eot_id|>", num_bos=1, trims=True),
    Style("gemma", end="<end_of_turn>", after="\n", num_bos=1, trims=True),
    Style("mistral", lead=" ", end="</s>", num_bos=1),
    Style("mistral-always", lead=" ", end="</s>", num_bos=1),
    Style("phi3", end="<|end|>", after="\n<|endoftext|>"),
]


@cache
def make_tokenizer(name: str) -> PreTrainedTokenizerFast:
    """Cached: tests that change a tokenizer take ``fresh`` ones."""
    return fresh(name)


def fresh(name: str, *, undo: bool = True) -> PreTrainedTokenizerFast:
    made = {
        "chatml": lambda: wrapped(
            byte_level(["<|endoftext|>", "<|im_start|>", "<|im_end|>"]), CHATML, eos="<|im_end|>"
        ),
        "reasoning": lambda: wrapped(
            byte_level(["<|endoftext|>", "<|im_start|>", "<|im_end|>"]), REASONING, eos="<|im_end|>"
        ),
        "llama3": _llama3,
        "gemma": lambda: wrapped(
            _sentencepiece(["<start_of_turn>", "<end_of_turn>"], None), GEMMA, bos="<s>", eos="</s>"
        ),
        "mistral": lambda: wrapped(_sentencepiece([], "first"), MISTRAL, bos="<s>", eos="</s>"),
        "mistral-always": lambda: wrapped(
            _sentencepiece(["[INST]", "[/INST]"], "always"), MISTRAL, bos="<s>", eos="</s>"
        ),
        "phi3": _phi3,
        "words": _words,
    }[name]()
    if undo:
        made.add_tokens([AddedToken(UNDO_TOKEN, special=True, normalized=False)])
    return made


def wrapped(tokenizer: Tokenizer, template: str, **special: str) -> PreTrainedTokenizerFast:
    named = {f"{name}_token": token for name, token in special.items()}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, chat_template=template, **named)


def byte_level(special: list[str], split: str | None = None) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split is None)
    splitting = [] if split is None else [pre_tokenizers.Split(Regex(split), "isolated")]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*splitting, level])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=480,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def _llama3() -> PreTrainedTokenizerFast:
    special = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    tokenizer = byte_level(special, LLAMA3_SPLIT)
    tokenizer.post_processor = _bos_adder(tokenizer, "<|begin_of_text|>")  # the template writes one as well
    return wrapped(tokenizer, LLAMA3, bos="<|begin_of_text|>", eos="<|eot_id|>")


def _phi3() -> PreTrainedTokenizerFast:
    tokenizer = byte_level(["<|endoftext|>"])
    names = ["<|user|>", "<|system|>", "<|assistant|>", "<|end|>"]
    tokenizer.add_special_tokens([AddedToken(name, rstrip=True, normalized=False) for name in names])
    return wrapped(tokenizer, PHI3, eos="<|endoftext|>")


def _sentencepiece(special: list[str], prepend: str | None) -> Tokenizer:
    """BPE over ``▁`` with byte fallback; ``prepend``: when a word at the start of a text gets a space of its own."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    if prepend is None:
        tokenizer.normalizer = normalizers.Replace(" ", "▁")
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("▁+[^▁]*|[^▁]+"), "isolated")
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=prepend, split=True)
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=["<unk>", "<s>", "</s>", *special], show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    described = json.loads(tokenizer.to_str())
    vocabulary = described["model"]["vocab"]
    vocabulary.update({f"<0x{byte:02X}>": len(vocabulary) + byte for byte in range(256)})
    described["model"]["byte_fallback"] = True
    tokenizer = Tokenizer.from_str(json.dumps(described))
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence(steps if prepend is None else [*steps, decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = _bos_adder(tokenizer, "<s>")
    return tokenizer


def _words() -> PreTrainedTokenizerFast:
    """Word-level: spaces are not kept at all, unknown words are lost, as in the embedded world."""
    words = ["<unk>", "<user>", "<assistant>", "<end>", *sorted({word for line in CORPUS for word in line.split()})]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    template = (
        "{% for m in messages %}{{ '<' + m['role'] + '> ' + m['content'] }}"
        "{% if m['role'] == 'assistant' %} <end>{% endif %}\n"
        "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    made = wrapped(tokenizer, template, unk="<unk>", eos="<end>")
    made.add_tokens(["<user>", "<assistant>"], special_tokens=True)
    return made


def _bos_adder(tokenizer: Tokenizer, bos: str) -> processors.TemplateProcessing:
    return processors.TemplateProcessing(single=f"{bos} $A", special_tokens=[(bos, tokenizer.token_to_id(bos))])
