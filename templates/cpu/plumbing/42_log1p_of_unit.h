// defines: log1p_of_unit
// log(1 + x) for x in [0, 1], as 2 artanh(x / (2 + x)).
INLINE Lanes<float> log1p_of_unit(Lanes<float> x) {
    const Lanes<float> s = x / (2 + x), z = s * s;
    Lanes<float> series = z * (1 / 15.) + 1 / 13.;
    series = series * z + 1 / 11.;
    series = series * z + 1 / 9.;
    series = series * z + 1 / 7.;
    series = series * z + 1 / 5.;
    series = series * z + 1 / 3.;
    return 2 * s + 2 * s * z * series;
}

INLINE Lanes<double> log1p_of_unit(Lanes<double> x) {
    return log1p(x);
}
