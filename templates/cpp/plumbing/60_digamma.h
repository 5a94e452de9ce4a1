// defines: digamma digamma_of
// On [1, 2] the distance from the root times a polynomial in x - 1.5; elsewhere by psi(x + 1) = psi(x) + 1 / x, from 10
// on by the asymptotic series, and by reflection for negative numbers.
inline double digamma_of(double x) {
    constexpr double series[] = {
        -0.00017312261802727394, 0.00025968482126430747, -0.00015148586836773365, 0.0002272331660987376,
        -0.0004821990530566789, 0.0007233266279287554, -0.0010376374098418604, 0.0015566317474486838,
        -0.002345267632540769, 0.003519006401502276, -0.005279964873257405, 0.007926944646403797,
        -0.011908218001568644, 0.0179072524394512, -0.02697579675613825, 0.04076083381242074,
        -0.061922133273064534, 0.09498872445494122, -0.14840492305390884, 0.2405424842407742,
        -0.4236274212814605, 0.951055876031833,
    };
    if (x == 0) return std::copysign(__builtin_inf(), -x);
    if (x < 0) {
        const double whole = std::nearbyint(x), angle = 3.14159265358979323846 * (x - whole);
        return x == whole ? __builtin_nan("") : digamma_of(1 - x) - 3.14159265358979323846 / std::tan(angle);
    }
    if (x >= 10) {
        const double z = 1 / (x * x);
        double rest = 1 / 132. - z * (691 / 32760. - z * (1 / 12.));
        rest = 1 / 12. - z * (1 / 120. - z * (1 / 252. - z * (1 / 240. - z * rest)));
        return std::log(x) - (0.5 / x + z * rest);
    }
    double more = 0;
    if (x < 1) more = -1 / x, x += 1;
    for (; x > 2; more += 1 / x) x -= 1;
    double value = 0;
    for (const double c : series) value = value * (x - 1.5) + c;
    return ((x - 1.4616321449683622) - 9.549995429965697e-17) * value + more;
}

template <typename T>
INLINE Lanes<T> digamma(Lanes<T> x) {
    return each(x, [](T v) { return static_cast<T>(digamma_of(v)); });
}
