"""Fused passes over CUDA tensors: Triton kernels beside the module, from the same forms as the eager bodies."""
