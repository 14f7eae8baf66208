"""Under another default device, models and data land there; nothing else that is computed does.

The other device is "meta", whose tensors hold no numbers: what had come from it could not be equal.
"""

import copy

import pytest
import torch
from torch import nn

from attn_notes import checks, inside, kernels, masks, patterns, positions, stored, training
from attn_notes.cache import GrowingCache
from attn_notes.data import Batches, TextWindows, Vocabulary, make_batch
from attn_notes.decoding import beam_search, sample, translate
from attn_notes.flash import tiled_attention
from attn_notes.ngrams import NGramModel
from attn_notes.plotting import plot_attention, plot_band
from attn_notes.pretrained import load_encoder, minilm_folder
from attn_notes.scores import AdditiveScore, GaussianScore
from attn_notes.seq2seq import RNNDecoder, RNNEncoder, Seq2Seq
from attn_notes.training.metrics import bits_per_character
from attn_notes.transformer import MaskedLanguageModel, Transformer
from attn_widgets import AttentionHeatmap, MaskPainter
from attn_widgets.packing import pack_transformer, unpack_transformer
from tests.oracles import normal, rng
from tests.small_models import BATCH, LENGTHS, SCHEMES, SOURCE, config, decoder_only, transformer

TEXTS = ["to be or not to be, that is the question", "that it should come to this"]
CHARACTERS = Vocabulary.build(map(list, TEXTS))
WORDS = Vocabulary(["drei", "three"])
PAIRS = [(("drei",), ("three",)), (("drei", "drei"), ())]
TRANSFORMERS = {scheme: transformer(positions=scheme, embed_dim=12) for scheme in SCHEMES}
WRITER = decoder_only(vocab_size=len(CHARACTERS), max_length=20)
RECURRENT = Seq2Seq(RNNEncoder(23, 8, 16), RNNDecoder(19, 8, 16, 16)).eval()
X, WEIGHTS = normal(2, 5, 6), normal(2, 3, 5, 5).softmax(-1)
MASK = torch.ones(5, 5, dtype=torch.bool).tril()
FOLDER = "book/_data/transformer-numbers"
TRANSLATOR = stored.load_translator(FOLDER)
LABELS, LINEAR = list("abcde"), nn.Linear(5, 5)


def trained():
    model = copy.deepcopy(LINEAR)
    return training.fit(model, lambda n: MASK.float(), lambda m, x: m(x).var(), steps=2)


def cached():
    cache = GrowingCache()
    with torch.no_grad():
        return [cache.update(x[None], x[None])[0].clone() for x in X.split((3, 1, 1), dim=1)]


ON_THE_CPU = {
    "attention": lambda: tiled_attention(X, X, X, attn_mask=MASK, is_causal=True),
    "masks": lambda: masks.masked_softmax(X @ X.mT, masks.padding_mask(LENGTHS - 2, 5)),
    "kernels": lambda: kernels.nadaraya_watson(X[0, 0], X[0, 0], X[0, 0], exclude_self=True),
    "gaussian": lambda: GaussianScore()(X, X),
    "cache": cached,
    "fit": trained,
    "recurrent": lambda: RECURRENT(*BATCH),
    **{
        f"transformer, {scheme}": lambda model=model: beam_search(
            model, SOURCE, max_length=4, beam_size=2
        )[:2]
        for scheme, model in TRANSFORMERS.items()
    },
    "sample": lambda: sample(WRITER, SOURCE[:, :2] % 9, max_length=5, generator=rng(0), top_k=3)[0],
    "bits": lambda: bits_per_character(WRITER, TEXTS, CHARACTERS, length=8),
    "ngrams": lambda: NGramModel(3, TEXTS, CHARACTERS).distribution("to b"),
    "translator": lambda: TRANSLATOR.steps("drei", beam_size=2)[2],
    "translate": lambda: str(translate(RECURRENT, [["t"]], CHARACTERS, CHARACTERS, max_length=3)),
    "packed": lambda: unpack_transformer(pack_transformer(TRANSLATOR.model)).state_dict(),
    "stored": lambda: dict(stored.load_translator(FOLDER, device="cpu").model.named_parameters()),
    "built": lambda: stored.build_model(TRANSLATOR.spec).state_dict(),
    "influence": lambda: checks.influence(lambda x: x.cumsum(-2), X),
    "causal": lambda: checks.check_causal(lambda x: x.cumsum(-2), X),
    "steps": lambda: checks.check_step_matches_parallel(TRANSFORMERS["rotary"], *BATCH),
    "patterns": lambda: patterns.pattern_score(WEIGHTS, MASK),
    "rollout": lambda: inside.rollout(list(WEIGHTS)),
    "copying": lambda: inside.copying_score(WRITER, inside.find_heads(WRITER)[0]),
    "gradients": lambda: inside.integrated_gradients(lambda x: x.prod(), X[0, 0]),
    "heatmap": lambda: plot_attention(WEIGHTS[0, 0], mask=MASK).images[0].get_array().data,
    "band": lambda: plot_band([1, 2, 3, 4, 5, 6], X[0]).lines[0].get_xydata()[:, 1],
    "map": lambda: str(AttentionHeatmap(WEIGHTS[0], query_tokens=LABELS, mask=MASK)._table()),
    "painter": lambda: str(MaskPainter(X[0] @ X[0].T, mask=MASK)._table()),
}
"""What is computed from tensors on the CPU, or on the CPU by its nature."""


@pytest.mark.parametrize("compute", ON_THE_CPU.values(), ids=ON_THE_CPU)
def test_what_is_computed_of_tensors_of_the_cpu_stays_there(compute):
    here = compute()
    with torch.device("meta"):
        there = compute()
    if isinstance(here, str):
        assert there == here
    else:
        torch.testing.assert_close(there, here, rtol=0, atol=0, equal_nan=True)


ON_THE_DEFAULT = {
    "batch": lambda: [make_batch(PAIRS, WORDS, WORDS)[side] for side in (0, 2)],
    "batches": lambda: [Batches(PAIRS, WORDS, WORDS, batch_size=1)(1).source],
    "windows": lambda: [TextWindows(TEXTS, CHARACTERS, length=8, batch_size=2)(0)],
    "masks": lambda: [
        masks.causal_mask(3),
        masks.padding_mask([1, 2], 3),
        masks.sliding_window_mask(3, window=2),
        masks.prefix_mask(3, prefix=1),
        patterns.pattern_cells("next", LABELS),
    ],
    "positions": lambda: [
        positions.sinusoidal_encoding(3, 4),
        positions.rotation_between(3, 4),
        positions.rotary_angles(3, 4),
        positions.alibi_bias(2, 3),
    ],
    "models": lambda: [
        *Transformer(config(norm="pre")).parameters(),
        *MaskedLanguageModel(config(embed_norm=True)).parameters(),
        *kernels.KernelRegression().parameters(),
        *AdditiveScore(2, 3, 4).parameters(),
    ],
    "stored": lambda: [*stored.load_translator(FOLDER).model.parameters()],
    "published": lambda: [*load_encoder(minilm_folder())[0].parameters()],
}


@pytest.mark.parametrize("make", ON_THE_DEFAULT.values(), ids=ON_THE_DEFAULT)
def test_data_and_models_are_made_on_the_default_device(make):
    with torch.device("meta"):
        assert {tensor.device.type for tensor in make()} == {"meta"}


def test_a_loss_is_checked_where_it_works():
    weights = torch.ones(5, device="cpu")
    with torch.device("meta"), pytest.raises(RuntimeError, match="meta"):
        checks.check_masked_loss(lambda logits, labels: (logits.sum(-1) * weights).sum())


def test_the_lengths_of_a_batch_stay_on_the_cpu():
    with torch.device("meta"):
        assert make_batch(PAIRS, WORDS, WORDS).lengths.tolist() == [1, 2]
