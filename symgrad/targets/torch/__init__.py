"""The PyTorch backend: eager operations in a complete torch.autograd.Function module."""
