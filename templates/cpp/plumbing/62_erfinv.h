// defines: erfinv erfinv_of
// A guess that is right to three digits, and two steps of Halley's method, near 1 for the complement.
inline double erfinv_of(double x) {
    const double size = std::fabs(x), complement = 1 - size;
    if (!(size < 1)) return size == 1 ? std::copysign(__builtin_inf(), x) : __builtin_nan("");
    if (size < 1e-9) return x * 0.88622692545275801365;  // sqrt(pi) / 2; the next term is lost
    const double log = std::log(complement * (1 + size)), b = 4.33075024040833 + 0.5 * log;  // 2 / (0.147 pi)
    double y = std::sqrt(std::sqrt(b * b - log / 0.147) - b);
    for (int step = 0; step < 2; step++) {
        const double miss = size < 0.5 ? std::erf(y) - size : complement - std::erfc(y);
        const double error = miss * std::exp(y * y) * 0.88622692545275801365;
        y -= error / (1 + y * error);
    }
    return std::copysign(y, x);
}

template <typename T>
INLINE Lanes<T> erfinv(Lanes<T> x) {
    return each(x, [](T v) { return static_cast<T>(erfinv_of(v)); });
}
