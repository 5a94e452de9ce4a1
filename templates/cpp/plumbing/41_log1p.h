// defines: log1p
template <typename T>
INLINE Lanes<T> log1p(Lanes<T> x) {
    const Lanes<T> inf = __builtin_inf(), u = 1 + x;
    const Lanes<T> lost = where(u > 2, 1 - (u - x), x - (u - 1));
    const Lanes<T> y = where(x == 0, x, log_plus(u, lost / u));
    return where((x > -1) & (x < inf), y, where(x == -1, -inf, where(x < -1, Lanes<T>(__builtin_nan("")), x)));
}
