// defines: log log_plus
// ------------------------------------------------------------------------------------------------ logarithms
INLINE Lanes<float> log_series(Lanes<float> z) {
    return z * (0.66666662693 + z * (0.40000972152 + z * (0.28498786688 + z * 0.24279078841)));
}

INLINE Lanes<double> log_series(Lanes<double> z) {
    const Lanes<double> high = 1.818357216161805012e-01 + z * (1.531383769920937332e-01 + z * 1.479819860511658591e-01);
    const Lanes<double> low = 3.999999999940941908e-01 + z * (2.857142874366239149e-01 + z * (2.222219843214978396e-01 + z * high));
    return z * (6.666666666666735130e-01 + z * low);
}

// log(x) + correction for positive, finite x: x = 2^k (1 + f) with 1 + f about 1, and log(1 + f) as a series in
// f / (2 + f).
template <typename T>
INLINE Lanes<T> log_plus(Lanes<T> x, Lanes<T> correction) {
    constexpr bool single = sizeof(T) == 4;
    constexpr int mantissa = single ? 23 : 52;
    const Mask<T> subnormal = x < (single ? 0x1p-126 : 0x1p-1022);
    const Lanes<T> normal = where(subnormal, x * (single ? 0x1p24 : 0x1p54), x);
    const auto bits = Lanes<T>::bits_of(normal);
    const auto k = (bits - Lanes<T>::bits_of(Lanes<T>(0.70710678118654752))) >> mantissa;
    const Lanes<T> f = Lanes<T>::from_bits(bits - (k << mantissa)) - 1;
    const Lanes<T> exponent = number_of(k) - where(subnormal, Lanes<T>(single ? 24 : 54), Lanes<T>(0));
    const Lanes<T> s = f / (2 + f), half_square = 0.5 * f * f;
    const Lanes<T> high = exponent * (single ? 6.9313812256e-01 : 6.93147180369123816490e-01);
    const Lanes<T> low = exponent * (single ? 9.0580006145e-06 : 1.90821492927058770002e-10) + correction;
    return high - ((half_square - (s * (half_square + log_series(s * s)) + low)) - f);
}

template <typename T>
INLINE Lanes<T> log(Lanes<T> x) {
    const Lanes<T> inf = __builtin_inf(), y = log_plus(x, Lanes<T>(0));
    return where((x > 0) & (x < inf), y, where(x == 0, -inf, where(x < 0, Lanes<T>(__builtin_nan("")), x)));
}
