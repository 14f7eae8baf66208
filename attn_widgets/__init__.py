"""The book's widgets: live in a notebook, and on a published page without a kernel.

Each widget has one front-end module in `static/`, plain JavaScript that holds all the maths its
controls need.
"""

from attn_notes.extras import extra

with extra("widgets"):
    from attn_widgets.alignment import AlignmentSteps, Example
    from attn_widgets.assets import page_script, page_style
    from attn_widgets.budget import CacheBudget
    from attn_widgets.explore import explore
    from attn_widgets.family import FamilyDiagram
    from attn_widgets.follow import FollowToken
    from attn_widgets.heads import HeadExplorer, Sentence
    from attn_widgets.heatmap import AttentionHeatmap
    from attn_widgets.kernel import KernelExplorer
    from attn_widgets.mask import MaskPainter
    from attn_widgets.memory import WrittenMemory
    from attn_widgets.online import OnlineSoftmax
    from attn_widgets.position import PositionExplorer
    from attn_widgets.sampler import LanguageModelPlayer
    from attn_widgets.score import ScoreExplorer
    from attn_widgets.show import compare, show_attention
    from attn_widgets.switches import HeadSwitches
    from attn_widgets.translator import TransformerPlayer

__all__ = [
    "AlignmentSteps",
    "AttentionHeatmap",
    "CacheBudget",
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
    "TransformerPlayer",
    "WrittenMemory",
    "compare",
    "explore",
    "page_script",
    "page_style",
    "show_attention",
]
