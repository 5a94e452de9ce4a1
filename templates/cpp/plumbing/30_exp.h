// defines: exp exp_minus_abs exp_exponent exp_rest exp_series scaled
// ------------------------------------------------------------------------------------------------ exponentials
// exp(x) = 2^k exp(r) with |r| <= log(2) / 2; adding 1.5 * 2^mantissa rounds x / log(2) to the integer k.
template <typename T>
constexpr double ROUNDING = sizeof(T) == 4 ? 0x1.8p23 : 0x1.8p52;

template <typename T>
INLINE Lanes<T> exp_exponent(Lanes<T> x) {
    return (x * 0x1.71547652b82fep0 + ROUNDING<T>) - ROUNDING<T>;
}

INLINE Lanes<float> exp_rest(Lanes<float> x, Lanes<float> k) {
    return (x - k * 0x1.63p-1) + k * 0x1.bd0106p-13;
}

INLINE Lanes<double> exp_rest(Lanes<double> x, Lanes<double> k) {
    return (x - k * 0x1.62e42feep-1) - k * 0x1.a39ef35793c76p-33;
}

// exp(r) - 1. In float the series is a minimax polynomial, and its terms are added in pairs: a chain of five would take
// longer than what else there is to do meanwhile.
INLINE Lanes<float> exp_series(Lanes<float> r) {
    const Lanes<float> square = r * r, low = r * 1.6666520399e-1 + 4.9999993432e-1;
    const Lanes<float> high = square * 1.38145401768e-3 + (r * 8.36874510894e-3 + 4.16683907835e-2);
    return r + square * (low + square * high);
}

INLINE Lanes<double> exp_series(Lanes<double> r) {
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
    return r + r * r * series;
}

// x * 2^k, rounded once.
#if defined(GCC_AVX512)
INLINE Floats scaled_part(Floats x, Floats k) { return __builtin_ia32_scalefps512_mask(x, k, x, -1, 4); }
INLINE Doubles scaled_part(Doubles x, Doubles k) { return __builtin_ia32_scalefpd512_mask(x, k, x, -1, 4); }

template <typename T>
INLINE Lanes<T> scaled(Lanes<T> x, Lanes<T> k) {
    EACH_PART(x.part[p] = scaled_part(x.part[p], k.part[p]))
    return x;
}
#else
template <typename T>
INLINE Lanes<T> two_to(Bits<T> k) {
    constexpr int mantissa = sizeof(T) == 4 ? 23 : 52, bias = sizeof(T) == 4 ? 127 : 1023;
    return Lanes<T>::from_bits((k + bias) << mantissa);
}

template <typename T>
INLINE Lanes<T> scaled(Lanes<T> x, Lanes<T> k) {
    const Lanes<T> magic = ROUNDING<T>;
    const auto bits = Lanes<T>::bits_of(k + magic) - Lanes<T>::bits_of(magic);
    const auto half = bits >> 1;  // two steps, because 2^k may overflow or be subnormal where the result does not
    return x * two_to<T>(half) * two_to<T>(bits - half);
}
#endif

// Beyond these bounds exp(x) is 0 or infinite.
template <typename T>
constexpr double EXP_LOW = sizeof(T) == 4 ? -110 : -760;
template <typename T>
constexpr double EXP_HIGH = sizeof(T) == 4 ? 90 : 720;

template <typename T>
INLINE Lanes<T> exp_within(Lanes<T> x) {
    const Lanes<T> k = exp_exponent(x);
    return scaled(1 + exp_series(exp_rest(x, k)), k);
}

template <typename T>
INLINE Lanes<T> exp(Lanes<T> x) {
    return exp_within(at_most(at_least(x, EXP_LOW<T>), EXP_HIGH<T>));
}

template <typename T>
INLINE Lanes<T> exp_minus_abs(Lanes<T> x) {
    return exp_within(at_least(Lanes<T>::from_bits(Lanes<T>::bits_of(x) | Lanes<T>::sign_bit()), EXP_LOW<T>));
}
