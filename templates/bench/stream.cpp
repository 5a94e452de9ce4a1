// What memory allows: reads and writes as many bytes as asked for, and computes next to nothing.
#include <cstdint>

extern "C" float stream(const float* const* read, const int64_t* read_sizes, int reads, float* const* written,
                        const int64_t* written_sizes, int writes, int threads) {
    constexpr int64_t BLOCKS = 512;
    float total = 0;
#pragma omp parallel for schedule(dynamic, 8) num_threads(threads) reduction(+ : total)
    for (int64_t block = 0; block < BLOCKS; block++) {
        float sum = 0;
        for (int k = 0; k < reads; k++) {
            const int64_t first = read_sizes[k] * block / BLOCKS, last = read_sizes[k] * (block + 1) / BLOCKS;
            const float* p = read[k];
#pragma omp simd reduction(+ : sum)
            for (int64_t i = first; i < last; i++) sum += p[i];
        }
        for (int k = 0; k < writes; k++) {
            const int64_t first = written_sizes[k] * block / BLOCKS, last = written_sizes[k] * (block + 1) / BLOCKS;
            float* p = written[k];
            for (int64_t i = first; i < last; i++) p[i] = sum;
        }
        total += sum;
    }
    return total;
}
