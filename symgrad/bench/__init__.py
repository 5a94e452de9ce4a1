"""Measures generated operations against the composite, torch.compile, native kernels and the memory itself."""
