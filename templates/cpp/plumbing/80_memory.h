// defines: in_large_pages is_streamed end_streams
// ------------------------------------------------------------------------------------------------ memory
// What is written for the first time is provided page by page, which takes longer than all that is computed. Where the
// system has large pages for who asks, it takes a fraction; whole ones only, so that nothing grows.
INLINE void in_large_pages([[maybe_unused]] void* start, [[maybe_unused]] int64_t bytes) {
#if defined(MADV_HUGEPAGE)
    constexpr uintptr_t PAGE = 1 << 21;
    const uintptr_t address = reinterpret_cast<uintptr_t>(start);
    const uintptr_t first = (address + PAGE - 1) / PAGE * PAGE, last = (address + bytes) / PAGE * PAGE;
    if (bytes >= int64_t{2 * PAGE}) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

// Whether a result goes to memory past the caches: one that would have left them before anybody reads it, and of which
// every line would be read before it is written. Memory that is written for the first time comes through the caches.
INLINE bool is_streamed([[maybe_unused]] void* start, [[maybe_unused]] int64_t bytes) {
#if defined(MADV_HUGEPAGE) && defined(__AVX__)
    constexpr int64_t CACHED = 12 << 20;
    constexpr uintptr_t PAGE = 1 << 12;
    if (bytes < CACHED) return false;
    unsigned char is_there = 0;
    mincore(reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(start) + bytes / 2) / PAGE * PAGE), 1, &is_there);
    return is_there & 1;
#else
    return false;
#endif
}

// What other threads read after this is what was streamed before it.
INLINE void end_streams() {
#if defined(__AVX__)
    asm volatile("sfence" ::: "memory");
#endif
}
