"""Typical wrong answers to the exercises of chapter 7, and how each is named."""

from tests.wrong_answers import instead

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
WORK = """
def block_work(L, E, m, H, G):
    projections = 2 * L * E * (2 * E + 2 * E * G // H)
    between = 2 * L * L * E + 2 * L * L * E
    return projections + between + 2 * L * E * m + 2 * L * m * E
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
LAYER = "\ndef sublayer(x, f, norm, first):\n    return "


ANSWERS: dict[str, list[tuple[str, str]]] = {
    "who_mixes": [
        (
            f"answer = {MIXES | {'feed_forward': 'both'}}",
            "feed_forward is not 'both': its matrices act on one position",
        ),
        (f"answer = {MIXES | {'sinusoid': 'positions'}}", "a constant that depends on its place"),
        (f"answer = {MIXES | {'weights': 'both'}}", "weights is not 'both': feature j"),
        (f"answer = {MIXES | {'norm': 'feature'}}", "or \"neither\", got 'feature'"),
        (f"answer = {MIXES | {'norm': ['features']}}", "or \"neither\", got ['features']"),
        ("answer = {'residual': 'neither'}", "norm has no guess: write"),
        (f"answer = {list(MIXES.values())}", "must be a dictionary, got list"),
    ],
    "norm_gradient": [
        (
            """
def norm_backward(x, gamma, g, eps=1e-5):
    leaf = x.clone().requires_grad_()
    F.layer_norm(leaf, x.shape[-1:], gamma, None, eps).backward(g)
    return leaf.grad
""",
            "do without autograd",
        ),
        (instead(NORM, " - along * hat", ""), "x moves sigma too"),
        (instead(NORM, "u - u.mean(-1, keepdim=True) - ", "u - "), "x moves the mean too"),
        (instead(NORM, "gamma * g", "g"), "the gain is missing"),
        (instead(NORM, "+ eps", "+ 1e-5"), "eps = 0.5: eps is an argument"),
        (NORM.replace("-1, keepdim", "-2, keepdim"), "not over the positions"),
        (
            instead(
                NORM,
                "(centred.square().mean(-1, keepdim=True) + eps)",
                "(x.var(-1, keepdim=True) + eps)",
            ),
            "the variance divides by E, not by E - 1",
        ),
        (
            instead(NORM, "    return (u", "    x.sub_(x.mean(-1, keepdim=True))\n    return (u"),
            "the answer changes its argument in place",
        ),
        (instead(NORM, "    return (u", "    return x.tolist(), (u"), "be a tensor, got tuple"),
    ],
    "add_and_norm": [
        (
            LAYER + "norm(x) + f(norm(x)) if first else norm(x + f(x))",
            "pre-norm adds to the stream itself",
        ),
        (LAYER + "norm(x + f(x)) if first else x + f(norm(x))", "and that is post-norm"),
        (LAYER + "norm(x + f(x))", "first is true, and that is post-norm"),
        (LAYER + "x + f(norm(x))", "first is false, and that is pre-norm"),
        (LAYER + "f(norm(x)) if first else norm(x + f(x))", "the stream is missing"),
        (
            LAYER + "x + f(norm(x)) if first else x + norm(f(x))",
            "post-norm normalises the sum",
        ),
        (
            LAYER + "x + f(norm(x)) if first else norm(x + f(norm(x)))",
            "in post-norm f reads the stream itself",
        ),
        (
            LAYER + "x.add_(f(norm(x))) if first else norm(x + f(x))",
            "the answer changes its argument in place",
        ),
        (
            LAYER + "x + f(norm(x)) if first else norm(x.add_(f(x)))",
            "the answer changes its argument in place",
        ),
    ],
    "block_flops": [
        (
            instead(WORK, "return projections", "return (projections").rstrip() + ") // 2",
            "a multiplication and an addition are two operations",
        ),
        (instead(WORK, " + 2 * L * m * E", ""), "the feed-forward network has two matrices"),
        (instead(WORK, "2 * E * G // H", "2 * E"), "keys and values are projected to G heads"),
        (WORK.replace("* m", "* 4 * E").replace("m * E", "4 * E * E"), "is m, not 4E"),
        (
            instead(WORK, "between = 2 * L * L * E + ", "between = "),
            "two products are between positions",
        ),
        (instead(WORK, "+ between", ""), "the products between positions are missing"),
        (
            instead(WORK, "return projections + between", "return 2 * (projections + between)"),
            "has one attention, not two",
        ),
        (
            instead(WORK, "return ", "return L * (2 * E + 2 * E * G // H) + L * m + L * E + "),
            "biases are left out",
        ),
        ("def block_work(L, E, m, H, G):\n    L * E", "should be a number, got NoneType"),
        ("def block_work(L, E, m, H, G):\n    return [L * E]", "should be a number, got list"),
    ],
    "linear_work": [
        (instead(MEASURE, "done = 2 *", "done ="), "an addition are two operations"),
        (
            instead(MEASURE, "output.numel() // layer.out_features", "len(output)"),
            "each position of each sequence is a vector",
        ),
        (
            instead(
                MEASURE, "output.numel() // layer.out_features", "len(output) * output.shape[1]"
            ),
            "the work should be",
        ),
        (instead(MEASURE, "        handle.remove()", "        pass"), "a hook is still in"),
        (instead(MEASURE, "output, name=name", "output"), "as in named_modules: got ['2.0']"),
        (instead(MEASURE, "named_modules", "named_children"), "as in named_modules: got ['0']"),
        (
            instead(MEASURE, "* layer.out_features\n", "* layer.out_features + output.numel()\n"),
            "the bias is left out here",
        ),
        (instead(MEASURE, "found.get(name, 0) + done", "done"), "this is the last one"),
        (instead(MEASURE, "    run()\n", "    run()\n    run()\n"), "was called 2 times"),
        (instead(MEASURE, "return found", "return sum(found.values())"), "dictionary, got int"),
        (
            instead(MEASURE, "return found", "return dict.fromkeys(found)"),
            "layer 0: the work should be a number, got NoneType",
        ),
    ],
}
