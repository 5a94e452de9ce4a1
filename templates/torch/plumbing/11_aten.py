_aten = torch.ops.aten
