// What memory allows: reads and writes as many bytes as asked for, and computes next to nothing. It reads ahead, and
// writes past the caches what does not fit into them, as the fused passes do.
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__)
typedef float Register __attribute__((vector_size(64)));
#elif defined(__AVX__)
typedef float Register __attribute__((vector_size(32)));
#else
typedef float Register __attribute__((vector_size(16)));
#endif
constexpr int64_t BLOCK = 1 << 15, LINE = 64, NEAR = 16 * LINE, FAR = 128 * LINE, CACHED = 12 << 20;

// Where the part of so many bytes begins that belongs to a block, in whole lines of a cache.
static int64_t place(int64_t bytes, int64_t block, int64_t blocks) { return bytes / LINE * block / blocks * LINE; }

extern "C" float stream(const char* const* read, const int64_t* read_bytes, int reads, char* const* written,
                        const int64_t* written_bytes, int writes, int threads) {
    int64_t bytes = 0;
    for (int k = 0; k < reads; k++) bytes += read_bytes[k];
    for (int k = 0; k < writes; k++) bytes += written_bytes[k];
    const int64_t blocks = bytes / BLOCK + 1;
    float total = 0;
#pragma omp parallel for schedule(dynamic, 16) num_threads(threads) reduction(+ : total)
    for (int64_t block = 0; block < blocks; block++) {
        Register sum = {};
        for (int k = 0; k < reads; k++) {
            const int64_t end = place(read_bytes[k], block + 1, blocks);
            for (int64_t i = place(read_bytes[k], block, blocks); i < end; i += sizeof sum) {
                __builtin_prefetch(read[k] + i + FAR, 0, 2);
                __builtin_prefetch(read[k] + i + NEAR, 0, 3);
                Register own;
                memcpy(&own, read[k] + i, sizeof own);
                sum += own;
            }
        }
        for (int k = 0; k < writes; k++) {
            const int64_t end = place(written_bytes[k], block + 1, blocks);
            for (int64_t i = place(written_bytes[k], block, blocks); i < end; i += sizeof sum) {
#if defined(__AVX__)
                if (written_bytes[k] >= CACHED) {
                    asm("vmovntps %1, %0" : "=m"(*reinterpret_cast<Register*>(written[k] + i)) : "v"(sum));
                    continue;
                }
#endif
                __builtin_prefetch(written[k] + i + NEAR, 1);
                memcpy(written[k] + i, &sum, sizeof sum);
            }
        }
        total += sum[0];
#if defined(__AVX__)
        asm volatile("sfence" ::: "memory");
#endif
    }
    return total;
}
