// Copies in batches: what the page says against what the driver copied, in the forms of CUDA 12
// and 13.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "bpf/cuda/cuda.h"
#include "tests/harness/counting.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"

using namespace harness;

namespace {

// The stand-in `batches`, whose processes have the name of their form.
struct BatchesRun {
    TemporaryDirectory directory;
    Process process;

    BatchesRun(const std::string &form, const std::vector<std::string> &steps)
        : process(start(directory, form, steps)) {}
    [[nodiscard]] truth::TruthSnapshot truth() const {
        return truth::sum(truth::read_truth(directory / "truth"));
    }

private:
    static Process start(const TemporaryDirectory &in, const std::string &form,
                         const std::vector<std::string> &steps) {
        std::vector<std::string> command = {standin("batches"), form, in / "go", form};
        command.insert(command.end(), steps.begin(), steps.end());
        std::filesystem::create_directory(in / "truth");
        write_file(in / "go", "");
        return Process(command, {{"STANDIN_TRUTH_DIR", (in / "truth").string()}});
    }
};

// Keeps both runtimes and the driver in use, so that the probes are there before the processes
// whose copies have to have directions. It waits for a file that nobody makes.
Process hold_for_batches(const Exporter &exporter) {
    Process holder({standin("batches"), "holder", "/nowhere/go", "runtime13"});
    for (const char *library :
         {"12/libcudart.so.12", "13/libcudart.so.13", "driver/libcuda.so.1"}) {
        exporter.wait_until_attached_to(standin(library));
    }
    return holder;
}

double batches_in_flight(const Page &page, const Process &process) {
    return page.sum("gpusnoop_cuda_memcpy_async_in_flight_estimated_bytes",
                    {{"pid", std::to_string(process.pid())}});
}

double throttled_calls(const Page &page) {
    return page.sum("gpusnoop_probe_events_lost_total",
                    {{"probe", "cuda"}, {"reason", "throttled"}});
}

// Of the first so many copies of `batches`: each has i % 100 bytes.
double bytes_of_first(std::uint64_t copies) {
    std::uint64_t bytes = 0;
    for (std::uint64_t i = 0; i < copies; i++) {
        bytes += i % 100;
    }
    return number(bytes);
}

}  // namespace

TEST_CASE("each copy of a batch is counted, by its own direction and size",
          "[kernel][core][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const Exporter exporter("cuda:\n  attach: " + mode + "\n");
    const Process holder = hold_for_batches(exporter);
    for (const std::string form : {"runtime12", "runtime13", "driver12", "driver13"}) {
        CAPTURE(form);
        // Around what one record has: 64 copies, or 13 with shapes.
        const BatchesRun run(form, {"1", "63", "64", "65", "0", "failing", "captured", "legacy",
                                    "1000", "3d:1", "3d:13", "3d:14", "3d:200", "16384"});
        run.process.wait_for_output("holding");
        const auto truth = run.truth();
        std::uint64_t copies = 0;
        for (const auto kind : {truth::CopyKind::h2h, truth::CopyKind::h2d, truth::CopyKind::d2h,
                                truth::CopyKind::d2d}) {
            copies += truth.of(kind, truth::CopyMode::async).calls;
        }
        REQUIRE(copies == 1 + 63 + 64 + 65 + 1000 + 1 + 13 + 14 + 200 + 16384);
        const Page page =
            exporter.wait_for("gpusnoop_cuda_memcpy_total", {{"comm", form}}, number(copies));
        check_counters(page, truth, form);
        const std::string function =
            form.starts_with("runtime") ? "cudaMemcpyBatchAsync" : "cuMemcpyBatchAsync";
        CHECK(page.sum("gpusnoop_cuda_api_errors_total",
                       {{"comm", form}, {"function", function}}) == 3);
    }
    check_account_at_rest(exporter);
}

TEST_CASE("copies of a batch are in flight until a call waits for its stream",
          "[kernel][core][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const Exporter exporter("cuda:\n  attach: " + mode + "\n");
    const Process holder = hold_for_batches(exporter);
    for (const std::string form : {"runtime12", "runtime13", "driver12", "driver13"}) {
        CAPTURE(form);
        const BatchesRun run(form, {"10", "3d:1", "say:submitted", "sync"});
        run.process.wait_for_output("submitted");
        const Page before = exporter.wait_for("gpusnoop_cuda_memcpy_total", {{"comm", form}}, 11);
        CHECK(batches_in_flight(before, run.process) == 45 + 6);
        run.process.signal(SIGUSR1);
        run.process.wait_for_output("holding");
        eventually("no copy to be in flight",
                   [&] { return batches_in_flight(exporter.scrape(), run.process) == 0; });
    }
}

// The limit is that of each mode, which count batches above.
TEST_CASE("a batch that is too large is counted up to a limit, and as lost", "[kernel]") {
    require_bpf();
    const Exporter exporter(attached_by(attach_modes().front()));
    constexpr std::uint64_t most = std::uint64_t{CUDA_MAX_BATCH_RECORDS} * CUDA_BATCH_COPIES;
    const double before = throttled_calls(exporter.scrape());
    const Process holder({standin("workload"), "--iterations", "0", "--hold", "--name", "holder"});
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    const TemporaryDirectory directory;
    write_file(directory / "go", "");
    const Process run({standin("batches"), "large", directory / "go", "runtime12",
                       std::to_string(most), std::to_string(most + 1)});
    run.wait_for_output("holding");
    const Page page =
        exporter.wait_for("gpusnoop_cuda_memcpy_total", {{"comm", "large"}}, number(2 * most));
    CHECK(page.sum("gpusnoop_cuda_memcpy_bytes_total", {{"comm", "large"}}) ==
          2 * bytes_of_first(most));
    CHECK(throttled_calls(page) == before + 1);
    eventually("the account to balance", [&] {
        const Page now = exporter.scrape();
        const Labels cuda = {{"probe", "cuda"}};
        return now.sum("gpusnoop_probe_entries_total", cuda) ==
               now.sum("gpusnoop_probe_events_total", cuda) +
                   now.sum("gpusnoop_probe_in_flight_calls", cuda) +
                   now.sum("gpusnoop_probe_stale_calls_total", cuda) +
                   now.sum("gpusnoop_probe_events_lost_total", cuda);
    });
}

TEST_CASE("a batch whose arrays cannot be read is lost, and says so", "[kernel]") {
    require_bpf();
    const Exporter exporter;
    const auto faults = [&](const Page &page) {
        return page.sum("gpusnoop_probe_events_lost_total",
                        {{"probe", "cuda"}, {"reason", "fault"}});
    };
    const Process holder = hold_for_batches(exporter);
    const double before = faults(exporter.scrape());
    const BatchesRun run("driver13", {"gone", "7"});
    run.process.wait_for_output("holding");
    const Page page = exporter.wait_for("gpusnoop_cuda_memcpy_total", {{"comm", "driver13"}}, 7);
    CHECK(faults(page) == before + 1);
}
