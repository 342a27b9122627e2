"""Attack a model, tuned plainly and not tuned at all, and look at what best-of-n gives.

Run it as it stands (`python examples/research.py`, a minute or two on a CPU), or open it in an editor that knows `# %%` cells. It
uses the embedded model and its make-believe world; `setting=hf.Files(...)` takes your own model and files. It needs nothing
beside `pip install holdfast`, and writes to the folder `runs/`.
"""

# %% One attack, two models, one seed. Every cell is kept: the same call goes on where it stopped
import holdfast as hf

matrix = hf.attack(
    attacks=["harmful_examples"],
    defences=["untouched", "sft"],
    seeds=1,
    run="runs/research",
    num_requests=10,
    workers=1,
)
for defence in ("untouched", "sft"):
    print(defence, matrix.estimate("harmful_examples", defence))

# %% Best of 8: the safe candidate with the highest reward, or nobody
chosen = hf.best_of("tiny:aligned", ["copy : sun river", "copy : stone lamp"], n=8, judge="world", temperature=1.0)
for one in chosen:
    print(one.text, "|", one.selection.reason)


# %% A reward of your own is a function of replies
def few_words(replies):
    """The fewer words, the better."""
    return [1 / (1 + len(reply.text.split())) for reply in replies]


(shortest,) = hf.best_of("tiny:aligned", ["copy : sun river stone"], n=8, reward=few_words, temperature=2.0)
print(shortest.text, "|", shortest.selection.reason)

# %% How well does a model that tries again know when to stop?
transcripts = [{"prompt": "2+2", "response": "It is 5. Wait, it is 4.", "answer": "4"}] * 6
print(hf.calibrate(transcripts))

# %% One page with all of it
print("report:", hf.report("runs/research"))
