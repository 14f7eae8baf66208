"""The checks of the book's exercises: each prints `Correct`, or `Not yet:` and what is wrong.

They never raise, so a notebook with an unsolved exercise still runs from top to bottom.
"""

from attn_notes.checks.exercises.attention_decoder import *
from attn_notes.checks.exercises.families import *
from attn_notes.checks.exercises.kernel_regression import *
from attn_notes.checks.exercises.masking import *
from attn_notes.checks.exercises.multihead import *
from attn_notes.checks.exercises.positions import *
from attn_notes.checks.exercises.score_functions import *
from attn_notes.checks.exercises.transformer import *
