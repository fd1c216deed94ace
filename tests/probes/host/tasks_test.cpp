// What the kernel keeps of threads, on the page and in /proc.
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/harness/exporter.h"
#include "tests/harness/guest.h"
#include "tests/harness/probe_state.h"

using namespace harness;
namespace fs = std::filesystem;

namespace {

constexpr auto cpu = "gpusnoop_host_cpu_seconds_total";
constexpr auto runqueue = "gpusnoop_host_runqueue_wait_seconds_total";
constexpr auto switches = "gpusnoop_host_context_switches_total";
constexpr auto host_tasks_faults = "gpusnoop_host_page_faults_total";
constexpr auto host_tasks_bytes = "gpusnoop_host_io_bytes_total";
constexpr auto memory = "gpusnoop_host_memory_bytes";

const std::string host_tasks_of_name =
    "cuda: {enabled: false}\ntargets: {comms: [\"li[v]es\"]}\nhost: {tasks: {enabled: true}}\n";

std::string proc(pid_t pid, const std::string &file) {
    return read_file("/proc/" + std::to_string(pid) + "/" + file);
}

// The number behind `key` in a file such as status or io.
double number_in(const std::string &text, const std::string &key) {
    const auto at = text.find(key + ":");
    REQUIRE(at != std::string::npos);
    return std::strtod(text.c_str() + at + key.size() + 1, nullptr);
}

// A process's counts; it rests.
struct HostTasksTruth {
    double cpu_ns = 0;  // of the threads that are there
    double runqueue_ns = 0;
    double voluntary = 0;
    double involuntary = 0;
    double minor = 0;  // also of threads that have ended
    double major = 0;
    double read = 0;
    double written = 0;
    bool operator==(const HostTasksTruth &) const = default;
};

HostTasksTruth truth_of(pid_t pid) {
    HostTasksTruth truth;
    for (const auto &task : fs::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
        double on = 0;
        double ready = 0;
        std::ifstream(task.path() / "schedstat") >> on >> ready;
        truth.cpu_ns += on;
        truth.runqueue_ns += ready;
        const std::string status = read_file(task.path() / "status");
        truth.voluntary += number_in(status, "voluntary_ctxt_switches");
        truth.involuntary += number_in(status, "nonvoluntary_ctxt_switches");
    }
    const std::string stat = proc(pid, "stat");
    std::istringstream fields(stat.substr(stat.rfind(')') + 2));
    std::string skipped;
    for (int i = 3; i < 10; i++) {
        fields >> skipped;
    }
    double of_children = 0;
    fields >> truth.minor >> of_children >> truth.major;
    const std::string io = proc(pid, "io");
    truth.read = number_in(io, "\nread_bytes");
    truth.written = number_in(io, "\nwrite_bytes");
    return truth;
}

// With all threads that it ever had, and with what it did before its first exec, which the page
// does not have.
double cpu_of(pid_t pid) {
    clockid_t clock{};
    REQUIRE(::clock_getcpuclockid(pid, &clock) == 0);
    timespec spent{};
    REQUIRE(::clock_gettime(clock, &spent) == 0);
    return static_cast<double>(spent.tv_sec) + static_cast<double>(spent.tv_nsec) * 1e-9;
}

Process host_tasks_lives(std::vector<std::string> steps) {
    steps.insert(steps.begin(), standin("lives"));
    return Process(std::move(steps));
}

bool within(double counted, double truth) {
    return std::abs(counted - truth) <= 0.02 * truth + 0.005;
}

void host_tasks_check_sums(const Page &page, const HostTasksTruth &truth) {
    CHECK(std::abs(page.sum(runqueue) - truth.runqueue_ns * 1e-9) < 2e-9);
    CHECK(page.sum(switches, {{"kind", "voluntary"}}) == truth.voluntary);
    CHECK(page.sum(switches, {{"kind", "involuntary"}}) == truth.involuntary);
    CHECK(page.sum(host_tasks_faults, {{"kind", "minor"}}) == truth.minor);
    CHECK(page.sum(host_tasks_faults, {{"kind", "major"}}) == truth.major);
    CHECK(page.sum(host_tasks_bytes, {{"op", "read"}}) == truth.read);
    CHECK(page.sum(host_tasks_bytes, {{"op", "write"}}) == truth.written);
}

}  // namespace

TEST_CASE("what a resting process has used is what /proc says", "[kernel][core]") {
    require_bpf();
    Process process = host_tasks_lives({"threads", "5", "touch", "20", "burn", "150", "write", "3",
                                        "wait", "threads", "7", "burn", "50", "wait"});
    process.wait_for_output("waiting 1");
    const Exporter exporter(
        host_tasks_of_name);  // what a program did before its exec is not the program's
    for (const std::string waits : {"waiting 1", "waiting 2"}) {
        process.wait_for_output(waits);
        HostTasksTruth truth;
        eventually("it to rest", [&] {
            truth = truth_of(process.pid());
            ::usleep(100'000);
            return truth == truth_of(process.pid());
        });
        const Page page = exporter.scrape();
        REQUIRE(truth == truth_of(process.pid()));
        CHECK(std::abs(page.sum(cpu) - truth.cpu_ns * 1e-9) < 2e-9);
        CHECK(page.sum(cpu, {{"comm", "lives"}, {"role", "gpu"}}) == page.sum(cpu));
        // In a guest, its file is in memory.
        CHECK((truth.written >= 3 << 20 || in_guest()));
        host_tasks_check_sums(page, truth);
        const std::string status = proc(process.pid(), "status");
        for (const auto &[kind, key] : {std::pair("anon", "RssAnon"), std::pair("file", "RssFile"),
                                        std::pair("shmem", "RssShmem"), std::pair("swap", "VmSwap"),
                                        std::pair("locked", "VmLck")}) {
            CAPTURE(kind);
            const double shown =
                page.sum(memory, {{"kind", kind}, {"pid", std::to_string(process.pid())}});
            CHECK(std::abs(shown - number_in(status, key) * 1024) <= 64 * 4096 * 13);
        }
        process.signal(SIGUSR1);
    }
    CHECK(process.wait() == 0);
    eventually("its memory to be gone", [&] { return !exporter.scrape().has(memory); });
}

TEST_CASE("what threads and programs had used stays when they have ended", "[kernel]") {
    require_bpf();
    const Exporter exporter(host_tasks_of_name);
    Process process =
        host_tasks_lives({"wait", "short", "20", "wait", "exec", "burn", "60", "short", "4", "wait",
                          "short", "8", "exits", "0", "3", "threads", "50", "burn", "40"});
    process.wait_for_output("waiting 1");
    // Slow machines take milliseconds from the fork to the exec, and the page does not have these.
    double before_steps = 0;
    Page page = exporter.scrape();
    eventually("it to rest", [&] {
        before_steps = cpu_of(process.pid());
        page = exporter.scrape();
        return page.has(cpu) && before_steps == cpu_of(process.pid());
    });
    const double shown_before = page.sum(cpu);
    const auto shown = [&] { return page.sum(cpu) - shown_before; };
    const auto spent = [&] { return cpu_of(process.pid()) - before_steps; };

    process.go_on_to(2);
    const double first = spent();
    CHECK(first > 0.1);
    // The kernel frees threads a moment after their end.
    eventually("all that its threads had", [&] {
        page = exporter.scrape();
        return within(shown(), first) &&
               page.sum(host_tasks_faults, {{"kind", "minor"}}) >= 20 * 256;
    });
    const double before_exec = page.sum(host_tasks_faults);

    process.signal(SIGUSR1);
    eventually("the next program",
               [&] { return process.output().find("waiting 2\nwaiting 1") != std::string::npos; });
    const double second = spent();
    CHECK(second > first + 0.08);
    eventually("all that its threads had, again", [&] {
        page = exporter.scrape();
        return within(shown(), second) && page.sum(host_tasks_faults) >= before_exec + 4 * 256;
    });

    // It ends with 50 threads, between two readings.
    process.finish();
    // The kernel frees them a moment later.
    eventually("all that they had", [&] {
        page = exporter.scrape();
        return shown() > second + 0.08;
    });
    CHECK(state_of(page, "host_tasks") == "up");
    const Labels probe = {{"probe", "host_tasks"}};
    CHECK(page.sum("gpusnoop_probe_events_lost_total", probe) == 0);
    CHECK(page.sum("gpusnoop_probe_entries_total", probe) ==
          page.sum("gpusnoop_probe_events_total", probe));
    ::sleep(8);  // by then it is forgotten, but for its series
    CHECK(exporter.scrape().sum(cpu) >= page.sum(cpu));
    CHECK(exporter.scrape().sum(cpu) < page.sum(cpu) + 0.05);
}
