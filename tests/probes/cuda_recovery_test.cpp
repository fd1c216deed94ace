// What is allocated is known whatever happens: lost records, a table that is full, an exporter that
// is killed.
#include <signal.h>
#include <sys/mount.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <filesystem>

#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"

using namespace harness;
namespace fs = std::filesystem;

namespace {

double number(std::uint64_t value) {
    return static_cast<double>(value);
}

double lost(const Page &page, const std::string &reason) {
    return page.sum("gpusnoop_probe_events_lost_total", {{"reason", reason}});
}

double outstanding(const Page &page, std::int32_t pid) {
    return page.sum("gpusnoop_cuda_memory_outstanding_bytes", {{"pid", std::to_string(pid)}});
}

Process hold(const Exporter &exporter) {
    Process holder({standin("workload"), "--iterations", "0", "--hold", "--name", "holder"});
    exporter.wait_until_attached_to(standin("driver/libcuda.so.1"));
    return holder;
}

Process start(const fs::path &truth, std::vector<std::string> more) {
    std::vector<std::string> command = {standin("workload"), "--hold"};
    command.insert(command.end(), more.begin(), more.end());
    return Process(command, {{"STANDIN_TRUTH_DIR", truth.string()}});
}

truth::TruthSnapshot truth_of(const fs::path &directory, const std::string &comm) {
    for (const auto &truth : truth::read_truth(directory)) {
        if (truth.comm == comm) {
            return truth;
        }
    }
    FAIL("no truth of " << comm);
    return {};
}

// A directory of pins, in a file system of its own, that is gone with the test.
struct PinDirectory {
    const TemporaryDirectory file_system;
    const std::string path = (file_system / "gpusnoop").string();

    PinDirectory() { REQUIRE(::mount("bpf", file_system.path().c_str(), "bpf", 0, nullptr) == 0); }
    PinDirectory(const PinDirectory &) = delete;
    PinDirectory &operator=(const PinDirectory &) = delete;
    ~PinDirectory() {
        (void)unpin();
        ::umount2(file_system.path().c_str(), MNT_DETACH);
    }

    [[nodiscard]] std::string config(const std::string &mode = "auto") const {
        return "cuda:\n  attach: " + mode + "\n  pin: true\n  pin_path: " + path + "\n";
    }
    [[nodiscard]] Finished unpin() const {
        const TemporaryDirectory directory;
        write_file(directory / "config.yaml", "cuda:\n  pin_path: " + path + "\n");
        return run(
            {exporter_binary(), "unpin", "--config.file=" + (directory / "config.yaml").string()});
    }
};

}  // namespace

TEST_CASE("books heal when records of allocations were lost", "[kernel]") {
    require_bpf();
    const Exporter exporter("cuda:\n  allocation_ring_bytes: 4KiB\n  drain_interval: 50ms\n");
    const Process holder = hold(exporter);
    const TemporaryDirectory directory;
    const Process loud = start(directory.path(), {"--everything", "--api", "both", "--threads", "4",
                                                  "--iterations", "300", "--name", "loud"});
    loud.wait_for_output("holding");
    const auto truth = truth_of(directory.path(), "loud");
    const auto memory = truth.all_memory();
    eventually("the books to be right again", [&] {
        return outstanding(exporter.scrape(), truth.pid) == number(memory.outstanding_bytes);
    });
    const Page page = exporter.scrape();
    CHECK(lost(page, "ring_full") > 0);
    check_outstanding(page, truth);
    CHECK(page.sum("gpusnoop_cuda_memory_allocated_bytes_total", {{"comm", "loud"}}) -
              page.sum("gpusnoop_cuda_memory_freed_bytes_total", {{"comm", "loud"}}) ==
          number(memory.outstanding_bytes));
}

TEST_CASE("what the table of live allocations has no room for is in the books all the same",
          "[kernel]") {
    require_bpf();
    const Exporter exporter("series: {budget: 100000}\ncuda:\n  max_live_allocations: 1024\n");
    const Process holder = hold(exporter);
    const TemporaryDirectory directory;
    const Process first = start(
        directory.path(), {"--iterations", "1100", "--leak", "100", "--name", "fills_the_table"});
    first.wait_for_output("holding");
    const Process many = start(directory.path(), {"--api", "both", "--threads", "4", "--iterations",
                                                  "2000", "--leak", "100", "--name", "many"});
    many.wait_for_output("holding");
    const auto truth = truth_of(directory.path(), "many");
    const Page page = exporter.wait_for("gpusnoop_cuda_kernel_launches_total", {{"comm", "many"}},
                                        number(truth.launches));
    check_counters(page, truth, "many");
    check_outstanding(page, truth);
    check_account_at_rest(exporter);
}

TEST_CASE(
    "a process's allocations without room in the table are bounded, and what is past is counted",
    "[kernel]") {
    require_bpf();
    constexpr double room = 1024 + 65'536;
    const Exporter exporter("cuda:\n  max_live_allocations: 1024\n");
    const Process holder = hold(exporter);
    const TemporaryDirectory directory;
    const Process many =
        start(directory.path(), {"--iterations", "70000", "--leak", "100", "--name", "many"});
    many.wait_for_output("holding");
    const auto memory = truth_of(directory.path(), "many").of(truth::MemoryKind::device);
    const Labels of = {{"comm", "many"}};
    eventually("every allocation to be counted or lost", [&] {
        const Page page = exporter.scrape();
        return page.sum("gpusnoop_cuda_memory_allocations_total", of) +
                   lost(page, "allocation_table") ==
               number(memory.allocations + memory.empty_allocations);
    });
    const Page page = exporter.scrape();
    CHECK(lost(page, "allocation_table") > 0);
    CHECK(page.sum("gpusnoop_cuda_memory_outstanding_allocations", of) <= room);
    CHECK(page.sum("gpusnoop_cuda_memory_outstanding_allocations", of) > 1024);
}

TEST_CASE("with pins, a killed exporter's successor knows what is allocated at its first page",
          "[kernel]") {
    require_bpf();
    const std::string mode = GENERATE("session", "multi", "perf");
    CAPTURE(mode);
    const PinDirectory pins;
    const TemporaryDirectory directory;
    auto first = std::make_unique<Exporter>(pins.config(mode));
    const Process holder = hold(*first);
    // One that works on while there is no exporter, one that begins then, and one that ends then.
    const Process busy = start(directory.path(), {"--everything", "--threads", "2", "--iterations",
                                                  "100", "--rate", "8000", "--name", "busy"});
    Process ending = start(directory.path(), {"--leak", "5000", "--name", "ending"});
    ending.wait_for_output("holding");
    first->process().signal(SIGKILL);
    (void)first->process().wait();
    ending.signal(SIGKILL);
    (void)ending.wait();
    const Process late = start(directory.path(), {"--leak", "7000", "--name", "late"});
    busy.wait_for_output("holding");
    late.wait_for_output("holding");

    const Exporter second(pins.config(mode));
    const Page page = second.scrape();
    for (const char *comm : {"busy", "late"}) {
        CAPTURE(comm);
        check_outstanding(page, truth_of(directory.path(), comm));
    }
    CHECK_FALSE(page.has("gpusnoop_cuda_memory_outstanding_bytes",
                         {{"pid", std::to_string(truth_of(directory.path(), "ending").pid)}}));
    // And goes on from there.
    const Process after = start(directory.path(), {"--iterations", "300", "--name", "after"});
    after.wait_for_output("holding");
    const auto truth = truth_of(directory.path(), "after");
    check_counters(second.wait_for("gpusnoop_cuda_kernel_launches_total", {{"comm", "after"}},
                                   number(truth.launches)),
                   truth, "after");
}

TEST_CASE("a killed exporter's GPU processes are those whose system calls its successor traces",
          "[kernel]") {
    require_bpf();
    constexpr int calls = 100;
    const PinDirectory pins;
    auto first = std::make_unique<Exporter>(pins.config());
    const Process holder = hold(*first);
    Process known({standin("syscalls"), "--threads", "2", "--calls", std::to_string(calls),
                   "--cuda", standin("12/libcudart.so.12")});
    known.wait_for_output("waiting");
    (void)first->wait_for("gpusnoop_process_info", {{"comm", "syscalls"}}, 1);
    first->process().signal(SIGKILL);
    (void)first->process().wait();

    const Exporter second(pins.config() + "syscall: {enabled: true}\n");
    known.signal(SIGUSR1);
    known.wait_for_output("counted");
    CHECK(second.scrape().sum("gpusnoop_syscalls_total",
                              {{"comm", "syscalls"}, {"syscall", "getppid"}}) == 2 * calls);
    known.signal(SIGUSR1);
    CHECK(known.wait() == 0);
}

TEST_CASE("pins are one exporter's, and unpin removes them", "[kernel]") {
    require_bpf();
    const PinDirectory pins;
    auto first = std::make_unique<Exporter>(pins.config());
    const Process holder = hold(*first);
    const Exporter second(pins.config());
    CHECK(second.scrape().sum("gpusnoop_probe_up") == 0);
    CHECK(second.log().find("another exporter uses the pins") != std::string::npos);
    const Finished refused = pins.unpin();
    CHECK(refused.code == 1);
    CHECK(refused.output.find("another exporter") != std::string::npos);

    first.reset();  // SIGTERM or the end of the process: the pins stay
    CHECK(fs::exists(pins.path));
    const Finished removed = pins.unpin();
    CHECK(removed.code == 0);
    CHECK_FALSE(fs::exists(pins.path));
    CHECK(pins.unpin().code == 0);
}

TEST_CASE("pins of other settings are removed", "[kernel]") {
    require_bpf();
    const PinDirectory pins;
    auto first = std::make_unique<Exporter>(pins.config());
    const Process holder = hold(*first);
    first.reset();
    const Exporter second(pins.config() + "  max_live_allocations: 5000\n");
    second.wait_until_attached_to(standin("driver/libcuda.so.1"));
    CHECK(std::distance(fs::directory_iterator(pins.path), fs::directory_iterator()) == 1);
    CHECK(second.log().find("removed the pins") != std::string::npos);
}

TEST_CASE("a path for pins that is no BPF file system is refused with a reason", "[kernel]") {
    require_bpf();
    const TemporaryDirectory directory;
    // Where the directory can be made, and where it cannot.
    const bool is_writable = GENERATE(true, false);
    const std::string path = is_writable ? (directory / "pins").string() : "/sys/fs/pins";
    const Exporter exporter("cuda:\n  pin: true\n  pin_path: " + path + "\n");
    CHECK(exporter.scrape().sum("gpusnoop_probe_up") == 0);
    CHECK(exporter.log().find("not in a BPF file system") != std::string::npos);
}
