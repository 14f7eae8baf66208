"""Typical wrong answers to the exercises of chapter 11, and how each is named."""

from tests.wrong_answers import answers, guesses

REMOVALS = {"constant, by zero": "changes", "constant, by mean": "same"}
REMOVALS |= {"constant, by resampling": "same", "tag, by resampling within German": "same"}
REMOVALS |= {"tag, by resampling across languages": "changes"}
REMOVALS |= {"shifted, by zero": "changes", "shifted, by mean": "same"}

PATCH = """
@contextmanager
def patch_at(layer, head, position, new):
    def put(out_proj, args):
        heads = args[0].unflatten(-1, (layer.num_heads, -1)).clone()
        heads[:, position, head] = new
        return (heads.flatten(-2),)

    hook = layer.out_proj.register_forward_pre_hook(put)
    try:
        yield
    finally:
        hook.remove()
"""
SPREAD = "(layer.num_heads, -1)).clone() -> (-1, layer.num_heads)).mT.clone()"
BEHIND = """
@contextmanager
def patch_at(layer, head, position, new):
    def put(out_proj, args, output):
        heads = output.unflatten(-1, (layer.num_heads, -1)).clone()
        heads[:, position, head] = new
        return heads.flatten(-2)

    hook = layer.out_proj.register_forward_hook(put)
    try:
        yield
    finally:
        hook.remove()
"""

PARCELS = {"tells: star moved": "place", "tells: both exchanged": "digit"}
PARCELS |= {"tells: equal weights": "place", "tells: other digits": "neither"}
PARCELS |= {"random: star moved": "both"}
PARCELS |= {"random: both exchanged": "digit", "random: equal weights": "both"}
PARCELS |= {"random: other digits": "neither"}

SHARES = """
def shares(parts, u, gamma, beta, eps):
    centred = parts - parts.mean(-1, keepdim=True)
    scale = (parts.sum(0).var(correction=0) + eps).sqrt()
    own, bias = centred @ (gamma * u) / scale, (u @ beta)[None]
    return torch.cat([own, bias])
"""

ANSWERS = answers(
    parcel_changes=guesses(
        PARCELS,
        ("tells: star moved", "both", "the digit is in the stamp"),
        ("tells: both exchanged", "neither", "the stamp gives the new digit"),
        ("tells: equal weights", "both", "the head finds the star"),
        ("tells: other digits", "place", "the stamp gives the digit, and the star"),
        ("random: star moved", "place", "the head reads digit and place"),
        ("random: equal weights", "neither", "both answers come from"),
        ("random: other digits", "digit", "the head reads the starred digit alone"),
    ),
    shares_of_a_logit=[
        (SHARES, "parts.sum(0).var( -> parts.var(-1, ", "each part has its"),
        (SHARES, "parts - parts.mean(-1, keepdim=True) -> parts", "subtract the mean of each part"),
        (SHARES, "(gamma * u) -> u", "the gain is missing"),
        (SHARES, "correction=0 -> correction=1", "divides by E, not by E - 1"),
        (SHARES, " + eps -> ", "eps is missing under the root"),
        (SHARES, "var(correction=0) + eps).sqrt() -> std(correction=0) + eps)", "eps stands under"),
        (
            SHARES,
            "parts - parts.mean( -> gamma * parts - (gamma * parts).mean(",
            "(gamma * u) -> u",
            "subtract the mean first",
        ),
        (SHARES, "eps).sqrt() -> eps)", "divide by the standard deviation, and not by"),
        (SHARES, " / scale -> ", "nothing is divided by the standard deviation"),
        (SHARES, "cat([own -> cat([own + bias / len(own)", "the bias is a part of its own"),
        (SHARES, "own, bias]) -> own, bias / scale])", "with no division"),
        (SHARES, "[own, bias] -> [own]", "the share of the bias is missing: return P + 1 shares"),
        (SHARES, "bias]) -> bias]).sum()", "return the shares, and not their sum"),
        (SHARES, "[own, bias] -> [bias, own]", "the share of the bias stands last"),
    ],
    what_removal_finds=guesses(
        REMOVALS,
        ("constant, by zero", "same", "what the head adds is gone"),
        ("constant, by mean", "changes", "the mean of a constant"),
        ("tag, by resampling within German", "changes", "every German text has the same tag"),
        ("tag, by resampling across languages", "same", "the head then passes on the tag"),
        ("shifted, by zero", "same", "zero now removes"),
        ("shifted, by mean", "changes", "the mean has moved"),
    ),
    patched_position=[
        (PATCH, "return (heads.flatten(-2),) -> pass", "nothing changes: the hook must return"),
        (PATCH, "[:, position, head] = new -> [:, :, head] = new[:, None]", "at every position"),
        (PATCH, "position, head] = new -> position] = new[:, None]", "every head changes"),
        (PATCH, "position, head] -> position, head - 1]", "heads are counted from 0"),
        (PATCH, "position, head] -> position - 1, head]", "positions are counted from 0"),
        (PATCH, SPREAD, "heads.flatten -> heads.mT.flatten", "owns the features from hD"),
        (BEHIND, "change what goes into out_proj"),
        (PATCH, ".clone() -> ", "recorded before changes too: work on a clone"),
        (PATCH, "hook.remove() -> pass", "still patched: remove the hook"),
        (
            PATCH,
            "hook.remove() -> layer.out_proj._forward_pre_hooks.clear()",
            "remove only your own",
        ),
        (PATCH, "position, head] = new -> 3, 1] = new", "of head 2 at position 0, the output"),
        (
            PATCH,
            "    try:\n        yield\n    finally:\n        hook ->     yield\n    hook",
            "after an error in the `with`",
        ),
        (PATCH, "finally: -> except Exception:", "still patched: remove the hook"),
        (
            PATCH,
            "    finally:\n        hook ->     except Exception:\n        pass\n    hook",
            "an error in the `with` must come out of it",
        ),
        (PATCH, "@contextmanager -> ", "is @contextmanager missing?"),
        ("patch_at = 3", "the answer should be a function, got int"),
    ],
)
