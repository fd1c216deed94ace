// Pins of an exporter that was killed, of which something has removed some.
#include <signal.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/harness/counting.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/cuda_workload.h"
#include "tests/harness/exporter.h"
#include "tests/harness/pin_directory.h"

using namespace harness;
namespace fs = std::filesystem;

namespace {

// Of the only process of that name.
std::string completeness_of(const Exporter &exporter, const std::string &comm) {
    const auto samples = exporter.scrape().samples("gpusnoop_process_info", {{"comm", comm}});
    return samples.size() == 1 ? samples[0].labels.at("complete") : "unknown";
}

// Removes every second pin but the table of all ("half"), all whose names begin so, or one of a
// library ("library_"). Returns their names.
std::vector<std::string> remove_pins_of(const PinDirectory &pins, const std::string &which) {
    std::vector<fs::path> all;
    for (const auto &entry : fs::directory_iterator(fs::directory_iterator(pins.path)->path())) {
        all.push_back(entry.path());
    }
    std::ranges::sort(all);
    std::vector<std::string> removed;
    for (std::size_t i = 0; i < all.size(); i++) {
        const std::string name = all[i].filename().string();
        const bool is_wanted =
            which == "half" ? i % 2 == 0 && name != "map_pins" : name.starts_with(which);
        if (is_wanted && (which != "library_" || removed.empty())) {
            REQUIRE(fs::remove(all[i]));
            removed.push_back(name);
        }
    }
    return removed;
}

}  // namespace

TEST_CASE("pins that something removed are named, and nothing is taken for known", "[kernel]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    // Every second one; the tables alone; the names of all; one link of a library.
    const std::string what = GENERATE("half", "map_cuda_", "map_pins", "library_");
    CAPTURE(mode, what);
    const PinDirectory pins;
    auto first = std::make_unique<Exporter>(pins.config(mode));
    const Process holder = hold(*first);
    const Process keeps({standin("steps"), "name", "keeps", "allocate", "8", "1000", "wait",
                         "allocate", "3", "1000", "wait"});
    keeps.wait_for_output("waiting 1");
    eventually("the first exporter to have counted all",
               [&] { return outstanding(first->scrape(), keeps.pid()) == 8 * 1000; });
    first->process().signal(SIGKILL);
    (void)first->process().wait();
    const std::vector<std::string> removed = remove_pins_of(pins, what);
    REQUIRE_FALSE(removed.empty());

    const Exporter second(pins.config(mode));
    second.wait_until_attached_to(standin("12/libcudart.so.12"));
    CAPTURE(second.log());
    CHECK(second.log().find("pins of the previous exporter are missing") != std::string::npos);
    CHECK(second.log().find(removed[0]) != std::string::npos);
    const double missing = second.scrape().sum("gpusnoop_probe_attach_failures_total",
                                               {{"probe", "cuda"}, {"reason", "pin"}});
    CHECK(missing >= 1);
    CHECK(missing <= static_cast<double>(removed.size()));
    // What it allocates from now on is counted: it is not written to tables that nobody reads.
    keeps.go_on_to(2);
    eventually("what is allocated from now on to be on the page",
               [&] { return outstanding(second.scrape(), keeps.pid()) == 3 * 1000; });
    CHECK(completeness_of(second, "keeps") == "false");
    const TemporaryDirectory directory;
    const Process after = start(directory.path(), {"--leak", "1000", "--name", "after"});
    after.wait_for_output("holding");
    const auto truth = truth_of(directory.path(), "after");
    eventually("the exporter to have counted all", [&] {
        return outstanding(second.scrape(), after.pid()) ==
               number(truth.all_memory().outstanding_bytes);
    });
    CHECK(completeness_of(second, "after") == "true");
}
