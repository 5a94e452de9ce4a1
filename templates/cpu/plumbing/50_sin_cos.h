// defines: sin cos
// ------------------------------------------------------------------------------------------------ sine and cosine
// The angle is reduced to [-pi/4, pi/4] in float64; what is too large for that is left to the standard library.
struct Angle {
    Lanes<float> rest;
    Bits<float> quadrant;
};

INLINE Angle reduced(Lanes<float> x) {
    const Lanes<double> magic = 0x1.8p52, wide = convert<double>(x), shifted = wide * 0x1.45f306dc9c883p-1 + magic;
    const Lanes<double> k = shifted - magic;
    const Lanes<double> rest = (wide - k * 0x1.921fb54442d18p0) - k * 0x1.1a62633145c07p-54;
    Angle angle = {convert<float>(rest), 0};
    const Bits<double> bits = Lanes<double>::bits_of(shifted);
    angle.quadrant.part[0] = joined<Ints>(
        __builtin_convertvector(bits.part[0], HalfInts), __builtin_convertvector(bits.part[1], HalfInts));
    return angle;
}

// The sine for even quadrants, the cosine for odd ones, negative in the last two.
INLINE Lanes<float> sine_of(Angle angle) {
    const Lanes<float> r = angle.rest, z = r * r;
    const Lanes<float> sine = r + r * z * (-1.6666654611e-1 + z * (8.3321608736e-3 - z * 1.9515295891e-4));
    const Lanes<float> series = 4.166664568298827e-2 + z * (-1.388731625493765e-3 + z * 2.443315711809948e-5);
    const Lanes<float> cosine = 1 - (0.5 * z - z * z * series);
    const Lanes<float> chosen = where(is_zero(angle.quadrant & 1), sine, cosine);
    return Lanes<float>::from_bits(Lanes<float>::bits_of(chosen) ^ ((angle.quadrant & 2) << 30));
}

constexpr double LARGEST_ANGLE = 0x1p26;

INLINE Lanes<float> sin(Lanes<float> x) {
    if (__builtin_expect(any(!(abs(x) < LARGEST_ANGLE)), 0)) return each(x, [](float v) { return std::sin(v); });
    return where(x == 0, x, sine_of(reduced(x)));
}

INLINE Lanes<float> cos(Lanes<float> x) {
    if (__builtin_expect(any(!(abs(x) < LARGEST_ANGLE)), 0)) return each(x, [](float v) { return std::cos(v); });
    const Angle angle = reduced(x);
    return sine_of({angle.rest, angle.quadrant + 1});
}

INLINE Lanes<double> sin(Lanes<double> x) {
    return each(x, [](double v) { return std::sin(v); });
}

INLINE Lanes<double> cos(Lanes<double> x) {
    return each(x, [](double v) { return std::cos(v); });
}
