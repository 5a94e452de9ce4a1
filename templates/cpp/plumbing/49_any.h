// defines: any all_at_least
template <typename T>
INLINE bool any(Mask<T> mask) {
    const auto set = mask.bits.part[0] | mask.bits.part[Types<T>::parts - 1];
#if defined(GCC_AVX512)
    return __builtin_ia32_ptestmd512(reinterpret_cast<Ints>(set), reinterpret_cast<Ints>(set), -1) != 0;
#elif defined(__AVX__) && !defined(__AVX512F__)
    return __builtin_ia32_movmskps256(reinterpret_cast<Floats>(set)) != 0;
#else
    const Longs pairs = reinterpret_cast<Longs>(set);
    int64_t some = 0;
    for (int j = 0; j < W / 2; j++) some |= pairs[j];
    return some != 0;
#endif
}

INLINE bool all_at_least(Lanes<float> a, Lanes<float> b) {
#if defined(GCC_AVX512)
    return static_cast<uint16_t>(__builtin_ia32_cmpps512_mask(a.part[0], b.part[0], 13, -1, 4)) == 0xffff;
#else
    return !any(!(a >= b));
#endif
}
