"""What the page of a language model shows beside the next distributions, by torch."""

import torch
from torch import Tensor

from attn_notes.data import START
from attn_notes.transformer import DecoderOnly, LanguageModelOutput
from attn_widgets import LanguageModelPlayer
from attn_widgets.sampler import window_start


def read_window(model: DecoderOnly, tokens: list[int], context: int) -> LanguageModelOutput:
    """The model's output for the window in which the last token is read."""
    window = tokens[window_start(len(tokens) - 1, context) :]
    with torch.no_grad():
        return model(torch.tensor([window]), need_weights=True)


def next_logits(model: DecoderOnly, tokens: list[int], context: int) -> Tensor:
    """(T, V): after each of T tokens; minus infinity for padding and START."""
    ends = range(1, len(tokens) + 1)
    rows = [read_window(model, tokens[:end], context).logits[0, -1] for end in ends]
    logits = torch.stack(rows)
    logits[:, : START + 1] = -torch.inf
    return logits


def next_weights(model: DecoderOnly, tokens: list[int], context: int) -> Tensor:
    """(layers * heads, S): what each head reads after the last token."""
    return torch.cat([layer[0, :, -1] for layer in read_window(model, tokens, context).weights])


def surprise(widget: LanguageModelPlayer) -> Tensor:
    """(T,): bits, of each character of the text so far."""
    tokens = widget._tokens()
    logits = next_logits(widget._model, [START, *tokens], widget.data["context"])[:-1]
    return -logits.softmax(-1).gather(1, torch.tensor(tokens).long()[:, None])[:, 0].log2()


def read_by_heads(widget: LanguageModelPlayer) -> Tensor:
    """(layers * heads, S): of the last 32 characters, and all earlier ones together before them."""
    tokens = [START, *widget._tokens()[: widget._at()]]
    weights = next_weights(widget._model, tokens, widget.data["context"])
    earlier = weights[:, :-32].sum(1, keepdim=True)
    return torch.cat((earlier, weights[:, -32:]), dim=1) if weights.shape[1] > 32 else weights
