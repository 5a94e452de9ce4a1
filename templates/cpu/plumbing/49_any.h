// defines: any
template <typename T>
INLINE bool any(Mask<T> mask) {
    const auto set = mask.bits.part[0] | mask.bits.part[Types<T>::parts - 1];
#if defined(__AVX512F__)
    return _mm512_test_epi32_mask((__m512i)set, (__m512i)set) != 0;
#elif defined(__AVX__)
    return _mm256_movemask_ps((__m256)set) != 0;
#else
    const Longs halves = reinterpret_cast<Longs>(set);
    return (halves[0] | halves[1]) != 0;
#endif
}
