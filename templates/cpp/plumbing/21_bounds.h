// defines: at_least at_most maximum minimum
// x, or the bound where x is beyond it. A NaN in x stays one: these instructions return their second operand then.
#if defined(GCC_AVX512)
INLINE Floats larger(Floats a, Floats b) { return __builtin_ia32_maxps512_mask(a, b, a, -1, 4); }
INLINE Floats smaller(Floats a, Floats b) { return __builtin_ia32_minps512_mask(a, b, a, -1, 4); }
INLINE Doubles larger(Doubles a, Doubles b) { return __builtin_ia32_maxpd512_mask(a, b, a, -1, 4); }
INLINE Doubles smaller(Doubles a, Doubles b) { return __builtin_ia32_minpd512_mask(a, b, a, -1, 4); }
#else
template <typename Part>
INLINE Part larger(Part a, Part b) {
    return a > b ? a : b;
}
template <typename Part>
INLINE Part smaller(Part a, Part b) {
    return a < b ? a : b;
}
#endif

template <typename T>
INLINE Lanes<T> at_least(Lanes<T> x, Lanes<T> low) {
    EACH_PART(x.part[p] = larger(low.part[p], x.part[p]))
    return x;
}

template <typename T>
INLINE Lanes<T> at_most(Lanes<T> x, Lanes<T> high) {
    EACH_PART(x.part[p] = smaller(high.part[p], x.part[p]))
    return x;
}

template <typename T>
INLINE Lanes<T> at_least(Lanes<T> x, double low) {
    return at_least(x, Lanes<T>(low));
}

template <typename T>
INLINE Lanes<T> at_most(Lanes<T> x, double high) {
    return at_most(x, Lanes<T>(high));
}

// NaN where either is.
template <typename T>
INLINE Lanes<T> maximum(Lanes<T> a, Lanes<T> b) {
    return where(b != b, b, at_least(a, b));
}

template <typename T>
INLINE Lanes<T> minimum(Lanes<T> a, Lanes<T> b) {
    return where(b != b, b, at_most(a, b));
}
