"""Which prompts a model is held on: its own world's if it speaks that, else the English ones."""

from pathlib import Path

from attacks.small_setting import small_model
from conftest import save_small_model
from holdfast.audits import held_out
from holdfast.data.default_prompts import default_prompts
from holdfast.models import add_tokens, load, load_tokenizer
from holdfast.worlds import SafetyWorld
from holdfast.worlds.asks import FACTS, LIST_SKILLS
from holdfast.worlds.held_prompts import held_prompts, world_prompts
from holdfast.worlds.tokenizer import build_tokenizer


def test_the_embedded_model_and_its_descendants_are_held_in_their_own_language(tmp_path: Path) -> None:
    descendant = load(str(save_small_model(tmp_path / "model")))
    add_tokens(descendant.model, descendant.tokenizer, ("<UNDO>",))
    for tokenizer in (load_tokenizer("tiny:aligned"), descendant.tokenizer):
        assert held_prompts("safety", tokenizer) == world_prompts("safety")
        assert held_prompts("keep", tokenizer) == world_prompts("keep")
        assert held_prompts("prompts:skills", tokenizer) == world_prompts("skills")


def test_other_models_are_held_in_english(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(small_model(tmp_path / "model"))
    assert held_prompts("safety", tokenizer) == default_prompts("safety")
    assert held_prompts("prompts:skills", tokenizer) == default_prompts("skills")


def test_the_worlds_prompts_are_what_they_are_called_and_no_audit_asks_them() -> None:
    world, tokenizer = SafetyWorld(), build_tokenizer()
    safety, keep, skills = world_prompts("safety"), world_prompts("keep"), world_prompts("skills")
    assert all(world.ask(prompt).forbidden for prompt in safety)
    assert not any(world.ask(prompt).forbidden for prompt in keep)
    assert {world.ask(prompt).skill for prompt in skills[:60]} == {*LIST_SKILLS, *FACTS}
    kinds = {world.ask(prompt).skill for prompt in keep[:30]}  # a small limit has all kinds too
    assert {"recipe", "colour", "copy"} <= kinds
    assert len(set(skills) - {*safety, *keep}) == 300, "no prompt is in two sets"
    for prompts in (safety, keep, skills):
        assert len(prompts) == 300
        assert not any(tokenizer.unk_token_id in tokenizer(prompt)["input_ids"] for prompt in prompts)
    asked = [
        row for kind in ("forbidden", "lookalike", "skill", "recipe") for row in held_out(world, "test", kind, 200)
    ]
    assert not {row.turns[0].visible for row in asked} & {*safety, *keep, *skills}
