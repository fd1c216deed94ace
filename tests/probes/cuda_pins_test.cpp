// With pins, probes and tables outlive the exporter: the next one knows what is allocated.
#include <signal.h>
#include <sys/mount.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/harness/counting.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/cuda_workload.h"
#include "tests/harness/exporter.h"

using namespace harness;
namespace fs = std::filesystem;

namespace {

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

// Programs that wait between steps, so that what they do falls before, between and after exporters.
struct Programs {
    const TemporaryDirectory directory;
    std::map<std::string, Process> processes;

    void start(const std::string &comm, const std::vector<std::string> &steps) {
        std::vector<std::string> command = {standin("steps"), "name", comm};
        command.insert(command.end(), steps.begin(), steps.end());
        processes.emplace(comm,
                          Process(command, {{"STANDIN_TRUTH_DIR", directory.path().string()}}));
    }
    void wait(int times) const {
        for (const auto &[comm, process] : processes) {
            process.wait_for_output("waiting " + std::to_string(times));
        }
    }
    void go_on() const {
        for (const auto &[comm, process] : processes) {
            process.signal(SIGUSR1);
        }
    }
    [[nodiscard]] truth::TruthSnapshot truth(const std::string &comm) const {
        return truth_of(directory.path(), comm);
    }
    [[nodiscard]] bool are_right_on(const Page &page) const {
        bool right = true;
        for (const auto &[comm, process] : processes) {
            const double shown = outstanding(page, process.pid());
            const double is = number(truth(comm).all_memory().outstanding_bytes);
            UNSCOPED_INFO(comm << ": " << shown << " of " << is);
            right = right && shown == is;
        }
        return right;
    }
};

}  // namespace

TEST_CASE("with pins, what was allocated before a restart is known after it", "[kernel][modes]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    const int signal = GENERATE(SIGTERM, SIGKILL);
    CAPTURE(mode, signal);
    const PinDirectory pins;
    auto first = std::make_unique<Exporter>(pins.config(mode));
    const Process holder = hold(*first);
    Programs programs;
    const std::string size = "1048576";
    programs.start("keeps", {"allocate", "8", size, "wait", "wait", "free", "3", "wait"});
    programs.start("frees",
                   {"allocate", "8", size, "wait", "free", "3", "wait", "free", "9", "wait"});
    programs.start("resets", {"allocate", "8", size, "wait", "reset", "allocate", "2", "1000",
                              "wait", "allocate", "1", size, "wait"});
    programs.start("maps", {"allocate", "1", size, "map", "0", "4", "wait", "unmap", "1", "2",
                            "wait", "unmap", "0", "4", "wait"});
    programs.wait(1);
    Process ends({standin("steps"), "name", "ends", "allocate", "8", size, "wait"},
                 {{"STANDIN_TRUTH_DIR", programs.directory.path().string()}});
    ends.wait_for_output("waiting 1");
    // Now nothing that the second one could learn this from is left in the ring.
    eventually("the first exporter to have counted all", [&] {
        const Page page = first->scrape();
        return programs.are_right_on(page) && outstanding(page, ends.pid()) == 8 * 1048576;
    });
    first->process().signal(signal);
    (void)first->process().wait();
    programs.go_on();
    programs.wait(2);
    ends.signal(SIGUSR1);
    CHECK(ends.wait() == 0);

    const Exporter second(pins.config(mode));
    const Page page = second.scrape();
    CHECK(programs.are_right_on(page));
    CHECK_FALSE(
        page.has("gpusnoop_cuda_memory_outstanding_bytes", {{"pid", std::to_string(ends.pid())}}));
    programs.go_on();
    programs.wait(3);
    eventually("what is unmapped with a gap to be freed",
               [&] { return programs.are_right_on(second.scrape()); });
    programs.go_on();
    for (auto &[comm, process] : programs.processes) {
        CAPTURE(comm);
        CHECK(process.wait() == 0);
        const double unfreed = number(programs.truth(comm).all_memory().outstanding_bytes);
        eventually("what was not freed at the end to be counted", [&, &name = comm] {
            return second.scrape().sum("gpusnoop_cuda_memory_unfreed_at_exit_bytes_total",
                                       {{"comm", name}}) == unfreed;
        });
    }
}

TEST_CASE("with pins, a killed exporter's successor knows what is allocated at its first page",
          "[kernel][modes]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
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
