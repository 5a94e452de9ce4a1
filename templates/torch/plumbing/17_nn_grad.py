_nn_grad: Any = _grads  # torch gives it no types
