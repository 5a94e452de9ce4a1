// defines: sin cos tan
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
    if (is_large<float>(x)) return convert<float>(each(x, [](double v) { return std::sin(v); }));
    return where(angle.rest == 0, angle.rest, sine_of(angle));  // -0 stays what it is
}

INLINE Lanes<float> cos_from(Lanes<double> x) {
    const Angle<float> angle = reduced_from(x);
    if (is_large<float>(x)) return convert<float>(each(x, [](double v) { return std::cos(v); }));
    return sine_of(Angle<float>{angle.rest, angle.lost, angle.quadrant + 1});
}

INLINE Lanes<double> sin(Lanes<double> x) {
    const Angle<double> angle = reduced(x);
    if (is_large<double>(x)) return each(x, [](double v) { return std::sin(v); });
    return where(x == 0, x, sine_of(angle));
}

INLINE Lanes<double> cos(Lanes<double> x) {
    const Angle<double> angle = reduced(x);
    if (is_large<double>(x)) return each(x, [](double v) { return std::cos(v); });
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
    if (is_large<double>(x)) return each(x, [](double v) { return std::tan(v); });
    const Lanes<double> sine = sine_of_rest(angle), cosine = cosine_of_rest(angle);
    const Mask<double> even = is_zero(angle.quadrant & 1);
    const Lanes<double> quotient = where(even, sine, cosine) / where(even, cosine, sine);
    return where(x == 0, x, negative_if_second_bit(quotient, angle.quadrant << 1));
}

INLINE Lanes<float> tan(Lanes<float> x) {
    return convert<float>(tan(convert<double>(x)));
}
