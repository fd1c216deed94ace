#include "exporter/ebpf/features.h"

#include <catch2/catch_test_macros.hpp>

using gpusnoop::ebpf::AttachMode;
using gpusnoop::ebpf::Features;

TEST_CASE("a link of the mode multi is of one process where the kernel says so, by no version") {
    Features features;
    features.list.push_back({"uprobe_multi", true, ""});
    CHECK_FALSE(features.attaches_to_one(AttachMode::multi));
    features.list.push_back({"uprobe_multi_process", false, "of one thread"});
    CHECK_FALSE(features.attaches_to_one(AttachMode::multi));
    CHECK(features.attaches_to_one(AttachMode::session));
    CHECK(features.attaches_to_one(AttachMode::perf));
    features.list.back() = {"uprobe_multi_process", true, ""};
    CHECK(features.attaches_to_one(AttachMode::multi));
}

TEST_CASE("where links of the mode multi work, what the kernel does with the id of none decides") {
    const Features features = gpusnoop::ebpf::probe_features();
    const auto *multi = features.find("uprobe_multi");
    REQUIRE(multi != nullptr);
    const auto *of_process = features.find("uprobe_multi_process");
    CHECK((of_process != nullptr) == multi->available);
    // Sessions came after the fix.
    if (multi->available && features.find("uprobe_session")->available) {
        CHECK(of_process->available);
    }
}
