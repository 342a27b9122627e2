"""One quick question to the Hugging Face hub before a model is loaded from it.

transformers asks for every file again and again: without a network that takes a minute and prints every failure.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, RepositoryNotFoundError

from holdfast.config import InputError

CONFIG = "config.json"
TIMEOUT = 5.0  # seconds


@contextmanager
def asking_hub_once(source: Path | str) -> Iterator[None]:
    """For loading from ``source``, a folder or a hub id: where the hub cannot be reached, from its local cache alone.

    Raises ``InputError`` where the model is not in the cache either, and where the hub has no such model.
    """
    was_offline = constants.HF_HUB_OFFLINE
    if isinstance(source, str) and not _is_reachable(source):
        constants.HF_HUB_OFFLINE = True  # transformers' local_files_only still asks for an adapter's config
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = was_offline


def _is_reachable(name: str) -> bool:
    try:
        get_hf_file_metadata(hf_hub_url(name, CONFIG), timeout=TIMEOUT)
    except HFValidationError:
        raise InputError(f"model '{name}': no such folder here, and no model on the hub can have this name") from None
    except HfHubHTTPError as error:
        if type(error) is RepositoryNotFoundError:  # and not one that is gated: transformers says that
            raise InputError(
                f"model '{name}': no such folder here, and the Hugging Face hub has no such model"
                " (if it is a private one: log in with `hf auth login`)"
            ) from None
    except Exception:  # a closed port, a timeout, offline mode: every version of the hub's client has other types
        if not isinstance(try_to_load_from_cache(name, CONFIG), str):
            raise InputError(
                f"model '{name}': no such folder here, and the Hugging Face hub cannot be reached to look for it"
            ) from None
        return False
    return True
