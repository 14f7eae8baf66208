"""The exercises' checks: each prints `Correct`, or `Not yet:` and what is wrong; none raises."""

from attn_notes.checks.exercises.attention_decoder import *
from attn_notes.checks.exercises.families import *
from attn_notes.checks.exercises.fast_attention import *
from attn_notes.checks.exercises.kernel_regression import *
from attn_notes.checks.exercises.looking_inside import *
from attn_notes.checks.exercises.looking_inside_code import *
from attn_notes.checks.exercises.masking import *
from attn_notes.checks.exercises.multihead import *
from attn_notes.checks.exercises.positions import *
from attn_notes.checks.exercises.score_functions import *
from attn_notes.checks.exercises.training import *
from attn_notes.checks.exercises.transformer import *
