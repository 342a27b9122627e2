"""[002] What no run here can speak to: the absolute figures on Llama-2-7B-Chat."""

from __future__ import annotations

from holdfast_studies.papers.study import untestable

NEEDED = (
    "the weights of Llama-2-7B-Chat (`studies/configs/llama2/` runs as soon as they and the data are there), Qi et al.'s attack "
    "sets, their GPT-4 judge, and one 80 GB GPU for some hours"
)

STUDY = untestable(
    "002-llama-2",
    "002",
    "Absolute figures on Llama-2-7B-Chat",
    (
        "Table 3",
        "attack success of Llama-2-7B-Chat under SFT, CSFT, CSFT + PA",
        "88.9, 3.6, 2.7; 79.5, 8.1, 7.5; 7.6, 1.9, 1.5; 90.9, 6.9, 3.3 %",
        NEEDED,
    ),
    (
        "Table 4",
        "utility of Llama-2-7B-Chat on SAMSum (ROUGE-1) and SQL Create Context under CSFT and CSFT + PA",
        "50.1, 47.1; 98.5, 96.3",
        f"{NEEDED}; SAMSum",
    ),
    (
        "1, 4.2, A.2.1",
        "PA prevents 'policy cliffs' (discontinuous changes of the policy under small changes of the data)",
        "stated, with a reference",
        "a definition of the policy map that PA is to make continuous; `002-noise` has the nearest thing that can be measured",
    ),
)
