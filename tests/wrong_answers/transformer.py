"""Typical wrong answers to the exercises of chapter 7, and how each is named."""

from tests.wrong_answers import answers, guesses

MIXES = {
    "residual": "neither",
    "norm": "features",
    "feed_forward": "features",
    "sinusoid": "neither",
    "weights": "positions",
    "attention": "both",
}
NORM = """
def norm_backward(x, gamma, g, eps=1e-5):
    centred = x - x.mean(-1, keepdim=True)
    sigma = (centred.square().mean(-1, keepdim=True) + eps).sqrt()
    hat, u = centred / sigma, gamma * g
    along = (u * hat).mean(-1, keepdim=True)
    return (u - u.mean(-1, keepdim=True) - along * hat) / sigma
"""
AUTOGRAD = """
def grad(): return "a helper of the reader's own"
def norm_backward(x, gamma, g, eps=1e-5):
    loss = lambda x: (F.layer_norm(x, x.shape[-1:], gamma, None, eps) * g).sum()
    return [torch.func.grad(loss)(y) for y in [x]][0]
"""
WORK = """
def block_work(L, E, m, H, G):
    projections = 2 * L * E * (2 * E + 2 * E * G // H)
    between = 2 * L * L * E + 2 * L * L * E
    work = projections + between + 2 * L * E * m + 2 * L * m * E
    return work
"""
MEASURE = """
def measure(model, run):
    found, handles = {}, []
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Linear):
            def count(layer, inputs, output, name=name):
                vectors = output.numel() // layer.out_features
                done = 2 * vectors * layer.in_features * layer.out_features
                found[name] = found.get(name, 0) + done
            handles.append(layer.register_forward_hook(count))
    run()
    for handle in handles:
        handle.remove()
    return found
"""
COUNTER = """
def measure(model, run):
    with FlopCounterMode(display=False) as counter:
        run()
    counts = counter.get_flop_counts()
    names = {n: f"Sequential.{n}" for n, m in model.named_modules() if isinstance(m, nn.Linear)}
    return {n: sum(counts[name].values()) for n, name in names.items()}
"""
PIECE = """
def piece(cached, new):
    places = torch.arange(cached, cached + new)
    keys = torch.arange(cached + new)
    return places, keys <= places[:, None]
"""
LAYER = "\ndef sublayer(x, f, norm, first):\n    return "
OWN_NORM = """
def sublayer(x, f, norm, first):
    ln = lambda x: F.layer_norm(x, x.shape[-1:])
    return x + f(ln(x)) if first else ln(x + f(x))
"""

COUNT = """
def count(V, E, n):
    attention = 4 * (E * E + E)
    network = 8 * E * E + 5 * E
    encoder = attention + network + 2 * 2 * E
    decoder = 2 * attention + network + 3 * 2 * E
    return 3 * V * E + n * (encoder + decoder) + 2 * 2 * E
"""
BLOCK = """
class Attention(nn.Module):
    def __init__(self, width, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.q_proj, self.k_proj = nn.Linear(width, width), nn.Linear(width, width)
        self.v_proj, self.out_proj = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x, memory, mask):
        def split(y):
            return y.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

        q = split(self.q_proj(x))
        k, v = split(self.k_proj(memory)), split(self.v_proj(memory))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(~mask, -math.inf).softmax(-1)
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width, num_heads):
        super().__init__()
        self.self_attn = Attention(width, num_heads)
        self.cross_attn = Attention(width, num_heads)
        inner, outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.feed_forward = nn.Sequential(inner, nn.ReLU(), outer)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.norm3 = nn.LayerNorm(width)

    def forward(self, x, memory, causal, mask):
        y = self.norm1(x)
        x = x + self.self_attn(y, y, causal)
        x = x + self.cross_attn(self.norm2(x), memory, mask)
        return x + self.feed_forward(self.norm3(x))
"""
ANSWERS = answers(
    who_mixes=[
        *guesses(
            MIXES,
            ("feed_forward", "both", "its matrices act on one position"),
            ("sinusoid", "positions", "each number gets a constant"),
            ("weights", "both", "feature j"),
        ),
        (f"answer = {MIXES | {'norm': 'feature'}}", "or \"neither\", got 'feature'"),
        (f"answer = {MIXES | {'norm': ['features']}}", "or \"neither\", got ['features']"),
        ("answer = {'residual': 'neither'}", "norm has no guess: write"),
    ],
    norm_gradient=[
        (AUTOGRAD, "do without autograd"),
        (NORM, " - along * hat -> ", "x moves sigma too"),
        (NORM, "u - u.mean(-1, keepdim=True) -> u", "x moves the mean too"),
        (NORM, "gamma * g -> g", "the gain is missing"),
        (NORM, "+ eps -> + 1e-5", "eps = 0.5: eps is an argument"),
        (NORM, "-1, keepdim -> -2, keepdim", "not over the positions"),
        (NORM, "centred.square().mean(-1, -> x.var(-1,", "the variance divides by E, not by E - 1"),
        (NORM, "gamma * g -> g.mul_(gamma)", "the answer changes its argument in place"),
    ],
    add_and_norm=[
        (LAYER + "norm(x) + f(norm(x)) if first else norm(x + f(x))", "adds to the stream itself"),
        (LAYER + "norm(x + f(x)) if first else x + f(norm(x))", "and that is post-norm"),
        (LAYER + "x + f(norm(x))", "first is false, and that is pre-norm"),
        (LAYER + "f(norm(x)) if first else norm(x + f(x))", "the stream is missing"),
        (LAYER + "x + f(norm(x)) if first else x + norm(f(x))", "post-norm normalises the sum"),
        (LAYER + "x + f(norm(x)) if first else norm(x + f(norm(x)))", "f reads the stream itself"),
        (OWN_NORM, "norm is an argument"),
        (LAYER + "x.add_(f(norm(x))) if first else norm(x + f(x))", "its argument in place"),
    ],
    block_flops=[
        (WORK, "return work -> return work // 2", "an addition are two operations"),
        (WORK, " + 2 * L * m * E -> ", "the feed-forward network has two matrices"),
        (WORK, "2 * E * G // H -> 2 * E", "keys and values are projected to G heads"),
        (WORK, "2 * E * G // H -> 2 * E * G // 4", "8 heads, 2 for keys and values"),
        (WORK, "* m -> * 4 * E", "is m, not 4E"),
        (WORK, "between = 2 * L * L * E + -> between =", "two products are between positions"),
        (WORK, "+ between -> ", "the products between positions are missing"),
        (WORK, "projections + between -> 2 * (projections + between)", "one attention, not two"),
        (WORK, "work = -> work = L * (2 * E + 2 * E * G // H + m + E) +", "biases are left out"),
    ],
    linear_work=[
        (COUNTER, "write the counter yourself"),
        (MEASURE, "done = 2 * -> done =", "an addition are two operations"),
        (MEASURE, "output.numel() // layer.out_features -> len(output)", "each position of each"),
        (MEASURE, "handle.remove() -> pass", "a hook is still in"),
        (MEASURE, "handle.remove() -> model[0]._forward_hooks.clear()", "that was there before is"),
        (MEASURE, "isinstance(layer, nn.Linear) -> type(layer) is nn.Linear", "got ['0']"),
        (MEASURE, "output, name=name -> output", "in a container: got ['2.0']"),
        (MEASURE, "named_modules -> named_children", "in a container: got ['0']"),
        (MEASURE, "= found.get -> = output.numel() + found.get", "the bias is left out here"),
        (MEASURE, "found.get(name, 0) + done -> done", "this is the last one"),
        (MEASURE, "run() -> run(), run()", "was called 2 times"),
        (MEASURE, "return found -> return sum(found.values())", "dictionary, got int"),
        (MEASURE, "return found -> return dict.fromkeys(found)", "be a number, got NoneType"),
    ],
    piece_after_cache=[
        (PIECE, "return places, -> return places - cached,", "does not stand at position 0"),
        (PIECE, "return places, -> return places + 1,", "positions count from 0"),
        (PIECE, "return places, -> return keys,", "only the new words need positions"),
        (PIECE, "[:, None] -> [:, None] - cached", "the diagonal begins at column cached"),
        (PIECE, "keys <= places[:, None] -> torch.ones(new, new).tril().bool()", "are keys too"),
        (
            PIECE,
            "keys <= places[:, None] -> torch.ones(new, len(keys)).bool()",
            "must not read the words after it",
        ),
        (PIECE, "keys <= -> keys <", "a new word may read itself"),
        (PIECE, "[:, None] -> [:, None] + 1", "one word too far"),
        (PIECE, "keys <= places[:, None] -> keys[:, None] <= places", "keys are columns"),
        (PIECE, "keys <= -> keys >", "True means that a word may read"),
        (PIECE, "return places, keys <= places[:, None] -> return places", "and the mask, got"),
    ],
    count_parameters=[
        (COUNT, "2 * attention -> attention", "the decoder's block has two attentions"),
        (COUNT, "+ 2 * 2 * E\n    decoder -> \n    decoder", "the number should be"),
        (COUNT, "3 * V * E -> 2 * V * E", "an embedding each"),
        (COUNT, "3 * V * E -> 3 * V * E + V", "the last matrix has no bias"),
        (COUNT, ") + 2 * 2 * E -> )", "each stream ends with a norm"),
        (COUNT, "n * (encoder -> 1 * (encoder", "n blocks on each side"),
    ],
    decoder_block=[
        (BLOCK, "self.norm3 = nn.LayerNorm(width) -> pass", "has no parameter named norm3.bias"),
        (
            BLOCK,
            "self.norm3 = -> self.norm4 = nn.LayerNorm(width); self.norm3 =",
            "too many: norm4",
        ),
        (BLOCK, "y, y, causal -> y, y, causal | True", "self-attention needs the causal mask"),
        (BLOCK, "norm2(x), memory, mask -> norm2(x), memory, mask | True", "the memory's mask"),
        (BLOCK, "x = x + -> x =", "the block's output should"),
        (BLOCK, "x = x + -> x =", "return x + -> return", "the stream is missing"),
        (BLOCK, " / math.sqrt(q.shape[-1]) -> ", "by the root of a head's width"),
        (BLOCK, "(self.num_heads, -1) -> (1, -1)", "the heads are missing"),
    ],
)
