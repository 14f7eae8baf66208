"""The exercises of chapter 11 that ask for a guess: parcels, removals, layers."""

from attn_notes.checks.exercises.base import prediction

__all__ = ["layers_needed", "parcel_changes", "what_removal_finds"]

PARCELS: dict[str, tuple[str, str]] = {
    "tells: star moved": ("place", "the digit is in the stamp, and the stamp stays"),
    "tells: both exchanged": ("digit", "the stamp gives the new digit, and the star stays"),
    "tells: equal weights": ("place", "the head finds the star, and the digit comes by the stamp"),
    "random: star moved": ("both", "the head reads digit and place at the star"),
    "random: both exchanged": ("digit", "the head reads the new digit at the same place"),
    "random: equal weights": ("both", "both answers come from what the head reads at the star"),
    "random: other digits": ("neither", "the head reads the starred digit alone"),
}
parcel_changes = prediction(PARCELS, '"digit", "place", "both" or "neither"')
"""Which answers of the two kinds of networks change?"""

REMOVALS: dict[str, tuple[str, str]] = {
    "constant, by zero": (
        "changes",
        "what the head adds is gone, and the next layers were trained with it",
    ),
    "constant, by mean": ("same", "the mean of a constant is that constant"),
    "constant, by resampling": ("same", "another text has the same constant"),
    "tag, by resampling within German": (
        "same",
        "every German text has the same tag, so the head passes on the same vector",
    ),
    "tag, by resampling across languages": (
        "changes",
        "the head then passes on the tag of another language",
    ),
    "shifted, by zero": (
        "changes",
        "zero now removes 5 W as well, which out_proj.bias no longer has",
    ),
    "shifted, by mean": ("same", "the mean has moved by the same 5, and the bias takes it back"),
}
what_removal_finds = prediction(REMOVALS, '"same" or "changes"')
"""Which removals change an output?"""

LAYERS: dict[str, tuple[str, str]] = {
    "the token twelve places back": ("one", "the distance is in the score of a single layer"),
    "the token that has occurred most often": (
        "one",
        "a head with equal weights reads each token as often as it occurs",
    ),
    "the vowel that occurred last": ("one", "the score can favour vowels, and short distances"),
    "the token after the last comma": (
        "two",
        "the key of that token must say that a comma stood before it",
    ),
    "the token after an earlier copy of this one": (
        "two",
        "the key must hold the token before, which a layer 0 has to write there",
    ),
    "the token before an earlier copy of this one": (
        "two",
        "the match is on the token itself, but its value must hold the token before",
    ),
    "the latter, with values made one token back": (
        "one",
        "then the head matches on the token itself, and its value is the token before",
    ),
}
layers_needed = prediction(LAYERS, '"one" or "two"')
"""How many layers of attention does a task need?"""
