"""What the fused passes of an operation read, write and compute, whatever language they are written in."""
