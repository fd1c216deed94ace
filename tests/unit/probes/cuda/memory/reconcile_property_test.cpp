// The live allocations against a model of the BPF programs.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include "tests/unit/probes/cuda/kernel_model.h"
#include "tests/unit/sanitized.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;

namespace {

void run(unsigned seed, Losses losses) {
    CAPTURE(seed);
    Fixture fixture;
    KernelModel kernel(fixture, seed, losses);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 200; i++) {
            kernel.step();
            if (i % 50 == 49) {
                kernel.agree();
            }
        }
        kernel.come_to_rest();
        kernel.check();
    }
}

}  // namespace

TEST_CASE("the live allocations agree with the table again, whatever was lost") {
    const auto seed = static_cast<unsigned>(GENERATE(range(0, random_rounds(40))));
    run(seed, {.percent = seed % 3 == 0 ? 100U : 30U});
}

TEST_CASE("the live allocations agree with the table again, though frees went unseen, too") {
    run(static_cast<unsigned>(GENERATE(range(0, random_rounds(20)))),
        {.percent = 20, .replaces = true});
}

TEST_CASE("where nothing was lost, looking into the table changes no total") {
    run(static_cast<unsigned>(GENERATE(range(0, random_rounds(30)))), {});
}
