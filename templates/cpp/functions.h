// x, or the bound where x is beyond it. A NaN in x stays one: these instructions return their second operand then.
#if defined(GCC_AVX512)
INLINE Floats larger(Floats a, Floats b) { return __builtin_ia32_maxps512_mask(a, b, a, -1, 4); }
INLINE Floats smaller(Floats a, Floats b) { return __builtin_ia32_minps512_mask(a, b, a, -1, 4); }
INLINE Doubles larger(Doubles a, Doubles b) { return __builtin_ia32_maxpd512_mask(a, b, a, -1, 4); }
INLINE Doubles smaller(Doubles a, Doubles b) { return __builtin_ia32_minpd512_mask(a, b, a, -1, 4); }
#else
template <typename Part>
INLINE Part larger(Part a, Part b) {
    return a > b ? a : b;
}
template <typename Part>
INLINE Part smaller(Part a, Part b) {
    return a < b ? a : b;
}
#endif

template <typename T>
INLINE Lanes<T> at_least(Lanes<T> x, Lanes<T> low) {
    EACH_PART(x.part[p] = larger(low.part[p], x.part[p]))
    return x;
}

template <typename T>
INLINE Lanes<T> at_most(Lanes<T> x, Lanes<T> high) {
    EACH_PART(x.part[p] = smaller(high.part[p], x.part[p]))
    return x;
}

template <typename T>
INLINE Lanes<T> at_least(Lanes<T> x, double low) {
    return at_least(x, Lanes<T>(low));
}

template <typename T>
INLINE Lanes<T> at_most(Lanes<T> x, double high) {
    return at_most(x, Lanes<T>(high));
}

// NaN where either is.
template <typename T>
INLINE Lanes<T> maximum(Lanes<T> a, Lanes<T> b) {
    return where(b != b, b, at_least(a, b));
}

template <typename T>
INLINE Lanes<T> minimum(Lanes<T> a, Lanes<T> b) {
    return where(b != b, b, at_most(a, b));
}

template <typename T>
INLINE Lanes<T> relu(Lanes<T> x) {
    return where(x <= 0, Lanes<T>(0), x);
}

template <typename T>
INLINE Lanes<T> sign(Lanes<T> x) {
    return where(x > 0, Lanes<T>(1), where(x < 0, Lanes<T>(-1), Lanes<T>(0)));
}

template <typename T>
INLINE Lanes<T> finite(Lanes<T> x) {
    const Lanes<T> inf(__builtin_inf()), large(1e30);
    return where(x == inf, large, where(x == -inf, -large, x));
}

template <typename T>
INLINE Lanes<T> heaviside(Lanes<T> x, Lanes<T> values) {
    return where(x == 0, values, where(x > 0, Lanes<T>(1), Lanes<T>(0)));
}

// a * b + c, rounded once, where the processor can.
#if defined(__FMA__) && defined(__has_builtin)
#if __has_builtin(__builtin_elementwise_fma)
#define FUSED
#define FUSED_FLOAT(a, b, c) __builtin_elementwise_fma(a, b, c)
#define FUSED_DOUBLE(a, b, c) __builtin_elementwise_fma(a, b, c)
#elif __has_builtin(__builtin_ia32_vfmaddps512_mask) && defined(__AVX512F__)
#define FUSED
#define FUSED_FLOAT(a, b, c) __builtin_ia32_vfmaddps512_mask(a, b, c, -1, 4)
#define FUSED_DOUBLE(a, b, c) __builtin_ia32_vfmaddpd512_mask(a, b, c, -1, 4)
#elif __has_builtin(__builtin_ia32_vfmaddps256) && !defined(__AVX512F__)
#define FUSED
#define FUSED_FLOAT(a, b, c) __builtin_ia32_vfmaddps256(a, b, c)
#define FUSED_DOUBLE(a, b, c) __builtin_ia32_vfmaddpd256(a, b, c)
#endif
#endif
#if defined(FUSED)
INLINE Lanes<float> fused(Lanes<float> a, Lanes<float> b, Lanes<float> c) {
    c.part[0] = FUSED_FLOAT(a.part[0], b.part[0], c.part[0]);
    return c;
}
INLINE Lanes<double> fused(Lanes<double> a, Lanes<double> b, Lanes<double> c) {
    c.part[0] = FUSED_DOUBLE(a.part[0], b.part[0], c.part[0]);
    c.part[1] = FUSED_DOUBLE(a.part[1], b.part[1], c.part[1]);
    return c;
}
#endif

// A product that is rounded before anything is taken from it: a * b - c * d is 0 where both are equal.
#if defined(__has_builtin)
#if __has_builtin(__builtin_assoc_barrier)
#define ROUNDED(x) x = __builtin_assoc_barrier(x)
#endif
#endif
#if !defined(ROUNDED) && defined(__AVX512F__)
#define ROUNDED(x) __asm__("" : "+v"(x))
#elif !defined(ROUNDED) && defined(__SSE2__)
#define ROUNDED(x) __asm__("" : "+x"(x))
#elif !defined(ROUNDED) && defined(__aarch64__)
#define ROUNDED(x) __asm__("" : "+w"(x))
#elif !defined(ROUNDED)
#define ROUNDED(x)
#endif
template <typename T>
INLINE Lanes<T> rounded(Lanes<T> x) {
    EACH_PART(ROUNDED(x.part[p]))
    return x;
}
template <typename T>
INLINE T rounded(T x) {  // angles and pairs have all digits of a product
    return x;
}
template <typename A, typename B>
INLINE auto difference(A a, B b) {
    return rounded(a) - rounded(b);
}

// What rounding takes from a product: a * b - product, where that is a number.
template <typename T>
INLINE Lanes<T> lost_by_product(Lanes<T> a, Lanes<T> b, Lanes<T> product) {
#if defined(FUSED)
    return fused(a, b, -product);
#else
    const Bits<T> upper = ~((typename Types<T>::Bit{1} << (sizeof(T) == 4 ? 12 : 27)) - 1);
    const Lanes<T> a1 = Lanes<T>::from_bits(Lanes<T>::bits_of(a) & upper), a2 = a - a1;
    const Lanes<T> b1 = Lanes<T>::from_bits(Lanes<T>::bits_of(b) & upper), b2 = b - b1;
    return ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2;
#endif
}

// By Horner's rule, from the highest power on.
template <typename T, int N>
INLINE Lanes<T> polynomial(Lanes<T> x, const double (&c)[N]) {
    Lanes<T> value = c[0];
#pragma GCC unroll 32
    for (int k = 1; k < N; k++) value = value * x + c[k];
    return value;
}

// x with the sign of another number; x is not negative.
template <typename T>
INLINE Lanes<T> with_sign_of(Lanes<T> x, Lanes<T> other) {
    return Lanes<T>::from_bits(Lanes<T>::bits_of(x) | (Lanes<T>::bits_of(other) & Lanes<T>::sign_bit()));
}

// Functions that are left to the standard library, which compilers turn into instructions.
#define BY_LANE(name)                                                          \
    template <typename T>                                                      \
    INLINE Lanes<T> name(Lanes<T> x) {                                         \
        return each(x, [](T number) {                                          \
            if constexpr (sizeof(T) == 4) return __builtin_##name##f(number);  \
            else return __builtin_##name(number);                              \
        });                                                                    \
    }
BY_LANE(sqrt)
BY_LANE(floor)
BY_LANE(ceil)
BY_LANE(nearbyint)
#undef BY_LANE

// A function of float64 on float32.
#define BY_DOUBLE(name) \
    INLINE Lanes<float> name(Lanes<float> x) { return convert<float>(name(convert<double>(x))); }
#define BY_DOUBLE_OF_TWO(name)                                                \
    INLINE Lanes<float> name(Lanes<float> x, Lanes<float> y) {                \
        return convert<float>(name(convert<double>(x), convert<double>(y)));  \
    }

template <typename T>
INLINE Lanes<T> square(Lanes<T> x) {
    return x * x;
}

template <typename T>
INLINE Lanes<T> cube(Lanes<T> x) {
    return x * x * x;
}

template <typename T>
INLINE Lanes<T> reciprocal(Lanes<T> x) {
    return 1 / x;
}

template <typename T>
INLINE Lanes<T> rsqrt(Lanes<T> x) {
    return 1 / sqrt(x);
}

template <typename T>
INLINE Lanes<T> sqrt_cubed(Lanes<T> x) {
    return x * sqrt(x);
}

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

// exp(x + low), where low is below the last place of x.
template <typename T>
INLINE Lanes<T> exp_of_sum(Lanes<T> x, Lanes<T> low) {
    const Lanes<T> within = at_most(at_least(x, EXP_LOW<T>), EXP_HIGH<T>), k = exp_exponent(within);
    return scaled(1 + exp_series(exp_rest(within, k) + low), k);
}

template <typename T>
INLINE Lanes<T> exp(Lanes<T> x) {
    return exp_within(at_most(at_least(x, EXP_LOW<T>), EXP_HIGH<T>));
}

template <typename T>
INLINE Lanes<T> exp_minus_abs(Lanes<T> x) {
    return exp_within(at_least(Lanes<T>::from_bits(Lanes<T>::bits_of(x) | Lanes<T>::sign_bit()), EXP_LOW<T>));
}

template <typename T>
INLINE Lanes<T> expm1(Lanes<T> x) {
    const double low = sizeof(T) == 4 ? -20 : -40, high = sizeof(T) == 4 ? 89 : 710;  // beyond it is infinite
    const Lanes<T> inside = at_most(at_least(x, low), high), k = exp_exponent(inside);
    const Lanes<T> half = scaled(Lanes<T>(0.5), k);  // 2^k itself may overflow
    const Mask<T> tiny = abs(x) < (sizeof(T) == 4 ? 0x1p-26 : 0x1p-55);  // half of it may be no number at all
    return where(tiny, x, 2 * (half * exp_series(exp_rest(inside, k)) + (half - 0.5)));
}

template <typename T>
INLINE Lanes<T> tanh(Lanes<T> x) {
    const Lanes<T> t = expm1(2 * at_most(abs(x), 40));
    return Lanes<T>::from_bits(Lanes<T>::bits_of(t / (t + 2)) | (Lanes<T>::bits_of(x) & Lanes<T>::sign_bit()));
}

// exp(|x|) / 2, which overflows no sooner than sinh and cosh.
template <typename T>
INLINE Lanes<T> half_exp_abs(Lanes<T> x) {
    const Lanes<T> within = at_most(abs(x), EXP_HIGH<T>), k = exp_exponent(within);
    return scaled(1 + exp_series(exp_rest(within, k)), k - 1);
}

template <typename T>
INLINE Lanes<T> cosh(Lanes<T> x) {
    const Lanes<T> half = half_exp_abs(x);
    return half + 0.25 / half;
}

// By expm1 below 20, beyond which the other exponential is nothing.
template <typename T>
INLINE Lanes<T> sinh(Lanes<T> x) {
    const Lanes<T> t = expm1(at_most(abs(x), 20));
    return with_sign_of(where(abs(x) < 20, 0.5 * (t + t / (t + 1)), half_exp_abs(x)), x);
}

// exp(-|x|) cannot overflow; the compiler computes it once for sigmoid(x), sigmoid(-x) and softplus(x).
template <typename T>
INLINE Lanes<T> sigmoid(Lanes<T> x) {
    const Lanes<T> e = exp_minus_abs(x);
    return where(x < 0, e, Lanes<T>(1)) / (1 + e);
}

// ------------------------------------------------------------------------------------------------ logarithms
INLINE Lanes<float> log_series(Lanes<float> z) {
    return z * (0.66666662693 + z * (0.40000972152 + z * (0.28498786688 + z * 0.24279078841)));
}

INLINE Lanes<double> log_series(Lanes<double> z) {
    const Lanes<double> high = 1.818357216161805012e-01 + z * (1.531383769920937332e-01 + z * 1.479819860511658591e-01);
    const Lanes<double> low = 3.999999999940941908e-01 + z * (2.857142874366239149e-01 + z * (2.222219843214978396e-01 + z * high));
    return z * (6.666666666666735130e-01 + z * low);
}

// x = 2^exponent * fraction with a fraction about 1; for positive, finite x.
template <typename T>
struct Split {
    Lanes<T> exponent, fraction;
};

template <typename T>
INLINE Split<T> split(Lanes<T> x) {
    constexpr bool single = sizeof(T) == 4;
    constexpr int mantissa = single ? 23 : 52;
    const Mask<T> subnormal = x < (single ? 0x1p-126 : 0x1p-1022);
    const Lanes<T> normal = where(subnormal, x * (single ? 0x1p24 : 0x1p54), x);
    const auto bits = Lanes<T>::bits_of(normal);
    const auto k = (bits - Lanes<T>::bits_of(Lanes<T>(0.70710678118654752))) >> mantissa;
    const Lanes<T> exponent = number_of(k) - where(subnormal, Lanes<T>(single ? 24 : 54), Lanes<T>(0));
    return {exponent, Lanes<T>::from_bits(bits - (k << mantissa))};
}

// log(x) + correction for positive, finite x: the logarithm of the fraction 1 + f is a series in f / (2 + f).
template <typename T>
INLINE Lanes<T> log_plus(Lanes<T> x, Lanes<T> correction) {
    constexpr bool single = sizeof(T) == 4;
    const Split<T> parts = split(x);
    const Lanes<T> f = parts.fraction - 1, s = f / (2 + f), half_square = 0.5 * f * f;
    const Lanes<T> high = parts.exponent * (single ? 6.9313812256e-01 : 6.93147180369123816490e-01);
    const Lanes<T> low = parts.exponent * (single ? 9.0580006145e-06 : 1.90821492927058770002e-10) + correction;
    return high - ((half_square - (s * (half_square + log_series(s * s)) + low)) - f);
}

// log(x) for a positive x, and what a logarithm is elsewhere.
template <typename T>
INLINE Lanes<T> log_everywhere(Lanes<T> x, Lanes<T> y) {
    const Lanes<T> inf = __builtin_inf();
    return where((x > 0) & (x < inf), y, where(x == 0, -inf, where(x < 0, Lanes<T>(__builtin_nan("")), x)));
}

template <typename T>
INLINE Lanes<T> log(Lanes<T> x) {
    return log_everywhere(x, log_plus(x, Lanes<T>(0)));
}

template <typename T>
INLINE Lanes<T> log1p(Lanes<T> x) {
    const Lanes<T> inf = __builtin_inf(), u = 1 + x;
    const Lanes<T> lost = where(u > 2, 1 - (u - x), x - (u - 1));
    const Lanes<T> y = where(x == 0, x, log_plus(u, lost / u));
    return where((x > -1) & (x < inf), y, where(x == -1, -inf, where(x < -1, Lanes<T>(__builtin_nan("")), x)));
}

template <typename T>
INLINE Lanes<T> log2(Lanes<T> x) {
    const Split<T> parts = split(x);
    return log_everywhere(x, parts.exponent + log_plus(parts.fraction, Lanes<T>(0)) * 1.44269504088896340736);
}

// log10(2) in two parts, of which the first has so few bits that its product with an exponent is exact.
template <typename T>
INLINE Lanes<T> log10(Lanes<T> x) {
    const Split<T> parts = split(x);
    const Lanes<T> rest = log_plus(parts.fraction, Lanes<T>(0)) * 0.43429448190325182765;
    const double high = sizeof(T) == 4 ? 0x1.344p-2 : 0x1.34413509f78p-2;
    const double low = sizeof(T) == 4 ? 0x1.3509f79fef312p-18 : 0x1.fef311f12b358p-46;
    return log_everywhere(x, parts.exponent * high + (parts.exponent * low + rest));
}

// log1p of what is about x, or the logarithm of twice x where x is large; for x that is not negative.
template <typename T>
INLINE Lanes<T> asinh(Lanes<T> x) {
    const Lanes<T> size = abs(x), near = at_most(size, 0x1p28), square = near * near;
    const Lanes<T> y = log1p(near + square / (1 + sqrt(1 + square)));
    return with_sign_of(where(size > 0x1p28, log(size) + 0.69314718055994530942, y), x);
}

template <typename T>
INLINE Lanes<T> acosh(Lanes<T> x) {
    const Lanes<T> beyond = at_most(x, 0x1p28) - 1, y = log1p(beyond + sqrt(2 * beyond + beyond * beyond));
    return where(x > 0x1p28, log(x) + 0.69314718055994530942, where(x < 1, Lanes<T>(__builtin_nan("")), y));
}

template <typename T>
INLINE Lanes<T> atanh(Lanes<T> x) {
    const Lanes<T> size = abs(x), y = 0.5 * log1p(2 * size / (1 - size));
    return where(size < 1, with_sign_of(y, x), where(size == 1, x * __builtin_inf(), Lanes<T>(__builtin_nan(""))));
}

// log(1 + x) for x in [0, 1], by a minimax polynomial, right to 2^-27; an artanh would divide.
INLINE Lanes<float> log1p_of_unit(Lanes<float> x) {
    const Lanes<float> square = x * x, fourth = square * square;
    const Lanes<float> low = (x * 0.333305113057 - 0.499999327629) + square * (x * 0.196954002014 - 0.249585873186);
    const Lanes<float> high = (x * 0.106805552877 - 0.153553957837) + square * (x * 0.0202045892731 - 0.0576644475457);
    return x + square * (low + fourth * (high - fourth * 0.00331847401466));
}

INLINE Lanes<double> log1p_of_unit(Lanes<double> x) {
    return log1p(x);
}

template <typename T>
INLINE Lanes<T> softplus(Lanes<T> x) {
    return at_least(x, 0) + log1p_of_unit(exp_minus_abs(x));
}

template <typename T>
INLINE Lanes<T> logsigmoid(Lanes<T> x) {
    return at_most(x, 0) - log1p_of_unit(exp_minus_abs(x));
}

template <typename T>
INLINE Lanes<T> logaddexp(Lanes<T> a, Lanes<T> b) {
    const Lanes<T> inf = __builtin_inf();
    return where((a == b) & (abs(a) == inf), a, maximum(a, b) + log1p_of_unit(exp_minus_abs(a - b)));
}

template <typename T>
INLINE Lanes<T> xlogy(Lanes<T> x, Lanes<T> y) {
    return where(y != y, y, where(x == 0, Lanes<T>(0), x * log(y)));
}

template <typename T>
INLINE Lanes<T> xlog1py(Lanes<T> x, Lanes<T> y) {
    return where(y != y, y, where(x == 0, Lanes<T>(0), x * log1p(y)));
}

template <typename T>
INLINE bool any(Mask<T> mask) {
    const auto set = mask.bits.part[0] | mask.bits.part[Types<T>::parts - 1];
#if defined(GCC_AVX512)
    return __builtin_ia32_ptestmd512(reinterpret_cast<Ints>(set), reinterpret_cast<Ints>(set), -1) != 0;
#elif defined(__AVX__) && !defined(__AVX512F__)
    return __builtin_ia32_movmskps256(reinterpret_cast<Floats>(set)) != 0;
#else
    const Longs pairs = reinterpret_cast<Longs>(set);
    int64_t some = 0;
    for (int j = 0; j < W / 2; j++) some |= pairs[j];
    return some != 0;
#endif
}

INLINE bool all_at_least(Lanes<float> a, Lanes<float> b) {
#if defined(GCC_AVX512)
    return static_cast<uint16_t>(__builtin_ia32_cmpps512_mask(a.part[0], b.part[0], 13, -1, 4)) == 0xffff;
#else
    return !any(!(a >= b));
#endif
}

// ------------------------------------------------------------------------------------------------ remainders
// What whole numbers of y leave of x, exactly. A quotient that is rounded is the true one or the next whole number, so
// that what is left is right, or by one y too small, and in both cases a number of its type. A register with a quotient
// that has no digits behind the point, or with what is no number, is left to the standard library.
template <typename T>
INLINE Lanes<T> fmod(Lanes<T> x, Lanes<T> y) {
    constexpr double WHOLE = sizeof(T) == 4 ? 0x1p23 : 0x1p52;
    const Lanes<T> a = abs(x), b = abs(y), turns = floor(a / b);
#if defined(FUSED)
    const Mask<T> plain = (turns < WHOLE) & (b < __builtin_inf());
    Lanes<T> rest = fused(-turns, b, a);
#else
    const double least = sizeof(T) == 4 ? 0x1p-80 : 0x1p-900;  // whose product has all of its digits
    const Mask<T> plain = (turns < WHOLE) & (b < __builtin_inf()) & (b > least);
    const Lanes<T> product = turns * b;
    Lanes<T> rest = (a - product) - lost_by_product(turns, b, product);
#endif
    if (__builtin_expect(any(!plain), 0)) return each(x, y, [](T u, T v) { return static_cast<T>(__builtin_fmod(u, v)); });
    rest = where(rest < 0, rest + b, rest);
    return with_sign_of(rest, x);
}

// The same with the sign of y.
template <typename T>
INLINE Lanes<T> remainder(Lanes<T> x, Lanes<T> y) {
    const Lanes<T> rest = fmod(x, y);
    const Mask<T> opposite = ((rest < 0) & (y > 0)) | ((rest > 0) & (y < 0));
    return where(opposite, rest + y, rest);
}

// ------------------------------------------------------------------------------------------------ sine, cosine, tan
// The angle is reduced to [-pi/4, pi/4] by a multiple of pi/2; what is too large for that is left to the standard
// library. The reduction comes before that question, so that the sine and the cosine of one angle share it.
template <typename T>
struct Angle {
    Lanes<T> rest, lost;  // in float64 the sum of both, which is more than a number holds
    Bits<T> quadrant;
};

template <typename T>
constexpr double LARGEST_ANGLE = sizeof(T) == 4 ? 0x1p26 : 1e5;

template <typename T, typename Given>
INLINE bool is_large(Lanes<Given> x) {
    return __builtin_expect(any(!(abs(x) < LARGEST_ANGLE<T>)), 0);
}

struct Quarters {
    Lanes<double> number;
    Bits<double> bits;  // the last ones are those of the integer
};

INLINE Quarters quarters(Lanes<double> x) {
    const Lanes<double> magic = 0x1.8p52, shifted = x * 0x1.45f306dc9c883p-1 + magic;
    return {shifted - magic, Lanes<double>::bits_of(shifted)};
}

// pi/2 in two parts, the first of 27 bits, so that its product with k is exact, also without fused instructions.
INLINE Angle<float> reduced_from(Lanes<double> x) {
    const auto [k, bits] = quarters(x);
    Angle<float> angle = {convert<float>((x - k * 0x1.921fb54p0) - k * 0x1.10b4611a62633p-30), 0, 0};
    angle.quadrant.part[0] = joined<Ints>(
        __builtin_convertvector(bits.part[0], HalfInts), __builtin_convertvector(bits.part[1], HalfInts));
    return angle;
}

#if defined(FUSED)
// An angle that is the sum of two floats, and pi/2 in three of them, without a detour through float64. What is left of
// the first float is exact, with which the rest is right to 2^-47 of the angle.
INLINE Angle<float> reduced(Lanes<float> head, Lanes<float> tail) {
    const Lanes<float> magic = 0x1.8p23, shifted = fused(head, 0x1.45f306p-1, magic), k = magic - shifted;
    tail = fused(k, -0x1.777a5cp-25, tail);
    tail = fused(k, -0x1.ee59dap-50, tail);
    return {fused(k, 0x1.921fb6p0, head) + tail, 0, Lanes<float>::bits_of(shifted)};
}

// Whether more than that is needed: so close to a multiple of pi/2, in relation to the angle, or the angle too large.
INLINE bool is_coarse(Angle<float> angle, Lanes<float> head) {
    return !__builtin_expect(all_at_least(abs(angle.rest), abs(head) * 0x1p-21), 1);
}
#endif

// pi/2 in three parts. k has 16 bits and the first two parts have 37 and 35, so their products with k are exact, with
// and without fused instructions, and so are the first difference and what the second one loses. The third product is
// right to the 113th place; no double below the bound is closer to a multiple of pi/2 than 2^-61.
INLINE Angle<double> reduced(Lanes<double> x) {
    const auto [k, bits] = quarters(x);
    const Lanes<double> second = k * 0x1.68c234c4cp-39, first = x - k * 0x1.921fb5444p0, high = first - second;
    const Lanes<double> low = ((first - high) - second) - k * 0x1.98a2e03707345p-77, rest = high + low;
    return {rest, (high - rest) + low, bits};
}

// Minimax polynomials for |r| <= pi/4.
INLINE Lanes<float> sine_of_rest(Angle<float> angle) {
    const Lanes<float> r = angle.rest, z = r * r;
    return r + r * z * (-1.6666654611e-1 + z * (8.3321608736e-3 - z * 1.9515295891e-4));
}

INLINE Lanes<float> cosine_of_rest(Angle<float> angle) {
    const Lanes<float> r = angle.rest, z = r * r;
    const Lanes<float> series = 4.166664568298827e-2 + z * (-1.388731625493765e-3 + z * 2.443315711809948e-5);
    return 1 - (0.5 * z - z * z * series);
}

INLINE Lanes<double> sine_of_rest(Angle<double> angle) {
    const Lanes<double> r = angle.rest, z = r * r;
    Lanes<double> series = z * 1.589623009191861e-10 - 2.505074776300027e-08;
    series = series * z + 2.7557313621397323e-06;
    series = series * z - 1.9841269829589615e-04;
    series = series * z + 8.333333333322118e-03;
    series = series * z - 1.666666666666663e-01;
    return r + (r * z * series + angle.lost);
}

INLINE Lanes<double> cosine_of_rest(Angle<double> angle) {
    const Lanes<double> r = angle.rest, z = r * r;
    Lanes<double> series = z * -1.1358536318363487e-11 + 2.0875700837920954e-09;
    series = series * z - 2.755731417926539e-07;
    series = series * z + 2.480158728885159e-05;
    series = series * z - 1.3888888888873056e-03;
    series = series * z + 4.1666666666666595e-02;
    return 1 - (0.5 * z - (z * z * series - r * angle.lost));
}

template <typename T>
INLINE Lanes<T> negative_if_second_bit(Lanes<T> x, Bits<T> quadrant) {
    return Lanes<T>::from_bits(Lanes<T>::bits_of(x) ^ ((quadrant & 2) << (8 * sizeof(T) - 2)));
}

// The sine for even quadrants, the cosine for odd ones, negative in the last two.
template <typename T>
INLINE Lanes<T> sine_of(Angle<T> angle) {
    const Lanes<T> chosen = where(is_zero(angle.quadrant & 1), sine_of_rest(angle), cosine_of_rest(angle));
    return negative_if_second_bit(chosen, angle.quadrant);
}

INLINE Lanes<float> sin_from(Lanes<double> x) {
    const Angle<float> angle = reduced_from(x);
    if (is_large<float>(x)) return convert<float>(each(x, [](double v) { return __builtin_sin(v); }));
    return where(angle.rest == 0, angle.rest, sine_of(angle));  // -0 stays what it is
}

INLINE Lanes<float> cos_from(Lanes<double> x) {
    const Angle<float> angle = reduced_from(x);
    if (is_large<float>(x)) return convert<float>(each(x, [](double v) { return __builtin_cos(v); }));
    return sine_of(Angle<float>{angle.rest, angle.lost, angle.quadrant + 1});
}

INLINE Lanes<double> sin(Lanes<double> x) {
    const Angle<double> angle = reduced(x);
    if (is_large<double>(x)) return each(x, [](double v) { return __builtin_sin(v); });
    return where(x == 0, x, sine_of(angle));
}

INLINE Lanes<double> cos(Lanes<double> x) {
    const Angle<double> angle = reduced(x);
    if (is_large<double>(x)) return each(x, [](double v) { return __builtin_cos(v); });
    return sine_of(Angle<double>{angle.rest, angle.lost, angle.quadrant + 1});
}

#if defined(FUSED)
template <typename Whole>
INLINE Lanes<float> sin(Lanes<float> head, Lanes<float> tail, Whole whole) {
    const Angle<float> angle = reduced(head, tail);
    if (is_coarse(angle, head)) return sin_from(whole());
    return where(head == 0, head, sine_of(angle));
}

template <typename Whole>
INLINE Lanes<float> cos(Lanes<float> head, Lanes<float> tail, Whole whole) {
    const Angle<float> angle = reduced(head, tail);
    if (is_coarse(angle, head)) return cos_from(whole());
    return sine_of(Angle<float>{angle.rest, angle.lost, angle.quadrant + 1});
}

INLINE Lanes<float> sin(Lanes<float> x) {
    return sin(x, 0, [=] { return convert<double>(x); });
}

INLINE Lanes<float> cos(Lanes<float> x) {
    return cos(x, 0, [=] { return convert<double>(x); });
}
#else
INLINE Lanes<float> sin(Lanes<float> x) {
    return sin_from(convert<double>(x));
}

INLINE Lanes<float> cos(Lanes<float> x) {
    return cos_from(convert<double>(x));
}
#endif

// The quotient of sine and cosine, upside down and negative in odd quadrants.
INLINE Lanes<double> tan(Lanes<double> x) {
    const Angle<double> angle = reduced(x);
    if (is_large<double>(x)) return each(x, [](double v) { return __builtin_tan(v); });
    const Lanes<double> sine = sine_of_rest(angle), cosine = cosine_of_rest(angle);
    const Mask<double> even = is_zero(angle.quadrant & 1);
    const Lanes<double> quotient = where(even, sine, cosine) / where(even, cosine, sine);
    return where(x == 0, x, negative_if_second_bit(quotient, angle.quadrant << 1));
}

INLINE Lanes<float> tan(Lanes<float> x) {
    return convert<float>(tan(convert<double>(x)));
}

// sin(pi x) and cos(pi x) by the distance to the nearest integer, which is exact.
template <typename T>
INLINE Lanes<T> sine_of_turns(Lanes<T> x) {
    const Lanes<T> whole = nearbyint(x), angle = 3.14159265358979323846 * (x - whole);
    return where(nearbyint(0.5 * whole) * 2 == whole, sin(angle), -sin(angle));
}

// sin(pi r) / (pi r) times r / x, with the sign of the turn: what rounds pi r changes that quotient least.
template <typename T>
INLINE Lanes<T> sinc(Lanes<T> x) {
    const Lanes<T> whole = nearbyint(x), rest = x - whole, angle = 3.14159265358979323846 * rest;
    const Lanes<T> y = sin(angle) / angle * (rest / x), turned = where(nearbyint(0.5 * whole) * 2 == whole, y, -y);
    return where(x == 0, Lanes<T>(1), where(rest == 0, Lanes<T>(0), turned));  // no number for infinities, as in torch
}

// ------------------------------------------------------------------------------------------------ angles in float64
// An angle in float64, where a product of two floats is exact and does not overflow, of a function in T. It is rounded
// after its reduction, so sine and cosine are as fast as those of a float.
template <typename T>
struct Wide {
    Lanes<double> value;

    Wide(Lanes<double> lanes) : value(lanes) {}
    Wide(double number) : value(number) {}

#define OPERATION(symbol) \
    friend Wide operator symbol(Wide a, Wide b) { return a.value symbol b.value; }
    OPERATION(+)
    OPERATION(-)
    OPERATION(*)
    OPERATION(/)
#undef OPERATION
    friend Wide operator-(Wide a) { return -a.value; }
    friend Wide square(Wide a) { return a.value * a.value; }
};

INLINE Lanes<double> sin(Wide<double> x) { return sin(x.value); }
INLINE Lanes<double> cos(Wide<double> x) { return cos(x.value); }
INLINE Lanes<float> sin(Wide<float> x) { return sin_from(x.value); }
INLINE Lanes<float> cos(Wide<float> x) { return cos_from(x.value); }

INLINE Wide<double> widen(Lanes<double> x) { return x; }
#if defined(FUSED)
// What is an angle most often, the product of two floats, is the sum of two floats as well. Combined with anything
// else it is taken in float64.
struct Exact {};

struct Factor : Exact {
    Lanes<float> number;
    Factor(Lanes<float> x) : number(x) {}
    operator Wide<float>() const { return convert<double>(number); }
};

struct Product : Exact {
    Factor a, b;
    Product(Factor x, Factor y) : a(x), b(y) {}
    operator Wide<float>() const { return Wide<float>(a) * Wide<float>(b); }
    Lanes<float> head() const { return a.number * b.number; }
    Lanes<float> tail() const { return fused(a.number, b.number, -head()); }
};

INLINE Factor widen(Lanes<float> x) { return x; }
INLINE Product operator*(Factor a, Factor b) { return {a, b}; }
INLINE Lanes<float> sin(Product x) { return sin(x.head(), x.tail(), [=] { return Wide<float>(x).value; }); }
INLINE Lanes<float> cos(Product x) { return cos(x.head(), x.tail(), [=] { return Wide<float>(x).value; }); }

template <typename A, typename B>
using WithExact = std::enable_if_t<std::is_base_of_v<Exact, A> || std::is_base_of_v<Exact, B>, Wide<float>>;
#define OPERATION(symbol)                   \
    template <typename A, typename B>       \
    INLINE WithExact<A, B> operator symbol(A a, B b) { return Wide<float>(a) symbol Wide<float>(b); }
OPERATION(+)
OPERATION(-)
OPERATION(*)
OPERATION(/)
#undef OPERATION
template <typename A>
INLINE WithExact<A, A> operator-(A a) { return -Wide<float>(a); }
template <typename A>
INLINE WithExact<A, A> square(A a) { return square(Wide<float>(a)); }
#else
INLINE Wide<float> widen(Lanes<float> x) { return convert<double>(x); }
#endif

template <typename T>
INLINE Lanes<T> tan(Wide<T> x) {
    return convert<T>(tan(x.value));
}
#if defined(FUSED)
template <typename A, typename = WithExact<A, A>>
INLINE Lanes<float> tan(A x) {
    return tan(Wide<float>(x));
}
#endif


// ------------------------------------------------------------------------------------------------ arcs
// (atan(t) / t - 1) / z with z = t^2, for |t| <= tan(pi / 8). All such tables: symgrad/targets/cpp/coefficients.py
INLINE Lanes<float> atan_series(Lanes<float> z) {
    static constexpr double c[] = {
        0.0504813851208, -0.0862467614525, 0.110713650219, -0.142841511936, 0.199999772587, -0.333333332793,
    };
    return polynomial(z, c);
}

INLINE Lanes<double> atan_series(Lanes<double> z) {
    static constexpr double c[] = {
        0.016285756855221022, -0.034570561981427741, 0.045515932206265489, -0.052304542706502445,
        0.058789289978347751, -0.066664248857382553, 0.076922963750321424, -0.090909087535008768,
        0.11111111105155447, -0.14285714285659828, 0.19999999999999805, -0.33333333333333333,
    };
    return polynomial(z, c);
}

// The arc of a point (x, y) with 0 <= y <= x, by the angle to the diagonal where that is nearer.
template <typename T>
INLINE Lanes<T> arc_within(Lanes<T> y, Lanes<T> x) {
    const Mask<T> far = y > x * 0.41421356237309504880;
    const Lanes<T> t = where(far, y - x, y) / where(far, y + x, x), z = t * t, rest = t + t * z * atan_series(z);
    return where(far, 0.78539816339744830962 + (rest + 3.061616997868383e-17), rest);
}

template <typename T>
INLINE Lanes<T> atan(Lanes<T> x) {
    const Lanes<T> size = abs(x), one = 1;
    const Mask<T> beyond = size > 1;
    const Lanes<T> arc = arc_within(where(beyond, one, size), where(beyond, size, one));
    const Lanes<T> y = where(size == __builtin_inf(), Lanes<T>(0), arc);
    return with_sign_of(where(beyond, 1.57079632679489661923 - (y - 6.123233995736766e-17), arc), x);
}

INLINE Lanes<double> atan2(Lanes<double> y, Lanes<double> x) {
    using V = Lanes<double>;
    const V inf = __builtin_inf(), a = abs(x), b = abs(y);
    const Mask<double> steep = b > a, both = (a == inf) & (b == inf);
    V most = where(steep, b, a), least = where(steep, a, b);
    const V scale = where(most > 0x1p1000, V(0x1p-60), V(1));  // for a sum of both
    most = where(both, V(1), where(most == 0, V(1), most * scale));
    least = where(both, V(1), least * scale);
    V arc = where(most == inf, V(0), arc_within(least, most));
    arc = where(steep, 1.57079632679489661923 - (arc - 6.123233995736766e-17), arc);
    const Mask<double> left = !is_zero(V::bits_of(x) & V::sign_bit());
    arc = where(left, 3.14159265358979323846 - (arc - 1.2246467991473532e-16), arc);
    return where((x != x) | (y != y), x + y, with_sign_of(arc, y));
}
BY_DOUBLE_OF_TWO(atan2)

// (asin(t) / t - 1) / z with z = t^2, for |t| <= 1/2.
INLINE Lanes<float> asin_series(Lanes<float> z) {
    static constexpr double c[] = {
        0.0336908472028, 0.0171492383577, 0.0311006627355, 0.0445994015285, 0.075000945435, 0.166666663374,
    };
    return polynomial(z, c);
}

INLINE Lanes<double> asin_series(Lanes<double> z) {
    static constexpr double c[] = {
        0.028169218060881413, -0.010749050339697808, 0.016035514349148823, 0.0078029494773533171,
        0.011875494382636923, 0.013929652902326633, 0.017355259955786322, 0.02237204763174451,
        0.030381947367098481, 0.044642857103423643, 0.075000000000207644, 0.16666666666666649,
    };
    return polynomial(z, c);
}

// The arcsine of |x| to 1/2, beyond that what is left of pi/2, halved.
template <typename T>
INLINE Lanes<T> short_arc(Lanes<T> size, Mask<T> beyond) {
    const Lanes<T> half = 0.5 * (1 - size), z = where(beyond, half, size * size), t = where(beyond, sqrt(half), size);
    return t + t * z * asin_series(z);
}

template <typename T>
INLINE Lanes<T> asin(Lanes<T> x) {
    const Lanes<T> size = abs(x);
    const Mask<T> beyond = size > 0.5;
    const Lanes<T> arc = short_arc(size, beyond);
    return with_sign_of(where(beyond, 1.57079632679489661923 - (2 * arc - 6.123233995736766e-17), arc), x);
}

template <typename T>
INLINE Lanes<T> acos(Lanes<T> x) {
    const Lanes<T> size = abs(x);
    const Mask<T> beyond = size > 0.5, left = x < 0;
    const Lanes<T> arc = short_arc(size, beyond), twice = 2 * arc;
    const Lanes<T> inner = 1.57079632679489661923 - (where(left, -arc, arc) - 6.123233995736766e-17);
    return where(beyond, where(left, 3.14159265358979323846 - (twice - 1.2246467991473532e-16), twice), inner);
}

INLINE Lanes<double> hypot(Lanes<double> x, Lanes<double> y) {
    using V = Lanes<double>;
    const V inf = __builtin_inf(), a = abs(x), b = abs(y);
    const V most = where(a > b, a, b), least = where(a > b, b, a);
    const V ratio = least / where(most == 0, V(1), most), whole = most * sqrt(1 + ratio * ratio);
    return where((a == inf) | (b == inf), inf, where((x != x) | (y != y), x + y, whole));
}
BY_DOUBLE_OF_TWO(hypot)

// ------------------------------------------------------------------------------------------------ powers
// The logarithm as a sum of two numbers, right to 2^-65: its first two terms, 2 s and 2/3 s^3 with s = (m - 1) / (m + 1),
// are such sums too.
template <typename T>
struct Sum {
    Lanes<T> high, low;
};

INLINE Sum<double> sum_of(Lanes<double> larger, Lanes<double> smaller) {
    const Lanes<double> high = larger + smaller;
    return {high, smaller - (high - larger)};
}

INLINE Sum<double> product_of(Sum<double> a, Sum<double> b) {
    const Lanes<double> high = a.high * b.high;
    return {high, lost_by_product(a.high, b.high, high) + (a.high * b.low + a.low * b.high)};
}

INLINE Sum<double> log_of(Lanes<double> x) {
    using V = Lanes<double>;
    const Split<double> parts = split(x);
    const V m = parts.fraction, above = m - 1, below = m + 1, lost = m - (below - 1);
    const V high = above / below, product = high * below;
    const V low = (((above - product) - lost_by_product(high, below, product)) - high * lost) / below;
    const Sum<double> s = {high, low}, z = product_of(s, s);
    V rest = z.high * (1 / 25.) + 1 / 23.;
    rest = rest * z.high + 1 / 21.;
    rest = rest * z.high + 1 / 19.;
    rest = rest * z.high + 1 / 17.;
    rest = rest * z.high + 1 / 15.;
    rest = rest * z.high + 1 / 13.;
    rest = rest * z.high + 1 / 11.;
    rest = rest * z.high + 1 / 9.;
    rest = rest * z.high + 1 / 7.;
    rest = rest * z.high + 1 / 5.;
    const Sum<double> third = sum_of(V(1 / 3.), z.high * rest + (0x1.5555555555555p-56 + z.low * 0.2));
    const Sum<double> cubed = product_of(product_of(s, z), third);
    const V whole = parts.exponent * 0x1.62e42fefa38p-1;  // of 42 bits, so that this is exact
    const Sum<double> first = sum_of(whole, 2 * s.high), second = sum_of(first.high, 2 * cubed.high);
    const V lows = first.low + second.low + 2 * (s.low + cubed.low) + parts.exponent * 0x1.ef35793c7673p-45;
    return sum_of(second.high, lows);
}

// |x|^y, for x that is not 0 and finite.
INLINE Lanes<double> power_of_size(Lanes<double> x, Lanes<double> y) {
    const Sum<double> log = log_of(abs(x));
    const Lanes<double> high = y * log.high, low = lost_by_product(y, log.high, high) + y * log.low;
    const Lanes<double> inf = __builtin_inf();
    return where(abs(high) < 800, exp_of_sum(high, low), where(high > 0, inf, Lanes<double>(0)));
}

INLINE Lanes<float> power_of_size(Lanes<float> x, Lanes<float> y) {
    return convert<float>(exp(convert<double>(y) * log(convert<double>(abs(x)))));
}

template <typename T>
INLINE Lanes<T> pow(Lanes<T> x, Lanes<T> y) {
    const Lanes<T> inf = __builtin_inf(), size = abs(x), zero = 0, one = 1;
    Lanes<T> found = power_of_size(where((x == 0) | (size == inf), one, x), y);
    const Mask<T> grows = y > 0;
    found = where(x == 0, where(grows, zero, inf), where(size == inf, where(grows, inf, zero), found));
    const Mask<T> endless = abs(y) == inf;
    found = where(endless, where(size == 1, one, where((size > 1) & grows, inf, where((size < 1) & !grows, inf, zero))), found);
    const Mask<T> whole = (floor(y) == y) | endless, odd = (floor(y) == y) & !endless & (2 * floor(0.5 * y) != y);
    found = where((x < 0) & !whole & (size < inf), Lanes<T>(__builtin_nan("")), found);
    found = where(odd, with_sign_of(found, x), found);
    return where((y == 0) | (x == 1), one, where((x != x) | (y != y), x + y, found));
}

// An exponent that is the same for all: a few factors where it is whole or a half, and small. As in torch a power of
// 1/2 is the square root.
template <typename T>
INLINE Lanes<T> pow(Lanes<T> x, double exponent) {
    const double size = exponent < 0 ? -exponent : exponent, twice = 2 * size;
    if (!(size <= 8) || twice != static_cast<int>(twice)) return pow(x, Lanes<T>(exponent));
    const int n = static_cast<int>(size);
    const bool half = twice != 2 * n;
    if (half && n) x = where((x == 0) | (abs(x) == __builtin_inf()), abs(x), x);
    Lanes<T> value = n & 1 ? x : Lanes<T>(1);
    const Lanes<T> second = x * x, fourth = second * second;
    if (n & 2) value = value * second;
    if (n & 4) value = value * fourth;
    if (n & 8) value = fourth * fourth;
    if (half) value = value * sqrt(x);
    return exponent < 0 ? 1 / value : value;
}

// ------------------------------------------------------------------------------------------------ error functions
// erf(x) / x for |x| <= 1, of z = x^2.
INLINE Lanes<float> erf_series(Lanes<float> z) {
    static constexpr double c[] = {
        7.87587506269e-5, -0.000801686428717, 0.00518908742343, -0.0268542120106, 0.112835947152,
        -0.376126266667, 1.12837916585,
    };
    return polynomial(z, c);
}

INLINE Lanes<double> erf_series(Lanes<double> z) {
    static constexpr double c[] = {
        5.9571761477489114e-11, -1.1372848856791674e-9, 1.4659775274047436e-8, -1.6350312701054695e-7,
        1.6461000484121368e-6, -1.4925595266831182e-5, 0.00012055331111642711, -0.00085483269808337899,
        0.0052239776248180145, -0.026866170645076793, 0.11283791670954879, -0.37612638903183748,
        1.1283791670955126,
    };
    return polynomial(z, c);
}

// (1 + 2 x) erfcx(x) for x >= 0, of t = (x - 3.75) / (x + 3.75).
INLINE Lanes<float> erfcx_series(Lanes<float> t) {
    static constexpr double c[] = {
        1.87807362852e-5, 2.19879659839e-5, -0.000285154338899, 0.000330344209358, 0.00175220949869,
        -0.00977028671457, 0.0283634737904, -0.0586853365861, 0.0923041217464, -0.108805252039,
        0.0822767509535, 0.00358549742896, -0.140240598713, 1.23751263,
    };
    return polynomial(t, c);
}

INLINE Lanes<double> erfcx_series(Lanes<double> t) {
    static constexpr double c[] = {
        4.4349590700096283e-10, 3.110310719839165e-10, -5.2842869796314206e-9, -3.7435680336345832e-9,
        3.8965452548985968e-8, 2.3261913276696567e-8, -2.5910696877966579e-7, -5.7215972559909872e-8,
        1.7520579701663181e-6, -9.7356190151826633e-7, -1.1444412439171723e-5, 2.2384240314224438e-5,
        5.1649211390702852e-5, -0.00029015408097952713, 0.00029371363428500813, 0.0017556258530017258,
        -0.009746579552504243, 0.028362277418940665, -0.058693398590212367, 0.092304321160378767,
        -0.10880393014171786, 0.082276738490145159, 0.003585415485463775, -0.14024059858554696,
        1.2375126308378276,
    };
    return polynomial(t, c);
}

// exp(x^2) erfc(x) for x that is not negative.
template <typename T>
INLINE Lanes<T> erfcx_within(Lanes<T> x) {
    const Lanes<T> near = at_most(x, sizeof(T) == 4 ? 1e10 : 1e100);
    const Lanes<T> far = where(x > near, x, Lanes<T>(1));  // only 1 / (sqrt(pi) x) is left of it
    const Lanes<T> y = erfcx_series((near - 3.75) / (near + 3.75)) / (1 + 2 * near);
    return where(x > near, 0.56418958354775628695 / far, y);
}

// exp(sign x^2), with what the square loses when it is rounded.
template <typename T>
INLINE Lanes<T> exp_of_square(Lanes<T> x, double sign) {
    const Lanes<T> near = at_most(abs(x), sizeof(T) == 4 ? 12 : 40), square = near * near;
    const Lanes<T> y = exp_of_sum(sign * square, sign * lost_by_product(near, near, square));
    return where(x != x, x, y);
}

// erfc(x) for x in [0, 1/2].
template <typename T>
INLINE Lanes<T> erfc_near(Lanes<T> x) {
    return 1 - x * erf_series(x * x);
}

template <typename T>
INLINE Lanes<T> erfc(Lanes<T> x) {
    const Lanes<T> size = abs(x), far = exp_of_square(x, -1) * erfcx_within(size);
    const Lanes<T> y = where(size < 0.5, erfc_near(size), far);
    return where(x < 0, 2 - y, y);
}

template <typename T>
INLINE Lanes<T> erf(Lanes<T> x) {
    const Lanes<T> size = abs(x), y = x * erf_series(x * x);
    return where(size < 1, y, with_sign_of(1 - exp_of_square(x, -1) * erfcx_within(size), x));
}

template <typename T>
INLINE Lanes<T> erfcx(Lanes<T> x) {
    const Lanes<T> size = abs(x), growth = exp_of_square(x, 1);
    const Lanes<T> y = where(size < 0.5, growth * erfc_near(size), erfcx_within(size));
    return where(x < 0, 2 * growth - y, y);
}

// The logarithm of the normal distribution function. The square of x is halved and not that of x / sqrt(2), which is
// rounded.
INLINE Lanes<double> log_ndtr(Lanes<double> x) {
    using V = Lanes<double>;
    const V size = abs(x), t = size * 0.70710678118654752440, near = at_most(size, 60), square = near * near;
    const V ratio = 0.5 * erfcx_within(t), half = 0.5 * erfc_near(t);
    const Mask<double> small = t < 0.5;
    const V tail = exp_of_sum(-0.5 * square, -0.5 * lost_by_product(near, near, square)) * ratio;
    const V above = log1p(-where(small, half, tail)), below = log(where(small, half, ratio));
    return where(x < 0, below - where(small, V(0), 0.5 * x * x), where(x != x, x, above));
}
BY_DOUBLE(log_ndtr)

// erfinv(x) / x of w = -log(1 - x^2) - 3.125 for w to 6.25, and beyond of sqrt(w) - 4.3125: right to 2^-26.
INLINE Lanes<double> erfinv_series(Lanes<double> w) {
    static constexpr double c[] = {
        -1.2570814414523687e-11, 5.6882164791170869e-12, 1.0363882341451174e-9, -4.7527456191519948e-9,
        -2.895896037948332e-8, 4.2698513895053386e-7, -1.3658217507589213e-6, -1.3892141245923011e-5,
        0.00018673466051691628, -0.00074069103254301951, -0.006033671032285515, 0.24015817844735165,
        1.6536545626831027,
    };
    return polynomial(w, c);
}

INLINE Lanes<double> far_erfinv_series(Lanes<double> s) {
    static constexpr double c[] = {
        -2.227779254163615e-8, 8.4680725345866504e-8, 6.2549009850063196e-8, -7.1494137808777604e-7,
        1.3384358349679903e-6, -1.8680987748861618e-6, 3.9517728709896167e-6, -8.2579664282584785e-6,
        1.8314799411972081e-5, -5.6618372322781164e-5, 0.00019318089735919223, -0.00055735148866699044,
        0.0006035966935140624, 1.0100604568749354, 4.1553497049360585,
    };
    return polynomial(s, c);
}

INLINE Lanes<double> erfinv_guess(Lanes<double> size) {
    const Lanes<double> w = -log((1 - size) * (1 + size));
    return size * where(w < 6.25, erfinv_series(w - 3.125), far_erfinv_series(sqrt(w) - 4.3125));
}

// What is found for |x| < 1, with the sign of x, and what stands elsewhere.
template <typename T>
INLINE Lanes<T> erfinv_everywhere(Lanes<T> x, Lanes<T> y) {
    const Lanes<T> inf = __builtin_inf(), nan = __builtin_nan("");
    return where(abs(x) < 1, with_sign_of(y, x), where(abs(x) == 1, with_sign_of(inf, x), nan));
}

INLINE Lanes<float> erfinv(Lanes<float> x) {
    return erfinv_everywhere(x, convert<float>(erfinv_guess(abs(convert<double>(x)))));
}

// One step of Halley's method, near 1 for the complement.
INLINE Lanes<double> erfinv(Lanes<double> x) {
    using V = Lanes<double>;
    const V size = abs(x), y = erfinv_guess(size);
    const V miss = where(size < 0.5, erf(y) - size, (1 - size) - erfc(y));
    const V error = miss * exp_of_square(y, 1) * 0.88622692545275801365;  // sqrt(pi) / 2
    const V tiny = size * 0.88622692545275801365;  // the next term is lost
    return erfinv_everywhere(x, where(size < 1e-9, tiny, y - error / (1 + y * error)));
}

// ------------------------------------------------------------------------------------------------ gamma functions
// digamma(x) / (x - root) on [1, 2.5], of x - 1.75, and lgamma(x) / ((x - 1) (x - 2)) on [1, 3], of x - 2.
INLINE Lanes<double> digamma_series(Lanes<double> x) {
    static constexpr double c[] = {
        -1.1872212713245975e-6, 2.0776397503965924e-6, 7.0490126384693179e-7, -1.2335673403459895e-6,
        -4.8611358653196306e-6, 8.5070774111018265e-6, -8.2779077776996659e-6, 1.4487003402656894e-5,
        -2.9367803644173364e-5, 5.1398705126837102e-5, -8.8316738371516417e-5, 0.000154592651533711,
        -0.00027110565826077765, 0.000474727616562906, -0.00083149509306249736, 0.0014573685124658022,
        -0.0025566867009173709, 0.0044918142301888762, -0.0079104687655973534, 0.013985786157589092,
        -0.024890048489327913, 0.04479965445346671, -0.082285586355774211, 0.15712011335203561,
        -0.32625462786810571, 0.85818321712629953,
    };
    return polynomial(x, c);
}

INLINE Lanes<double> lgamma_series(Lanes<double> x) {
    static constexpr double c[] = {
        -2.0542420991550905e-10, 4.2260166753774387e-10, 6.7057370262478257e-10, -1.3764318718154119e-9,
        -2.3725806250234148e-9, 4.8857619226836551e-9, 3.613371593815743e-10, -6.8303990527941911e-10,
        -1.2569945435720683e-8, 2.6154572164455611e-8, -4.17254430301382e-8, 8.753604134237321e-8,
        -1.9252286332850673e-7, 4.0551922127948148e-7, -8.526588188526563e-7, 1.8074775340912791e-6,
        -3.847396648270243e-6, 8.2223424521398177e-6, -1.7661664225560328e-5, 3.8168863787885226e-5,
        -8.3095127637223901e-5, 0.00018255264185594036, -0.00040570739742046499, 0.00091537692206969202,
        -0.0021081308339588048, 0.0049986411647035274, -0.012384192193371237, 0.032965000621155742,
        -0.10031730167435392, 0.42278433509846714,
    };
    return polynomial(x, c);
}

// Beside the root, and from 10 on by the asymptotic series; between by psi(x + 1) = psi(x) + 1 / x, whose terms make a
// fraction with one division; by reflection for negative numbers.
INLINE Lanes<double> digamma(Lanes<double> given) {
    using V = Lanes<double>;
    const V nan = __builtin_nan(""), inf = __builtin_inf(), one = 1;
    const Mask<double> negative = given < 0;
    V x = where(negative, 1 - given, given);
    const V z = 1 / (x * x);
    V rest = 1 / 132. - z * (691 / 32760. - z * (1 / 12.));
    rest = 1 / 12. - z * (1 / 120. - z * (1 / 252. - z * (1 / 240. - z * rest)));
    const V far = where(x == inf, x, log(x) - (0.5 / x + z * rest));
    const Mask<double> is_far = x >= 10, below = x < 1;
    V near = where(is_far, one, where(below, x + 1, x)), over = where(below, V(-1), V(0)), under = where(below, x, one);
    for (int k = 0; k < 8; k++) {  // 9.99 takes eight steps to be less than 2.5
        const Mask<double> more = near > 2.5;
        near = where(more, near - 1, near);
        over = where(more, over * near + under, over);
        under = where(more, under * near, under);
    }
    const V distance = (near - 1.4616321449683622) - 9.549995429965697e-17;
    V y = where(is_far, far, distance * digamma_series(near - 1.75) + over / under);
    const V turn = given - nearbyint(given), angle = 3.14159265358979323846 * turn;
    y = where(negative, y - where(turn == 0, nan, 3.14159265358979323846 / tan(angle)), y);
    return where(given == 0, with_sign_of(inf, -given), where(given == -inf, nan, y));
}
BY_DOUBLE(digamma)

// The derivative of digamma: from 10 on by the asymptotic series, below by a sum of positive terms, and by reflection
// for negative numbers.
INLINE Lanes<double> trigamma(Lanes<double> given) {
    using V = Lanes<double>;
    const V inf = __builtin_inf();
    const Mask<double> negative = given < 0;
    const V x = where(negative, 1 - given, given), first = at_most(x, 12);
    const Mask<double> near = x < 12;
    const V large = where(near, x + 12, x), z = 1 / (large * large);
    V rest = 5 / 66. - z * (691 / 2730. - z * (7 / 6.));
    rest = 1 / 6. - z * (1 / 30. - z * (1 / 42. - z * (1 / 30. - z * rest)));
    const V tail = 1 / large + (0.5 * z + z / large * rest);
    V more = tail;
    for (int k = 11; k >= 0; k--) more = more + 1 / square(first + k);  // the largest last
    const V sum = where(near, more, tail);
    const V ratio = 3.14159265358979323846 / sine_of_turns(given);
    const V reflected = where(given == nearbyint(given), inf, ratio * ratio - sum);
    return where(given == 0, inf, where(negative, reflected, where(given == inf, V(0), sum)));
}
BY_DOUBLE(trigamma)

// The logarithm of |gamma|: beside its roots, and from 10 on by Stirling's series; between by a product, and by
// reflection for negative numbers.
INLINE Lanes<double> lgamma(Lanes<double> given) {
    using V = Lanes<double>;
    const V inf = __builtin_inf(), one = 1, size = abs(given);
    const Mask<double> negative = given < 0, is_far = size >= 10, below = size < 1;
    const V z = 1 / (size * size), log_size = log(size);
    V rest = 1 / 156. - z * (3617 / 122400.);
    rest = 1 / 1260. - z * (1 / 1680. - z * (1 / 1188. - z * (691 / 360360. - z * rest)));
    rest = 1 / 12. - z * (1 / 360. - z * rest);
    const V far = where(size == inf, inf, (size - 0.5) * (log_size - 1) + (0.41893853320467274178 + rest / size));
    V near = where(is_far | below, one, size), product = one;
    for (int k = 0; k < 7; k++) {
        const Mask<double> more = near > 3;
        near = where(more, near - 1, near);
        product = where(more, product * near, product);
    }
    const V beyond = where(below, size, near - 1), to_two = where(below, size - 1, near - 2);  // size + 1 is rounded
    const V within = beyond * to_two * lgamma_series(to_two);
    const V y = where(is_far, far, within + where(below, -log_size, log(product)));
    const V reflected = 1.14472988584940017414 - log(size * abs(sine_of_turns(given))) - y;  // log(pi)
    const Mask<double> pole = (given <= 0) & (given == nearbyint(given));
    return where(pole, inf, where(negative, reflected, where(given != given, given, y)));
}
BY_DOUBLE(lgamma)
#undef BY_DOUBLE
#undef BY_DOUBLE_OF_TWO

// The same functions of a plain number.
INLINE double digamma_of(double x) { return digamma(Lanes<double>(x))[0]; }
INLINE double trigamma_of(double x) { return trigamma(Lanes<double>(x))[0]; }
INLINE double erfinv_of(double x) { return erfinv(Lanes<double>(x))[0]; }
INLINE double erfcx_of(double x) { return erfcx(Lanes<double>(x))[0]; }
INLINE double log_ndtr_of(double x) { return log_ndtr(Lanes<double>(x))[0]; }
INLINE double sigmoid_of(double x) { return sigmoid(Lanes<double>(x))[0]; }
INLINE double sinc_of(double x) { return sinc(Lanes<double>(x))[0]; }
INLINE double sign_of(double x) { return sign(Lanes<double>(x))[0]; }
INLINE double relu_of(double x) { return relu(Lanes<double>(x))[0]; }
INLINE double remainder_of(double x, double y) { return remainder(Lanes<double>(x), Lanes<double>(y))[0]; }
INLINE double logaddexp_of(double x, double y) { return logaddexp(Lanes<double>(x), Lanes<double>(y))[0]; }
INLINE double xlogy_of(double x, double y) { return xlogy(Lanes<double>(x), Lanes<double>(y))[0]; }
INLINE double xlog1py_of(double x, double y) { return xlog1py(Lanes<double>(x), Lanes<double>(y))[0]; }
INLINE double heaviside_of(double x, double y) { return heaviside(Lanes<double>(x), Lanes<double>(y))[0]; }
