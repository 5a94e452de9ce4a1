_Layouts: Any = getattr(torch._C._dynamo.guards, "TensorGuards", None)  # compared with tensors in no time
