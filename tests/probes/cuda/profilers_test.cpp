// Profilers in processes: what the page says against what the stand-in of CUPTI counted.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"

using namespace harness;

namespace {

// A program that has the libraries attached to before the test's own begin.
Process cuda_profilers_hold(const Exporter &exporter) {
    Process holder({standin("profiled"), "name", "holder", "wait"});
    holder.wait_for_output("waiting 1 ");
    for (const char *file : {"libcupti.so.12", "12/libcudart.so.12"}) {
        exporter.wait_until_attached_to(standin(file));
    }
    return holder;
}

// Goes from one step `wait` to the next.
class Profiled {
public:
    explicit Profiled(std::vector<std::string> steps) : process_(start(std::move(steps))) {
        wait();
    }

    void go_on() {
        process_.signal(SIGUSR1);
        wait();
    }
    // What the library says at this step.
    [[nodiscard]] bool says(const std::string &counts) const {
        const std::string output = process_.output();
        const auto line = output.rfind("waiting ");
        return output.find(counts, line) != std::string::npos;
    }
    [[nodiscard]] Process &process() { return process_; }
    [[nodiscard]] Labels labels() const { return {{"pid", std::to_string(process_.pid())}}; }
    void restart_count() { waits_ = 0; }

private:
    static Process start(std::vector<std::string> steps) {
        steps.insert(steps.begin(), standin("profiled"));
        return Process(steps);
    }
    void wait() { process_.wait_for_output("waiting " + std::to_string(++waits_) + " "); }

    Process process_;
    int waits_ = 0;
};

void check_profiler(const Exporter &exporter, const Profiled &profiled,
                    const std::string &profiler) {
    const Page page = exporter.wait_for("gpusnoop_process_info", profiled.labels(), 1);
    const auto samples = page.samples("gpusnoop_process_info", profiled.labels());
    REQUIRE(samples.size() == 1);
    const auto found = samples[0].labels.find("profiler");
    CHECK((found == samples[0].labels.end() ? "" : found->second) == profiler);
}

double errors(const Page &page, const std::string &comm, const std::string &function,
              const std::string &error) {
    return page.sum("gpusnoop_cuda_api_errors_total",
                    {{"comm", comm}, {"function", function}, {"error", error}});
}

constexpr const char *refused = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";

// One that subscribes, and is refused.
void profilers_check_refusals(const Exporter &exporter) {
    Profiled one({"name", "subscriber", "allocate", "wait", "subscribe", "wait", "subscribe",
                  "subscribe_v2", "wait", "unsubscribe", "wait", "unsubscribe", "wait",
                  "subscribe_v2", "wait", "finalize", "wait"});
    check_profiler(exporter, one, "");
    for (const auto &[counts, profiler] : std::vector<std::pair<std::string, std::string>>{
             {"subscribers=1 activities=0 calls=1 refused=0 invalid=0", "cupti"},
             {"subscribers=1 activities=0 calls=3 refused=2 invalid=0", "cupti"},
             {"subscribers=0 activities=0 calls=4 refused=2 invalid=0", ""},
             {"subscribers=0 activities=0 calls=5 refused=2 invalid=1", ""},
             {"subscribers=1 activities=0 calls=6 refused=2 invalid=1", "cupti"},
             {"subscribers=0 activities=0 calls=7 refused=2 invalid=1", ""}}) {
        one.go_on();
        CAPTURE(counts);
        REQUIRE(one.says(counts));
        check_profiler(exporter, one, profiler);
    }
    const Page page = exporter.scrape();
    CHECK(errors(page, "subscriber", "cuptiSubscribe", refused) == 2);
    CHECK(errors(page, "subscriber", "cuptiUnsubscribe", "CUPTI_ERROR_INVALID_PARAMETER") == 1);
}

// One that has activities recorded.
void profilers_check_activities(const Exporter &exporter) {
    Profiled one({"name",   "activities", "enable",  "3", "enable",   "3",       "wait",
                  "enable", "200",        "disable", "3", "wait",     "disable", "200",
                  "wait",   "subscribe",  "enable",  "9", "finalize", "wait"});
    for (const auto &[counts, profiler] :
         std::vector<std::pair<std::string, std::string>>{{"activities=1", "cupti"},
                                                          {"activities=1", "cupti"},
                                                          {"activities=0", ""},
                                                          {"subscribers=0 activities=0", ""}}) {
        REQUIRE(one.says(counts));
        check_profiler(exporter, one, profiler);
        if (!one.says("waiting 4 ")) {
            one.go_on();
        }
    }
}

// One that starts and ends inside calls of CUDA.
void profilers_check_inside_calls(const Exporter &exporter) {
    Profiled one({"name", "injected", "subscribe_inside", "wait", "allocate", "unsubscribe_inside",
                  "wait", "subscribe", "finalize_inside", "wait"});
    REQUIRE(one.says("subscribers=1"));
    check_profiler(exporter, one, "cupti");
    one.go_on();
    REQUIRE(one.says("subscribers=0"));
    check_profiler(exporter, one, "");
    one.go_on();
    REQUIRE(one.says("subscribers=0"));
    check_profiler(exporter, one, "");
    CHECK(exporter.scrape().sum("gpusnoop_cuda_memory_allocations_total", {{"comm", "injected"}}) ==
          4);
}

// One whose call fails in the middle of a free, which is counted with its bytes.
void profilers_check_failure_in_free(const Exporter &exporter) {
    const Profiled one({"name", "frees", "unsubscribe_in_free", "wait"});
    REQUIRE(one.says("calls=1 refused=0 invalid=1"));
    const Page page = exporter.wait_for("gpusnoop_cuda_memory_freed_bytes_total",
                                        {{"comm", "frees"}, {"memory_kind", "device"}}, 4096);
    CHECK(errors(page, "frees", "cuptiUnsubscribe", "CUPTI_ERROR_INVALID_PARAMETER") == 1);
}

// One that dies inside its call, which is counted.
void profilers_check_crash(const Exporter &exporter) {
    Process crashes({standin("profiled"), "name", "crashes", "crash"});
    CHECK(crashes.wait() != 0);
    (void)exporter.wait_for("gpusnoop_process_deaths_in_traced_calls_total",
                            {{"probe", "cuda"}, {"signal", "SIGSEGV"}}, 1);
}

// One that ends with its program, by exec or exit.
void profilers_check_exec_and_exit(const Exporter &exporter) {
    Profiled one({"name", "execs", "allocate", "subscribe", "wait", "exec", "name", "execed",
                  "allocate", "wait"});
    check_profiler(exporter, one, "cupti");
    one.process().signal(SIGUSR1);
    const Page page = exporter.wait_for("gpusnoop_process_info", {{"comm", "execed"}}, 1);
    CHECK_FALSE(page.has("gpusnoop_process_info", {{"comm", "execs"}}));
    check_profiler(exporter, one, "");
    one.process().signal(SIGUSR1);
    CHECK(one.process().wait() == 0);
    (void)exporter.wait_for("gpusnoop_process_info", one.labels(), 0);
}

// One with threads that subscribe beside each other.
void profilers_check_threads(const Exporter &exporter) {
    Profiled one({"name", "churn", "churn", "4", "500", "wait", "subscribe", "wait"});
    REQUIRE(one.says("subscribers=0"));
    check_profiler(exporter, one, "");
    one.go_on();
    REQUIRE(one.says("subscribers=1"));
    check_profiler(exporter, one, "cupti");
    const std::string output = one.process().output();
    const std::string number = output.substr(output.rfind("refused=") + 8);
    (void)exporter.wait_for("gpusnoop_cuda_api_errors_total",
                            {{"comm", "churn"}, {"error", refused}}, std::stod(number));
}

}  // namespace

TEST_CASE("a process has a profiler from its call of CUPTI on, until it leaves", "[kernel]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    const std::string endings = GENERATE("auto", "exits");
    CAPTURE(mode, endings);
    if (mode == "perf" && endings == "exits") {
        return;  // the exits are tried by the others, and detaching takes long here
    }
    // By perf without the driver, as the kernel takes nearly a tenth of a second to detach from
    // each function.
    const Exporter exporter(
        "cuda:\n  attach: " + mode + "\n  endings: " + endings +
        (mode == "perf" ? "\n  libraries: [libcudart.so*, libcupti.so*]\n" : "\n"));
    const Process holder = cuda_profilers_hold(exporter);

    profilers_check_refusals(exporter);
    profilers_check_activities(exporter);
    profilers_check_inside_calls(exporter);
    profilers_check_failure_in_free(exporter);
    profilers_check_crash(exporter);
    profilers_check_exec_and_exit(exporter);
    profilers_check_threads(exporter);
    check_account_at_rest(exporter);
}

TEST_CASE(
    "a program that had CUPTI before its probes is known in full, and a profiler that "
    "started before is not shown",
    "[kernel]") {
    require_bpf();
    Profiled one({"name", "older", "subscribe", "wait", "allocate", "wait", "unsubscribe",
                  "subscribe", "wait"});
    const Exporter exporter;
    for (const char *file : {"libcupti.so.12", "12/libcudart.so.12", "driver/libcuda.so.1"}) {
        exporter.wait_until_attached_to(standin(file));
    }
    one.go_on();
    REQUIRE(one.says("subscribers=1"));
    check_profiler(exporter, one, "");
    one.go_on();
    REQUIRE(one.says("subscribers=1"));
    check_profiler(exporter, one, "cupti");
}
