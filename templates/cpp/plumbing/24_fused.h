// defines: fused FUSED
// a * b + c, rounded once, where the processor can.
#if defined(__FMA__) && defined(__has_builtin)
#if __has_builtin(__builtin_elementwise_fma)
#define FUSED __builtin_elementwise_fma(a.part[0], b.part[0], c.part[0])
#elif __has_builtin(__builtin_ia32_vfmaddps512_mask) && defined(__AVX512F__)
#define FUSED __builtin_ia32_vfmaddps512_mask(a.part[0], b.part[0], c.part[0], -1, 4)
#elif __has_builtin(__builtin_ia32_vfmaddps256) && !defined(__AVX512F__)
#define FUSED __builtin_ia32_vfmaddps256(a.part[0], b.part[0], c.part[0])
#endif
#endif
#if defined(FUSED)
INLINE Lanes<float> fused(Lanes<float> a, Lanes<float> b, Lanes<float> c) {
    c.part[0] = FUSED;
    return c;
}
#endif
