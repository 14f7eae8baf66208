"""Queries and keys of a view: their products add up to the scores that made its weights."""

import pytest
import torch

from attn_notes.data import Vocabulary
from attn_notes.pretrained import load_encoder, minilm_folder
from attn_notes.transformer import DecoderOnly, TransformerConfig
from attn_widgets import HeadExplorer, neurons, show_attention
from attn_widgets.encoding import decode, on_one_thread
from tests.oracles import filled
from tests.published import random_model
from tests.test_show import LAYERS, TOKENS, byte_level, wordpiece

SMALL = {"vocab_size": 14, "initializer_range": 0.5}
LLAMA = SMALL | {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
LLAMA |= {"num_key_value_heads": 2, "intermediate_size": 16, "head_dim": 6}
GPT2 = SMALL | {"n_embd": 24, "n_head": 4, "n_layer": 2}
BERT = SMALL | {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
KINDS = {
    "GPT2LMHeadModel": GPT2,
    "GPT2LMHeadModel by layer": GPT2 | {"scale_attn_by_inverse_layer_idx": True},
    "LlamaForCausalLM": LLAMA,
    "Qwen3ForCausalLM": LLAMA,  # with norms on queries and keys
    "BertModel": BERT,
}


def of_kind(transformers, name: str, **changes):
    kind = name.split(maxsplit=1)[0]
    config = getattr(transformers, kind).config_class(**KINDS[name] | changes)
    tokenizer = (wordpiece if kind == "BertModel" else byte_level)(transformers)
    return random_model(transformers, kind, config), tokenizer


def assert_products_make_weights(view: HeadExplorer, layers: list[int], atol: float) -> None:
    """Differences of sums are differences of log weights, wherever a key is read."""
    maps = view.reading().maps[""]
    assert [*maps.vectors] == layers
    for n in layers:
        vectors, weights = maps.vectors[n], maps.layers[n].double()  # (H, L, S)
        for head, row in torch.cartesian_prod(*map(torch.arange, weights.shape[:2])).tolist():
            sums = vectors.products(head, row).double().sum(-1)  # (S,)
            logs = weights[head, row].log()
            read = weights[head, row] > 1e-4
            first = read.nonzero()[0]
            got, wanted = (x[read] - x[first] for x in (sums, logs))
            torch.testing.assert_close(got, wanted, atol=atol, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_products_add_up_to_the_scores_of_published_models(name, transformers):
    model, tokenizer = of_kind(transformers, name)
    before = model.config._attn_implementation
    text = "a roses is" if name == "BertModel" else "rose rot"
    view = show_attention(model, tokenizer, text, also="neurons")
    assert_products_make_weights(view, [0, 1], 1e-4)
    assert model.config._attn_implementation == before
    one = show_attention(model, tokenizer, text, also=["values", "neurons"], layers=[1])
    assert_products_make_weights(one, [1], 1e-4)
    sent = one.data["sentences"][0]["views"]
    assert [*sent[0]["neurons"]] == ["1"]
    assert "neurons" not in sent[1]


def test_products_add_up_to_the_scores_of_our_own_models_and_are_sent_in_16_bits():
    encoder, tokenizer = load_encoder(minilm_folder())
    view = show_attention(encoder, tokenizer, "a rose is a rose", also="neurons", layers=[3])
    assert_products_make_weights(view, [3], 1e-4)
    sent = view.data["sentences"][0]["views"][0]["neurons"]["3"]
    vectors = view.reading().maps[""].vectors[3]
    for name, wanted in (("queries", vectors.query), ("keys", vectors.key)):
        got = torch.stack([decode(head) for head in sent[name]])
        assert float((got - wanted).abs().max()) < 2e-4
    assert sent["scale"] == pytest.approx(32**-0.5)
    view.weights = [*view.weights]
    assert "neurons" not in view.data["sentences"][0]["views"][0]


VOCABULARY = Vocabulary([*"abcdefgh"])


def small(positions: str) -> DecoderOnly:
    sizes = {"vocab_size": len(VOCABULARY), "embed_dim": 24, "num_heads": 2, "num_layers": 2}
    return filled(DecoderOnly(TransformerConfig(norm="pre", positions=positions, **sizes)))


def test_rotated_vectors_are_kept_and_a_bias_is_refused():
    view = show_attention(small("rotary"), VOCABULARY, "abcabd", also="neurons")
    assert_products_make_weights(view, [0, 1], 1e-4)
    with pytest.raises(ValueError, match="queries times keys alone, with no bias or cap, got lay"):
        show_attention(small("alibi"), VOCABULARY, "abcabd", also="neurons")


def test_what_has_no_queries_and_keys_is_refused(transformers, monkeypatch):
    with pytest.raises(TypeError, match="also='neurons' must come with the model itself"):
        show_attention(LAYERS, TOKENS, also="neurons")
    with pytest.raises(ValueError, match="layers must come with also='neurons'"):
        show_attention(LAYERS, TOKENS, layers=[0])
    model = small("rotary")
    with pytest.raises(ValueError, match="layers must be from 0 to 1, got 2"):
        show_attention(model, VOCABULARY, "ab", also="neurons", layers=[2])
    monkeypatch.setattr(neurons, "MOST", 100)
    with pytest.raises(ValueError, match="ask for fewer, such as layers="):
        show_attention(model, VOCABULARY, "abab", also="neurons")


def test_the_reader_s_threads_come_back_whatever_happens():
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)

    @on_one_thread()
    def count(most: int) -> int:
        return [torch.get_num_threads()][most]

    try:
        assert count(0) == 1
        with pytest.raises(IndexError):
            count(1)
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)
