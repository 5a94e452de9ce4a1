// defines: trigamma trigamma_of
// The derivative of digamma: from 12 on by the asymptotic series, below by a sum of positive terms, and by reflection
// for negative numbers.
inline double trigamma_of(double x) {
    if (x == 0) return __builtin_inf();
    if (x < 0) {
        const double whole = std::nearbyint(x), sine = std::sin(3.14159265358979323846 * (x - whole));
        const double ratio = 3.14159265358979323846 / sine;
        return x == whole ? __builtin_inf() : ratio * ratio - trigamma_of(1 - x);
    }
    double more = 0;
    for (; x < 12; x += 1) more += 1 / (x * x);
    const double z = 1 / (x * x);
    double rest = 5 / 66. - z * (691 / 2730. - z * (7 / 6.));
    rest = 1 / 6. - z * (1 / 30. - z * (1 / 42. - z * (1 / 30. - z * rest)));
    return 1 / x + (0.5 * z + z / x * rest) + more;
}

template <typename T>
INLINE Lanes<T> trigamma(Lanes<T> x) {
    return each(x, [](T v) { return static_cast<T>(trigamma_of(v)); });
}
