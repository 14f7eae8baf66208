"""Attention: weights and then values, our one function, and torch's own; milliseconds, medians."""

import torch
import torch.nn.functional as F

from attn_notes import get_device
from attn_notes.attention import attention_weights, scaled_dot_product_attention
from attn_notes.masks import causal_mask
from benchmarks.timing import interleaved, row

SHAPES = {"cpu": [(4, 8, 64, 64), (2, 8, 512, 64)], "cuda": [(8, 16, 512, 64), (4, 16, 4096, 64)]}


def contenders(q, k, v, keywords) -> dict:
    return {
        "weights @ value": lambda: attention_weights(q, k, **keywords) @ v,
        "ours": lambda: scaled_dot_product_attention(q, k, v, **keywords),
        "torch": lambda: F.scaled_dot_product_attention(q, k, v, **keywords),
    }


@torch.no_grad()
def main() -> None:
    device = get_device()
    print(f"{device}, {torch.get_num_threads()} threads, torch {torch.__version__}")
    print(row("(B, H, L, D), what", "weights @ v", "ours", "torch", "w@v / torch", "ours / torch"))
    for shape in SHAPES.get(device.type, SHAPES["cpu"]):
        rng = torch.Generator().manual_seed(0)
        q, k, v = (torch.randn(shape, generator=rng).to(device) for _ in range(3))
        mask = causal_mask(shape[-2], device=device)
        for what, keywords in (
            ("no mask", {}),
            ("causal", {"is_causal": True}),
            ("mask", {"attn_mask": mask}),
        ):
            calls = contenders(q, k, v, keywords)
            for call in calls.values():
                torch.testing.assert_close(call(), calls["torch"](), atol=1e-4, rtol=1e-4)
            taken = list(interleaved(calls, device).values())
            ratios = [f"{taken[0] / taken[2]:.2f}", f"{taken[1] / taken[2]:.2f}"]
            print(row(f"{shape}, {what}", *(f"{ms:.3f}" for ms in taken), *ratios))


if __name__ == "__main__":
    main()
