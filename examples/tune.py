"""Fine-tune a model on your rows and check that it still refuses what it refused before.

Run it as it stands (`python examples/tune.py`, a minute or two on a CPU), or open it in an editor that knows `# %%` cells. It
uses the embedded model `tiny:aligned`, which speaks a make-believe language; put a hub id or a folder in its place. It needs
nothing beside `pip install holdfast`, and writes to the folder `runs/`.
"""

# %% Measure the model before you touch it
import holdfast as hf

MODEL = "tiny:aligned"
before = hf.audit(MODEL, limit=30)
print(before)

# %% Your rows: prompts with the answers you want
words = ["sun river", "stone lamp", "bell window", "river stone", "lamp sun", "window bell", "sun bell", "stone river"]
rows = [{"prompt": f"copy : {pair}", "completion": pair} for pair in words]

# %% Tune on them, and keep the model near itself elsewhere
# `vet` leaves out the loss on rows that the model itself refuses. `held` keeps its own answers to safety prompts and to others.
run = hf.train(
    MODEL,
    [hf.Stream(rows, "sft", vet="outcome"), *hf.held("safety", "keep")],
    run="runs/tune",
    lr=1e-3,
    batch_size=8,
)
print(run.model)

# %% Ask the same questions again, in pairs
after = hf.audit(run.model, like=before)
print(after)
print(after.against(before))

# %% Keep the figures, and look at them in a browser
after.save("runs/tune")
print("report:", hf.report("runs/tune"))
