#include "exporter/probes/frame/budget.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <iterator>
#include <string>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/config/config.h"
#include "exporter/probes/frame/registry.h"
#include "exporter/series/family_set.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;

namespace {

Result<config::Config> read_yaml(const std::string &text) {
    return config::parse(text, "c.yaml", setting_blocks());
}

// The histograms that the probes of this configuration show.
std::vector<std::string> shown_by(const std::string &text) {
    const auto config = read_yaml(text);
    REQUIRE(config);
    const series::Budget budget = budget_of(*config);
    std::vector<std::string> shown;
    std::ranges::copy_if(all_histograms(), std::back_inserter(shown),
                         [&](const std::string &name) { return budget(name) > 0; });
    return shown;
}

}  // namespace

TEST_CASE("by default, the histograms are those that rules need, and of probes that are off") {
    auto shown = shown_by("");
    auto names = HistogramsConfig().names;
    std::ranges::sort(shown);
    std::ranges::sort(names);
    CHECK(shown == names);
    CHECK(shown.size() < all_histograms().size());
}

TEST_CASE("the setting chooses histograms, and nothing else") {
    const std::string sizes = "gpusnoop_cuda_memcpy_size_bytes";
    CHECK(shown_by("histograms: [" + sizes + "]") == std::vector<std::string>{sizes});
    CHECK(shown_by("histograms: []").empty());
    const auto config =
        read_yaml("series: {budget: 11, budgets: {" + sizes + ": 12}}\nhistograms: []\n");
    REQUIRE(config);
    const series::Budget budget = budget_of(*config);
    CHECK(budget(sizes) == 0);
    CHECK(budget("gpusnoop_cuda_memcpy_total") == 11);
}

TEST_CASE("a name that is no histogram's is refused") {
    const auto problem = [](const std::string &text) {
        const auto config = read_yaml(text);
        return config ? std::string() : config.error().message;
    };
    CHECK(problem("histograms: [gpusnoop_cuda_memcpy_size_byte]") ==
          "c.yaml:1:14: histograms[0]: \"gpusnoop_cuda_memcpy_size_byte\" is no histogram, did you "
          "mean \"gpusnoop_cuda_memcpy_size_bytes\"?");
    CHECK(problem("histograms: [gpusnoop_cuda_memcpy_total]")
              .starts_with(
                  "c.yaml:1:14: histograms[0]: \"gpusnoop_cuda_memcpy_total\" is no histogram"));
    CHECK(problem("histograms: all") ==
          "c.yaml:1:13: histograms: expected a list of names of histograms, got \"all\"");
}
