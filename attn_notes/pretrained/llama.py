"""The published layout of Llama, Mistral, Qwen3 and Gemma 3: today's decoders (chapter 12)."""

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attn_notes.arguments import check_positive
from attn_notes.positions import scale_by_turns
from attn_notes.pretrained.config import ACTIVATIONS, Layout, check_absent, describing
from attn_notes.transformer import TransformerConfig

# The published name of a module and ours; {} is the number of a block.
BLOCK = {
    "input_layernorm": "norm1",
    "self_attn.q_proj": "self_attn.q_proj",
    "self_attn.k_proj": "self_attn.k_proj",
    "self_attn.v_proj": "self_attn.v_proj",
    "self_attn.q_norm": "self_attn.q_norm",
    "self_attn.k_norm": "self_attn.k_norm",
    "self_attn.o_proj": "self_attn.out_proj",
    "post_attention_layernorm": "norm2",
    "mlp.gate_proj": "feed_forward.gate_proj",
    "mlp.up_proj": "feed_forward.up_proj",
    "mlp.down_proj": "feed_forward.down_proj",
}
GEMMA_BLOCK = BLOCK | {
    "post_attention_layernorm": "out_norm1",
    "pre_feedforward_layernorm": "norm2",
    "post_feedforward_layernorm": "out_norm2",
}
AROUND = {"embed_tokens": "body.embeddings.tokens", "norm": "body.norm", "lm_head": "out_proj"}

# Keys that a file may lack, and what they are then.
DEFAULTS = {"rms_norm_eps": 1e-6, "tie_word_embeddings": False, "rope_theta": 10000.0}
OWN_DEFAULTS: dict[str, dict[str, Any]] = {
    "llama": {"hidden_act": "silu"},
    "mistral": {"hidden_act": "silu", "sliding_window": 4096},
    "qwen3": {"hidden_act": "silu", "head_dim": 128},
    "gemma3_text": {
        "hidden_activation": "gelu_pytorch_tanh",
        "tie_word_embeddings": True,
        "head_dim": 256,
        "query_pre_attn_scalar": 256,
        "sliding_window": 4096,
        "rope_theta": 1e6,
    },
}
FAMILIES = tuple(OWN_DEFAULTS)
# Where one of these is set, the model computes something else.
ABSENT = (
    "attn_logit_softcapping", "final_logit_softcapping", "use_bidirectional_attention",
    "num_experts", "num_local_experts", "n_routed_experts", "quantization_config",
    "attention_bias", "mlp_bias",
)  # fmt: skip
FULL, SLIDING = "full_attention", "sliding_attention"


def layout(folder: Path, published: Mapping[str, Any]) -> Layout:
    """Our config, the names of the modules, and what becomes of the tensors."""
    family = published["model_type"]
    # A null stands for the default, except that it is a window's way to say "none".
    said = {k: v for k, v in published.items() if v is not None or k == "sliding_window"}
    published = DEFAULTS | OWN_DEFAULTS[family] | said
    check_absent(folder, published, ABSENT)
    with describing(folder):
        config, gains = _read(family, published)
    block = GEMMA_BLOCK if family == "gemma3_text" else BLOCK
    names = AROUND | {
        f"layers.{{}}.{name}": f"body.blocks.{{}}.{own}" for name, own in block.items()
    }
    return config, names, partial(_plain, family, gains)


def _read(family: str, published: Mapping[str, Any]) -> tuple[TransformerConfig, list[float]]:
    """Our config, and by how much the scores of each block are larger than ours would be."""
    is_gemma = family == "gemma3_text"
    E, H = published["hidden_size"], published["num_attention_heads"]
    D = published.get("head_dim") or E // H
    base, scale, turned = _rotation(published, D, FULL)
    local_base = None
    if is_gemma:
        local_base, local_scale, _ = _rotation(published, D, SLIDING)
        if local_scale != 1.0:
            raise ValueError(f"rotary positions must not be scaled in {SLIDING}")
    windows = _windows(family, published)
    divisor = published.get("query_pre_attn_scalar", D)  # of the scores, squared; ours is D
    check_positive(query_pre_attn_scalar=divisor)
    activation = published["hidden_activation" if is_gemma else "hidden_act"]
    config = TransformerConfig(
        vocab_size=published["vocab_size"],
        embed_dim=E,
        num_heads=H,
        num_layers=published["num_hidden_layers"],
        ffn_dim=published["intermediate_size"],
        num_kv_heads=published.get("num_key_value_heads"),
        head_dim=D,
        norm="both" if is_gemma else "pre",
        norm_kind="rms",
        qk_norm=is_gemma or family == "qwen3",
        activation=ACTIVATIONS.get(activation, activation),
        gated=True,
        bias=False,
        positions="rotary",
        rotary_base=base,
        rotary_scale=scale,
        rotary_layout="halves",
        windows=windows if any(windows) else None,
        local_rotary_base=local_base,
        max_length=published["max_position_embeddings"],
        layer_norm_eps=published["rms_norm_eps"],
        tie_embeddings=published["tie_word_embeddings"],
        scale_embeddings=is_gemma,
    )
    of_width = math.sqrt(D / divisor)
    return config, [of_width * (1.0 if is_gemma and window else turned) for window in windows]


def _windows(family: str, published: Mapping[str, Any]) -> tuple[int | None, ...]:
    """The window of each block."""
    N, window = published["num_hidden_layers"], published.get("sliding_window")
    kinds = published.get("layer_types")
    must_slide = kinds or family == "gemma3_text"
    if family in ("llama", "mistral") and (kinds or (family == "llama" and window)):
        raise ValueError(f"{family} has the same attention in all layers, got {kinds or window}")
    if family == "qwen3" and not published.get("use_sliding_window"):
        window = None
    if kinds is None:
        first = {"qwen3": published.get("max_window_layers", 28)}.get(family, 0)
        every = published.get("sliding_window_pattern", 6) if family == "gemma3_text" else N + 1
        kinds = [SLIDING if n >= first and (n + 1) % every else FULL for n in range(N)]
    if unknown := {*kinds} - {FULL, SLIDING}:
        raise ValueError(f"layer_types must be {FULL} or {SLIDING}, got {unknown.pop()!r}")
    if must_slide and window is None and SLIDING in kinds:
        raise ValueError(f"a layer of {SLIDING} must have a sliding_window, got None")
    return tuple(window if kind == SLIDING else None for kind in kinds)


def _rotation(published: Mapping[str, Any], head_dim: int, kind: str) -> tuple[float, Any, float]:
    """Base and scale of the rotation in one kind of layer, and how much it enlarges scores."""
    given, is_local = published.get("rope_parameters") or {}, kind == SLIDING
    if "query_pre_attn_scalar" in published and given:  # Gemma: one for each kind
        given = given[kind]
    old = {} if is_local else published.get("rope_scaling") or {}
    old = {"rope_type": old["type"]} | old if "type" in old else old
    local_base = published.get("rope_local_base_freq", 10000.0)
    rope = {"rope_theta": local_base if is_local else published["rope_theta"]} | given | old
    name, base = rope.get("rope_type", "default"), rope["rope_theta"]
    partial_ = rope.get("partial_rotary_factor", published.get("partial_rotary_factor", 1.0))
    changes = {"mscale": None, "mscale_all_dim": None, "truncate": True}
    if partial_ != 1.0 or any(rope.get(key, same) != same for key, same in changes.items()):
        raise ValueError(f"all of a head must be rotated, by the plain rule, got {rope}")
    if name == "default":
        return base, 1.0, 1.0
    if name not in ("linear", "llama3", "yarn"):
        raise ValueError(f"rope_type must be default, linear, llama3 or yarn, got {name!r}")
    factor = float(rope["factor"])
    check_positive(factor=factor)
    if name == "linear":
        return base, factor, 1.0
    original = "original_max_position_embeddings"  # outside the rotation's own keys it comes first
    length = published.get(original) or rope.get(original) or published["max_position_embeddings"]
    how: Any = {"base": base, "factor": factor, "trained_length": length}
    if name == "llama3":
        turns = rope["low_freq_factor"], rope["high_freq_factor"]
        return base, tuple(scale_by_turns(head_dim, **how, turns=turns)), 1.0
    turns = rope.get("beta_slow") or 1, rope.get("beta_fast") or 32
    # YaRN multiplies cosine and sine, of query and of key: the scores twice.
    larger = rope.get("attention_factor") or 0.1 * math.log(max(factor, 1)) + 1
    return base, tuple(scale_by_turns(head_dim, **how, turns=turns, ramp="hands")), larger**2


def _plain(family: str, gains: list[float], tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors that are read, so that our blocks compute what the published ones do.

    Gemma's norms multiply by 1 + weight: the 1 is added. A larger scale of the scores goes into the
    weight that queries are multiplied by last.
    """
    plain = {}
    wide = torch.get_default_dtype()
    for published, tensor in tensors.items():
        name = published.removeprefix("model.")
        if name.endswith("rotary_emb.inv_freq"):  # in older files
            continue
        plain[name] = tensor.to(wide) if tensor.is_floating_point() else tensor
        if family == "gemma3_text" and name.endswith("norm.weight"):
            plain[name] = plain[name] + 1
    for n, gain in enumerate(gains):
        norm, projection = (f"layers.{n}.self_attn.{name}.weight" for name in ("q_norm", "q_proj"))
        last = norm if norm in plain else projection
        if gain != 1.0 and last in plain:
            plain[last] = plain[last] * gain
    return plain
