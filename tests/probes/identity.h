// Workloads whose names say little, in cgroups that say more.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/harness/cuda_truth.h"
#include "tests/harness/cuda_workload.h"
#include "tests/harness/exporter.h"
#include "tests/harness/machine/cgroup.h"

namespace harness {

inline const std::string python = "/usr/bin/python3";
inline const std::string runtime = standin("12/libcudart.so.12");
inline const std::string calls_library = standin("libcalls.so.1");

// A program that makes as many calls of each probe as its first argument says, and then does what
// the second says: exit, hold, forget its arguments' memory first, or become another script.
inline const std::string workload = R"py(
import ctypes, os, sys, time
count, then = int(sys.argv[1]), sys.argv[2]
libc = ctypes.CDLL(None)
if then == "forget":
    fields = open("/proc/self/stat").read().rpartition(")")[2].split()
    page = int(fields[45]) & ~4095
    os.putenv("MOVED", "1")  # the array of pointers, too
    for name, value in os.environ.items():
        os.putenv(name, value)  # elsewhere: it lies behind the arguments
    libc.madvise(ctypes.c_void_p(page), ctypes.c_size_t(4096), 4)
cuda = ctypes.CDLL(")py" + runtime +
                                    R"py(")
calls = ctypes.CDLL(")py" + calls_library +
                                    R"py(")
for i in range(count):
    address = ctypes.c_void_p()
    cuda.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(i + 1))
    cuda.cudaMemcpy(address, ctypes.c_char_p(b"x" * (i + 1)), ctypes.c_size_t(i + 1), 1)
    if i % 2:
        cuda.cudaFree(address)
    calls.calls_plain(i)
    os.getppid()
print("worked", flush=True)
if then == "exec":
    os.execv(sys.executable, [sys.executable, "-u"] + sys.argv[3:])
if then == "hold" or then == "forget":
    time.sleep(600)
)py";

// Everything that a test runs, on a page of an exporter that traces all of it.
struct Bench {
    explicit Bench(const std::string &mode, const std::string &more = "")
        : exporter("series: {budget: 100000}\ncuda: {attach: " + mode +
                   "}\ntargets: {}\nsyscall: {enabled: true, syscalls: [getppid]}\n"
                   "functions:\n  attach: " +
                   mode +
                   "\n  groups:\n    calls:\n      libraries: [\"libcalls.so*\"]\n"
                   "      functions: [calls_plain]\n" +
                   more),
          cuda_holder(hold(exporter)),
          calls_holder({standin("calls"), "--iterations", "0", "--hold", "--name", "holder"}) {
        exporter.wait_until_attached_to(runtime);
        exporter.wait_until_attached_to(calls_library);
    }

    std::filesystem::path script(const std::string &name) const {
        const std::filesystem::path path = scripts / name;
        std::filesystem::create_directories(path.parent_path());
        write_file(path, workload);
        return path;
    }

    // Runs a workload, and says by `output` when it has worked.
    Process start(const std::string &truth, std::vector<std::string> command,
                  const std::vector<std::string> &through = {}) const {
        std::filesystem::create_directories(truths / truth);
        std::vector<std::string> all = through;
        all.insert(all.end(), command.begin(), command.end());
        return Process(all, {{"STANDIN_TRUTH_DIR", (truths / truth).string()}});
    }

    [[nodiscard]] truth::TruthSnapshot truth_of_all(const std::string &truth) const {
        return truth::sum(truth::read_truth(truths / truth));
    }

    // All rows with these labels are what the workloads did, `count` times each call, and none
    // else.
    void check(const Labels &of, const truth::TruthSnapshot &truth, int count) const {
        CAPTURE(of, count);
        REQUIRE(truth.calls("cudaMalloc") == static_cast<std::uint64_t>(count));
        const Page page = exporter.wait_for("gpusnoop_cuda_memory_allocations_total", of, count);
        check_counters_of(page, truth, of);
        (void)exporter.wait_for("gpusnoop_function_calls_total", of, count);
        // The process is a target from its first CUDA call on, before its first getppid().
        (void)exporter.wait_for("gpusnoop_syscalls_total", of, count);
    }

    TemporaryDirectory scripts;
    TemporaryDirectory truths;
    Exporter exporter;
    Process cuda_holder;
    Process calls_holder;
};

inline Labels labels_of(const std::string &script, const std::string &container = "",
                        const std::string &job = "") {
    return {{"comm", "python3"},
            {"script", script},
            {"container_id", container},
            {"slurm_job_id", job}};
}

}  // namespace harness
