// Programs that capture streams and run graphs: what the page says of each against what the
// libraries counted.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/harness/counting.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"

namespace harness {

// A scenario of the stand-in `graphs`, under a name of its own. Its calls begin with begin().
struct GraphsRun {
    TemporaryDirectory directory;
    Process process;

    GraphsRun(const std::string &scenario, const std::string &name,
              const std::vector<std::string> &options)
        : process(start(directory, scenario, name, options)) {
        process.wait_for_output("ready");
    }
    void begin() const { write_file(directory / "go", ""); }
    // When its calls are over.
    [[nodiscard]] truth::TruthSnapshot truth() const {
        CHECK(process.output().find(" instead of ") == std::string::npos);  // as untraced
        return truth::sum(truth::read_truth(directory / "truth"));
    }

private:
    static Process start(const TemporaryDirectory &in, const std::string &scenario,
                         const std::string &name, const std::vector<std::string> &options) {
        std::filesystem::create_directory(in / "truth");
        std::vector<std::string> command = {standin("graphs"), scenario,          "--name", name,
                                            "--hold",          "--wait-for-file", in / "go"};
        command.insert(command.end(), options.begin(), options.end());
        return Process(command, {{"STANDIN_TRUTH_DIR", (in / "truth").string()}});
    }
};

// The driver's library is left out where only the runtime is attached to.
inline void wait_until_attached(const Exporter &exporter, bool to_driver) {
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    if (to_driver) {
        exporter.wait_until_attached_to(standin("driver/libcuda.so.1"));
    }
}

// All that it has done is on the page.
inline Page wait_for_graphs(const Exporter &exporter, const truth::TruthSnapshot &truth) {
    const Labels of = {{"comm", truth.comm}};
    if (truth.graphs() > 0) {
        (void)exporter.wait_for("gpusnoop_cuda_graph_launches_total", of, number(truth.graphs()));
    }
    (void)exporter.wait_for(
        "gpusnoop_cuda_graph_captured_total", of,
        number(truth.of(truth::Captured::launch) + truth.of(truth::Captured::copy) +
               truth.of(truth::Captured::memset) + truth.of(truth::Captured::allocate) +
               truth.of(truth::Captured::free) + truth.of(truth::Captured::graph)));
    return exporter.wait_for("gpusnoop_cuda_kernel_launches_total", of,
                             number(truth.launches + truth.launches_by_graphs));
}

inline void check_graphs(const Exporter &exporter, const std::string &scenario,
                         const std::string &name, const std::vector<std::string> &options,
                         bool to_driver = true) {
    CAPTURE(scenario, options);
    const GraphsRun run(scenario, name, options);
    wait_until_attached(exporter, to_driver);
    run.begin();
    run.process.wait_for_output("holding");
    const auto truth = run.truth();
    const Page page = wait_for_graphs(exporter, truth);
    check_counters(page, truth, truth.comm);
    check_outstanding(page, truth);
    CHECK(page.sum("gpusnoop_cuda_graph_launches_total",
                   {{"comm", truth.comm}, {"content", "unknown"}}) == 0);
    check_account_at_rest(exporter);
}

}  // namespace harness
