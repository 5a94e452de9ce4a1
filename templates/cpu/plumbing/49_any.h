// defines: any
INLINE bool any(Mask<float> mask) {
#if defined(__AVX512F__)
    return _mm512_test_epi32_mask((__m512i)mask.bits.part[0], (__m512i)mask.bits.part[0]) != 0;
#elif defined(__AVX__)
    return _mm256_movemask_ps((__m256)mask.bits.part[0]) != 0;
#else
    return (mask.bits.part[0][0] | mask.bits.part[0][1] | mask.bits.part[0][2] | mask.bits.part[0][3]) != 0;
#endif
}
