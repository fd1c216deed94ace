// With pins, probes and tables outlive the exporter: the next one knows what is allocated.
#include <bpf/bpf.h>
#include <signal.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exporter/base/fd.h"
#include "tests/harness/counting.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/cuda_workload.h"
#include "tests/harness/exporter.h"
#include "tests/harness/pin_directory.h"
#include "tests/harness/probe_state.h"

using namespace harness;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string> supervised = {"env", "GPUSNOOP_SUPERVISED=1"};

void check_complete(const Page &page, const std::string &comm, const std::string &is_complete) {
    CAPTURE(comm);
    CHECK(page.sum("gpusnoop_process_info", {{"comm", comm}, {"complete", is_complete}}) == 1);
}

// A pinned table that no version of the exporter has.
void pin_foreign_table(const fs::path &path) {
    const gpusnoop::Fd table(bpf_map_create(BPF_MAP_TYPE_HASH, "foreign", 3, 5, 7, nullptr));
    REQUIRE(table);
    REQUIRE(bpf_obj_pin(table.get(), path.c_str()) == 0);
}

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

TEST_CASE("with pins, what was allocated before a restart is known after it",
          "[kernel][core][modes][slow-by-perf]") {
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
    ends.finish();

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
          "[kernel][modes][slow-by-perf]") {
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
        check_complete(page, comm, "true");
    }
    CHECK_FALSE(page.has("gpusnoop_cuda_memory_outstanding_bytes",
                         {{"pid", std::to_string(truth_of(directory.path(), "ending").pid)}}));
    // And goes on from there.
    const Process after = start(directory.path(), {"--iterations", "300", "--name", "after"});
    after.wait_for_output("holding");
    const auto truth = truth_of(directory.path(), "after");
    check_counters(second.wait_for("gpusnoop_cuda_kernel_launches_total", {{"comm", "after"}},
                                   number(truth.all_launches())),
                   truth, "after");
}

TEST_CASE("with pins, a script that runs is known after a restart", "[kernel]") {
    require_bpf();
    const std::string runtime = standin("12/libcudart.so.12");
    const PinDirectory pins;
    const TemporaryDirectory directory;
    const std::string script = directory / "pinned.py";
    write_file(script,
               "import ctypes, signal\n"
               "cuda = ctypes.CDLL('" +
                   runtime +
                   "')\n"
                   "def call(*_):\n"
                   "    address = ctypes.c_void_p()\n"
                   "    cuda.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(1000))\n"
                   "    print('called', flush=True)\n"
                   "signal.signal(signal.SIGUSR1, call)\n"
                   "call()\n"
                   "while True:\n"
                   "    signal.pause()\n");
    auto first = std::make_unique<Exporter>(pins.config());
    const Process holder = hold(*first);
    first->wait_until_attached_to(runtime);
    const Process process({"/usr/bin/python3", script},
                          {{"STANDIN_TRUTH_DIR", directory.path().string()}});
    process.wait_for_output("called");
    const std::string allocations = "gpusnoop_cuda_memory_allocations_total";
    const Labels of = {{"comm", "python3"}, {"script", "pinned.py"}};
    (void)first->wait_for(allocations, of, 1);
    first->process().signal(SIGKILL);
    (void)first->process().wait();

    const Exporter second(pins.config());
    process.signal(SIGUSR1);
    const Page page = second.wait_for(allocations, of, 1);
    CHECK(page.sum("gpusnoop_process_info", {{"pid", std::to_string(process.pid())},
                                             {"script", "pinned.py"},
                                             {"uid", std::to_string(::getuid())}}) == 1);
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
    known.finish();
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

TEST_CASE("by default, pins outlive a crash and a restart of a supervised exporter, but no stop",
          "[kernel]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const PinDirectory pins;
    Programs programs;
    programs.start("before", {"allocate", "8", "1000", "wait", "allocate", "4", "1000", "wait"});
    programs.wait(1);
    auto exporter = std::make_unique<Exporter>(pins.default_config(mode), supervised);
    exporter->wait_until_attached_to(standin("driver/libcuda.so.1"));
    programs.go_on();
    programs.wait(2);
    const TemporaryDirectory directory;
    // It works until it is told to stop.
    const Process busy = start(directory.path(), {"--everything", "--threads", "4", "--seconds",
                                                  "600", "--rate", "8000", "--name", "busy"});
    eventually("the programs to be in the middle of their work", [&] {
        const Page page = exporter->scrape();
        return outstanding(page, busy.pid()) > 0 &&
               page.has("gpusnoop_process_info", {{"comm", "before"}, {"complete", "false"}});
    });
    for (const int signal : {SIGKILL, SIGUSR1}) {
        CAPTURE(signal);
        exporter->process().signal(signal);
        (void)exporter->process().wait();
        CHECK(fs::exists(pins.path));
        exporter = std::make_unique<Exporter>(pins.default_config(mode), supervised);
        CHECK(exporter->log().find("still attached") != std::string::npos);
        check_complete(exporter->scrape(), "busy", "true");
        check_complete(exporter->scrape(), "before", "false");
    }
    busy.signal(SIGUSR1);
    busy.wait_for_output("holding");
    eventually("all that the program holds to be on the page", [&] {
        return outstanding(exporter->scrape(), busy.pid()) ==
               number(truth_of(directory.path(), "busy").all_memory().outstanding_bytes);
    });
    check_outstanding(exporter->scrape(), truth_of(directory.path(), "busy"));
    exporter->process().signal(SIGTERM);
    (void)exporter->process().wait();
    CHECK_FALSE(fs::exists(pins.path));
}

TEST_CASE("by default, an exporter that nothing restarts pins nothing", "[kernel]") {
    require_bpf();
    const PinDirectory pins;
    const Exporter exporter(pins.default_config());
    const Process holder = hold(exporter);
    CHECK_FALSE(fs::exists(pins.path));
}

TEST_CASE("by default, a second exporter leaves the first one's pins alone", "[kernel]") {
    require_bpf();
    const PinDirectory pins;
    const TemporaryDirectory directory;
    auto first = std::make_unique<Exporter>(pins.default_config(), supervised);
    const Process holder = hold(*first);
    auto second = std::make_unique<Exporter>(pins.default_config(), supervised);
    second->wait_until_attached_to(standin("driver/libcuda.so.1"));
    CHECK(second->log().find("nothing is pinned") != std::string::npos);
    CHECK(second->log().find("another exporter uses the pins") != std::string::npos);
    const Process both = start(directory.path(), {"--leak", "1000", "--name", "both"});
    both.wait_for_output("holding");
    const auto truth = truth_of(directory.path(), "both");
    for (const auto *exporter : {first.get(), second.get()}) {
        eventually("the exporter to have counted all", [&] {
            return outstanding(exporter->scrape(), both.pid()) ==
                   number(truth.all_memory().outstanding_bytes);
        });
    }
    second.reset();  // its end is not the end of the first one's pins
    first->process().signal(SIGKILL);
    (void)first->process().wait();
    const Exporter third(pins.default_config(), supervised);
    CHECK(third.log().find("still attached") != std::string::npos);
    check_outstanding(third.scrape(), truth);
    check_complete(third.scrape(), "both", "true");
}

TEST_CASE("pins of another layout are removed, and said to be", "[kernel]") {
    require_bpf();
    const PinDirectory pins;
    const TemporaryDirectory directory;
    // What another version left, or what something put among our own.
    const bool is_of_another_version = GENERATE(true, false);
    CAPTURE(is_of_another_version);
    if (is_of_another_version) {
        fs::create_directories(fs::path(pins.path) / "0123456789abcdef");
        pin_foreign_table(fs::path(pins.path) / "0123456789abcdef" / "map_cuda_live");
    } else {
        Exporter first(pins.config());
        const Process holder = hold(first);
        first.process().signal(SIGKILL);
        (void)first.process().wait();
        const fs::path own = fs::directory_iterator(pins.path)->path() / "map_cuda_live";
        REQUIRE(fs::remove(own));
        pin_foreign_table(own);
    }
    const Exporter exporter(pins.config());
    CHECK(exporter.log().find(is_of_another_version
                                  ? "removed the pins of another version or configuration"
                                  : "removed pins that do not fit these programs") !=
          std::string::npos);
    CHECK_FALSE(fs::exists(fs::path(pins.path) / "0123456789abcdef"));
    const Process holder = hold(exporter);
    const Process after = start(directory.path(), {"--leak", "1000", "--name", "after"});
    after.wait_for_output("holding");
    const auto truth = truth_of(directory.path(), "after");
    eventually("the exporter to have counted all", [&] {
        return outstanding(exporter.scrape(), after.pid()) ==
               number(truth.all_memory().outstanding_bytes);
    });
    check_complete(exporter.scrape(), "after", "true");
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
    const Page page = exporter.scrape();
    CHECK(page.sum("gpusnoop_probe_up") == 0);
    CHECK(state_of(page, "cuda") == "failed");
    CHECK(state_of(page, "functions") == "disabled");
    CHECK(exporter.log().find("not in a BPF file system") != std::string::npos);
}
