"""TRL's chat templates on small tokenizers, and the table of docs/from-other-trainers.md about them.

``python -m parity.trl_templates``, run in ``tests``, writes the table anew.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import groupby
from pathlib import Path

import trl
from tokenizers import AddedToken
from transformers import PreTrainedTokenizerFast

from holdfast.config import InputError
from holdfast.records import Role, Trace, answer, context, setup
from holdfast.tokens import TokenRow, tokenize_all
from holdfast.tokens.answers import render_answer
from tokens.styles import byte_level, wrapped

FOLDER = Path(trl.__file__).parent / "chat_templates"
NAMES = sorted(path.stem for path in FOLDER.glob("*.jinja") if not path.stem.endswith("_training"))
SPECIAL = re.compile(
    r"<\|[A-Za-z_0-9]+\|?>|<[a-z_]+\|>|<｜[^｜]+｜>|<(?:start|end)_of_[a-z]+>|\[gMASK\]|<sop>|</s>|</?think>"
)
EOS = {  # of the models that the templates come from, by the beginning of the template's name
    "cohere": "<|END_OF_TURN_TOKEN|>",
    "deepseek": "<｜end▁of▁sentence｜>",
    "diffusion_gemma": "<turn|>",
    "gemma4": "<turn|>",
    "gemma": "<eos>",
    "glm4moe": "<|endoftext|>",
    "gptoss": "<|return|>",
    "idefics3": "<end_of_utterance>",
    "lfm2": "<|im_end|>",
    "llama3": "<|eot_id|>",
    "llava": "</s>",
    "muse": "<|eot|>",
    "nemotron": "<|im_end|>",
    "phi3": "<|endoftext|>",
    "qwen": "<|im_end|>",
    "smolvlm": "<end_of_utterance>",
}
ASKED, SAID = context("user", "What is two plus two?"), answer("It is 4, naïve café.")
ONE = Trace((ASKED, SAID))
TWO = Trace((*ONE.turns, context("user", "Hello there!"), answer("Fine, thank you.")))
THOUGHT = Trace((ASKED, answer("It is 4, naïve café.", fields={"reasoning_content": "Two and two."})))
SYSTEM = Trace((context("system", "Be brief."), *ONE.turns))
NUMBER = {"type": "integer", "description": "One."}
PARAMETERS = {"type": "object", "properties": {"a": NUMBER}, "required": ["a"]}
ADD = {"type": "function", "function": {"name": "add_up", "description": "Adds.", "parameters": PARAMETERS}}
CALL = {"type": "function", "id": "call00001", "function": {"name": "add_up", "arguments": {"a": 2}}}
RESULT = context("tool", "4", {"name": "add_up", "tool_call_id": "call00001"})
CALLED = Trace((ASKED, context("assistant", "", {"tool_calls": [CALL]}), RESULT, SAID))
BEGIN, END = "<!-- trl templates: begin -->", "<!-- trl templates: end -->"


@cache
def tokenizer(name: str) -> PreTrainedTokenizerFast:
    """A small byte-level tokenizer with the special tokens that the template writes."""
    template = (FOLDER / f"{name}.jinja").read_text(encoding="utf-8")
    eos = next(token for start, token in EOS.items() if name.startswith(start))
    inner = byte_level(["<bos>"])
    inner.add_special_tokens(
        [AddedToken(token, normalized=False) for token in sorted({*SPECIAL.findall(template), eos})]
    )
    return wrapped(inner, template, bos="<bos>", eos=eos)


def trained(row: TokenRow, name: str) -> list[str]:
    """The trained runs of a row, as text."""
    tokens = zip(row.ids, row.roles, strict=True)
    runs = [(role, [token for token, _ in run]) for role, run in groupby(tokens, key=lambda pair: pair[1])]
    return [str(tokenizer(name).decode(ids)) for role, ids in runs if role != Role.PROMPT]


def table() -> str:
    """One line per template."""
    head = "| template | trained before the words | trained end | several answers | system | tools | tool calls | thoughts |"
    return "\n".join([head, "|" + "---|" * 8, *(_line(name) for name in NAMES)]) + "\n"


def _line(name: str) -> str:
    rows, report = tokenize_all([TWO], tokenizer(name))
    first = trained(rows[0], name)[0]
    lead, end = first.split(render_answer(ONE.turns, tokenizer(name)).content)
    ruled = " (by rule)" if report.stops else ""
    several = "one row" if len(rows) == 1 else "a row each"
    tools = Trace((setup({"tools": [ADD]}), *ONE.turns))
    tried = [_tried(trace, name) for trace in (SYSTEM, tools, CALLED, THOUGHT)]
    return f"| {name} | {_code(lead)} | {_code(end)}{ruled} | {several} | {' | '.join(tried)} |"


def _tried(trace: Trace, name: str) -> str:
    try:
        report = tokenize_all([trace], tokenizer(name))[1]
    except InputError:
        return "refused"
    return "left out" if report.left_out else "yes"


def _code(text: str) -> str:
    shown = text.replace("\n", "\\n").replace("|", "\\|")
    return f"`{shown}`" if shown else ""


def with_table(page: str) -> str:
    """The page with the table as it is now."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{table()}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    path = Path(__file__).parents[2] / "docs" / "from-other-trainers.md"
    path.write_text(with_table(path.read_text(encoding="utf-8")), encoding="utf-8")
