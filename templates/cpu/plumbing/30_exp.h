// defines: exp exp_parts two_to
// ------------------------------------------------------------------------------------------------ exponentials
// exp(x) = 2^k exp(r) with |r| <= log(2) / 2; k is read off the last bits of x / log(2) + 1.5 * 2^mantissa.
template <typename T>
struct ExpParts {
    Lanes<T> r, series;  // exp(r) = 1 + r + r^2 * series
    Bits<T> k;
};

INLINE ExpParts<float> exp_parts(Lanes<float> x) {
    const Lanes<float> magic = 0x1.8p23, shifted = x * 0x1.715476p0 + magic, k = shifted - magic;
    const Lanes<float> r = (x - k * 0x1.63p-1) + k * 0x1.bd0106p-13;
    Lanes<float> series = r * 1.9875691500e-4 + 1.3981999507e-3;
    series = series * r + 8.3334519073e-3;
    series = series * r + 4.1665795894e-2;
    series = series * r + 1.6666665459e-1;
    series = series * r + 5.0000001201e-1;
    return {r, series, Lanes<float>::bits_of(shifted) - Lanes<float>::bits_of(magic)};
}

INLINE ExpParts<double> exp_parts(Lanes<double> x) {
    const Lanes<double> magic = 0x1.8p52, shifted = x * 0x1.71547652b82fep0 + magic, k = shifted - magic;
    const Lanes<double> r = (x - k * 0x1.62e42feep-1) - k * 0x1.a39ef35793c76p-33;
    Lanes<double> series = r * (1 / 6227020800.) + 1 / 479001600.;
    series = series * r + 1 / 39916800.;
    series = series * r + 1 / 3628800.;
    series = series * r + 1 / 362880.;
    series = series * r + 1 / 40320.;
    series = series * r + 1 / 5040.;
    series = series * r + 1 / 720.;
    series = series * r + 1 / 120.;
    series = series * r + 1 / 24.;
    series = series * r + 1 / 6.;
    series = series * r + 0.5;
    return {r, series, Lanes<double>::bits_of(shifted) - Lanes<double>::bits_of(magic)};
}

// 2^k, for k among the exponents of normal numbers.
template <typename T>
INLINE Lanes<T> two_to(Bits<T> k) {
    constexpr int mantissa = sizeof(T) == 4 ? 23 : 52, bias = sizeof(T) == 4 ? 127 : 1023;
    return Lanes<T>::from_bits((k + bias) << mantissa);
}

template <typename T>
INLINE Lanes<T> exp(Lanes<T> x) {
    const double low = sizeof(T) == 4 ? -110 : -760, high = sizeof(T) == 4 ? 90 : 720;
    const Lanes<T> inside = where(x < low, Lanes<T>(low), where(x > high, Lanes<T>(high), x));
    const auto [r, series, k] = exp_parts(inside);
    const auto half = k >> 1;  // two steps, because 2^k may overflow or be subnormal where the result does not
    return (1 + (r + r * r * series)) * two_to<T>(half) * two_to<T>(k - half);
}
