// defines: softplus
template <typename T>
INLINE Lanes<T> softplus(Lanes<T> x) {
    return at_least(x, 0) + log1p_of_unit(exp_minus_abs(x));
}
