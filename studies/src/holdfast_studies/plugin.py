"""What the studies add to holdfast's registries (entry point group ``holdfast.plugins``)."""

from holdfast.attacks import DEFENCES
from holdfast.diagnostics import RL_TASKS, SPLITTINGS
from holdfast.worlds import WORLDS
from holdfast_studies.candidates import CANDIDATES
from holdfast_studies.decisions.products import product_splitter, products, split_words, stated
from holdfast_studies.decisions.rl_task import arithmetic
from holdfast_studies.qwen import defences
from holdfast_studies.real import grid
from holdfast_studies.worlds.naming import arithmetic_rows

WORLDS["arithmetic"] = arithmetic_rows
RL_TASKS["arithmetic"] = arithmetic
SPLITTINGS["product"] = lambda base: (product_splitter(base), products)
SPLITTINGS["words"] = lambda _base: (split_words, stated)
DEFENCES.update({**CANDIDATES, **grid.CANDIDATES, **defences.CANDIDATES})
