_nn_grad: Any = nn_grad  # torch gives it no types
