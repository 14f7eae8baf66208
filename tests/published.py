"""Small published models: the reference library's own, with random weights, in a folder."""

import copy
import json
from pathlib import Path

import safetensors.torch
import torch
from tokenizers import Tokenizer, models
from torch import Tensor

from attn_notes.checks import check_weights
from attn_notes.masks import padding_mask
from tests.oracles import rng

# A small BERT and a small GPT-2 of odd sizes.
SHARED = {"vocab_size": 101, "initializer_range": 0.2}
BERT = SHARED | {
    "hidden_size": 33,
    "num_attention_heads": 3,
    "num_hidden_layers": 2,
    "intermediate_size": 47,
    "max_position_embeddings": 29,
    "type_vocab_size": 2,
}
GPT2 = SHARED | {
    "n_embd": 33,
    "n_head": 3,
    "n_layer": 2,
    "n_inner": 47,
    "n_positions": 29,
    "eos_token_id": 100,
    "bos_token_id": 100,
}


def small_tokenizer(size: int = 100) -> Tokenizer:
    vocabulary = {"[UNK]": 0} | {f"word{n}": n for n in range(1, size)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.enable_padding(length=9)
    tokenizer.enable_truncation(3)
    return tokenizer


def saved(folder: Path, model) -> Path:
    """The folder of a model as the reference library writes it, and a tokenizer."""
    model.save_pretrained(folder)
    small_tokenizer().save(str(folder / "tokenizer.json"))
    return folder


def random_model(transformers, kind: str, config):
    """The reference library's model of a kind, in evaluation mode."""
    torch.manual_seed(0)
    model = getattr(transformers, kind)._from_config(config, attn_implementation="eager")
    generator = rng()  # one for all: else those of one shape would still be alike
    with torch.no_grad():  # biases begin at 0 and norms at 1: of no use to tell names apart
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def random_bert(transformers, kind: str = "BertModel", **changes):
    return random_model(transformers, kind, transformers.BertConfig(**BERT | changes))


def random_gpt2(transformers, kind: str = "GPT2LMHeadModel", **changes):
    return random_model(transformers, kind, transformers.GPT2Config(**GPT2 | changes))


def rewrite(folder: Path, change) -> None:
    """Write the tensors of the folder again, after `change` has changed them in place."""
    path = folder / "model.safetensors"
    tensors = safetensors.torch.load(path.read_bytes())
    tensors = change(tensors) or tensors
    path.write_bytes(safetensors.torch.save(tensors))


def reconfigure(folder: Path, **changes) -> None:
    """Write `config.json` again; a key of value "-" goes."""
    path = folder / "config.json"
    config = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in config.items() if value != "-"}))


def same_weights(one, other) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def assert_equal_layers(model, reference, tokens, lengths, token_types=None) -> None:
    """Every output, hidden state and map of weights is the reference's.

    To 1e-5 where the tokens are real. What padding reads is nobody's concern, and on it rounding
    in 32 bits alone moves the reference by more than that: so all positions, in 64 bits.
    """
    batch = (tokens, lengths, token_types)
    real = padding_mask(lengths, tokens.shape[1])[:, 0]  # (B, L)
    for got, expected in pairs(model, reference, *batch):
        rows = [x.transpose(1, -2)[real] for x in (got, expected)]  # the queries' axis first
        torch.testing.assert_close(*rows, atol=1e-5, rtol=0)
    twins = (copy.deepcopy(each).double() for each in (model, reference))
    for got, expected in pairs(*twins, *batch):
        torch.testing.assert_close(got, expected, atol=1e-11, rtol=0)


@torch.no_grad()
def pairs(model, reference, tokens, lengths, token_types) -> list[tuple[Tensor, Tensor]]:
    """Ours and the reference's: the output or the logits, the states, the weights."""
    mask = padding_mask(lengths, tokens.shape[1])
    expected = reference(
        tokens,
        attention_mask=mask[:, 0].long(),
        token_type_ids=token_types,
        output_hidden_states=True,
        output_attentions=True,
    )
    got = model(tokens, token_types, attn_mask=mask, need_weights=True, need_hidden_states=True)
    for weights in got.weights:
        check_weights(weights, mask[:, None])
    output = expected["prediction_logits"] if "prediction_logits" in expected else expected[0]
    ours = (got[0], *got.hidden_states, *got.weights)
    theirs = (output, *expected.hidden_states, *expected.attentions)
    assert len(ours) == 2 + 2 * model.config.num_layers
    return list(zip(ours, theirs, strict=True))
