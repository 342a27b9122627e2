"""[004]: figures that need the paper's own models. The settings are shipped; what is missing is named."""

from __future__ import annotations

from holdfast_studies.papers.study import untestable

STUDY = untestable(
    "004-larger-models",
    "004",
    "Figures of larger models",
    (
        "Table 1",
        "the accuracies themselves: Qwen2.5-7B-Instruct after SFT and GRPO on products in plain English",
        "28 accuracies, 100 problems each",
        "the model's weights and about a day on one H100; studies/configs/arithmetic/table6_sft_reflection.yaml and "
        "studies/configs/rl/table7_grpo.yaml have the paper's settings",
    ),
    (
        "Fig. 2 (from Chu et al.)",
        "in and out of distribution, SFT against RL, in language, code, vision and mathematics",
        "SFT -8 to -80 %, RL +3 to +61 %",
        "a vision-language model, its weights and four environments; 004-cited-out-of-distribution asks the same in arithmetic",
    ),
    (
        "Sec. 5.3 (from Wu et al.)",
        "AIME24 after SFT and DFT of Qwen2.5-Math-7B",
        "6.68, 2.48 and 8.56",
        "the model's weights, its training data and AIME24; 004-cited-dft asks the same in arithmetic",
    ),
    (
        "Table 2 (from Kang et al.)",
        "p(F to T) of Llama3.1-8B and Qwen2.5-7B after SFT",
        "0.036 to 0.058",
        "the two models' weights and the data; 004-table-2-flat asks the same in arithmetic",
    ),
)
