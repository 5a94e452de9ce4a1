_Layouts: Any = getattr(torch._C._dynamo.guards, "TensorGuards", None)  # faster than a key of them is made
