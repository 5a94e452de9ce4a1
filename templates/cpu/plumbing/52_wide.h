// defines: widen
// ------------------------------------------------------------------------------------------------ angles in float64
// An angle in float64, where a product of two floats is exact and does not overflow, of a function in T. It is rounded
// after its reduction, so sine and cosine are as fast as those of a float.
template <typename T>
struct Wide {
    Lanes<double> value;

    Wide(Lanes<double> lanes) : value(lanes) {}
    Wide(double number) : value(number) {}

#define OPERATION(symbol) \
    friend Wide operator symbol(Wide a, Wide b) { return a.value symbol b.value; }
    OPERATION(+)
    OPERATION(-)
    OPERATION(*)
    OPERATION(/)
#undef OPERATION
    friend Wide operator-(Wide a) { return -a.value; }
    friend Wide square(Wide a) { return a.value * a.value; }
};

template <typename T>
INLINE Wide<T> widen(Lanes<T> x) {
    return convert<double>(x);
}

INLINE Lanes<double> sin(Wide<double> x) { return sin(x.value); }
INLINE Lanes<double> cos(Wide<double> x) { return cos(x.value); }

INLINE Lanes<float> sin(Wide<float> x) {
    const Angle<float> angle = reduced_from(x.value);
    if (is_large<float>(x.value)) return convert<float>(each(x.value, [](double v) { return std::sin(v); }));
    return where(angle.rest == 0, angle.rest, sine_of(angle));  // -0 stays what it is
}

INLINE Lanes<float> cos(Wide<float> x) {
    const Angle<float> angle = reduced_from(x.value);
    if (is_large<float>(x.value)) return convert<float>(each(x.value, [](double v) { return std::cos(v); }));
    return sine_of(Angle<float>{angle.rest, angle.lost, angle.quadrant + 1});
}

template <typename T>
INLINE Lanes<T> tan(Wide<T> x) {
    return convert<T>(tan(x.value));
}
