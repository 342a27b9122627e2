"""One thread: the arrays are small, and the suite runs a process per core."""

import torch

torch.set_num_threads(1)
