// defines: log1p_of_unit
// log(1 + x) for x in [0, 1], as 2 artanh(x / (2 + x)).
INLINE Lanes<float> log1p_of_unit(Lanes<float> x) {
    const Lanes<float> s = x / (2 + x), z = s * s, twice = s + s;
    const Lanes<float> low = z * 0.200108495306 + 0.333332065663, high = z * 0.140122294855 + 0.139995705239;
    return twice + twice * z * (low + z * z * high);
}

INLINE Lanes<double> log1p_of_unit(Lanes<double> x) {
    return log1p(x);
}
