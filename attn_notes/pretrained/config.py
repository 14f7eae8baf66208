"""What `config.json` says, in our words: sizes and choices of a published model."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from attn_notes.transformer import TransformerConfig

FAMILIES = ("bert", "gpt2")
# Field of `TransformerConfig`: the key of each family.
KEYS = {
    "vocab_size": ("vocab_size", "vocab_size"),
    "embed_dim": ("hidden_size", "n_embd"),
    "num_heads": ("num_attention_heads", "n_head"),
    "num_layers": ("num_hidden_layers", "n_layer"),
    "ffn_dim": ("intermediate_size", "n_inner"),
    "activation": ("hidden_act", "activation_function"),
    "max_length": ("max_position_embeddings", "n_positions"),
    "num_token_types": ("type_vocab_size", "type_vocab_size"),
    "dropout": ("hidden_dropout_prob", "resid_pdrop"),
    "layer_norm_eps": ("layer_norm_eps", "layer_norm_epsilon"),
    "tie_embeddings": ("tie_word_embeddings", "tie_word_embeddings"),
}
# Keys that a file may lack.
DEFAULTS = {
    "tie_word_embeddings": True,
    "type_vocab_size": 0,
    "n_inner": None,  # then four times the width
    "activation_function": "gelu_new",
}
# Where one of these keys is given, another value means another computation.
REQUIRED = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
}
ACTIVATIONS = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "swish": "silu"}


# Our config, published modules and ours ({} is the number of a block), what becomes of the tensors.
Layout = tuple[
    TransformerConfig, Mapping[str, str], Callable[[Mapping[str, Tensor]], dict[str, Tensor]]
]


def read_json(folder: Path) -> dict[str, Any]:
    """All that `config.json` says."""
    path = folder / "config.json"
    try:
        return {} | json.loads(path.read_bytes())
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} must hold an object of JSON, got: {error}") from error


def read_config(folder: Path, family: str, **fields: Any) -> tuple[TransformerConfig, Any]:
    """Our config, with these fields of the family, and all that the file says."""
    published, column = DEFAULTS | read_json(folder), FAMILIES.index(family)
    for key, value in ({"model_type": family} | REQUIRED).items():
        if published.get(key, value) != value:
            raise ValueError(
                f"{folder}/config.json: {key} must be {value!r}, got {published[key]!r}"
            )
    with describing(folder):
        fields |= {field: published[keys[column]] for field, keys in KEYS.items()}
        fields["ffn_dim"] = fields["ffn_dim"] or 4 * fields["embed_dim"]
        fields["activation"] = ACTIVATIONS.get(fields["activation"], fields["activation"])
        return TransformerConfig(**fields), published


def check_absent(folder: Path, published: Mapping[str, Any], keys: Iterable[str]) -> None:
    """Raise for the first of these keys that is set."""
    for key in keys:
        if published.get(key):
            raise ValueError(f"{folder}/config.json: {key} must not be set, got {published[key]!r}")


@contextmanager
def describing(folder: Path) -> Iterator[None]:
    """Say of which file an error is."""
    try:
        yield
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        must = "must describe one of our models"
        raise ValueError(f"{folder}/config.json {must}: {error!r}") from error
