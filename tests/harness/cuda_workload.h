// The stand-in workload, for tests of its memory.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/harness/exporter.h"
#include "truth_reader.h"

namespace harness {

inline double outstanding(const Page &page, std::int32_t pid) {
    return page.sum("gpusnoop_cuda_memory_outstanding_bytes", {{"pid", std::to_string(pid)}});
}

// Keeps the libraries in use, so that they are attached to.
inline Process hold(const Exporter &exporter) {
    Process holder({standin("workload"), "--iterations", "0", "--hold", "--name", "holder"});
    exporter.wait_until_attached_to(standin("driver/libcuda.so.1"));
    return holder;
}

// The same for a copy of the runtime.
inline Process hold(const Exporter &exporter, const std::filesystem::path &runtime) {
    Process holder({standin("workload"), "--iterations", "0", "--hold", "--name", "holder"},
                   {{"LD_LIBRARY_PATH", runtime.parent_path().string()}});
    exporter.wait_until_attached_to(runtime);
    return holder;
}

// A workload that stays after its work, and writes its counts into `truth`.
inline Process start(const std::filesystem::path &truth, std::vector<std::string> more) {
    std::vector<std::string> command = {standin("workload"), "--hold"};
    command.insert(command.end(), more.begin(), more.end());
    return Process(command, {{"STANDIN_TRUTH_DIR", truth.string()}});
}

inline truth::TruthSnapshot truth_of(const std::filesystem::path &directory,
                                     const std::string &comm) {
    for (const auto &truth : truth::read_truth(directory)) {
        if (truth.comm == comm) {
            return truth;
        }
    }
    FAIL("no truth of " << comm);
    return {};
}

}  // namespace harness
