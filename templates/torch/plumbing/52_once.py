class _Once(Function):
    """The identity, on the gradient of an op whose gradient is not to be differentiated."""

    generate_vmap_rule = True

    @staticmethod
    def forward(grad: Tensor, op: str) -> Tensor:
        return grad.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _, ctx.op = inputs

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(f"{ctx.op}: has no second derivative (double_backward: false)")

    jvp = backward
