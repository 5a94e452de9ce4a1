// ------------------------------------------------------------------------------------------------ lanes
// One vector register's worth of elements. Everything below is plain C++ on the vector types of GCC and Clang, so
// that the compiler picks the instructions.
#if defined(__AVX512F__)
constexpr int W = 16;
#elif defined(__AVX__)
constexpr int W = 8;
#else
constexpr int W = 4;
#endif

typedef float Floats __attribute__((vector_size(W * 4)));
typedef double Doubles __attribute__((vector_size(W * 8)));
typedef int32_t Ints __attribute__((vector_size(W * 4)));
typedef int64_t Longs __attribute__((vector_size(W * 8)));
typedef uint32_t Words __attribute__((vector_size(W * 4)));
typedef uint16_t Shorts __attribute__((vector_size(W * 2)));

template <typename T>
struct Types;
template <>
struct Types<float> {
    using Raw = Floats;
    using Bits = Ints;
    using Bit = int32_t;
};
template <>
struct Types<double> {
    using Raw = Doubles;
    using Bits = Longs;
    using Bit = int64_t;
};

// The truth values of W comparisons: all bits of a lane are set, or none.
template <typename T>
struct Mask {
    typename Types<T>::Bits bits;
    friend Mask operator&(Mask a, Mask b) { return {a.bits & b.bits}; }
    friend Mask operator|(Mask a, Mask b) { return {a.bits | b.bits}; }
    friend Mask operator!(Mask a) { return {~a.bits}; }
};

// W numbers; a scalar beside them is rounded to their type.
template <typename T>
struct Lanes {
    using Raw = typename Types<T>::Raw;
    using Bits = typename Types<T>::Bits;
    using Element = T;
    Raw raw;

    Lanes() = default;
    Lanes(Raw values) : raw(values) {}
    Lanes(double value) : raw(Raw{} + static_cast<T>(value)) {}

    friend Lanes operator+(Lanes a, Lanes b) { return a.raw + b.raw; }
    friend Lanes operator-(Lanes a, Lanes b) { return a.raw - b.raw; }
    friend Lanes operator*(Lanes a, Lanes b) { return a.raw * b.raw; }
    friend Lanes operator/(Lanes a, Lanes b) { return a.raw / b.raw; }
    friend Lanes operator-(Lanes a) { return -a.raw; }
    friend Mask<T> operator<(Lanes a, Lanes b) { return {a.raw < b.raw}; }
    friend Mask<T> operator<=(Lanes a, Lanes b) { return {a.raw <= b.raw}; }
    friend Mask<T> operator>(Lanes a, Lanes b) { return {a.raw > b.raw}; }
    friend Mask<T> operator>=(Lanes a, Lanes b) { return {a.raw >= b.raw}; }
    friend Mask<T> operator==(Lanes a, Lanes b) { return {a.raw == b.raw}; }
    friend Mask<T> operator!=(Lanes a, Lanes b) { return {a.raw != b.raw}; }
    friend Lanes where(Mask<T> condition, Lanes a, Lanes b) { return condition.bits ? a.raw : b.raw; }
    friend Lanes abs(Lanes x) { return from_bits(bits_of(x) & ~sign_bit()); }
    friend Lanes maximum(Lanes a, Lanes b) { return where((a > b) | (a != a), a, b); }
    friend Lanes minimum(Lanes a, Lanes b) { return where((a < b) | (a != a), a, b); }

    static Bits bits_of(Lanes x) { return reinterpret_cast<Bits>(x.raw); }
    static Lanes from_bits(Bits bits) { return reinterpret_cast<Raw>(bits); }
    static Bits sign_bit() { return Bits{} + (typename Types<T>::Bit{1} << (8 * sizeof(T) - 1)); }
};

template <typename To, typename From>
inline Lanes<To> convert(Lanes<From> x) {
    if constexpr (std::is_same_v<To, From>)
        return x;
    else
        return __builtin_convertvector(x.raw, typename Types<To>::Raw);
}

// A function of the standard library, lane by lane.
template <typename T, typename Function>
inline Lanes<T> each(Lanes<T> x, Function function) {
    Lanes<T> y;
    for (int i = 0; i < W; i++) y.raw[i] = function(x.raw[i]);
    return y;
}

template <typename T, typename Function>
inline Lanes<T> each(Lanes<T> x, Lanes<T> y, Function function) {
    Lanes<T> z;
    for (int i = 0; i < W; i++) z.raw[i] = function(x.raw[i], y.raw[i]);
    return z;
}

template <typename T>
inline bool any(Mask<T> mask) {
    typename Types<T>::Bit found = 0;
    for (int i = 0; i < W; i++) found |= mask.bits[i];
    return found != 0;
}
