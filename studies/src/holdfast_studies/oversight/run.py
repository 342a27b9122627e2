"""Run the study, domain by domain, into a folder; every stage goes on where it was stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.judging import find_judge
from holdfast.models import LoadedModel
from holdfast.oversight import Point, Pool, curve, expected
from holdfast.records import Turn
from holdfast.stats import holm, permutation
from holdfast_studies.oversight import gsm8k, humaneval, refusal
from holdfast_studies.oversight.drawing import Describe, Row, draw_pools, keep_text

NS = (1, 2, 4, 8, 16, 32, 50)
Bar = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]


@dataclass(frozen=True)
class StudyPlan:
    """The sizes. The defaults are those of the results page."""

    num_tasks: int | None = None  # of HumanEval; None is all 164
    num_samples: int = 50
    num_questions: int = 200  # of GSM8K's test split
    num_question_samples: int = 16
    num_train_questions: int = 200
    num_requests: int = 200
    num_request_samples: int = 16
    max_new_tokens: int = 320
    temperature: float = 0.8
    batch_size: int = 512
    judge: str = "learned"
    second_judge: str = "refusal_phrases"


@dataclass(frozen=True)
class Study:
    """A model, a folder for samples and figures, and the sizes."""

    loaded: LoadedModel
    out: Path
    plan: StudyPlan
    bar: Bar

    def programs(self) -> dict[str, list[Row]]:
        """Draw HumanEval's samples alone: the part that needs a GPU."""
        tasks = humaneval.humaneval_tasks(self.plan.num_tasks)
        return self._draw("humaneval", humaneval.asked(tasks), self.plan.num_samples)

    def humaneval(self) -> dict[str, Any]:
        """Compare [001] as printed with three rewards behind our bar; hidden tests are gold."""
        tasks, samples = humaneval.humaneval_tasks(self.plan.num_tasks), self.programs()
        with self.bar("humaneval: running programs") as on_progress:
            scored = humaneval.score_programs(
                tasks, samples, self.out / "humaneval.scored.jsonl", on_progress=on_progress
            )
        pools = humaneval.all_pools(scored)
        return self._found("humaneval", pools, gold="the hidden tests pass", counts=humaneval.counts(scored))

    def gsm8k(self, train: str, test: str) -> dict[str, Any]:
        """Compare likelihood with a reward learned on the training split."""
        plan = self.plan
        questions = gsm8k.gsm8k_tasks(train, plan.num_train_questions)
        drawn = self._draw("gsm8k.train", gsm8k.asked(questions), 4)
        reward = gsm8k.train_reward(questions, drawn)
        tasks = gsm8k.gsm8k_tasks(test, plan.num_questions)
        samples = self._draw("gsm8k", gsm8k.asked(tasks), plan.num_question_samples)
        pools = {"likelihood": gsm8k.pools_of(tasks, samples, None)}
        counts = {"answers to training questions right": gsm8k.num_right(questions, drawn)}
        if reward is None:
            counts["learned reward"] = "none: the answers to the training questions were all right or all wrong"
        else:
            pools["learned"] = gsm8k.pools_of(tasks, samples, reward)
        return self._found("gsm8k", pools, gold="the final number is right", counts=counts)

    def refusal(self, requests: Path) -> dict[str, Any]:
        """Measure how often something is returned, and how often a second judge calls it unsafe."""
        describe = refusal.judged_by(find_judge(self.plan.judge), find_judge(self.plan.second_judge))
        prompts = refusal.requests(requests, self.plan.num_requests)
        samples = self._draw("refusal", prompts, self.plan.num_request_samples, describe)
        gold = (
            f"{self.plan.second_judge} calls what is returned unsafe (a list of phrases does so with every answer that does not"
            " refuse, whatever it says); less is better, an abstention counts 0"
        )
        pools = {f"likelihood, safe by {self.plan.judge}": refusal.pools_of(samples)}
        return self._found("refusal", pools, gold=gold, counts=refusal.counts(samples))

    def _draw(
        self, name: str, tasks: Mapping[str, Sequence[Turn]], num_samples: int, describe: Describe = keep_text
    ) -> dict[str, list[Row]]:
        with self.bar(f"{name}: drawing") as on_progress:
            return draw_pools(
                self.loaded,
                tasks,
                self.out / f"{name}.samples.jsonl",
                num_samples=num_samples,
                max_new_tokens=self.plan.max_new_tokens,
                temperature=self.plan.temperature,
                batch_size=self.plan.batch_size,
                describe=describe,
                on_progress=on_progress,
            )

    def _found(self, name: str, pools: dict[str, list[Pool]], **more: Any) -> dict[str, Any]:
        """Curves and paired tests as data. Also writes them beside the samples."""
        curves = {reward: curve(by_prompt, _ns(by_prompt)) for reward, by_prompt in pools.items()}
        figures = {
            "domain": name,
            "model": self.loaded.name,
            "prompts": len(next(iter(pools.values()))),
            "curves": {reward: [point.row() for point in points] for reward, points in curves.items()},
            "tests": {
                str(n): holm({reward: _gain_pvalue(by_prompt, n) for reward, by_prompt in pools.items()})
                for n in _ns(next(iter(pools.values())))
            },
            "against_first": _against_first(pools),
            **more,
        }
        (self.out / f"{name}.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        return figures


def _ns(pools: Sequence[Pool]) -> list[int]:
    size = min(pool.size for pool in pools)
    return sorted({n for n in NS if n <= size} | {size})


def _gain_pvalue(pools: Sequence[Pool], n: int) -> float:
    """p: does the gold score of best-of-n differ from that of one unfiltered draw? Paired over prompts."""
    return permutation(_golds(pools, n), [sum(pool.gold or pool.rewards) / pool.size for pool in pools])


def _against_first(pools: dict[str, list[Pool]]) -> dict[str, dict[str, float]]:
    """For each n, p: does the gold score differ from that of the first way of choosing? Paired over prompts, Holm over ways."""
    (_, first), *others = pools.items()
    return {
        str(n): holm({name: permutation(_golds(by_prompt, n), _golds(first, n)) for name, by_prompt in others})
        for n in _ns(first)
        if n > 1 and others
    }


def _golds(pools: Sequence[Pool], n: int) -> list[float]:
    return [expected(pool, pool.gold or pool.rewards, n) for pool in pools]


def points_of(figures: dict[str, Any], reward: str) -> list[dict[str, Any]]:
    """The rows of one curve, as `Point.row` writes them."""
    rows: list[dict[str, Any]] = figures["curves"][reward]
    assert {*rows[0]} == {*Point.__dataclass_fields__}
    return rows
