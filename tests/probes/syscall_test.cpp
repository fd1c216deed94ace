// System calls against a program that knows which it made.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "exporter/symbols/names/syscall_names.h"
#include "tests/harness/exporter.h"
#include "tests/probes/syscalls.h"

using namespace harness;

namespace {

constexpr auto syscalls_total = "gpusnoop_syscalls_total";
constexpr auto errors_total = "gpusnoop_syscall_errors_total";
constexpr auto syscall_durations = "gpusnoop_syscall_duration_seconds_count";
constexpr int syscall_threads = 16;
constexpr int syscall_calls = 1000;

// Processes of the stand-in alone.
const std::string of_standin = "cuda: {enabled: false}\ntargets: {comms: [\"sys[c]alls\"]}\n";

double syscall_probe(const Page &page, const std::string &what) {
    return page.sum("gpusnoop_probe_" + what, {{"probe", "syscall"}});
}

// Linux 7 leaves out runs of programs on busy machines, and says how many. Other kernels leave out
// none.
double skipped(const Page &page) {
    return page.sum("gpusnoop_probe_events_lost_total",
                    {{"probe", "syscall"}, {"reason", "skipped"}});
}

// No further from the truth than what was left out.
bool is_true(double counted, double truth, const Page &page) {
    return std::abs(counted - truth) <= skipped(page);
}

double count(const Page &page, const std::string &syscall) {
    return page.sum(syscalls_total, {{"syscall", syscall}});
}

// Of the process, how many are in this call now.
int threads_in(const Process &process, const std::string &syscall) {
    const std::string wanted = std::to_string(gpusnoop::syscall_number(syscall).value());
    int in = 0;
    for (const auto &task :
         std::filesystem::directory_iterator("/proc/" + std::to_string(process.pid()) + "/task")) {
        std::string number;
        std::ifstream(task.path() / "syscall") >> number;
        in += number == wanted ? 1 : 0;
    }
    return in;
}

Process syscall_start(std::vector<std::string> options) {
    options.insert(options.begin(), standin("syscalls"));
    Process process(std::move(options));
    process.wait_for_output("waiting");
    return process;
}

// The process is one to trace: its first calls may go by before it is.
void wait_until_traced(const Exporter &exporter) {
    eventually("the process to be traced", [&] {
        return exporter.scrape().has(syscalls_total, {{"syscall", "clock_nanosleep"}});
    });
}

void check_round(const Page &page, double times) {
    const double each = syscall_calls * times;
    for (const std::string name : {"getppid", "getpgid", "dup", "timer_delete", "unknown"}) {
        CAPTURE(name);
        const double counted = count(page, name);
        CAPTURE(each, counted, skipped(page));
        CHECK(counted <= each);
        CHECK(is_true(counted, each, page));
        CHECK(page.sum(syscall_durations, {{"syscall", name}}) == counted);
        CHECK(page.sum("gpusnoop_syscall_duration_seconds_bucket",
                       {{"syscall", name}, {"le", "+Inf"}}) == counted);
    }
    CHECK_FALSE(page.has(errors_total, {{"syscall", "getppid"}}));
    for (const auto &[name, error] : std::map<std::string, std::string>{{"getpgid", "ESRCH"},
                                                                        {"dup", "EBADF"},
                                                                        {"timer_delete", "EINVAL"},
                                                                        {"unknown", "ENOSYS"}}) {
        CAPTURE(name);
        CHECK(page.sum(errors_total, {{"syscall", name}}) == count(page, name));
        CHECK(page.sum(errors_total, {{"syscall", name}, {"error", error}}) == count(page, name));
    }
}

// Nothing of a process is left when it is gone, and nothing of the account is missing.
void syscall_check_at_rest(const Exporter &exporter) {
    Page page = exporter.scrape();
    eventually("no system call to be open, and the account to balance", [&] {
        page = exporter.scrape();
        return syscall_probe(page, "in_flight_calls") == 0 &&
               syscall_probe(page, "entries_total") ==
                   syscall_probe(page, "events_total") + syscall_probe(page, "stale_calls_total") &&
               page.sum(syscalls_total) == syscall_probe(page, "events_total");
    });
    if (exporter.log().find("at=functions") == std::string::npos) {
        CHECK(skipped(page) == 0);  // so everything was exact
    } else {
        CHECK(skipped(page) <= 0.01 * syscall_probe(page, "entries_total"));
    }
    CHECK(syscall_probe(page, "events_lost_total") == skipped(page));
    CHECK(syscall_probe(page, "unmatched_returns_total") <= skipped(page));
    CHECK(exporter.log().find("level=ERROR") == std::string::npos);
}

}  // namespace

TEST_CASE("system calls of 16 threads are counted to the call, errors by their names",
          "[kernel][core]") {
    require_bpf();
    const Exporter exporter(of_standin + "syscall: {enabled: true}\n");
    Process process = syscall_start(
        {"--threads", std::to_string(syscall_threads), "--calls", std::to_string(syscall_calls)});
    wait_until_traced(exporter);
    process.signal(SIGUSR1);
    process.wait_for_output("counted");
    const Page page = exporter.scrape();
    check_round(page, syscall_threads);
#if defined(__x86_64__)
    // What a 32-bit program's number 64 is called here, semget, is something else.
    CHECK(is_true(count(page, "compat"), static_cast<double>(compat_calls_of(process)), page));
    CHECK(count(page, "semget") == 0);
#endif
    CHECK(is_true(count(page, "clone3") + count(page, "clone"), syscall_threads, page));
    CHECK(page.samples(syscalls_total, {{"syscall", "getppid"}}).front().labels ==
          Labels{{"comm", "syscalls"}, {"syscall", "getppid"}});
    process.finish();
    syscall_check_at_rest(exporter);
    // exit() of each thread, and exit_group().
    const Page after = exporter.scrape();
    CHECK(is_true(syscall_probe(after, "stale_calls_total"), syscall_threads + 1, after));

    // The counts stay, and another process adds to them.
    check_round(exporter.scrape(), syscall_threads);
    Process second = syscall_start({"--threads", "2", "--calls", std::to_string(syscall_calls)});
    second.signal(SIGUSR1);
    second.wait_for_output("counted");
    second.finish();
    check_round(exporter.scrape(), syscall_threads + 2);
    syscall_check_at_rest(exporter);
}

TEST_CASE("a GPU process's system calls count from its first CUDA call on, and only its own",
          "[kernel]") {
    require_bpf();
    // Other GPU processes of the machine always have calls in flight: they are not to be seen.
    const TemporaryDirectory directory;
    const std::string library = directory / "libcudart-own.so.12";
    std::filesystem::copy_file(standin("12/libcudart.so.12"), library);
    const Exporter exporter(
        "targets: {}\ncuda: {libraries: [libcudart-own.so.12]}\nsyscall: {enabled: true}\n");
    Process process = syscall_start(
        {"--threads", "3", "--calls", std::to_string(syscall_calls), "--cuda", library});
    // It had to be found and attached to: only the next one is a GPU process for certain.
    exporter.wait_until_attached_to(library);
    process.signal(SIGUSR1);
    process.wait_for_output("counted");
    process.finish();
    const double before = count(exporter.scrape(), "getppid");
    CHECK((before == 0 || before == 3 * syscall_calls));

    Process second = syscall_start(
        {"--threads", "3", "--calls", std::to_string(syscall_calls), "--cuda", library});
    second.signal(SIGUSR1);
    second.wait_for_output("counted");
    const double times = 3 + before / syscall_calls;
    check_round(exporter.wait_for(syscalls_total, {{"syscall", "getppid"}}, times * syscall_calls),
                times);
    second.finish();
    syscall_check_at_rest(exporter);
}

TEST_CASE("of what a process is killed in, nothing is left", "[kernel]") {
    require_bpf();
    const Exporter exporter(of_standin +
                            "syscall: {enabled: true, syscalls: [signal, clock_nanosleep]}\n");
    Process process = syscall_start({"--threads", std::to_string(syscall_threads), "--block"});
    wait_until_traced(exporter);
    const Page before = exporter.scrape();
    process.signal(SIGUSR1);
    eventually("the threads to wait", [&] {
        return syscall_probe(exporter.scrape(), "in_flight_calls") == syscall_threads;
    });
    process.signal(SIGKILL);
    CHECK(process.wait() == 128 + SIGKILL);
    syscall_check_at_rest(exporter);
    const Page page = exporter.scrape();
    // The kernel ends the wait before it ends the thread.
    CHECK(page.sum(errors_total, {{"syscall", "rt_sigtimedwait"}, {"error", "EINTR"}}) +
              syscall_probe(page, "stale_calls_total") -
              syscall_probe(before, "stale_calls_total") ==
          syscall_threads);
    // The filter: the threads were started by calls that are not wanted.
    CHECK(count(page, "clone3") + count(page, "clone") + count(page, "mmap") == 0);
}

TEST_CASE("calls that were under way when their process became one to trace do not count",
          "[kernel]") {
    require_bpf();
    constexpr int waiting = 4;
    Process process =
        syscall_start({"--threads", std::to_string(waiting), "--calls", "10", "--block"});
    process.signal(SIGUSR1);
    eventually("the threads to wait", [&] { return threads_in(process, "rt_sigtimedwait") == 4; });
    const Exporter exporter("cuda: {enabled: false}\ntargets: {pids: [" +
                            std::to_string(process.pid()) + "], gpu_processes: false}\n" +
                            "syscall: {enabled: true}\n");
    for (int i = 0; i < waiting; i++) {
        process.signal(SIGRTMIN);
    }
    process.wait_for_output("counted");
    const Page page = exporter.scrape();
    CHECK(count(page, "getppid") == waiting * 10);
    CHECK_FALSE(page.has(syscalls_total, {{"syscall", "rt_sigtimedwait"}}));
    process.finish();
    syscall_check_at_rest(exporter);
    // exit() of each thread, and exit_group().
    CHECK(syscall_probe(exporter.scrape(), "stale_calls_total") == waiting + 1);
}

TEST_CASE("system calls past the table's room are lost, and counted as that", "[kernel]") {
    require_bpf();
    const Exporter exporter(
        "cuda: {enabled: false}\ntargets: {all_processes: true}\n"
        "syscall: {enabled: true, max_counts: 64}\n");
    // Each run is another process, of a dozen different calls.
    for (int i = 0; i < 20; i++) {
        CHECK(run({"/bin/true"}).code == 0);
    }
    const Page page = exporter.scrape();
    CHECK(page.sum("gpusnoop_probe_events_lost_total",
                   {{"probe", "syscall"}, {"reason", "table_full"}}) > 0);
    CHECK(page.sum(syscalls_total) > 0);
}
