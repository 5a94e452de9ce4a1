// defines: logsigmoid
template <typename T>
INLINE Lanes<T> logsigmoid(Lanes<T> x) {
    return at_most(x, 0) - log1p_of_unit(exp_minus_abs(x));
}
