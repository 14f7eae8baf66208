"""Every benchmark runs, in seconds, with tiny sizes: in 32 bits, and in an accelerator's 16."""

import importlib

import pytest
import torch

from benchmarks import attention, report
from benchmarks.report import Bench

SMALL = {"layers": 1, "width": 8, "heads": 2, "longest": 32}
TINY = {
    "attention": {"shapes": [(1, 2, 8, 4)], "lengths": [8]},
    "linear": {"lengths": [3, 70]},
    "multihead": {"shapes": [(2, 4, 8, 2)]},
    "transformer": {"shapes": [(2, 4, 8, 2, 16)]},
    "published": {"sizes": SMALL, "shape": (2, 4)},
    "decoding": {"sizes": SMALL, "said": (2, 4), "backend": "eager"},
}


def bench(dtype=torch.float32):
    return Bench(torch.device("cpu"), dtype, rounds=1, matrix=8)


CASES = [(name, dtype) for name in TINY for dtype in ("float32", "bfloat16")]
CASES.remove(("decoding", "bfloat16"))  # it is measured in 32 bits everywhere


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_a_benchmark_gives_whole_tables(name, dtype, capsys):
    module = importlib.import_module(f"benchmarks.{name}")
    report.run_as_main(
        lambda bench: module.tables(bench, **TINY[name]), bench(getattr(torch, dtype))
    )
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) <= len(lines) // 3  # a few tables
    assert any(line.startswith("| ---") for line in lines)


def test_unequal_outputs_are_refused(monkeypatch):
    monkeypatch.setitem(attention.WITHOUT, "torch", lambda q, k, v, is_causal: (q @ k.mT @ v,))
    with pytest.raises(AssertionError, match="torch must agree with fused"):
        list(attention.tables(bench(), **TINY["attention"]))


def test_verdicts_and_spreads_are_of_the_same_round():
    times = {"ours": [1.0, 3.0, 2.0], "slow": [9.0] * 3, "fast": [1.0, 3.0, 2.0]}
    assert report.verdict("ours", times) == ["1.00 (1.00–1.00)", "fast", "met"]
    times["ours"] = [1.1, 3.3, 2.2]
    assert report.verdict("ours", times) == ["1.10 (1.10–1.10)", "fast", report.MISSED]
    assert report.spread([100.0, 200.0, 300.0]) == "200 (150–250)"


def test_peak_memory_counts_what_is_held_at_once():
    def work():
        first = torch.ones(1000)  # 4 kB
        return torch.cat([first, first])  # 8 kB beside it

    assert 12_000 <= attention.peak(work, torch.device("cpu")) < 12_500
