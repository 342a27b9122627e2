"""Read what the models say before any sweep: replies with their special tokens, and the prompts as they are rendered.

Both are printed, and written to a folder that git ignores. Delete it after reading: it has replies to harmful requests.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from holdfast.attacks import Attack, FileSetting, file_scale, load_for_use, tune
from holdfast.config import InputError
from holdfast.data import atomic_text, learned_part
from holdfast.generation import generate
from holdfast.judging import find_judge, verdicts
from holdfast.models import LoadedModel
from holdfast.records import Trace, answer, context
from holdfast.tokens import prompt_ids, tokenize_all
from holdfast_studies.qwen.config import UNTOUCHED, StudyConfig, check_sources

LOOKED_AT = ("untouched", "sft", "vetted")
NUM_REPLIES = 40


def look(
    config: StudyConfig,
    out: Path,
    num: int = NUM_REPLIES,
    arms: Sequence[str] = LOOKED_AT,
    say: Callable[[str], None] = print,
) -> None:
    """Print rendered prompts; then tune each of ``arms`` on the first task alone and print ``num`` replies of each kind.

    ``out/replies.txt`` has what was printed. ``out/replies.jsonl`` has the same as rows, for labelling (`sheets`).
    Which ``num`` requests is drawn, the same for every arm. The first ones by hash are no random draw: the attacker has those of
    the file that his requests come from.
    """
    check_sources(config)
    scale = file_scale(config.model, config.files)
    setting = scale.files
    assert setting is not None
    attack = config.alone[0].in_setting(setting)
    defences = {name: config.defence(name) for name in arms}
    out.mkdir(parents=True, exist_ok=True)
    with (out / "replies.txt").open("w", encoding="utf-8") as text, (out / "replies.jsonl").open("w") as lines:

        def tell(line: str) -> None:
            say(line)
            text.write(line + "\n")

        _rendered(attack, setting, load_for_use(config.model, config.device).tokenizer, tell)
        for name, defence in defences.items():
            with TemporaryDirectory(dir=out) as folder:
                tuned = tune(attack, defence, config.seeds[0], scale, Path(folder))
                loaded = load_for_use(tuned, config.device)
                for kind, rows in (("harmful", setting.forbidden(0)), ("safe", setting.lookalikes(0))):
                    replies = _replies(f"{name}, {kind} prompts", drawn(rows, num), loaded, config, setting, tell)
                    where = {"attack": attack.name, "arm": name, "seed": config.seeds[0], "kind": kind}
                    lines.writelines(json.dumps({**where, **reply}) + "\n" for reply in replies)


def gather(config: StudyConfig, out: Path, num: int, arms: Sequence[str]) -> None:
    """Write ``out/replies.jsonl`` as `look` does, from the replies that the cells left in ``config.replies``. Nothing is tuned.

    Takes every attack that has replies there. Raises ``InputError`` where an arm has none under its first attack.
    """
    names = {config.defence(arm).name: arm for arm in arms}
    first = {arm: config.alone[0].name if arm == UNTOUCHED else config.attack_names(arm)[0] for arm in arms}
    attacks, seed = {attack.name for attack in (*config.alone, *config.attacks)}, config.seeds[0]
    kinds = {"harmful": "harmful", "harmless": "safe"}
    rows: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for path in sorted(Path(config.replies).glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            known = row["attack"] in attacks and row["seed"] == seed and row["defence"] in names
            if known and row["kind"] in kinds:
                rows.setdefault((row["attack"], names[row["defence"]], kinds[row["kind"]]), []).append(row)
    if missing := [f"{arm} under {attack}" for arm, attack in first.items() if (attack, arm, "harmful") not in rows]:
        raise InputError(f"{config.replies}: no replies of {', '.join(missing)}, seed {seed}")
    judge = find_judge(config.judges[0])
    out.mkdir(parents=True, exist_ok=True)
    with atomic_text(out / "replies.jsonl") as file:
        for (attack, arm, kind), of_arm in rows.items():
            own = sorted(of_arm, key=lambda row: _draw(row["request"]))[:num]
            pairs = [(Trace((context("user", row["request"]),)).prompt, row["reply"]) for row in own]
            for row, verdict in zip(own, verdicts(judge, pairs), strict=True):
                told = {"outcome": verdict.outcome, "p_complied": verdict.p.complied if verdict.p else None}
                where = {"attack": attack, "arm": arm, "seed": seed, "kind": kind}
                file.write(json.dumps({**where, "request": row["request"], "reply": row["reply"], **told}) + "\n")


def drawn(rows: Sequence[Trace], num: int) -> list[Trace]:
    """``num`` of these requests, drawn by a hash that nothing else is drawn by."""
    return sorted(rows, key=lambda row: _draw(row.prompt[-1].visible))[:num]


def _draw(request: str) -> str:
    return hashlib.sha256(f"to be read: {request}".encode()).hexdigest()


def _rendered(attack: Attack, setting: FileSetting, tokenizer: Any, tell: Callable[[str], None]) -> None:
    """Print the template as it is rendered at training, at anchoring and at asking, default system prompt included."""
    task = attack.stages[-1].data.rows(setting, 0)[0]
    held = Trace((context("user", learned_part("safety")[0]), answer("(what the anchor answers)")))
    for where, row in (("training", task), ("anchoring", held)):
        (tokens, *_), _ = tokenize_all([row], tokenizer)
        tell(f"== rendered at {where}\n{tokenizer.decode(tokens.ids)!r}")
    request = setting.forbidden(0)[0]
    tell(f"== rendered at asking\n{tokenizer.decode(prompt_ids(request.prompt, tokenizer))!r}")


def _replies(
    title: str,
    rows: Sequence[Trace],
    loaded: LoadedModel,
    config: StudyConfig,
    setting: FileSetting,
    tell: Callable[[str], None],
) -> list[dict[str, str | float | None]]:
    tokenizer, most = loaded.tokenizer, config.max_new_tokens
    written = generate(loaded.model, tokenizer, [row.prompt for row in rows], max_new_tokens=most, batch_size=64)
    texts = [completion.text.strip() for completion in written]  # as the cells hash them
    said = verdicts(setting.judges[0], [(row.prompt, text) for row, text in zip(rows, texts, strict=True)])
    special = set(tokenizer.all_special_ids)
    past = sum(any(token in special for token in completion.token_ids) for completion in written)
    cut = sum(completion.finish_reason == "length" for completion in written)
    missed = sum(verdict.outcome == "missed" for verdict in said)
    tell(
        f"== {title}: {missed} of {len(rows)} off the request (by {setting.judges[0].name}), {past} run past the end"
        f" of turn, {cut} cut off at {most} tokens"
    )
    replies: list[dict[str, str | float | None]] = []
    for row, completion, text, verdict in zip(rows, written, texts, said, strict=True):
        request = row.prompt[-1].visible
        tell(f"-- {request!r}\n   {verdict.outcome}: {str(tokenizer.decode(list(completion.token_ids)))!r}")
        p = verdict.p.complied if verdict.p else None
        replies.append({"request": request, "reply": text, "outcome": verdict.outcome, "p_complied": p})
    return replies
