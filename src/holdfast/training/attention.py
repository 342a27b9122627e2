"""Which attention kernels a training may use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def sound_gradients() -> Iterator[None]:
    """Inside, cuDNN's attention is off, which torch prefers on newer GPUs.

    Its gradient is NaN where a batch with a mask is 64, 192, 320, ... tokens wide and a head's scores are all far below 0, as
    in some heads of Qwen2.5 (pytorch issue 196678). torch's other kernels take over. They are right, and as fast at the
    lengths that are tuned on.
    """
    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)
