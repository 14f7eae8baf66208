"""A language model of today in a hundred lines: beside the reference library's, and refusing."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tokenizers.pre_tokenizers import WhitespaceSplit

from tests.published import random_model, reconfigure, saved, small_tokenizer

FILE = Path(__file__).parents[1] / "examples" / "llama.py"
pytestmark = pytest.mark.slow  # the reference library takes seconds to load

# Every size another number; an eps and a base that are nobody's default.
SIZES = {
    "vocab_size": 101, "hidden_size": 30, "intermediate_size": 37, "num_hidden_layers": 3,
    "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 10, "rms_norm_eps": 1e-3,
    "rope_parameters": {"rope_theta": 500.0, "rope_type": "default"}, "initializer_range": 0.2,
    "bos_token_id": None, "eos_token_id": [7, 100], "pad_token_id": None,
}  # fmt: skip
KINDS = {"llama": "LlamaForCausalLM", "qwen3": "Qwen3ForCausalLM"}
IDS = torch.tensor([[5, 9, 97, 12, 6, 20, 3, 55, 41, 2, 18]])  # (1, L)


@pytest.fixture(scope="module")
def example():
    """The file as a module."""
    sys.path.append(str(FILE.parent))
    import llama

    sys.path.remove(str(FILE.parent))
    return llama


def reference(kind, **changes):
    transformers = pytest.importorskip("transformers")
    config = getattr(transformers, KINDS[kind].replace("ForCausalLM", "Config"))
    return random_model(transformers, KINDS[kind], config(**SIZES | changes))


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def both(kind, tmp_path):
    """The reference library's model, and the folder in which it was saved."""
    model = reference(kind)
    return model, saved(tmp_path, model)


@torch.no_grad()
def furthest(model, other) -> float:
    return float((model(IDS) - other(IDS).logits).abs().max())


def in_float64(norm):
    """The reference library's norm without its rounding to 32 bits."""

    def forward(x):
        mean_square = x.pow(2).mean(-1, keepdim=True)
        return norm.weight * x / (mean_square + norm.variance_epsilon).sqrt()

    return forward


def unrounded(other):
    """The reference's model in 64 bits, its norms and softmax too; its angles stay in 32."""
    other.set_attn_implementation("sdpa")
    for part in other.double().modules():
        if hasattr(part, "variance_epsilon"):
            part.forward = in_float64(part)
    return other


def test_its_logits_are_the_reference_librarys(example, both, monkeypatch):
    other, folder = both
    model, _ = example.load(folder)
    assert furthest(model, other) < 1e-5
    turn = torch.arange(11.0)[:, None] * other.model.rotary_emb.inv_freq  # (L, D/2), in 32 bits
    torch.testing.assert_close(example.angles(0, 11, 10, 500.0), turn, atol=1e-6, rtol=1e-6)
    monkeypatch.setattr(example, "angles", lambda *_: turn)
    assert furthest(model.double(), unrounded(other)) < 1e-11


@pytest.mark.parametrize("changes", [
    {"tie_word_embeddings": True}, {"num_key_value_heads": 6}, {"num_key_value_heads": 1},
])  # fmt: skip
def test_tied_ungrouped_and_one_shared_head(example, kind, changes, tmp_path):
    other = reference(kind, **changes)
    model, _ = example.load(saved(tmp_path, other))
    assert furthest(model, other) < 1e-5


def pairs_turned(example, monkeypatch, model):
    def rotate(x, angles):
        a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
        cos, sin = angles.cos(), angles.sin()
        return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)

    monkeypatch.setattr(example, "rotate", rotate)


def another_eps(example, monkeypatch, model):
    for part in model.modules():
        if isinstance(part, example.RMSNorm):
            part.eps = 1e-6


def other_shares(example, monkeypatch, model):
    def tiled(x, times, dim):  # head h reads key head h % G
        return torch.cat([x] * times, dim=dim)

    monkeypatch.setattr(torch.Tensor, "repeat_interleave", tiled)


def another_base(example, monkeypatch, model):
    model.base = 10_000.0


@pytest.mark.parametrize("mistake", [pairs_turned, another_eps, other_shares, another_base])
def test_that_comparison_sees_each_of_these_mistakes(example, both, mistake, monkeypatch):
    other, folder = both
    model, _ = example.load(folder)
    mistake(example, monkeypatch, model)
    assert furthest(model, other) > 1e-3


@pytest.mark.parametrize("pieces", [(1,) * 11, (4, 1, 6), (10, 1)])
def test_pieces_with_a_cache_give_the_logits_of_the_whole(example, both, pieces):
    model, _ = example.load(both[1])
    model.double()
    caches = [[] for _ in model.layers]
    parts = [model(part, caches) for part in IDS.split(pieces, dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1), model(IDS), atol=1e-6, rtol=0)
    keys, values = caches[0]
    assert keys.shape == values.shape == (1, 2, 11, 10)  # (B, G, S, D): what is kept, and no more


def test_it_writes_what_the_reference_library_writes(example, both):
    other, folder = both
    model, _ = example.load(folder)
    options = {"max_new_tokens": 20, "do_sample": False, "use_cache": False}
    whole = other.generate(IDS, eos_token_id=[7, 100], pad_token_id=0, **options)[0].tolist()
    theirs = whole[IDS.shape[1] :]
    ours = list(example.write(model, IDS[0].tolist(), most=20))
    assert ours == [new for new in theirs if new not in (7, 100)]
    model.ends = [ours[2]]  # an end token is not written, and nothing after it
    assert list(example.write(model, IDS[0].tolist())) == ours[: ours.index(ours[2])]


def test_a_model_in_several_files_and_in_16_bits(example, kind, tmp_path):
    other = reference(kind)
    model, _ = example.load(saved(tmp_path / "one", other))
    other.save_pretrained(tmp_path / "several", max_shard_size="20kB")
    assert len(list((tmp_path / "several").glob("*.safetensors"))) > 1
    (tmp_path / "one" / "tokenizer.json").rename(tmp_path / "several" / "tokenizer.json")
    again, _ = example.load(tmp_path / "several")
    torch.testing.assert_close(again.state_dict(), model.state_dict(), atol=0, rtol=0)
    half, _ = example.load(saved(tmp_path / "half", other.bfloat16()))
    assert {part.dtype for part in half.parameters()} == {torch.float32}
    torch.testing.assert_close(half(IDS), model(IDS), atol=0.3, rtol=0)


def test_the_old_names_of_the_settings_are_read(example, both):
    other, folder = both
    old = {"rope_parameters": "-", "rope_theta": 500.0, "rope_scaling": None}
    reconfigure(folder, **old)
    assert furthest(example.load(folder)[0], other) < 1e-5
    oldest = {"num_key_value_heads": "-", "head_dim": "-"}
    reconfigure(folder, **oldest, tie_word_embeddings="-", rope_theta="-", eos_token_id=3)
    config = example.read_config(folder)
    assert (config.num_key_value_heads, config.head_dim, config.rope_theta) == (6, 5, 10_000)
    reconfigure(folder, num_key_value_heads=None)
    assert example.read_config(folder).num_key_value_heads == 6
    assert example.Llama(config).ends == [3]


@pytest.mark.parametrize(("changes", "words"), [
    ({"model_type": "qwen3_moe"}, "must be llama or qwen3, got 'qwen3_moe'"),
    ({"model_type": "mistral"}, "must be llama or qwen3, got 'mistral'"),
    ({"use_sliding_window": True}, "use_sliding_window must be False, got True"),
    ({"hidden_act": "gelu"}, "hidden_act must be 'silu', got 'gelu'"),
    ({"attention_bias": True}, "attention_bias must be False"),
    ({"mlp_bias": True}, "mlp_bias must be False"),
    ({"rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, "'default', got 'llama3'"),
    ({"rope_parameters": "-", "rope_scaling": {"type": "linear"}}, "'default', got 'linear'"),
    ({"partial_rotary_factor": 0.5}, "partial_rotary_factor must be 1.0, got 0.5"),
    ({"quantization_config": {"bits": 4}}, "quantization_config must be None"),
])  # fmt: skip
def test_what_it_has_not_is_refused_in_words(example, tmp_path, changes, words):
    reference("llama").config.save_pretrained(tmp_path)
    example.read_config(tmp_path)
    reconfigure(tmp_path, **changes)
    with pytest.raises(ValueError, match=words):
        example.load(tmp_path)


@pytest.mark.parametrize(("stored", "name"), [("llama", "qwen3"), ("qwen3", "llama")])
def test_a_folder_of_the_other_kind_is_refused(example, tmp_path, stored, name):
    folder = saved(tmp_path, reference(stored))
    reconfigure(folder, model_type=name)
    with pytest.raises(RuntimeError, match=r"q_norm\.weight"):
        example.load(folder)


def test_the_command_continues_a_prompt(both):
    _, folder = both
    tokenizer = small_tokenizer(101)
    tokenizer.no_padding()
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    command = [sys.executable, FILE, folder, "word5 word9"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    written = run.stdout.split()
    assert written[:2] == ["word5", "word9"]
    assert len(written) > 2


def test_a_score_is_bounded_once_queries_and_keys_are_normed(example):
    """By √D times the largest gains (chapter 12), however large the projections are."""
    config = SimpleNamespace(**SIZES, model_type="qwen3")
    attention = example.Attention(config)
    for part in (attention.q_proj, attention.k_proj):
        torch.nn.init.normal_(part.weight, std=1e4)
    x = torch.randn(1, 50, 30)
    q = attention.q_norm(attention.split(attention.q_proj(x)))
    k = attention.k_norm(attention.split(attention.k_proj(x)))
    scores = q @ k.repeat_interleave(3, dim=1).mT / 10**0.5
    assert scores.abs().max() <= 10**0.5 + 1e-4
