"""Typical wrong answers to the exercises of chapter 3, and how each is named."""

ANSWERS: dict[str, list[tuple[str, str]]] = {
    "empty_rows": [
        (
            'answer = {"a": {0}, "b": set(), "c": {0, 1}, "d": {0}, "e": {2, 3}}',
            "mask a: row 0 is not empty: every query of a causal mask may read itself",
        ),
        (
            'answer = {"a": set(), "b": {2, 3}, "c": {0, 1}, "d": {0}, "e": {2, 3}}',
            "mask b: row 2 is not empty: keys are hidden, not queries",
        ),
        (
            'answer = {"a": set(), "b": set(), "c": {0, 1}, "d": set(), "e": {2, 3}}',
            "mask d: row 0 is empty too: query 0 had only itself to read",
        ),
    ],
    "mask_from_lengths": [
        (
            """
def mask_from_lengths(lengths, size):
    return torch.arange(size, device=lengths.device) >= lengths[:, None, None]
""",
            "is the mask inverted?",
        ),
        (
            """
def mask_from_lengths(lengths, size):
    return torch.arange(size, device=lengths.device) <= lengths[:, None, None]
""",
            "so < and not <=",
        ),
        (
            """
def mask_from_lengths(lengths, size):
    return torch.arange(size, device=lengths.device) < lengths[:, None]
""",
            "without an axis for the queries",
        ),
        (
            """
def mask_from_lengths(lengths, size):
    return (torch.arange(size, device=lengths.device) < lengths[:, None, None]).float()
""",
            "a mask should be a bool tensor (True = may attend), got torch.float32",
        ),
    ],
    "softmax_with_empty_rows": [
        (
            """
def softmax_over_open(scores, mask):
    return scores.masked_fill(~mask, float("-inf")).softmax(-1)
""",
            "the empty row is NaN",
        ),
        (
            """
def softmax_over_open(scores, mask):
    return scores.masked_fill(~mask, -1e9).softmax(-1)
""",
            "the empty row sums to 1.00: it attends to padding",
        ),
        (
            """
def softmax_over_open(scores, mask):
    return scores.masked_fill_(~mask, -1e9).softmax(-1) * mask
""",
            "the caller's scores have changed",
        ),
        (
            """
def softmax_over_open(scores, mask):
    return scores.masked_fill(~mask, -1e9).softmax(-1) * mask.any(-1, keepdim=True)
""",
            "with true scores near -2e9 a masked key wins",
        ),
        (
            """
def softmax_over_open(scores, mask):
    bias = torch.zeros_like(scores).masked_fill(~mask, float("-inf"))
    return torch.where(mask.any(-1, keepdim=True), (scores + bias).softmax(-1), 0.0)
""",
            "the empty row's gradient is NaN",
        ),
        (
            """
def softmax_over_open(scores, mask):
    return scores.masked_fill(mask, float("-inf")).softmax(-1).nan_to_num(0.0)
""",
            "which is masked: is the mask inverted?",
        ),
        (
            """
def softmax_over_open(scores, mask):
    return scores.softmax(-1) * mask
""",
            "the softmax still counts masked keys",
        ),
    ],
    "dilated_window": [
        (
            """
def dilated_window(L, window, dilation):
    i = torch.arange(L, device=device)
    back = i[:, None] - i
    return (back >= 0) & (back < window)
""",
            "query 1 reads key 0, 1 back: with a dilation of 2 it steps over that",
        ),
        (
            """
def dilated_window(L, window, dilation):
    i = torch.arange(L, device=device)
    back = (i[:, None] - i).abs()
    return (back % dilation == 0) & (back < window * dilation)
""",
            "query 0 reads key 2, which is in its future",
        ),
        (
            """
def dilated_window(L, window, dilation):
    i = torch.arange(L, device=device)
    back = i[:, None] - i
    return (back >= 0) & (back % dilation == 0) & (back <= window * dilation)
""",
            "query 6 reads key 0, 6 back: 3 keys at steps of 2 end 4 back",
        ),
    ],
    "find_leak": [
        ("answer = [None, None, None]", "layer 0 leaks"),
        ("answer = [(0, 1), (0, 1), (0, 1)]", "layer 1 is causal"),
        ("answer = [(0, 3), None, (0, 1)]", "layer 0: output 0 does not move when input 3 does"),
        ("answer = [(1, 0), None, (0, 1)]", "input 0 is not later than output 1"),
    ],
}
