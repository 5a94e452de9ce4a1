_COMPLEX = frozenset((torch.complex32, torch.complex64, torch.complex128))
