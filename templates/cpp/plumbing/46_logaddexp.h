// defines: logaddexp
template <typename T>
INLINE Lanes<T> logaddexp(Lanes<T> a, Lanes<T> b) {
    const Lanes<T> inf = __builtin_inf();
    return where((a == b) & (abs(a) == inf), a, maximum(a, b) + log1p_of_unit(exp_minus_abs(a - b)));
}
