"""A Transformer in about a hundred lines of PyTorch: it reads a number and writes it in German.

    python examples/transformer.py 42 1999

trains for a minute, prints its score on numbers that it has never seen, and writes these two. The
architecture is that of Vaswani et al. (2017), "Attention is all you need", with the norm before
each sublayer; chapter 7 of the book builds it step by step. B is the batch, S and L the lengths of
source and target, E the width, V the size of the vocabulary.
"""

import math
import random
import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

# The model


class MultiHeadAttention(nn.Module):
    def __init__(self, width, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.q_proj, self.k_proj = nn.Linear(width, width), nn.Linear(width, width)
        self.v_proj, self.out_proj = nn.Linear(width, width), nn.Linear(width, width)

    def split(self, x):
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # (B, heads, L, E / heads)

    def forward(self, x, memory, mask):
        q = self.split(self.q_proj(x))
        k, v = self.split(self.k_proj(memory)), self.split(self.v_proj(memory))
        scores = q @ k.mT / math.sqrt(q.shape[-1])  # (B, heads, L, S)
        weights = scores.masked_fill(~mask, -math.inf).softmax(-1)
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2))  # (B, L, E)


def feed_forward(width):
    return nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))


class EncoderBlock(nn.Module):
    def __init__(self, width, num_heads):
        super().__init__()
        self.self_attn, self.norm1 = MultiHeadAttention(width, num_heads), nn.LayerNorm(width)
        self.feed_forward, self.norm2 = feed_forward(width), nn.LayerNorm(width)

    def forward(self, x, mask):
        y = self.norm1(x)
        x = x + self.self_attn(y, y, mask)
        return x + self.feed_forward(self.norm2(x))


class DecoderBlock(nn.Module):
    def __init__(self, width, num_heads):
        super().__init__()
        self.self_attn, self.norm1 = MultiHeadAttention(width, num_heads), nn.LayerNorm(width)
        self.cross_attn, self.norm2 = MultiHeadAttention(width, num_heads), nn.LayerNorm(width)
        self.feed_forward, self.norm3 = feed_forward(width), nn.LayerNorm(width)

    def forward(self, x, memory, causal, mask):
        y = self.norm1(x)
        x = x + self.self_attn(y, y, causal)
        x = x + self.cross_attn(self.norm2(x), memory, mask)
        return x + self.feed_forward(self.norm3(x))


def positions(length, width):
    frequencies = 10_000 ** (-torch.arange(0, width, 2) / width)
    angles = torch.arange(length)[:, None] * frequencies  # (length, width / 2)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)  # (length, width)


class Transformer(nn.Module):
    def __init__(self, vocab_size, width=64, num_heads=4, num_layers=2):
        super().__init__()
        self.source_embedding = nn.Embedding(vocab_size, width)
        self.encoder = nn.ModuleList(EncoderBlock(width, num_heads) for _ in range(num_layers))
        self.encoder_norm = nn.LayerNorm(width)
        self.target_embedding = nn.Embedding(vocab_size, width)
        self.decoder = nn.ModuleList(DecoderBlock(width, num_heads) for _ in range(num_layers))
        self.decoder_norm = nn.LayerNorm(width)
        self.out_proj = nn.Linear(width, vocab_size, bias=False)

    def encode(self, source):
        x = self.source_embedding(source)
        x = x + positions(*x.shape[1:])  # (B, S, E)
        mask = (source != PAD)[:, None, None]  # (B, 1, 1, S): padding is not read
        for block in self.encoder:
            x = block(x, mask)
        return self.encoder_norm(x), mask

    def decode(self, written, memory, mask):
        x = self.target_embedding(written)
        x = x + positions(*x.shape[1:])  # (B, L, E)
        causal = torch.ones(len(x[0]), len(x[0]), dtype=torch.bool).tril()
        for block in self.decoder:
            x = block(x, memory, causal, mask)
        return self.out_proj(self.decoder_norm(x))  # (B, L, V)

    def forward(self, source, written):
        return self.decode(written, *self.encode(source))


# The data: 1999 is "ein tausend neun hundert neun und neunzig"

ONES = """null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn
    fünfzehn sechzehn siebzehn achtzehn neunzehn""".split()
TENS = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()
VOCABULARY = ["<pad>", "<start>", "<end>", *"0123456789", *ONES, "eins", *TENS]
VOCABULARY += ["und", "hundert", "tausend"]
PAD, START, END = range(3)


def in_german(n):
    if n < 20:
        return ["eins" if n == 1 else ONES[n]]
    if n < 100:
        return [ONES[n % 10], "und"] * (n % 10 > 0) + [TENS[n // 10 - 2]]
    size, name = (1000, "tausend") if n >= 1000 else (100, "hundert")
    return [ONES[n // size], name] + (in_german(n % size) if n % size else [])


def make_batch(numbers):
    def ids(sentences):
        rows = [torch.tensor([VOCABULARY.index(token) for token in s]) for s in sentences]
        return pad_sequence(rows, batch_first=True, padding_value=PAD)

    source = ids([str(n) for n in numbers])  # (B, S)
    return source, ids([["<start>", *in_german(n), "<end>"] for n in numbers])  # (B, L + 1)


# Training, and writing word by word


def train(numbers, steps=600):
    torch.manual_seed(0)
    model = Transformer(len(VOCABULARY))
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=steps)
    for step in range(steps):
        source, target = make_batch(random.sample(numbers, 64))
        logits = model(source, target[:, :-1])  # the word at i predicts the word at i + 1
        loss = F.cross_entropy(logits.mT, target[:, 1:], ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            print(f"step {step:3}: loss {loss.item():.3f}")
    return model


def until_end(ids):
    words = [VOCABULARY[n] for n in ids]
    return words[: words.index("<end>")] if "<end>" in words else words


@torch.no_grad()
def write_from(model, memory, mask, most=12):
    written = torch.full((len(memory), 1), START)
    for _ in range(most):
        logits = model.decode(written, memory, mask)
        written = torch.cat([written, logits[:, -1:].argmax(-1)], dim=1)
    return [until_end(row) for row in written[:, 1:].tolist()]


@torch.no_grad()
def write(model, numbers):
    return write_from(model, *model.encode(make_batch(numbers)[0]))


if __name__ == "__main__":
    torch.set_default_device(torch.accelerator.current_accelerator() or "cpu")
    random.seed(0)
    numbers = random.sample(range(100, 10_000), 9900)
    held_out, seen = numbers[:1000], numbers[1000:] + 20 * list(range(100))
    model = train(seen)
    wanted = [in_german(n) for n in held_out]
    right = sum(map(list.__eq__, wanted, write(model, held_out)))
    print(f"held-out numbers written without a mistake: {right} of {len(held_out)}")
    for n in map(int, sys.argv[1:]):
        print(n, "".join(write(model, [n])[0]))
