"""A language model of today in about a hundred lines of PyTorch: a published one, opened to write.

    python examples/llama.py FOLDER "The capital of France is"

FOLDER holds a Llama or a Qwen3 as it is published (config.json, tokenizer.json, *.safetensors), for
example SmolLM2-135M, a small Llama, or Qwen3-0.6B. A folder that asks for more is refused, such as
the scaled rotation of Llama 3.1 and later. Chapter 12 of the book derives what changed since the
Transformer of 2017. The parameters have the names of the published files, so loading is one call. B
is the batch, L the length of what is read now, S that of all so far, E the width, H the query
heads, G the key-value heads, D the width of a head, V the size of the vocabulary.
"""

import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import nn
from torch.nn import functional as F

# The model


class RMSNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        mean_square = x.square().mean(-1, keepdim=True)
        return x * torch.rsqrt(mean_square + self.eps) * self.weight


def angles(start, stop, head_dim, base):
    frequencies = base ** (-torch.arange(0, head_dim, 2) / head_dim)  # (D / 2,)
    return torch.arange(start, stop)[:, None] * frequencies  # (L, D / 2)


def rotate(x, angles):
    a, b = x.chunk(2, dim=-1)  # feature j turns with feature j + D / 2
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        E, D = config.hidden_size, config.head_dim
        self.head_dim, self.share = D, config.num_attention_heads // config.num_key_value_heads
        self.q_proj = nn.Linear(E, config.num_attention_heads * D, bias=False)
        self.k_proj = nn.Linear(E, config.num_key_value_heads * D, bias=False)
        self.v_proj = nn.Linear(E, config.num_key_value_heads * D, bias=False)
        self.o_proj = nn.Linear(config.num_attention_heads * D, E, bias=False)
        has_norm = config.model_type == "qwen3"
        self.q_norm = RMSNorm(D, config.rms_norm_eps) if has_norm else nn.Identity()
        self.k_norm = RMSNorm(D, config.rms_norm_eps) if has_norm else nn.Identity()

    def split(self, x):
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)  # (B, H or G, L, D)

    def forward(self, x, angles, cache):
        q = rotate(self.q_norm(self.split(self.q_proj(x))), angles)
        k = rotate(self.k_norm(self.split(self.k_proj(x))), angles)
        v = self.split(self.v_proj(x))
        if cache:
            k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
        cache[:] = k, v  # (B, G, S, D) each: all that a later token needs of this layer
        k, v = (y.repeat_interleave(self.share, dim=1) for y in (k, v))  # (B, H, S, D)
        scores = q @ k.mT / math.sqrt(self.head_dim)  # (B, H, L, S)
        L, S = scores.shape[-2:]
        causal = torch.ones(L, S, dtype=torch.bool).tril(S - L)
        weights = scores.masked_fill(~causal, -math.inf).softmax(-1)
        return self.o_proj((weights @ v).transpose(1, 2).flatten(2))  # (B, L, E)


class FeedForward(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        E, eps = config.hidden_size, config.rms_norm_eps
        self.input_layernorm, self.self_attn = RMSNorm(E, eps), Attention(config)
        self.post_attention_layernorm = RMSNorm(E, eps)  # after attention, before what follows
        self.mlp = FeedForward(E, config.intermediate_size)

    def forward(self, x, angles, cache):
        x = x + self.self_attn(self.input_layernorm(x), angles, cache)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.head_dim, self.base = config.head_dim, config.rope_theta
        ends = config.eos_token_id
        self.ends = ends if isinstance(ends, list) else [ends]
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Block(config) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, ids, caches=None):
        """The logits (B, L, V) of ids (B, L); `caches` has a list for each layer, and is filled."""
        caches = caches or [[] for _ in self.layers]
        start = caches[0][0].shape[2] if caches[0] else 0  # how many tokens were read before
        turn = angles(start, start + ids.shape[1], self.head_dim, self.base)
        x = self.embed_tokens(ids)  # (B, L, E)
        for layer, cache in zip(self.layers, caches, strict=True):
            x = layer(x, turn, cache)
        return self.lm_head(self.norm(x))


# A published folder

SETTINGS = {  # what this file computes; a folder that asks for anything else is refused
    "hidden_act": "silu", "attention_bias": False, "mlp_bias": False, "use_sliding_window": False,
    "rope_type": "default", "partial_rotary_factor": 1.0, "quantization_config": None,
}  # fmt: skip
DEFAULTS = {"rope_theta": 10_000.0, "tie_word_embeddings": False}  # which a folder may leave out


def read_config(folder):
    config = DEFAULTS | json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if config["model_type"] not in ("llama", "qwen3"):
        raise ValueError(f"model_type must be llama or qwen3, got {config['model_type']!r}")
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}  # new name, old name
    config |= {"rope_type": rope.get("type", "default"), **rope}
    for name, value in SETTINGS.items():
        if config.get(name, value) != value:
            raise ValueError(f"{name} must be {value!r}, got {config[name]!r}")
    heads = config["num_attention_heads"]
    config["num_key_value_heads"] = config.get("num_key_value_heads") or heads
    config["head_dim"] = config.get("head_dim") or config["hidden_size"] // heads
    return SimpleNamespace(**config)


def load(folder):
    config, weights = read_config(folder), {}
    for file in sorted(folder.glob("model*.safetensors")):  # a large model comes in several
        for name, weight in load_file(file, device=str(torch.get_default_device())).items():
            weights[name.removeprefix("model.")] = weight.float()  # published in 16 bits
    if config.tie_word_embeddings:
        weights["lm_head.weight"] = weights["embed_tokens.weight"]
    with torch.device("meta"):  # parameters without memory, until the file gives them theirs
        model = Llama(config)
    model.load_state_dict(weights, assign=True)  # an error, unless all names and shapes fit
    return model, Tokenizer.from_file(str(folder / "tokenizer.json"))


# Writing token by token


@torch.no_grad()
def write(model, ids, most=60):
    """Yield the most probable continuation of a list of ids, one id at a time."""
    caches, new = [[] for _ in model.layers], ids
    for _ in range(most):
        logits = model(torch.tensor([new]), caches)  # only what is new is read
        best = logits[0, -1].argmax().item()
        if best in model.ends:
            return
        yield best
        new = [best]


if __name__ == "__main__":
    folder, prompt = sys.argv[1:]
    torch.set_default_device(torch.accelerator.current_accelerator() or "cpu")
    model, tokenizer = load(Path(folder))
    ids = tokenizer.encode(prompt).ids
    print(tokenizer.decode(ids + list(write(model, ids))))
