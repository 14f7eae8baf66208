"""What a step of a followed token shows beside its head, by torch."""

from torch import Tensor

from attn_notes.transformer import DecoderOnly, TransformerConfig
from attn_notes.widgets import FollowToken
from attn_notes.widgets.parts import READ, Part

LIKELY = 6  # tokens whose probabilities the last step shows


def shown(widget: FollowToken) -> dict[str, Tensor]:
    """The numbers of the step by name, in float64; NaN where the mask closes a score."""
    name, _, part, at, _ = widget._here()
    if name in READ:
        return widget.shown()
    if name == "out":
        return of_output(widget, part, at)
    return of_stream(name, part, at, widget._model.config)


def of_output(widget: FollowToken, part: Part, at: int) -> dict[str, Tensor]:
    """The last norm, and the likeliest of the tokens that may follow."""
    found, model = {"x": part["x"][at]}, widget._model
    if model.config.norm == "pre":
        found["LN(x)"] = part["output"][at]
    source = widget.data["sentences"][widget.sentence]["source"][0]
    in_target = hasattr(model, "decoder") and widget.token >= len(source)
    if in_target or isinstance(model, DecoderOnly):
        logits = model.out_proj(part["output"][at]).detach()  # (V,)
        best = logits.sort(descending=True, stable=True).indices[:LIKELY]
        found |= {"logit": logits[best], "probability": logits.softmax(-1)[best]}
    return found


def of_stream(name: str, part: Part, at: int, config: TransformerConfig) -> dict[str, Tensor]:
    """The numbers of one of the other steps, at one position."""
    if name == "start":
        return {key: part[key][at] for key in ("embedding", "position", "x") if key in part}
    if name == "heads":
        return {f"z {h}": z[at] for h, z in enumerate(part["z"])} | {"y": part["y"][at]}
    x, read, y, both, after = (part[key][at] for key in ("x", "input", "y", "sum", "after"))
    if name == "norm":
        return {"x": x, "LN(x)": read}
    if name == "think":
        hidden, active = part["hidden"][at], part["active"][at]
        return {"input": read, "hidden": hidden, config.activation: active, "y": y}
    added = {"x": x, "y": y, "x + y": both}
    return added if config.norm == "pre" else {**added, "LN(x + y)": after}
