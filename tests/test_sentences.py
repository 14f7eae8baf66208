"""Sentences as vectors: those of the published pipeline, for any text."""

import json

import pytest
import torch
from tokenizers import Tokenizer, models

from attn_notes.pretrained import SentenceEncoder, load_encoder, mean_pooling, minilm_folder
from attn_notes.transformer import Encoder, TransformerConfig
from tests.oracles import coin, every_precision, normal

TEXTS = [
    "", " ", "\n\t  \n", "a", ".",
    "Time flies like an arrow.", "TIME FLIES LIKE AN ARROW", "  time   flies\n like\tan arrow  ",
    "naïve café-goers", "nai\u0308ve cafe\u0301-goers", "NAÏVE CAFÉ-GOERS",  # composed or not
    "数 3.14159 ≈ π", "これは一つの文です。", "Это предложение.", "هذه جملة.", "ประโยคหนึ่ง",
    "👩‍👩‍👧‍👦", "👍🏽 done", "ﬁne ﬂour", "½ × ⅓", "a\u200bb", "a\u00a0b", "a\u00adb", "\ufeffa",
    "\x00", "a\x00b", "\x1b[31mred", "\u202etfel", "\ud7ff\ue000\uffff", "\U0010ffff",
    "[CLS] [SEP] [PAD] [MASK] [UNK]", "[pad]", "##ing",
    "supercalifragilisticexpialidocious", "x" * 100, "x" * 101,
    r"$$\sum_j \alpha_{ij} v_j$$",
    "one two " * 127, "one two " * 127 + "three", "one two " * 128, "a b c d e f g h i",
]  # fmt: skip


@pytest.fixture(scope="module")
def published(transformers):
    """The pipeline that was published with the encoder, from the files that came with it."""
    import sentence_transformers

    folder = minilm_folder()
    pooling = json.loads((folder / "1_Pooling" / "config.json").read_text())
    assert pooling["pooling_mode_mean_tokens"]
    return sentence_transformers.SentenceTransformer(
        str(folder), device="cpu", local_files_only=True
    )


@pytest.fixture(scope="module")
def minilm():
    return load_encoder(minilm_folder())


@pytest.mark.slow
@pytest.mark.parametrize("max_length", [256, 128, 3])
def test_the_vectors_are_the_published_pipelines_with_long_texts_truncated(
    max_length, minilm, published, monkeypatch
):
    assert SentenceEncoder(*minilm).max_length == 256
    texts = TEXTS if max_length == 256 else sorted(TEXTS, key=len)[::-5]
    monkeypatch.setattr(published, "max_seq_length", max_length)
    expected = published.encode(texts, convert_to_tensor=True, show_progress_bar=False)
    got = SentenceEncoder(*minilm, max_length=max_length).encode(texts)
    assert got.shape == (len(texts), 384)
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(got.norm(dim=1), torch.ones(len(texts)))


@pytest.mark.parametrize("batch_size", [7, 1000])
def test_a_vector_does_not_depend_on_the_batch(batch_size, minilm):
    texts, sentences = TEXTS[:20], SentenceEncoder(*minilm)
    expected = torch.cat([sentences.encode([text]) for text in texts])
    for order in (texts, texts[::-1]):
        got = sentences.encode(order, batch_size=batch_size)
        torch.testing.assert_close(got, expected, atol=1e-6, rtol=0)
        expected = expected.flip(0)


# With a small encoder

CONFIG = TransformerConfig(vocab_size=5, embed_dim=6, num_heads=3, max_length=11, dropout=0.5)


def small() -> tuple[Encoder, Tokenizer]:
    torch.manual_seed(0)
    words = Tokenizer(models.WordLevel({"<unk>": 0, "a": 1}, unk_token="<unk>"))
    words.enable_padding(length=4)
    words.enable_truncation(2)
    return Encoder(CONFIG), words


def test_the_tokenizer_and_the_encoders_mode_are_left_alone():
    encoder, tokenizer = small()
    before = tokenizer.to_str()
    sentences = SentenceEncoder(encoder, tokenizer, max_length=9)
    once, again = sentences.encode(["a", "b"]), sentences.encode(["a", "b"])
    assert torch.equal(once, again)  # no dropout
    assert encoder.training
    assert tokenizer.to_str() == before
    assert not once.requires_grad
    encoder.blocks[0].forward = lambda *_, **__: 1 / 0
    with pytest.raises(ZeroDivisionError):
        sentences.encode(["a"])
    assert encoder.training


@every_precision
def test_a_vector_has_length_1_or_is_0_in_every_dtype(dtype):
    encoder, tokenizer = small()
    got = SentenceEncoder(encoder.to(dtype), tokenizer, max_length=9).encode(["", "a"])
    assert got.dtype == dtype
    assert torch.equal(got[0], torch.zeros(6, dtype=dtype))  # and not 0 / 0
    assert got[1].float().norm() == pytest.approx(1, abs=0.01)


# The mean


def test_the_mean_and_its_gradient_are_over_the_real_tokens_even_if_padding_is_nan():
    mask = coin(4, 5)
    mask[2] = False
    x = normal(4, 5, 3).detach().masked_fill(~mask[..., None], torch.nan).requires_grad_()
    got = mean_pooling(x, mask)
    for b in range(4):
        real = [x[b, i] for i in range(5) if mask[b, i]]
        expected = sum(real) / len(real) if real else torch.zeros(3, dtype=torch.float64)
        torch.testing.assert_close(got[b], expected)
    (gradient,) = torch.autograd.grad(got.sum(), x)
    share = mask / mask.sum(1, keepdim=True).clamp(min=1)
    torch.testing.assert_close(gradient, share[..., None].expand_as(x).double())
