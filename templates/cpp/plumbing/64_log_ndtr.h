// defines: log_ndtr log_ndtr_of
inline double log_ndtr_of(double x) {
    const double t = x * 0x1.6a09e667f3bcdp-1;  // sqrt(1 / 2)
    if (x < -1) return std::log(0.5 * erfcx_of(-t)) - 0.5 * x * x;
    if (x > 40) return 0;
    const double lost = std::fma(x, 0x1.6a09e667f3bcdp-1, -t) - x * 0x1.bdd3413b26456p-55;
    return std::log1p(-0.5 * (std::erfc(t) - 1.12837916709551257390 * std::exp(-t * t) * lost));
}

template <typename T>
INLINE Lanes<T> log_ndtr(Lanes<T> x) {
    return each(x, [](T v) { return static_cast<T>(log_ndtr_of(v)); });
}
