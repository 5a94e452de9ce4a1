// defines: expm1
template <typename T>
INLINE Lanes<T> expm1(Lanes<T> x) {
    const double low = sizeof(T) == 4 ? -20 : -40, high = sizeof(T) == 4 ? 89 : 710;  // beyond it is infinite
    const Lanes<T> inside = at_most(at_least(x, low), high), k = exp_exponent(inside);
    const Lanes<T> half = scaled(Lanes<T>(0.5), k);  // 2^k itself may overflow
    const Mask<T> tiny = abs(x) < (sizeof(T) == 4 ? 0x1p-26 : 0x1p-55);  // half of it may be no number at all
    return where(tiny, x, 2 * (half * exp_series(exp_rest(inside, k)) + (half - 0.5)));
}
