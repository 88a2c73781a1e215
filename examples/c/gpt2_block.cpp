// One block of GPT-2 small, from C++: 768 features, 12 heads, weights from a little generator, so that the result is known.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

#include "axon_block.h"

namespace {

// Numbers from -scale to scale: the middle bits of a linear congruential generator.
class Numbers {
public:
    std::vector<float> operator()(std::size_t count, float scale, float middle = 0)
    {
        std::vector<float> made(count);
        for (float &x : made) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            x = middle + scale * (static_cast<float>(state >> 40) / 8388608.0f - 1.0f);
        }
        return made;
    }

private:
    std::uint64_t state = 1;
};

// A result, which is given back at the end of its scope.
struct Result {
    axon_f32_2 tensor{};
    ~Result() { axon_block_free(&tensor); }
};

}  // namespace

int main()
{
    const std::int64_t d = 768, heads = 12, tokens = 128;
    Numbers numbers;
    std::vector<std::vector<float>> kept;
    auto vector = [&](std::int64_t n, float scale, float middle) {
        kept.push_back(numbers(static_cast<std::size_t>(n), scale, middle));
        return axon_f32_1_of(kept.back().data(), n);
    };
    auto matrix = [&](std::int64_t n, std::int64_t m) {
        kept.push_back(numbers(static_cast<std::size_t>(n * m), 0.03f));
        return axon_f32_2_of(kept.back().data(), n, m);
    };
    axon_block_p p;
    p.norm1.scale = vector(d, 0.1f, 1.0f);
    p.norm1.shift = vector(d, 0.1f, 0.0f);
    p.attention.qkv.w = matrix(d, 3 * d);
    p.attention.qkv.b = vector(3 * d, 0.1f, 0.0f);
    p.attention.out.w = matrix(d, d);
    p.attention.out.b = vector(d, 0.1f, 0.0f);
    p.norm2.scale = vector(d, 0.1f, 1.0f);
    p.norm2.shift = vector(d, 0.1f, 0.0f);
    p.up.w = matrix(d, 4 * d);
    p.up.b = vector(4 * d, 0.1f, 0.0f);
    p.down.w = matrix(4 * d, d);
    p.down.b = vector(d, 0.1f, 0.0f);
    const axon_f32_2 x = matrix(tokens, d);

    Result result;
    for (int repetition = 0; repetition < 3; ++repetition) {
        axon_block_free(&result.tensor);
        const auto start = std::chrono::steady_clock::now();
        if (axon_block(heads, &p, &x, &result.tensor) != AXON_OK) {
            std::fprintf(stderr, "%s\n", axon_block_error());
            return 1;
        }
        const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
        std::fprintf(stderr, "%.1f ms\n", time.count());
    }
    const float *y = result.tensor.data;
    std::printf("[%lld, %lld] %.4f %.4f %.4f\n", static_cast<long long>(result.tensor.sizes[0]),
        static_cast<long long>(result.tensor.sizes[1]), y[0], y[d], y[tokens * d - 1]);

    Result none;
    if (axon_block(7, &p, &x, &none.tensor) != AXON_OK) {
        std::printf("%s\n", axon_block_error());
    }
    return 0;
}
