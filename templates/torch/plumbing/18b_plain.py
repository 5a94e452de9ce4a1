_PLAIN = (Tensor, torch.nn.Parameter)
