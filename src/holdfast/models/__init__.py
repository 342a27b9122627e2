"""Load models by name, add tokens to them, and the two tiny models that come with the package."""

from holdfast.models.embedded import FOLDER, TINY, tiny_path
from holdfast.models.four_bits import round_linear_layers, rounded_to_4_bits
from holdfast.models.head_access import head_replaced
from holdfast.models.interpolation import interpolated
from holdfast.models.load import LoadedModel, as_loaded, load, load_tokenizer, named_with_origin, origin
from holdfast.models.new_tokens import add_tokens

__all__ = [
    "FOLDER",
    "TINY",
    "LoadedModel",
    "add_tokens",
    "as_loaded",
    "head_replaced",
    "interpolated",
    "load",
    "load_tokenizer",
    "named_with_origin",
    "origin",
    "round_linear_layers",
    "rounded_to_4_bits",
    "tiny_path",
]
