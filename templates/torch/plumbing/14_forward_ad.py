_forward_ad: Any = torch.autograd.forward_ad  # untyped: private parts
