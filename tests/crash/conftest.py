"""These tests fork. Where there is a GPU, autograd starts threads that a forked child cannot use."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def _no_gpu() -> None:
    if torch.cuda.is_available():
        pytest.skip("forks after autograd ran: hide the GPU with CUDA_VISIBLE_DEVICES=''")
