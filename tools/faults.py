"""Plant faults of one line in a copy of the project, and see that a named test catches each.

python tools/faults.py            all of them: a line each, and exit status 1 if one is missed
python tools/faults.py rotary     those whose description or file contains a word
"""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from tempfile import TemporaryDirectory
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
COPIED = (
    "attn_exercises",
    "attn_notes",
    "benchmarks",
    "book",
    "tests",
    "tools",
    "pyproject.toml",
    "Makefile",
    "README.md",
)
AT_ONCE = 2
SECONDS = 300  # a test may take


class Fault(NamedTuple):
    """What a hasty hand could do: a piece of a file that occurs once, and what replaces it."""

    what: str
    file: str  # below attn_notes/
    right: str
    wrong: str
    test: str  # below tests/, as pytest names it


FAULTS = [
    # ---- kernels, scores, masks, attention
    Fault("the Gaussian kernel without its half", "kernels.py",
          "torch.exp(-u.square() / 2)", "torch.exp(-u.square())",
          "test_kernels.py::test_a_kernel_equals_its_formula_and_integrates_to_one"),
    Fault("the triangular kernel called Epanechnikov", "kernels.py",
          "0.75 * (1 - u.square())", "0.75 * (1 - u.abs())",
          "test_kernels.py::test_a_kernel_equals_its_formula_and_integrates_to_one"),
    Fault("no key in reach divides 0 by 0", "kernels.py",
          "heights / total.masked_fill(total == 0, 1.0)", "heights / total",
          "test_kernels.py::test_no_key_in_reach_gives_zero_and_finite_gradients"),
    Fault("exclude_self forgotten", "kernels.py",
          "mask = ~torch.eye(", "mask = torch.eye(",
          "test_kernels.py::test_the_prediction_equals_the_formula_written_out"),
    Fault("the scale of the dot product dropped", "scores.py",
          "query_scaled = query / math.sqrt(query.shape[-1])", "query_scaled = query",
          "test_scores.py::test_a_score_equals_its_formula_pair_by_pair"),
    Fault("concat puts the key first", "scores.py",
          "torch.cat((q, k), dim=-1)", "torch.cat((k, q), dim=-1)",
          "test_scores.py::test_a_score_equals_its_formula_pair_by_pair"),
    Fault("the Gaussian score upside down", "scores.py",
          "return -0.5 * difference", "return 0.5 * difference",
          "test_scores.py::test_the_softmax_of_the_gaussian_score_is_the_gaussian_kernel"),
    Fault("the causal mask one too wide", "masks.py",
          "device=device) >= 0\n", "device=device) >= -1\n",
          "test_masks.py::test_causal_mask_allows_keys_up_to_the_query_and_the_offset"),
    Fault("the offset of the queries lost", "masks.py",
          "torch.arange(L, device=device) + offset", "torch.arange(L, device=device)",
          "test_masks.py::test_causal_mask_allows_keys_up_to_the_query_and_the_offset"),
    Fault("padding allowed, real keys masked", "masks.py",
          "return keys < lengths[..., None]", "return keys >= lengths[..., None]",
          "test_masks.py::test_padding_mask_allows_the_first_keys_up_to_the_length"),
    Fault("a window one key too long", "masks.py",
          "(distance < window)", "(distance <= window)",
          "test_masks.py::test_sliding_window_allows_the_last_keys_up_to_the_query"),
    Fault("two masks joined by or", "masks.py",
          "mask & causal\n", "mask | causal\n",
          "test_masks.py::test_and_causal_allows_what_both_do"),
    Fault("the mask inverted", "masks.py",
          "scores.masked_fill(~mask, float", "scores.masked_fill(mask, float",
          "test_masks.py::test_masking_before_the_softmax_is_renormalising_after_it"),
    Fault("a finite number instead of minus infinity", "masks.py",
          '~mask, float("-inf"))', "~mask, -1e4)",
          "test_masks.py::test_an_empty_row_has_weights_and_gradient_zero_in_every_precision"),
    Fault("an empty row stays uniform", "masks.py",
          "return weights.masked_fill(empty, 0.0)", "return weights",
          "test_masks.py::test_masking_before_the_softmax_is_renormalising_after_it"),
    Fault("the explicit path unscaled", "attention.py",
          "(query.to(wide) * scale)", "query.to(wide)",
          "test_attention.py::test_attention_equals_torchs_kernel"),
    Fault("the bias of the scores dropped", "attention.py",
          "scores = scores + attn_bias.to(wide)", "scores = scores",
          "test_attention.py::test_attention_equals_a_triple_loop"),
    Fault("the fused path forgets to be causal", "attention.py",
          "dropout_p, is_causal and alone,", "dropout_p, False,",
          "test_attention.py::test_attention_equals_a_triple_loop"),
    # ---- heads, positions, cache
    Fault("a view where a transpose was due", "multihead.py",
          "    x = x.view(*x.shape[:-1], num_heads, head_dim)  # (..., L, H, D)\n"
          "    return x.transpose(-3, -2)  # (..., H, L, D)",
          "    return x.reshape(*x.shape[:-2], num_heads, x.shape[-2], head_dim)",
          "test_multihead.py::test_without_a_mask_it_equals_torchs_layer"),
    Fault("key-value heads dealt out in turn", "multihead.py",
          "x.repeat_interleave(group, dim=1)", "x.repeat(1, group, 1, 1)",
          "test_multihead.py::test_a_layer_of_any_sizes_equals_a_loop_over_its_heads"),
    Fault("values rotated too", "multihead.py",
          "q, k = rotary(q), rotary(k)", "q, k, v = rotary(q), rotary(k), rotary(v)",
          "test_multihead.py::test_rotary_is_applied_to_queries_and_keys_only"),
    Fault("a cached step reads key 0 alone", "multihead.py",
          "if is_causal and offset:", "if is_causal and offset > 9999:",
          "test_multihead.py::test_with_a_cache_queries_are_numbered_from_its_end"),
    Fault("the returned weights after dropout", "multihead.py",
          "return self.dropout(weights) @ v, weights if need_weights else None",
          "weights = self.dropout(weights); return weights @ v, weights if need_weights else None",
          "test_multihead.py::test_returned_weights_are_those_before_dropout"),
    Fault("every step at position 0", "positions.py",
          "self.weight[offset : offset + L]", "self.weight[:L]",
          "test_positions.py::test_learned_positions_are_torchs_embedding_of_the_positions"),
    Fault("a pair turned the other way", "positions.py",
          "(a * cos - b * sin, a * sin + b * cos)", "(a * cos + b * sin, b * cos - a * sin)",
          "test_positions.py::test_a_pair_is_a_complex_number_times_a_turn"),
    Fault("ALiBi prefers what is far", "positions.py",
          "(slopes[:, None, None] * -distance)", "(slopes[:, None, None] * distance)",
          "test_positions.py::test_the_bias_is_minus_slope_times_distance_entry_by_entry"),
    Fault("a cache that overwrites another branch", "cache.py",
          "fits = self.used == start and end", "fits = end",
          "test_cache.py::test_branches_are_independent"),
    # ---- the Transformer, decoding, training
    Fault("the residual connection dropped", "transformer/blocks.py",
          "            x = x + self.dropout(y)\n"
          "            x = x + self.dropout(self.feed_forward(self.norm2(x)))",
          "            x = self.dropout(y)\n"
          "            x = x + self.dropout(self.feed_forward(self.norm2(x)))",
          "test_transformer.py::test_a_block_equals_torchs_layer"),
    Fault("a causal mask only while training", "transformer/blocks.py",
          "is_causal=True,  # in training", "is_causal=self.training,  # in training",
          "test_decoder.py::test_steps_equal_the_parallel_pass"),
    Fault("padding of the source not masked", "transformer/encoder_decoder.py",
          "mask = positions < lengths", "mask = positions <= lengths",
          "test_decoder.py::test_padding_changes_nothing"),
    Fault("the memory projected anew at every step", "transformer/encoder_decoder.py",
          "state.memory[:, :0],", "state.memory,",
          "test_decoder.py::test_a_step_costs_one_position_and_projects_the_memory_once"),
    Fault("query and key of a packed layer swapped", "multihead.py",
          "q, k, v = qkv.split([H, G, G], dim=1)", "k, q, v = qkv.split([G, H, G], dim=1)",
          "test_multihead.py::test_a_packed_layer_is_the_same_with_its_projections_stacked"),
    Fault("the encoder reads padding", "seq2seq.py",
          "mask = padding_mask(lengths, outputs.shape[1]",
          "mask = padding_mask(lengths * 0 + outputs.shape[1], outputs.shape[1]",
          "test_seq2seq.py::test_a_sentence_gets_the_same_logits_alone_and_in_a_batch"),
    Fault("a nucleus without the token that reaches its share", "decoding/sampling.py",
          "rest > 1 - top_p", "rest - kept > 1 - top_p",
          "test_sampling.py::test_the_nucleus_ends_where_its_share_is_reached"),
    Fault("the loss counts padding", "training/metrics.py",
          "return total / count.clamp(min=1)", "return total / labels.numel()",
          "test_training_metrics.py::test_it_is_the_mean_over_real_tokens_of_minus_log_p"),
    Fault("the label is the input itself", "training/metrics.py",
          "(logits, tokens[:, 1:],", "(logits, tokens[:, :-1],",
          "test_training_metrics.py::test_of_a_decoder_it_is_the_mean_of_what_each_prefix_says_of_the_next"),
    # ---- fast attention
    Fault("old sums not rescaled", "flash.py",
          "output = rescale * output + weights @ v[..., keys, :]",
          "output = output + weights @ v[..., keys, :]",
          "test_flash.py::test_any_sizes_any_mask_any_tile"),
    Fault("the backward pass without the mean of each row", "flash.py",
          "weights * (d_weights - mean)", "weights * d_weights",
          "test_flash.py::test_any_sizes_any_mask_any_tile"),
    Fault("every tile is causal as if it were the first", "flash.py",
          "offset=-start", "offset=0",
          "test_flash.py::test_any_sizes_any_mask_any_tile"),
    # ---- widgets
    Fault("masked keys get a weight in the page", "widgets/static/numbers.js",
          "if (!mask || mask[n]) total +=", "total +=",
          "browser/test_maths.py::test_masked_softmax"),
    Fault("the page's window one key too long", "widgets/static/numbers.js",
          "i - j < size", "i - j <= size",
          "browser/test_maths.py::test_masks_by_name"),
    Fault("the page's dot product unscaled", "widgets/static/numbers.js",
          "dot(q, k) / Math.sqrt(q.length)", "dot(q, k)",
          "browser/test_maths.py::test_scores_of_a_query_and_a_key"),
    Fault("tokens that turn the text around", "widgets/static/numbers.js",
          "[0x2028, 0x202e], ", "",
          "browser/test_maths.py::test_tokens_are_made_visible_as_in_python"),
    Fault("the page's Transformer without its scale", "widgets/static/transformer_model.js",
          " / Math.sqrt(D));", ");",
          "browser/test_translator.py::test_logits_and_weights_are_those_of_torch_on_the_rounded_weights"),
    Fault("the page's norm with the wrong variance", "widgets/static/transformer_model.js",
          "(number - mean) ** 2, 0) / x.length", "(number - mean) ** 2, 0) / (x.length - 1)",
          "browser/test_translator.py::test_logits_and_weights_are_those_of_torch_on_the_rounded_weights"),
    Fault("the page forgets to rescale a tile", "widgets/static/online.js",
          "factor = forget ? 1 : rescale;", "factor = 1;",
          "browser/test_online.py::test_each_step_is_torch_s_at_every_edge"),
]  # fmt: skip


def planted(fault: Fault, copy: Path) -> str:
    """Run the test of a fault in a copy that has it: "caught", or what happened instead."""
    path = copy / "attn_notes" / fault.file
    sound = path.read_text(encoding="utf-8")
    if sound.count(fault.right) != 1:
        return f"not planted: {fault.right!r} must occur once in {fault.file}"
    path.write_text(sound.replace(fault.right, fault.wrong), encoding="utf-8")
    try:
        code = tested([fault.test], copy)
    finally:
        path.write_text(sound, encoding="utf-8")
    return {0: "MISSED", 1: "caught"}.get(code, f"not run: pytest ended with status {code}")


def tested(tests: list[str], copy: Path) -> int:
    """The exit status of pytest in a copy: 0 if all pass, 1 if one fails."""
    environment = os.environ | {
        "PYTHONPATH": str(copy),
        "OMP_NUM_THREADS": "1",
        "ATTN_NOTES_DEVICE": "cpu",
        "PYTHONDONTWRITEBYTECODE": "1",  # a fault as long as what it replaces would go unseen
    }
    options = ["-q", "-x", "-p", "no:cacheprovider", "--no-header"]
    command = [sys.executable, "-m", "pytest", *options, *(f"tests/{test}" for test in tests)]
    return subprocess.run(
        command, cwd=copy, env=environment, capture_output=True, timeout=SECONDS, check=False
    ).returncode


def main() -> int:
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    chosen = [fault for fault in FAULTS if word in fault.what or word in fault.file]
    with TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        copies: Queue[Path] = Queue()
        for number in range(AT_ONCE):
            copies.put(_copied(Path(folder) / str(number)))

        def run(fault: Fault) -> str:
            copy = copies.get()
            try:
                return planted(fault, copy)
            finally:
                copies.put(copy)

        if tested(sorted({fault.test for fault in chosen}), Path(folder) / "0"):
            print("Without a fault the tests must pass, and they do not.")
            return 1
        missed = 0
        for fault, result in zip(chosen, pool.map(run, chosen), strict=True):
            missed += result != "caught"
            print(f"{result}: {fault.what} ({fault.file}; {fault.test})", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} faults caught")
    return int(missed > 0 or not chosen)


def _copied(copy: Path) -> Path:
    copy.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy / name)
    return copy


if __name__ == "__main__":
    sys.exit(main())
