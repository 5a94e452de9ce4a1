// defines: log1p_of_unit
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
