// Processes that come and go: many of them, and several with one process id.
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <filesystem>
#include <vector>

#include "tests/harness/counting.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"

using namespace harness;
namespace fs = std::filesystem;

namespace {

// Enough that nothing is folded.
const std::string process_lives_budget = "series:\n  budget: 100000\n";

// Keeps the libraries in use. Its calls make the program's kernels known, so that even those of a
// process that is gone in a moment have names.
Process hold_libraries(const Exporter &exporter) {
    const TemporaryDirectory directory;
    Process holder({standin("workload"), "--everything", "--api", "both", "--iterations", "50",
                    "--hold", "--name", "holder", "--wait-for-file", directory / "go"});
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    exporter.wait_until_attached_to(standin("driver/libcuda.so.1"));
    write_file(directory / "go", "");
    holder.wait_for_output("holding");
    eventually("the kernels to be known", [&] {
        const Page page = exporter.scrape();
        const std::string family = "gpusnoop_cuda_kernel_launches_total";
        return page.has(family, {{"comm", "holder"}}) &&
               !page.has(family, {{"comm", "holder"}, {"kernel", "unknown"}});
    });
    return holder;
}

// What all of them had not freed is counted, and nothing else is left of them.
void check_gone(const Exporter &exporter, const truth::TruthSnapshot &truth,
                const std::string &comm) {
    const Labels of = {{"comm", comm}};
    eventually("the last process to be gone",
               [&] { return !exporter.scrape().has("gpusnoop_process_info", of); });
    const Page page = exporter.scrape();
    const auto memory = truth.all_memory();
    CHECK(page.sum("gpusnoop_cuda_memory_unfreed_at_exit_bytes_total", of) ==
          number(memory.outstanding_bytes));
    CHECK(page.sum("gpusnoop_cuda_memory_unfreed_at_exit_allocations_total", of) ==
          number(memory.outstanding_allocations));
    for (const auto *family :
         {"outstanding_bytes", "outstanding_allocations", "outstanding_older_than_bytes"}) {
        CHECK_FALSE(page.has("gpusnoop_cuda_memory_" + std::string(family), of));
    }
}

void check_short_processes(const std::string &mode, int thousands) {
    const Exporter exporter(process_lives_budget + "cuda:\n  attach: " + mode + "\n");
    const Process holder = hold_libraries(exporter);
    std::vector<truth::TruthSnapshot> truths;
    for (int thousand = 0; thousand < thousands; thousand++) {
        const TemporaryDirectory directory;
        // A thousand show all calls there are. Others show that nothing is left of any.
        const std::string work =
            thousand == 0 ? "--api both --iterations 2 --failures" : "--iterations 1";
        const Finished finished =
            run({"sh", "-c",
                 "seq 1 1000 | xargs -P 4 -I@ \"$0\" --everything " + work +
                     " --leak 10 --name short --seed " + std::to_string(thousand) + "@ >/dev/null",
                 standin("workload")},
                {{"STANDIN_TRUTH_DIR", directory.path().string()}});
        REQUIRE(finished.code == 0);
        const auto some = truth::read_truth(directory.path());
        REQUIRE(some.size() == 1000);
        truths.push_back(truth::sum(some));
    }
    const auto truth = truth::sum(truths);
    const Page page = exporter.wait_for("gpusnoop_cuda_kernel_launches_total", {{"comm", "short"}},
                                        number(truth.all_launches()));
    check_counters(page, truth, "short");
    check_account_at_rest(exporter);
    check_gone(exporter, truth, "short");
}

// A fork with a process id of one's choice. The child may do nothing but exec.
pid_t fork_as(pid_t pid) {
    clone_args arguments{};
    arguments.exit_signal = SIGCHLD;
    arguments.set_tid = reinterpret_cast<std::uintptr_t>(&pid);
    arguments.set_tid_size = 1;
    return static_cast<pid_t>(::syscall(SYS_clone3, &arguments, sizeof(arguments)));
}

// Runs a program to its end as the process `pid`.
void run_as(pid_t pid, std::vector<std::string> command, const fs::path &truth_directory) {
    command.insert(command.begin(), {"env", "STANDIN_TRUTH_DIR=" + truth_directory.string()});
    std::vector<char *> argv;
    for (std::string &word : command) {
        argv.push_back(word.data());
    }
    argv.push_back(nullptr);
    const pid_t child = fork_as(pid);
    if (child == 0) {
        ::close(STDOUT_FILENO);
        ::execvp(argv[0], argv.data());
        ::_exit(127);
    }
    REQUIRE(child == pid);
    int status = 0;
    REQUIRE(::waitpid(pid, &status, 0) == pid);
    REQUIRE(status == 0);
}

}  // namespace

TEST_CASE("two thousand short processes are counted to the last call, and leave nothing",
          "[e2e][long]") {
    require_bpf();
    check_short_processes("session", 2);
}

TEST_CASE("a thousand short processes are counted in the ways of older kernels, too",
          "[e2e][long][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes({"multi", "perf"})));
    CAPTURE(mode);
    check_short_processes(mode, 1);
}

TEST_CASE("processes that have one id after another are not taken for one",
          "[e2e][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const Exporter exporter(process_lives_budget + "cuda:\n  attach: " + mode + "\n");
    const Process holder = hold_libraries(exporter);
    const TemporaryDirectory directory;
    const std::vector<std::string> workload = {standin("workload"), "--everything", "--api", "both",
                                               "--failures"};
    Process first({"true"});
    REQUIRE(first.wait() == 0);
    const pid_t pid = first.pid();

    // Their addresses are the same, too: what one leaks, the next allocates and frees.
    constexpr std::size_t programs = 3;
    std::vector<std::vector<truth::TruthSnapshot>> truths(programs);
    for (int life = 0; life < 60; life++) {
        const std::size_t program = static_cast<std::size_t>(life) % programs;
        const auto truth_directory = directory / std::to_string(life);
        fs::create_directory(truth_directory);
        auto command = workload;
        command.insert(command.end(),
                       {"--iterations", std::to_string(1 + life % 7), "--leak",
                        std::to_string(100 + life), "--name", "life" + std::to_string(program)});
        run_as(pid, command, truth_directory);
        const auto truth = truth::read_truth(truth_directory);
        REQUIRE(truth.size() == 1);
        CHECK(truth.front().pid == pid);
        truths[program].push_back(truth.front());
    }
    for (std::size_t program = 0; program < programs; program++) {
        const std::string comm = "life" + std::to_string(program);
        CAPTURE(comm);
        const auto truth = truth::sum(truths[program]);
        const Page page = exporter.wait_for("gpusnoop_cuda_kernel_launches_total", {{"comm", comm}},
                                            number(truth.all_launches()));
        check_counters(page, truth, comm);
        check_gone(exporter, truth, comm);
    }
    check_account_at_rest(exporter);
}
