"""Pack a trained model for a page: one byte a weight."""

import zlib
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from attn_notes.scores import AdditiveScore
from attn_notes.seq2seq import Seq2Seq
from attn_notes.transformer import DecoderOnly, Encoder, Transformer, TransformerConfig
from attn_widgets.encoding import from_base64, to_base64

__all__ = ["checksum", "pack_seq2seq", "pack_transformer", "unpack_transformer", "unpack_weights"]

LEVELS = 127  # whole numbers from -127 to 127: 0 stays 0
# By how the names of their weights begin.
FAMILIES = {"encoder": Transformer, "body": DecoderOnly, "embeddings": Encoder}
KNOWN = ("none", "learned", "sinusoidal")  # positions that static/transformer_model.js can do
# Fields of the config that it does not read: rotations, and what later blocks have.
ROTARY = ("rotary_base", "rotary_scale", "rotary_layout", "local_rotary_base")
LATER = ("head_dim", "norm_kind", "qk_norm", "gated", "bias", "windows")


def pack_transformer(model: Transformer | DecoderOnly | Encoder) -> dict[str, Any]:
    """A model as JSON: matrices in whole numbers of 8 bits, vectors in 32 bits each.

    Row i of a matrix is $s_i$ times whole numbers from -127 to 127, $s_i$ being its largest
    magnitude over 127: a weight moves by at most half of $s_i$. Tied weights are stored once.
    `{"config", "tensors", "tied", "bytes", "floats"}`: the names and shapes of the weights in
    order, which others are tied to which of them, their whole numbers, and their scales and
    vectors. `static/transformer_model.js` reads it. Positions are learned, sinusoidal or none.

    Example:
        >>> config = TransformerConfig(vocab_size=9, embed_dim=4, num_heads=2, positions="none")
        >>> pack_transformer(Transformer(config))["tensors"][0]
        ['encoder.embeddings.tokens.weight', [9, 4]]
    """
    _check(model)
    config = {k: v for k, v in asdict(model.config).items() if k not in (*ROTARY, *LATER)}
    return {"config": config, **_pack_weights(model)}


def pack_seq2seq(model: Seq2Seq) -> dict[str, Any]:
    """The weights of an encoder-decoder of chapter 4, as in `pack_transformer`.

    `static/recurrent_model.js` can compute one layer that reads in both directions, with the
    additive score.
    """
    score = getattr(getattr(model.decoder, "attention", None), "score", None)
    reads: Any = model.encoder.rnn
    known = isinstance(score, AdditiveScore) and reads.num_layers == 1 and reads.bidirectional
    if not known:
        wanted = "one layer, an encoder in both directions and the additive score"
        raise ValueError(f"model must have {wanted}, got {model}")
    return _pack_weights(model)


def _pack_weights(model: nn.Module) -> dict[str, Any]:
    tensors, tied, quanta, floats = [], [], [], []
    names: dict[int, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        first = names.setdefault(id(parameter), name)
        if first != name:
            tied.append([name, first])
            continue
        weight = parameter.detach().double().cpu()
        if not bool(weight.isfinite().all()):
            raise ValueError(f"weights must be finite, got NaN or infinity in {name}")
        tensors.append([name, list(weight.shape)])
        if weight.dim() == 2:
            whole, weight = _quantise(weight)
            quanta.append(whole.flatten())
        floats.append(weight.flatten())
    return {
        "tensors": tensors,
        "tied": tied,
        "bytes": {"b64": to_base64(torch.cat(quanta).to(torch.int8))},
        "floats": {"b64": to_base64(torch.cat(floats).float())},
    }


def unpack_transformer(packed: dict[str, Any]) -> Any:
    """The rounded model, in float64 and evaluation mode on the CPU, as a page computes it."""
    family = FAMILIES[packed["tensors"][0][0].partition(".")[0]]
    with torch.device("cpu"):
        return unpack_weights(packed, family(TransformerConfig(**packed["config"])))


def unpack_weights(packed: dict[str, Any], model: Any) -> Any:
    """The model with the packed weights for its own, in float64 and evaluation mode on the CPU."""
    quanta = from_base64(packed["bytes"]["b64"], torch.int8).double()
    floats = from_base64(packed["floats"]["b64"], torch.float32).double()
    model = model.cpu().double()  # no Apple GPU has float64
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, (rows, *columns) in packed["tensors"]:
            numbers, floats = floats[:rows], floats[rows:]
            if columns:
                size = rows * columns[0]
                numbers, quanta = quanta[:size].view(rows, -1) * numbers[:, None], quanta[size:]
            parameters[name].copy_(numbers)
    return model.eval()


def _check(model: Any) -> None:
    """Raise unless `static/transformer_model.js` can compute the model."""
    if not any(isinstance(model, family) for family in FAMILIES.values()):
        wanted = "a Transformer, DecoderOnly or Encoder"
        raise TypeError(f"model must be {wanted}, got {type(model).__name__}")
    config = model.config
    if config.positions not in KNOWN:
        raise ValueError(f"positions of a page must be among {KNOWN}, got {config.positions!r}")
    shared = config.num_kv_heads not in (None, config.num_heads)
    if config.embed_norm or config.num_token_types or shared or config.packed:
        wanted = "neither embed_norm nor token types nor shared or packed projections"
        raise ValueError(f"a page has {wanted}, got {config}")
    plain = TransformerConfig(vocab_size=config.vocab_size)
    later = [name for name in LATER if getattr(config, name) != getattr(plain, name)]
    if later or config.norm == "both" or config.activation == "silu":
        wanted = "norms before or after a sublayer, gelu or relu, and the defaults of"
        raise ValueError(f"a page has {wanted} {', '.join(LATER)}, got {config}")


def checksum(packed: dict[str, Any]) -> int:
    """Adler-32 of the weights: how one element of a page names the model that another holds."""
    return zlib.adler32((packed["bytes"]["b64"] + packed["floats"]["b64"]).encode())


def _quantise(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Whole numbers (rows, columns) and scales (rows,) of a matrix; a row of 0 has the scale 1."""
    scale = (weight.abs().amax(1) / LEVELS).float().double()
    scale = scale.masked_fill(scale == 0, 1.0)
    return (weight / scale[:, None]).round().clamp(-LEVELS, LEVELS), scale
