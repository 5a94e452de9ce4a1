_broadcast_shapes: Any = torch.broadcast_shapes  # which has no annotations
