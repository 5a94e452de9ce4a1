_HALF = (torch.float16, torch.bfloat16)
