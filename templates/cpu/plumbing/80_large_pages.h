// defines: in_large_pages
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
