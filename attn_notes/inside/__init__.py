"""Looking inside a model: what a part of it computes, and what changes without it (ch. 11).

`record` reads activations while the model runs and `patch` changes them, so that `effects` can say
what each change does to a measurement: ablation and activation patching; `estimated_effects` says
it for all at once, to first order. `contributions` splits the residual stream into what every part
has written; `direct_logits` and `logit_lens` read it in the vocabulary. The scores say what a head
does, from its map or from its weights alone.

Everything works by torch's hooks, on the models of `attn_notes.transformer`, and on those of the
reference library, `transformers`, as they are (`models` holds the table of names).
"""

from attn_notes.inside.activations import (
    Change,
    Head,
    Place,
    Positions,
    find_heads,
    find_streams,
    patch,
    record,
)
from attn_notes.inside.attribution import integrated_gradients, rollout
from attn_notes.inside.effects import effects, estimated_effects
from attn_notes.inside.models import Part
from attn_notes.inside.scores import (
    HeadWeights,
    composition,
    copying_score,
    head_weights,
    prefix_matching_score,
)
from attn_notes.inside.streams import contributions, direct_logits, logit_lens

__all__ = [
    "Change", "Head", "HeadWeights", "Part", "Place", "Positions", "composition", "contributions",
    "copying_score", "direct_logits", "effects", "estimated_effects", "find_heads", "find_streams",
    "head_weights", "integrated_gradients", "logit_lens", "patch", "prefix_matching_score",
    "record", "rollout",
]  # fmt: skip
