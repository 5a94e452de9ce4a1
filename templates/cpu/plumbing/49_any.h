// defines: any
template <typename T>
INLINE bool any(Mask<T> mask) {
    const auto set = mask.bits.part[0] | mask.bits.part[Types<T>::parts - 1];
#if defined(__AVX512F__)
    uint16_t found;
    asm("vptestmd %1, %1, %0" : "=k"(found) : "v"(set));
    return found != 0;
#elif defined(__AVX__)
    int found;
    asm("vmovmskps %1, %0" : "=r"(found) : "x"(set));
    return found != 0;
#else
    const Longs halves = reinterpret_cast<Longs>(set);
    return (halves[0] | halves[1]) != 0;
#endif
}
