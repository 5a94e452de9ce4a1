// defines: erfcx erfcx_of
// exp(x^2) erfc(x): by its asymptotic series from 10 on, where the factors would over- and underflow; below with what
// the square loses when it is rounded.
inline double erfcx_of(double x) {
    if (x >= 10) {
        const double z = 0.5 / (x * x);
        double series = 1;
        for (int k = 12; k > 0; k--) series = 1 - (2 * k - 1) * z * series;
        return 0.56418958354775628695 / x * series;  // 1 / sqrt(pi)
    }
    if (x < -30) return __builtin_inf();
    const double square = x * x, lost = std::fma(x, x, -square);
    const double growth = std::exp(square);
    return growth * std::erfc(x) * (1 + lost);
}

template <typename T>
INLINE Lanes<T> erfcx(Lanes<T> x) {
    return each(x, [](T v) { return static_cast<T>(erfcx_of(v)); });
}
