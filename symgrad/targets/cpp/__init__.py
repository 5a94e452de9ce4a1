"""Fused passes over CPU tensors: C++ beside the module, from the same forms as the eager bodies."""
