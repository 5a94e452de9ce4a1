// defines: sigmoid
// exp(-|x|) cannot overflow; the compiler computes it once for sigmoid(x), sigmoid(-x) and softplus(x).
template <typename T>
INLINE Lanes<T> sigmoid(Lanes<T> x) {
    const Lanes<T> e = exp_minus_abs(x);
    return where(x < 0, e, Lanes<T>(1)) / (1 + e);
}
