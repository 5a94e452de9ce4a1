// defines: expm1
template <typename T>
INLINE Lanes<T> expm1(Lanes<T> x) {
    const double low = sizeof(T) == 4 ? -20 : -40, high = sizeof(T) == 4 ? 89 : 710;  // beyond it is infinite
    const Lanes<T> inside = where(x < low, Lanes<T>(low), where(x > high, Lanes<T>(high), x));
    const auto [r, series, k] = exp_parts(inside);
    const Lanes<T> half = two_to<T>(k - 1);  // 2^k itself may overflow
    return where(x == 0, x, 2 * (half * (r + r * r * series) + (half - 0.5)));
}
