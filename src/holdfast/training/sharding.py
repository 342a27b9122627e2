"""FSDP2 where accelerate would quietly do something else: on CPU, and for the anchor.

Asked for FSDP on CPU, accelerate falls back to DDP without a word. The same sharding works there over gloo, so a run
that asks for it gets it: slow, but the same code as on a cluster, and testable without one.
"""

from __future__ import annotations

import os
from typing import Any

from accelerate import Accelerator, FullyShardedDataParallelPlugin
from accelerate.utils import DistributedType
from accelerate.utils.fsdp_utils import fsdp2_prepare_model


def shard_on_cpu_too(accelerator: Accelerator) -> bool:
    """Make accelerate keep its word on CPU; whether it was needed."""
    asked = os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true"
    if not (asked and accelerator.distributed_type == DistributedType.MULTI_CPU):
        return False
    plugin = FullyShardedDataParallelPlugin()
    plugin.set_state_dict_type("FULL_STATE_DICT")
    accelerator.state.fsdp_plugin = plugin
    accelerator.state.distributed_type = DistributedType.FSDP
    return True


def shard_anchor(accelerator: Accelerator, model: Any) -> Any:
    """The anchor sharded like the policy: a whole second copy on every device would defeat the purpose."""
    return fsdp2_prepare_model(accelerator, model)
