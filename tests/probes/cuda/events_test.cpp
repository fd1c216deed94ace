// The times between events that real processes ask for: what the page says against what the driver
// gave.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <filesystem>
#include <string>

#include "tests/harness/counting.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"

using namespace harness;

namespace {

struct CudaEventsRun {
    TemporaryDirectory directory;
    Process process;

    CudaEventsRun(const Exporter &exporter, const std::string &comm,
                  std::vector<std::string> values)
        : process(start(directory, comm, std::move(values))) {
        process.wait_for_output("ready");
        exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
        write_file(directory / "go", "");
        process.wait_for_output("holding");
    }

    static Process start(const TemporaryDirectory &in, const std::string &comm,
                         std::vector<std::string> values) {
        values.insert(values.begin(), {standin("events"), comm, (in / "go").string()});
        std::filesystem::create_directory(in / "truth");
        return Process(values, {{"STANDIN_TRUTH_DIR", (in / "truth").string()}});
    }
    [[nodiscard]] truth::TruthSnapshot truth() const {
        return truth::sum(truth::read_truth(directory / "truth"));
    }
};

double bucket(const Page &page, const std::string &comm, const std::string &bound) {
    return page.sum("gpusnoop_cuda_event_elapsed_seconds_bucket", {{"comm", comm}, {"le", bound}});
}

double cuda_events_faults(const Exporter &exporter) {
    return exporter.scrape().sum("gpusnoop_probe_events_lost_total",
                                 {{"probe", "cuda"}, {"reason", "fault"}});
}

}  // namespace

TEST_CASE("times between events are those that the driver gave",
          "[kernel][core][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    const std::string endings = GENERATE_COPY(from_range(endings_by(mode)));
    CAPTURE(mode, endings);
    if (mode == "perf" && endings == "exits") {
        return;  // the exits are tried by the others, and detaching takes long here
    }
    const Exporter exporter(attached_by(mode) + "  endings: " + endings + "\n");

    {  // in their buckets
        const CudaEventsRun run(exporter, "timed",
                                {"0.005", "0.5", "0.5", "3", "1500", "unrecorded"});
        const auto truth = run.truth();
        REQUIRE(truth.elapsed_times == 5);
        const Page page =
            exporter.wait_for("gpusnoop_cuda_event_elapsed_seconds_count", {{"comm", "timed"}}, 5);
        check_counters(page, truth, "timed");
        CHECK(bucket(page, "timed", "0.00001") == 1);
        CHECK(bucket(page, "timed", "0.00025") == 1);
        CHECK(bucket(page, "timed", "0.0005") == 3);
        CHECK(bucket(page, "timed", "0.005") == 4);
        CHECK(bucket(page, "timed", "2.5") == 5);
        CHECK(page.sum("gpusnoop_cuda_api_errors_total",
                       {{"comm", "timed"},
                        {"function", "cudaEventElapsedTime"},
                        {"error", "cudaErrorInvalidResourceHandle"}}) == 1);
        check_account_at_rest(exporter);
    }
    {  // without those that cannot be
        const CudaEventsRun run(exporter, "hostile", {"nan", "inf", "-inf", "-1", "1e30", "2"});
        REQUIRE(run.truth().elapsed_invalid == 5);
        const Page page = exporter.wait_for("gpusnoop_cuda_event_elapsed_seconds_count",
                                            {{"comm", "hostile"}}, 1);
        check_counters(page, run.truth(), "hostile");
        check_account_at_rest(exporter);
    }
    {  // without one that could not be read, which is counted as lost
        const double before = cuda_events_faults(exporter);
        const CudaEventsRun run(exporter, "gone", {"gone", "gone", "4"});
        REQUIRE(run.truth().elapsed_times == 3);
        const Page page =
            exporter.wait_for("gpusnoop_cuda_event_elapsed_seconds_count", {{"comm", "gone"}}, 1);
        CHECK(page.sum("gpusnoop_cuda_event_elapsed_seconds_sum", {{"comm", "gone"}}) == 0.004);
        CHECK(cuda_events_faults(exporter) == before + 2);
    }
}
