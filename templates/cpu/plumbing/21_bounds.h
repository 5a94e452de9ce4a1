// defines: at_least at_most
// x, or the bound where x is beyond it. A NaN stays one: these instructions return their second operand then.
template <typename T>
INLINE Lanes<T> at_least(Lanes<T> x, double low) {
    return where(x < low, Lanes<T>(low), x);
}

template <typename T>
INLINE Lanes<T> at_most(Lanes<T> x, double high) {
    return where(x > high, Lanes<T>(high), x);
}

#if defined(__AVX512F__)
INLINE Lanes<float> at_least(Lanes<float> x, double low) {
    x.part[0] = (Floats)_mm512_max_ps(_mm512_set1_ps(low), (__m512)x.part[0]);
    return x;
}

INLINE Lanes<float> at_most(Lanes<float> x, double high) {
    x.part[0] = (Floats)_mm512_min_ps(_mm512_set1_ps(high), (__m512)x.part[0]);
    return x;
}
#endif
