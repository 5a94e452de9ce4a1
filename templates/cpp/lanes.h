#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#define INLINE [[gnu::always_inline]] inline

// ------------------------------------------------------------------------------------------------ lanes
// One vector register's worth of elements. Everything below is plain C++ on the vector types of GCC and Clang, so
// that the compiler picks the instructions.
#if defined(__AVX512F__)
#define LOW 0, 1, 2, 3, 4, 5, 6, 7
#define HIGH 8, 9, 10, 11, 12, 13, 14, 15
constexpr int W = 16;
#elif defined(__AVX__)
#define LOW 0, 1, 2, 3
#define HIGH 4, 5, 6, 7
constexpr int W = 8;
#else
#define LOW 0, 1
#define HIGH 2, 3
constexpr int W = 4;
#endif

// Instructions where the compiler would use several, without the header in which they have names: it takes longer to
// read than the rest of this file to compile. What GCC has built in it can share between formulas, unlike assembler.
#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
#define GCC_AVX512
#endif
#define INSTRUCTION(text, name, To, From)       \
    INLINE To name(From x) {                    \
        To y;                                   \
        asm(text " %1, %0" : "=v"(y) : "v"(x)); \
        return y;                               \
    }

typedef float Floats __attribute__((vector_size(W * 4)));
typedef int32_t Ints __attribute__((vector_size(W * 4)));
typedef uint32_t Words __attribute__((vector_size(W * 4)));
typedef uint16_t Shorts __attribute__((vector_size(W * 2)));
typedef double Doubles __attribute__((vector_size(W * 4)));
typedef int64_t Longs __attribute__((vector_size(W * 4)));
typedef float HalfFloats __attribute__((vector_size(W * 2)));
typedef int32_t HalfInts __attribute__((vector_size(W * 2)));

// Lanes of float fill one register, lanes of double two.
template <typename T>
struct Types;
template <>
struct Types<float> {
    using Part = Floats;
    using BitPart = Ints;
    using Bit = int32_t;
    static constexpr int parts = 1;
};
template <>
struct Types<double> {
    using Part = Doubles;
    using BitPart = Longs;
    using Bit = int64_t;
    static constexpr int parts = 2;
};

// A statement for each part; a loop would keep the parts in memory.
#define EACH_PART(...)                                                        \
    {                                                                         \
        constexpr int p = 0;                                                  \
        __VA_ARGS__;                                                          \
    }                                                                         \
    if constexpr (Types<T>::parts > 1) {                                      \
        constexpr int p = Types<T>::parts - 1;                                \
        __VA_ARGS__;                                                          \
    }

// The bits of W numbers as integers of their size; of a truth value all are set, or none.
template <typename T>
struct Bits {
    using Bit = typename Types<T>::Bit;
    typename Types<T>::BitPart part[Types<T>::parts];

    Bits() = default;
    Bits(Bit value) { EACH_PART(part[p] = typename Types<T>::BitPart{} + value) }

#define OPERATION(symbol)                                      \
    friend Bits operator symbol(Bits a, Bits b) {              \
        EACH_PART(a.part[p] = a.part[p] symbol b.part[p])      \
        return a;                                              \
    }
    OPERATION(+)
    OPERATION(-)
    OPERATION(&)
    OPERATION(|)
    OPERATION(^)
#undef OPERATION
    friend Bits operator~(Bits a) {
        EACH_PART(a.part[p] = ~a.part[p])
        return a;
    }
    friend Bits operator<<(Bits a, int count) {
        EACH_PART(a.part[p] = a.part[p] << count)
        return a;
    }
    friend Bits operator>>(Bits a, int count) {
        EACH_PART(a.part[p] = a.part[p] >> count)
        return a;
    }
};

template <typename T>
struct Mask {
    Bits<T> bits;

    Mask() = default;
    Mask(Bits<T> of) : bits(of) {}
    Mask(bool all) { EACH_PART(bits.part[p] = typename Types<T>::BitPart{} - typename Types<T>::Bit{all}) }

    friend Mask operator&(Mask a, Mask b) { return {a.bits & b.bits}; }
    friend Mask operator|(Mask a, Mask b) { return {a.bits | b.bits}; }
    friend Mask operator!(Mask a) { return {~a.bits}; }
};

template <typename T>
INLINE Mask<T> is_zero(Bits<T> bits) {
    EACH_PART(bits.part[p] = bits.part[p] == 0)
    return {bits};
}

// W numbers; a scalar beside them is rounded to their type.
template <typename T>
struct Lanes {
    using Element = T;
    using Part = typename Types<T>::Part;
    Part part[Types<T>::parts];

    Lanes() = default;
    template <typename Other>
    explicit Lanes(Lanes<Other> x);
    Lanes(double value) { EACH_PART(part[p] = Part{} + static_cast<T>(value)) }

#define OPERATION(symbol)                                      \
    friend Lanes operator symbol(Lanes a, Lanes b) {           \
        EACH_PART(a.part[p] = a.part[p] symbol b.part[p])      \
        return a;                                              \
    }
    OPERATION(+)
    OPERATION(-)
    OPERATION(*)
    OPERATION(/)
#undef OPERATION
#define COMPARISON(symbol)                                     \
    friend Mask<T> operator symbol(Lanes a, Lanes b) {         \
        Mask<T> result;                                        \
        EACH_PART(result.bits.part[p] = a.part[p] symbol b.part[p]) \
        return result;                                         \
    }
    COMPARISON(<)
    COMPARISON(<=)
    COMPARISON(>)
    COMPARISON(>=)
    COMPARISON(==)
    COMPARISON(!=)
#undef COMPARISON
    friend Lanes operator-(Lanes a) {
        EACH_PART(a.part[p] = -a.part[p])
        return a;
    }
    friend Lanes where(Mask<T> condition, Lanes a, Lanes b) {
        EACH_PART(a.part[p] = condition.bits.part[p] ? a.part[p] : b.part[p])
        return a;
    }
    friend Lanes abs(Lanes x) { return from_bits(bits_of(x) & ~sign_bit()); }

    static Bits<T> bits_of(Lanes x) {
        Bits<T> bits;
        EACH_PART(bits.part[p] = reinterpret_cast<typename Types<T>::BitPart>(x.part[p]))
        return bits;
    }
    static Lanes from_bits(Bits<T> bits) {
        Lanes x;
        EACH_PART(x.part[p] = reinterpret_cast<Part>(bits.part[p]))
        return x;
    }
    static Bits<T> sign_bit() { return typename Types<T>::Bit{1} << (8 * sizeof(T) - 1); }

    T operator[](int i) const { return part[i / (W / Types<T>::parts)][i % (W / Types<T>::parts)]; }
};

// Half a register, and two halves as one: through memory where the compiler has no other way.
#if defined(__clang__) || __GNUC__ >= 12
template <typename Half, typename Whole>
INLINE Half low_half(Whole x) {
    return __builtin_shufflevector(x, x, LOW);
}
template <typename Half, typename Whole>
INLINE Half high_half(Whole x) {
    return __builtin_shufflevector(x, x, HIGH);
}
template <typename Whole, typename Half>
INLINE Whole joined(Half low, Half high) {
    return __builtin_shufflevector(low, high, LOW, HIGH);
}
#else
template <typename Half, typename Whole>
INLINE Half low_half(Whole x) {
    Half half;
    memcpy(&half, &x, sizeof half);
    return half;
}
template <typename Half, typename Whole>
INLINE Half high_half(Whole x) {
    Half half[2];
    memcpy(half, &x, sizeof half);
    return half[1];
}
template <typename Whole, typename Half>
INLINE Whole joined(Half low, Half high) {
    const Half half[2] = {low, high};
    Whole x;
    memcpy(&x, half, sizeof x);
    return x;
}
#endif

// GCC would convert a register of AVX-512 in four pieces.
#if defined(GCC_AVX512)
INLINE Doubles widened(HalfFloats x) { return __builtin_ia32_cvtps2pd512_mask(x, Doubles{}, -1, 4); }
INLINE HalfFloats narrowed(Doubles x) { return __builtin_ia32_cvtpd2ps512_mask(x, HalfFloats{}, -1, 4); }
#else
INLINE Doubles widened(HalfFloats x) { return __builtin_convertvector(x, Doubles); }
INLINE HalfFloats narrowed(Doubles x) { return __builtin_convertvector(x, HalfFloats); }
#endif

INLINE Lanes<float> convert_to(float, Lanes<float> x) { return x; }
INLINE Lanes<double> convert_to(double, Lanes<double> x) { return x; }

INLINE Lanes<double> convert_to(double, Lanes<float> x) {
    Lanes<double> y;
    y.part[0] = widened(low_half<HalfFloats>(x.part[0]));
    y.part[1] = widened(high_half<HalfFloats>(x.part[0]));
    return y;
}

INLINE Lanes<float> convert_to(float, Lanes<double> x) {
    Lanes<float> y;
    y.part[0] = joined<Floats>(narrowed(x.part[0]), narrowed(x.part[1]));
    return y;
}

template <typename To, typename From>
INLINE Lanes<To> convert(Lanes<From> x) {
    return convert_to(To{}, x);
}

template <typename T>
template <typename Other>
INLINE Lanes<T>::Lanes(Lanes<Other> x) : Lanes(convert<T>(x)) {}

using InDouble = Lanes<double>;

// Integers as numbers.
template <typename T>
INLINE Lanes<T> number_of(Bits<T> bits) {
    Lanes<T> x;
    EACH_PART(x.part[p] = __builtin_convertvector(bits.part[p], typename Types<T>::Part))
    return x;
}

// A function of the standard library, lane by lane.
template <typename T, typename Function>
INLINE Lanes<T> each(Lanes<T> x, Function function) {
    T values[W];
    memcpy(values, x.part, sizeof values);
    for (int i = 0; i < W; i++) values[i] = function(values[i]);
    memcpy(x.part, values, sizeof values);
    return x;
}

template <typename T, typename Function>
INLINE Lanes<T> each(Lanes<T> x, Lanes<T> y, Function function) {
    T values[W], others[W];
    memcpy(values, x.part, sizeof values);
    memcpy(others, y.part, sizeof others);
    for (int i = 0; i < W; i++) values[i] = function(values[i], others[i]);
    memcpy(x.part, values, sizeof values);
    return x;
}
