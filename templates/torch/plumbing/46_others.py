def _others(x: Tensor, dim: int | None) -> Tensor:
    """Return the product of all other elements along ``dim``, also right where one is 0."""
    if dim is None:
        return _others(x.reshape(-1), 0).reshape(x.shape)
    if x.dim() == 0 or x.shape[dim] == 0:
        return torch.ones_like(x)
    ones, size = torch.ones_like(x.narrow(dim, 0, 1)), x.shape[dim] - 1
    before = torch.cat((ones, x.narrow(dim, 0, size)), dim).cumprod(dim)
    after = torch.cat((x.narrow(dim, 1, size), ones), dim).flip(dim).cumprod(dim).flip(dim)
    return before * after
