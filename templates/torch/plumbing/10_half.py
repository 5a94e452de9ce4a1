_HALF = frozenset((torch.float16, torch.bfloat16))
