"""Typical wrong answers to the exercises of chapter 1, and the words that name the mistake."""

ANSWERS: dict[str, list[tuple[str, str]]] = {
    "three_rows": [
        ("answer = [[0.2] * 5, [0, 0, 0, 0, 1], [0, 0, 0, 0, 1]]", "never looks at the query"),
        ("answer = [[0.2] * 5, [0.2] * 5, [0.2] * 5]", "it does look at the query"),
        ("answer = [[0.2] * 5, [0.2] * 5, [0.0] * 5]", "sums to 1 at any distance"),
        ("answer = [[1.0] * 5, [1.0] * 5, [0, 0, 0, 0, 1]]", "row 0 must sum to 1, got 5"),
        ("answer = [[0.2] * 5, [0, 0, 0, 0, 1]]", "should have shape (3, 5), got (2, 5)"),
    ],
    "epanechnikov": [
        (
            "def my_kernel(u):\n    return (1 - u.abs()).clamp(min=0)",
            "this is the triangular kernel",
        ),
        ("def my_kernel(u):\n    return 0.75 * (1 - u**2)", "never negative: clamp it"),
        ("def my_kernel(u):\n    return (1 - u**2).clamp(min=0)", "the area under it is 4/3"),
        (
            "def my_kernel(u):\n    return u.square_().neg_().add_(1).clamp_(min=0).mul_(0.75)",
            "must not change its argument in place",
        ),
        (
            "def my_kernel(u):\n    return torch.exp(-(u**2) / 2) / (2 * torch.pi) ** 0.5",
            "the kernel at (0, 0) should be 0, got 0.05399",
        ),
    ],
    "leave_one_out": [
        (
            (
                "def my_error(weights, values):\n"
                "    return (values - weights @ values).square().mean()"
            ),
            "this is the training error",
        ),
        (
            (
                "def my_error(weights, values):\n"
                "    others = weights - weights.diagonal().diag()\n"
                "    return (values - others @ values).square().mean()"
            ),
            "must be brought back to 1",
        ),
        (
            (
                "def my_error(weights, values):\n"
                "    residuals = (values - weights @ values) / (1 - weights.diagonal())\n"
                "    return residuals.square().sum()"
            ),
            "take the mean",
        ),
        (
            (
                "def my_error(weights, values):\n"
                "    return ((values - weights @ values) / (1 - weights.diagonal())).abs().mean()"
            ),
            "square the residuals",
        ),
    ],
    "nearest_neighbours": [
        (
            (
                "def my_weights(queries, keys, k):\n"
                "    distances = (queries[:, None] - keys).abs()\n"
                "    far = distances.topk(k).indices\n"
                "    return torch.zeros_like(distances).scatter(-1, far, 1 / k)"
            ),
            "reads the keys farthest from it",
        ),
        (
            (
                "def my_weights(queries, keys, k):\n"
                "    distances = (queries[:, None] - keys).abs()\n"
                "    nearest = distances.topk(k, largest=False).indices\n"
                "    return torch.zeros_like(distances).scatter(-1, nearest, 1.0)"
            ),
            "each row sums to 3: divide by k",
        ),
        (
            (
                "def my_weights(queries, keys, k):\n"
                "    distances = keys - queries[:, None]\n"
                "    nearest = distances.topk(k, largest=False).indices\n"
                "    return torch.zeros_like(distances).scatter(-1, nearest, 1 / k)"
            ),
            "the weights with k = 1 at",
        ),
        (
            (
                "def my_weights(queries, keys, k):\n"
                "    return (-(queries[:, None] - keys).square() / 2).softmax(-1)"
            ),
            "with k = 1, query 0.1 reads 5 keys",
        ),
    ],
    "local_linear": [
        (
            (
                "def my_line(queries, keys, bandwidth):\n"
                "    return (-(((queries[:, None] - keys) / bandwidth) ** 2) / 2).softmax(-1)"
            ),
            "these are Nadaraya-Watson's weights",
        ),
        (
            (
                "def my_line(queries, keys, bandwidth):\n"
                "    u = keys - queries[:, None]\n"
                "    heights = torch.exp(-((u / bandwidth) ** 2) / 2)\n"
                "    s0, s1, s2 = ((heights * u**r).sum(-1, keepdim=True) for r in (0, 1, 2))\n"
                "    return heights * (s2 + s1 * u) / (s0 * s2 - s1**2)"
            ),
            "the sum of each row at (0,) should be 1",
        ),
        (
            (
                "def my_line(queries, keys, bandwidth):\n"
                "    u = keys - queries[:, None]\n"
                "    heights = torch.exp(-((u / bandwidth) ** 2) / 2)\n"
                "    s0, s1, s2 = ((heights * u**r).sum(-1, keepdim=True) for r in (0, 1, 2))\n"
                "    lines = heights * (s2 - s1 * u)\n"
                "    lines = lines.clamp(min=0)\n"
                "    return lines / lines.sum(-1, keepdim=True)"
            ),
            "the prediction on the line 2x + 1 at",
        ),
        (
            (
                "def my_line(queries, keys, bandwidth):\n"
                "    u = keys - queries[:, None]\n"
                "    ones = torch.ones_like(u)\n"
                "    s0, s1, s2 = (u**0).sum(-1), u.sum(-1), (u**2).sum(-1)\n"
                "    return ((s2[:, None] - s1[:, None] * u) * ones) / (s0 * s2 - s1**2)[:, None]"
            ),
            "the prediction at query",
        ),
    ],
    "leave_group_out": [
        (
            (
                "def my_prediction(keys, values, groups, bandwidth):\n"
                "    return nadaraya_watson(\n"
                "        keys, keys, values, bandwidth=bandwidth, exclude_self=True\n"
                "    )[0]"
            ),
            "output 0 depends on value 5, the same measurement",
        ),
        (
            (
                "def my_prediction(keys, values, groups, bandwidth):\n"
                "    scores = -(((keys[:, None] - keys) / bandwidth) ** 2) / 2\n"
                "    return masked_softmax(scores, groups[:, None] == groups) @ values"
            ),
            "output 0 depends on value 0, its own",
        ),
        (
            (
                "def my_prediction(keys, values, groups, bandwidth):\n"
                "    weights = (-(((keys[:, None] - keys) / bandwidth) ** 2) / 2).softmax(-1)\n"
                "    return weights.masked_fill(groups[:, None] == groups, 0.0) @ values"
            ),
            "the predictions at (0,) should be",
        ),
    ],
}
