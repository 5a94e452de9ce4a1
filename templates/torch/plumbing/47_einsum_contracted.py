def _contracted(a: Tensor, p: str, b: Tensor, q: str, kept: str) -> tuple[Tensor, str]:
    """Multiply ``a`` and ``b``, of dimensions ``p`` and ``q``; sum over those not ``kept``."""
    batch = [c for c in p if c in q and c in kept]
    summed = [c for c in p if c in q and c not in kept]
    left, right = [c for c in p if c not in q], [c for c in q if c not in p]
    a = a.permute([p.index(c) for c in (*batch, *left, *summed)])
    b = b.permute([q.index(c) for c in (*batch, *summed, *right)])
    n, m, s = len(batch), len(left), len(summed)
    rows, columns = a.shape[n : n + m], b.shape[n + s :]
    letters = "".join((*batch, *left, *right))
    if not summed:
        a = a.reshape((*a.shape, *[1] * len(right)))
        return a * b.reshape((*b.shape[:n], *[1] * m, *columns)), letters
    sizes = [k if j == 1 else j for j, k in zip(a.shape[n + m :], b.shape[n : n + s], strict=True)]
    a, b = a.expand((*a.shape[: n + m], *sizes)), b.expand((*b.shape[:n], *sizes, *columns))
    a = a.reshape((*a.shape[:n], math.prod(rows), math.prod(sizes)))
    product = a @ b.reshape((*b.shape[:n], math.prod(sizes), math.prod(columns)))
    return product.reshape((*product.shape[:n], *rows, *columns)), letters
