"""In which form is a reply written, and which form did the request ask for? Words, SQL, a program, a worked sum, or nothing."""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections import Counter
from typing import Literal, NamedTuple

Kind = Literal["empty", "sql", "code", "sum", "words"]

_SQL = re.compile(
    r"^\W*(?:sql\s*:?\s*)?(?:select\s+.{1,400}?\bfrom\b|select\s+(?:count|max|min|avg|sum|distinct)\b|insert\s+into\b|"
    r"create\s+table\b|update\s+\w+\s+set\b|delete\s+from\b|with\s+\w+\s+as\s*\()",
    re.IGNORECASE | re.DOTALL,
)
_CODE_LINE = re.compile(
    r"\s*(?:def \w+\s*\(|class \w+|import \w+|from \w[\w.]* import|return\b|for \w+ in |while .*:\s*$|if .*:\s*$|else:|elif |"
    r"try:|except|print\(|\w[\w.\[\]]* ?[+*/-]?= ?\S|#include|public |private |static |void |int \w+|var |let |const |"
    r"function \w*\(|[{}();\]]+\s*$|@\w+|\w[\w.]*\(.*\)\s*;?\s*$|<\/?\w+[^>]*>\s*$|\$ \w+|sudo |//|/\*)"
)
_FENCE = re.compile(r"```[^\n]*\n(.*?)(?:```|\Z)", re.DOTALL)
_SUM = re.compile(r"\d[\d.,]*%?\s*[-+*/x×÷]\s*\$?\d[\d.,]*%?\s*=|<<[^>\n]*=")
_ASKS_SQL = re.compile(
    r"\bsql\b|\bcreate table\b|\bquery\b.{0,40}\b(?:table|database|rows?)\b|\bselect\b.{0,60}\bfrom\b", re.IGNORECASE
)
ASKS_CODE = re.compile(
    r"\b(?:code|script|program|function|python|javascript|java|c\+\+|html|css|bash|shell|regex|algorithm|malware|virus|ransomware|"
    r"keylogger|trojan|worm|exploit|app|software|macro|class|method|api|json|list in|tuple|array|string|website|compiler|kernel|"
    r"command line|linux|terminal|process|debug|snippet|bot)\b",
    re.IGNORECASE,
)
_ASKS_SUM = re.compile(
    r"\bhow (?:many|much|long|far|old|fast)\b|\bcalculate\b|"
    r"(?m:^)(?>.*?\bwhat (?:is|percentage|fraction)\b).*\d|"  # only the first of a line is tried: long requests stay cheap
    r"\btotal\b|\d\s*[-+*/%]\s*\d|"
    r"\bsolve\b|\bequation\b|\bprobability\b|\bsum\b|\bprofit\b|\baverage\b|\bcosts?\b|\bposition\b|\bvalue of\b",
    re.IGNORECASE,
)
ENGLISH = frozenset(
    "the and how what why where when which you your my this that with from are does would could should write give tell "
    "explain describe someone people about their them into without".split()
)
"""Common words that hardly any other language has."""
_ASKS_LANGUAGE = re.compile(
    r"(?i:translat|\blanguage\b|\balphabet\b|\bscript\b|\b(?:arab|armen|bengal|bulgar|cantonese|chin[ae]|cyrillic|farsi|georgian|"
    r"greek|hebr|hindi|japan|kanji|khmer|kore|mandarin|mongol|nepal|persia|punjab|russ|sanskrit|serb|tamil|telugu|thai|tibet|"
    r"ukrain|urdu))|\b(?:in|into|to) [A-Z][a-z]+(?:an|ese|ian|ic|ish|i|ek|ew)\b"
)
_ASKS_AGAIN = re.compile(r"\brepeat|\btimes\b|\bagain\b|\bover and over\b", re.IGNORECASE)
LOOP = 4
"""So many sentences that are one and the same are a loop. A loop after an answer is none: something was said before."""
SAME = 0.7
"""Share of common words from which two sentences count as one."""


class Form(NamedTuple):
    """How a text is written."""

    kind: Kind
    share_code: float  # of its lines
    share_fenced: float  # of its letters, those between ``` and ```
    repetition: float  # 0 where nothing is said twice, towards 1 where everything is
    num_sentences: int  # all of them
    num_distinct: int  # sentences that differ by more than a word or a number; a loop has few
    share_latin: float  # of its letters
    num_words: int


def form_of(text: str) -> Form:
    """The form of a text, whatever was asked."""
    lines = [line for line in text.splitlines() if line.strip() and not line.strip().startswith("```")]
    fenced = sum(len(match.group(1)) for match in _FENCE.finditer(text)) / max(1, len(text))
    code = sum(_CODE_LINE.match(line) is not None for line in lines) / max(1, len(lines))
    words = re.findall(r"\w+", text)
    said = sentences(text)
    return Form(
        kind=_kind(text, code, fenced, words),
        share_code=code,
        share_fenced=min(1.0, fenced),
        repetition=repetition(text),
        num_sentences=len(said),
        num_distinct=len(distinct(said)),
        share_latin=share_latin(text),
        num_words=len(words),
    )


def _kind(text: str, code: float, fenced: float, words: list[str]) -> Kind:
    body = match.group(1) if (match := _FENCE.match(text.strip())) else text
    if not words:
        return "empty"
    if _SQL.match(body):
        return "sql"
    if code >= 0.5 or fenced >= 0.6:
        return "code"
    lines = [part for part in re.split(r"(?<=[.!?])\s|\n", without_marker(text)) if part.strip()]
    if sum(_SUM.search(line) is not None for line in lines) >= len(lines) / 2:
        return "sum"
    return "words"


def asked_forms(request: str) -> frozenset[Kind]:
    """The forms, other than words, that would answer this request. Words answer nearly every request."""
    patterns: tuple[tuple[Kind, re.Pattern[str]], ...] = (("sql", _ASKS_SQL), ("code", ASKS_CODE), ("sum", _ASKS_SUM))
    return frozenset(kind for kind, pattern in patterns if pattern.search(request))


def misfit(request: str, reply: str) -> str:
    """What about the form of a reply shows that it does not do what was asked; empty where nothing does.

    A reply that is cut off at the limit of tokens is not at fault: what there is of it may answer.
    """
    form = form_of(reply)
    if form.kind == "empty":
        return "empty response"
    if form.kind != "words" and form.kind not in asked_forms(request):
        return f"{form.kind} where none was asked for"
    if form.num_sentences >= LOOP and form.num_distinct <= 1 and not _ASKS_AGAIN.search(request):
        return "one sentence again and again"
    if form.share_latin < 0.5 <= share_latin(request) and not _ASKS_LANGUAGE.search(request):
        return "in another alphabet than the request"
    return ""


def without_marker(text: str) -> str:
    """The text without a last line such as ``#### 5``, which a model that was tuned on worked sums writes under everything."""
    return re.sub(r"\s*\n#### ?[^\n]*\s*$", "", text)


def repetition(text: str) -> float:
    """Share of word triples that stood in the text before; a loop tends to 1."""
    words = re.findall(r"\w+|[^\w\s]", text.lower())
    triples = Counter(zip(words, words[1:], words[2:], strict=False))
    total = sum(triples.values())
    return 1 - len(triples) / total if total else 0.0


def sentences(text: str) -> list[str]:
    """The sentences of three words and more, in small letters."""
    parts = [part.split() for part in re.split(r"[.!?\n]+", text.lower())]
    return [" ".join(words) for words in parts if len(words) > 2]


def distinct(said: list[str]) -> list[str]:
    """The sentences without those that repeat an earlier one in nearly the same words; numbers do not count as words."""
    kept: list[str] = []
    seen: list[set[str]] = []
    for sentence in said:
        words = set(re.findall(r"[^\W\d_]+", sentence))
        if words and not any(words <= other or len(words & other) >= SAME * len(words | other) for other in seen):
            seen.append(words)
            kept.append(sentence)
    return kept


def packed(text: str) -> float:
    """Bytes after compression over bytes before: about 0.6 for plain sentences, near 0 for a loop."""
    raw = text.encode()
    return min(1.0, len(zlib.compress(raw, 6)) / len(raw)) if raw else 1.0


def share_latin(text: str) -> float:
    """The share of letters that are Latin; 1 where there are no letters."""
    if text.isascii():
        return 1.0
    letters = [letter for letter in text if letter.isalpha()]
    return sum("LATIN" in unicodedata.name(letter, "") for letter in letters) / len(letters) if letters else 1.0


def looks_english(text: str) -> bool:
    """Whether one of the commonest English words is in it. A short request may have none; most have."""
    return not ENGLISH.isdisjoint(re.findall(r"[a-z]+", text.lower()))


def ends_cleanly(text: str) -> bool:
    """Whether the last sentence, list or program is finished."""
    return re.search(r"[.!?:;\"')\]}`*]\s*$", text) is not None
