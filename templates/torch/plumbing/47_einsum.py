def _einsum(equation: str, *operands: Tensor) -> Tensor:
    """Return torch.einsum as matrix products: it has no rule for cotangents batched by autograd."""
    inputs, output = equation.split("->")
    terms = inputs.split(",")
    ranks = [x.dim() - len(t.replace("...", "")) for t, x in zip(terms, operands, strict=True)]
    spread = "".join(chr(ord("α") + k) for k in range(max(ranks)))  # letters for `...`, right to left
    terms = [t.replace("...", spread[:n][::-1]) for t, n in zip(terms, ranks, strict=True)]
    output = output.replace("...", spread[::-1])
    value, letters = operands[0], terms[0]
    for k in range(1, len(terms)):
        kept = output + "".join(terms[k + 1 :])
        value, letters = _contracted(value, letters, operands[k], terms[k], kept)
    return value.permute([letters.index(c) for c in output])
