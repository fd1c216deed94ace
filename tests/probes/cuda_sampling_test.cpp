// Launches of which only a sample is seen to end, against what the libraries counted.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cmath>

#include "tests/harness/counting.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/cuda_workload.h"
#include "tests/harness/exporter.h"

using namespace harness;

namespace {

constexpr double every = 16;
constexpr double cuda_sampling_threads = 3;

std::string cuda_sampling_config(const std::string &mode, const std::string &more = "") {
    return "series:\n  budget: 100000\ncuda:\n  attach: " + mode +
           "\n  launches: {durations: sampled, every: 16}\n" + more;
}

// Runs until its work is done, and stays.
struct CudaSamplingRun {
    TemporaryDirectory truths;
    std::string comm;
    Process process;

    CudaSamplingRun(const Exporter &exporter, std::string name, std::vector<std::string> options,
                    Process::Environment environment = {})
        : comm(std::move(name)),
          process(start(truths, comm, std::move(options), std::move(environment))) {
        process.wait_for_output("holding");
        (void)exporter.wait_for("gpusnoop_process_info", {{"comm", comm}}, 1);
    }

    static Process start(const TemporaryDirectory &truths, const std::string &comm,
                         std::vector<std::string> options, Process::Environment environment) {
        environment["STANDIN_TRUTH_DIR"] = truths.path().string();
        options.insert(options.begin(),
                       {standin("workload"), "--hold", "--threads", "3", "--name", comm});
        return Process(options, environment);
    }

    [[nodiscard]] truth::TruthSnapshot truth() const { return truth_of(truths.path(), comm); }
};

Process hold_both(const Exporter &exporter) {
    Process holder = hold(exporter);
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    return holder;
}

std::uint64_t failed_launches(const truth::TruthSnapshot &truth) {
    std::uint64_t failed = 0;
    for (const auto &[result, count] : truth.results) {
        const bool is_launch = result.first.find("LaunchKernel") != std::string::npos ||
                               result.first.find("LaunchCooperative") != std::string::npos;
        failed += is_launch && result.second != 0 ? count : 0;
    }
    return failed;
}

}  // namespace

TEST_CASE("sampled launches are all counted, and one in so many has a duration", "[kernel]") {
    require_bpf();
    const std::string nests = GENERATE("0", "1");
    const Exporter exporter(cuda_sampling_config("session"));
    const Process holder = hold_both(exporter);
    for (const std::string api : {"runtime", "driver", "both"}) {
        for (const bool captures : {false, true}) {
            CAPTURE(api, captures, nests);
            std::vector<std::string> options = {"--everything", "--api", api, "--iterations", "40"};
            if (captures) {
                options.emplace_back("--graphs");
            }
            const CudaSamplingRun run(exporter, "of_" + api + (captures ? "_g" : ""), options,
                                      {{"STANDIN_NEST", nests}});
            const auto truth = run.truth();
            const double launches = number(truth.launches);
            REQUIRE(launches > 10 * every);
            const Page page = exporter.wait_for("gpusnoop_cuda_kernel_launches_total",
                                                {{"comm", run.comm}, {"via", "stream"}}, launches);
            if (!captures) {
                CHECK(failed_launches(truth) == 0);
                check_counters(page, truth, run.comm);
                check_outstanding(page, truth);
            }
            // Each thread begins with one that has a duration.
            const double timed = page.sum("gpusnoop_cuda_kernel_launch_duration_seconds_count",
                                          {{"comm", run.comm}});
            CHECK(timed >= std::floor(launches / every));
            if (failed_launches(truth) == 0) {
                CHECK(timed <= std::floor(launches / every) + cuda_sampling_threads);
            }
            CHECK(page.sum("gpusnoop_cuda_kernel_launch_threads_count", {{"comm", run.comm}}) ==
                  launches);
        }
    }
    const Page page = exporter.scrape();
    CHECK(page.sum("gpusnoop_launch_sampling_info", {{"sampled", "true"}, {"every", "16"}}) == 1);
    check_account_at_rest(exporter);
}

TEST_CASE("launches that fail are sampled until one of them is seen to fail", "[kernel]") {
    require_bpf();
    const Exporter exporter(cuda_sampling_config("session"));
    const Process holder = hold_both(exporter);
    const CudaSamplingRun run(exporter, "failing",
                              {"--iterations", "3000", "--failures", "--api", "runtime"});
    const auto truth = run.truth();
    const double failed = number(failed_launches(truth));
    REQUIRE(failed > 100);
    const Labels of = {{"comm", run.comm}};
    const double all = number(truth.launches) + failed;
    const Labels errors = {{"comm", run.comm}, {"function", "cudaLaunchKernel"}};
    double seen = 0;
    eventually("all launches to be on the page", [&] {
        const Page page = exporter.scrape();
        seen = page.sum("gpusnoop_cuda_api_errors_total", errors);
        return page.sum("gpusnoop_cuda_kernel_launches_total", of) + seen == all;
    });
    // Those before the first that is seen to fail: of each thread, one in 16 is in the sample.
    CHECK(seen > 0.8 * failed);
    CHECK(seen <= failed);
    check_account_at_rest(exporter);
}

TEST_CASE("launches that a program leaves by longjmp do not count, though launches are sampled",
          "[kernel]") {
    require_bpf();
    const std::string nests = GENERATE("0", "1");
    CAPTURE(nests);
    const Exporter exporter(cuda_sampling_config("session"));
    const Process holder = hold_both(exporter);
    const double before = exporter.scrape().sum("gpusnoop_probe_stale_calls_total");
    const TemporaryDirectory truths;
    const Finished finished =
        run({standin("faults"), "longjmp_out_of_launches"},
            {{"STANDIN_TRUTH_DIR", truths.path().string()}, {"STANDIN_NEST", nests}});
    REQUIRE(finished.code == 0);
    const auto truth = truth::sum(truth::read_truth(truths.path()));
    const std::uint64_t left = truth.never_returned("cudaLaunchKernel");
    REQUIRE(left == 100);
    REQUIRE(truth.launches == 200);
    Page page("");
    const auto sum = [&page](const std::string &family) {
        return page.sum(family, {{"comm", "faults"}});
    };
    double stale = 0;
    eventually("all launches to be on the page", [&] {
        page = exporter.scrape();
        stale = page.sum("gpusnoop_probe_stale_calls_total") - before;
        return sum("gpusnoop_cuda_kernel_launches_total") + stale == number(truth.launches + left);
    });
    CHECK(stale == number(left));
    CHECK(sum("gpusnoop_cuda_kernel_launches_total") == number(truth.launches));
    CHECK(sum("gpusnoop_cuda_kernel_launch_duration_seconds_count") == number(truth.launches));
    check_account_at_rest(exporter);
}

TEST_CASE("an allocation between unseen launches is exact", "[kernel]") {
    require_bpf();
    const Exporter exporter(cuda_sampling_config("session"));
    const Process holder = hold_both(exporter);
    const CudaSamplingRun run(
        exporter, "leaks",
        {"--iterations", "500", "--leak", "4096", "--memory-kinds", "--api", "both"});
    const auto truth = run.truth();
    const Page page = exporter.wait_for("gpusnoop_cuda_kernel_launches_total", {{"comm", run.comm}},
                                        number(truth.launches));
    check_counters(page, truth, run.comm);
    check_outstanding(page, truth);
}

TEST_CASE("where ends cannot be left out, all launches have a duration", "[kernel]") {
    require_bpf();
    const std::string settings = GENERATE(
        cuda_sampling_config("multi"), cuda_sampling_config("session", "  endings: exits\n"),
        cuda_sampling_config("session") + "host: {time: {enabled: true}}\n");
    CAPTURE(settings);
    const Exporter exporter(settings);
    exporter.wait_for_log("the durations of all launches are taken, and not of a sample");
    const Process holder({standin("workload"), "--iterations", "0", "--hold", "--name", "holder"});
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    const CudaSamplingRun run(exporter, "all", {"--iterations", "50"});
    const auto truth = run.truth();
    const Page page = exporter.wait_for("gpusnoop_cuda_kernel_launches_total", {{"comm", run.comm}},
                                        number(truth.launches));
    CHECK(page.sum("gpusnoop_cuda_kernel_launch_duration_seconds_count", {{"comm", run.comm}}) ==
          number(truth.launches));
    CHECK(page.sum("gpusnoop_launch_sampling_info", {{"sampled", "false"}, {"every", "1"}}) == 1);
}
