"""The book's widgets: live in a notebook, and on a published page without a kernel.

Each widget has one front-end module in `static/`, plain JavaScript that holds all the maths its
controls need.
"""

from attn_notes.arguments import extra

with extra("widgets"):
    from attn_notes.widgets.alignment import AlignmentSteps, Example
    from attn_notes.widgets.assets import page_script, page_style
    from attn_notes.widgets.explore import explore
    from attn_notes.widgets.family import FamilyDiagram
    from attn_notes.widgets.follow import FollowToken
    from attn_notes.widgets.heads import HeadExplorer, Sentence
    from attn_notes.widgets.heatmap import AttentionHeatmap
    from attn_notes.widgets.kernel import KernelExplorer
    from attn_notes.widgets.mask import MaskPainter
    from attn_notes.widgets.online import OnlineSoftmax
    from attn_notes.widgets.position import PositionExplorer
    from attn_notes.widgets.sampler import LanguageModelPlayer
    from attn_notes.widgets.score import ScoreExplorer
    from attn_notes.widgets.show import show_attention
    from attn_notes.widgets.spelling import SpellingAttention
    from attn_notes.widgets.switches import HeadSwitches
    from attn_notes.widgets.translator import TransformerPlayer

__all__ = [
    "AlignmentSteps",
    "AttentionHeatmap",
    "Example",
    "FamilyDiagram",
    "FollowToken",
    "HeadExplorer",
    "HeadSwitches",
    "KernelExplorer",
    "LanguageModelPlayer",
    "MaskPainter",
    "OnlineSoftmax",
    "PositionExplorer",
    "ScoreExplorer",
    "Sentence",
    "SpellingAttention",
    "TransformerPlayer",
    "explore",
    "page_script",
    "page_style",
    "show_attention",
]
