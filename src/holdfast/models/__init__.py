"""Load policy and anchor; new tokens; the embedded tiny models."""

from holdfast.models.load import LoadedModel, load, load_tokenizer
from holdfast.models.new_tokens import add_tokens

__all__ = ["LoadedModel", "add_tokens", "load", "load_tokenizer"]
