// `gpusnoop_exporter trace pcie|nvlink|fence|syscall|open`: its lines against what was done.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "exporter/ebpf/attach/kernel_hooks.h"
#include "tests/harness/guest.h"
#include "tests/harness/trace.h"
#include "tests/probes/syscalls.h"

using namespace harness;
using nlohmann::json;

namespace {

constexpr int trace_kernel_threads = 3;
constexpr int calls_each = 200;

// Comm, for targets that another test's process cannot be.
const std::string comm = "--comm=sys[c]alls";

Process start_syscalls() {
    Process process({standin("syscalls"), "--threads", std::to_string(trace_kernel_threads),
                     "--calls", std::to_string(calls_each)});
    process.wait_for_output("waiting");
    return process;
}

void wait_until_in(const Trace &trace, const Process &process) {
    eventually("the process to be traced", [&] {
        return std::ranges::any_of(trace.calls(),
                                   [&](const json &call) { return call["pid"] == process.pid(); });
    });
}

void make_calls(Process &process) {
    process.signal(SIGUSR1);
    process.wait_for_output("counted");
    process.signal(SIGUSR1);
    REQUIRE(process.wait() == 0);
}

std::vector<json> trace_kernel_named(const std::vector<json> &lines, const std::string &syscall) {
    std::vector<json> found;
    std::ranges::copy_if(lines, std::back_inserter(found),
                         [&](const json &line) { return line["syscall"] == syscall; });
    return found;
}

std::vector<std::string> words(const json &line, std::size_t count) {
    auto all = line["arguments"].get<std::vector<std::string>>();
    CHECK(all.size() == 6);
    all.resize(count);
    return all;
}

// What each of the threads did, and the process's parent is this one.
void check_lines(const std::vector<json> &lines, const Process &process) {
    struct Expected {
        json result;
        json error;
        std::vector<std::string> arguments;
    };
    const std::map<std::string, Expected> expected = {
        {"getppid", {::getpid(), nullptr, {}}},
        {"getpgid", {-ESRCH, "ESRCH", {"0x3fffffff"}}},
        {"dup", {-EBADF, "EBADF", {"0xffffffffffffffff"}}},
        {"timer_delete", {-EINVAL, "EINVAL", {"0x7fffff"}}},
        {"unknown", {-ENOSYS, "ENOSYS", {}}},
    };
    for (const auto &[name, what] : expected) {
        CAPTURE(name);
        const auto found = trace_kernel_named(lines, name);
        CHECK(found.size() == trace_kernel_threads * calls_each);
        std::set<int> tids;
        for (const json &line : found) {
            CHECK(line["pid"] == process.pid());
            CHECK(line["ppid"] == ::getpid());
            CHECK(line["comm"] == "syscalls");
            CHECK(line["container_id"] == "");
            CHECK(line["result"] == what.result);
            CHECK(line["error"] == what.error);
            CHECK(line["duration_ns"] > 0);
            CHECK(line.contains("number") == (name == "unknown"));
            const auto arguments = words(line, what.arguments.size());
            // The C library's function takes an int, whose upper half is nobody's.
            if (!arguments.empty()) {
                const auto low = [](const std::string &word) {
                    return std::stoull(word, nullptr, 16) & 0xffffffffU;
                };
                CHECK(low(arguments[0]) == low(what.arguments[0]));
            }
            tids.insert(line["tid"].get<int>());
        }
        CHECK(tids.size() == trace_kernel_threads);
    }
    for (const json &line : trace_kernel_named(lines, "unknown")) {
        CHECK(line["number"] == 100'000);
    }
#if defined(__x86_64__)
    const auto compat = trace_kernel_named(lines, "compat");
    CHECK(compat.size() == compat_calls_of(process));
    for (const json &line : compat) {
        CHECK(line["number"] == 64);
        CHECK(line["result"] == ::getpid());
    }
#endif
}

}  // namespace

TEST_CASE("each system call of a process is a line, and none of another", "[kernel][core]") {
    require_bpf();
    SECTION("by its id") {
        Process traced = start_syscalls();
        Process other = start_syscalls();
        Trace trace("syscall", "{}", {"--pid=" + std::to_string(traced.pid())});
        wait_until_in(trace, traced);
        make_calls(other);
        make_calls(traced);
        const auto lines = trace.finish();
        check_lines(lines, traced);
        CHECK(std::ranges::all_of(lines,
                                  [&](const json &line) { return line["pid"] == traced.pid(); }));
    }
    SECTION("by its name, which the configuration's targets do not matter to") {
        Trace trace("syscall", "targets: {all_processes: true}\n", {comm});
        Process traced = start_syscalls();
        wait_until_in(trace, traced);
        make_calls(traced);
        const auto lines = trace.finish();
        check_lines(lines, traced);
        CHECK(std::ranges::all_of(lines,
                                  [&](const json &line) { return line["comm"] == "syscalls"; }));
    }
    SECTION("by who starts it, from its first call on") {
        Trace trace("syscall", "{}", {"--ppid=" + std::to_string(::getpid())});
        // The shell is a child of this process, what it starts is none.
        Process other(
            {"sh", "-c",
             "setpriv --pdeathsig KILL '" + standin("syscalls") + "' --threads 1 --calls 1; true"});
        other.wait_for_output("waiting");
        Process traced = start_syscalls();
        wait_until_in(trace, traced);
        make_calls(traced);
        const auto lines = trace.finish();
        std::vector<json> own;
        std::ranges::copy_if(lines, std::back_inserter(own), [&](const json &line) {
            CHECK(line["ppid"] == ::getpid());
            return line["pid"] == traced.pid() && line["comm"] == "syscalls";
        });
        check_lines(own, traced);
        CHECK(std::ranges::all_of(lines, [&](const json &line) {
            return line["pid"] == traced.pid() || line["pid"] == other.pid();
        }));
    }
    SECTION("by the configuration, and only some calls") {
        Trace trace("syscall",
                    "cuda: {enabled: false}\ntargets: {comms: [\"sys[c]alls\"]}\n"
                    "syscall: {syscalls: [read]}\n",
                    {"--syscall=getpgid", "--syscall=timing"});
        Process traced = start_syscalls();
        wait_until_in(trace, traced);
        make_calls(traced);
        const auto lines = trace.finish();
        CHECK(trace_kernel_named(lines, "getpgid").size() == trace_kernel_threads * calls_each);
        CHECK(trace_kernel_named(lines, "timer_delete").size() ==
              trace_kernel_threads * calls_each);
        CHECK_FALSE(trace_kernel_named(lines, "clock_nanosleep").empty());
        CHECK(trace_kernel_named(lines, "getppid").empty());
        CHECK(trace_kernel_named(lines, "read").empty());
    }
}

// What a program calls first is the loader's business: the end of its heap.
TEST_CASE("a program of a traced name is traced from its first system call on", "[kernel]") {
    require_bpf();
    const std::string by = GENERATE("--comm", "--ppid");
    CAPTURE(by);
    const std::string process = by == "--comm" ? "sys[c]alls" : std::to_string(::getpid());
    Trace trace("syscall", "{}", {by + "=" + process});
    for (int i = 0; i < 10; i++) {
        Process traced({standin("syscalls"), "--threads", "1", "--calls", "1"});
        traced.wait_for_output("waiting");
        wait_until_in(trace, traced);
        make_calls(traced);
        // A process that is traced since it was forked has that name, and an execve before this.
        std::vector<std::string> first;
        eventually("its first calls", [&] {
            first.clear();
            for (const json &line : trace.calls()) {
                if (line["pid"] == traced.pid()) {
                    first.push_back(line["syscall"]);
                }
            }
            return !first.empty() && std::ranges::count(first, "timer_delete") == 1;
        });
        if (by == "--comm") {
            CHECK(first.front() == "brk");
        } else {
            CHECK(std::ranges::find(first, "brk") != first.end());
        }
        // The loader opens the C library, to name one more.
        CHECK(std::ranges::count(first, "openat") >= 2);
    }
    trace.finish();
}

TEST_CASE("system calls of a GPU process are lines from its first CUDA call on", "[kernel]") {
    require_bpf();
    const auto start = [] {
        Process process({standin("syscalls"), "--threads", std::to_string(trace_kernel_threads),
                         "--calls", std::to_string(calls_each), "--cuda",
                         standin("12/libcudart.so.12")});
        process.wait_for_output("waiting");
        return process;
    };
    // Keeps the library in use, so that it is attached to.
    Process holder = start();
    Trace trace("syscall", "{}", {});
    trace.process().wait_for_output("msg=\"attached\" probe=cuda");
    Process traced = start();
    make_calls(traced);
    auto lines = trace.finish();
    std::erase_if(lines, [&](const json &line) { return line["pid"] != traced.pid(); });
    check_lines(lines, traced);
}

TEST_CASE("a trace of opened files has the path of each, also of those that are not there",
          "[kernel]") {
    require_bpf();
    const TemporaryDirectory directory;
    const std::string program = directory / "opens_files";
    std::filesystem::copy_file("/bin/cat", program);
    std::vector<std::string> command = {program};
    std::set<std::string> there;
    std::set<std::string> missing_files;
    for (int i = 0; i < 20; i++) {
        const std::string path = directory / ("there" + std::to_string(i));
        write_file(path, "");
        there.insert(path);
        missing_files.insert(path + "not");
        command.insert(command.end(), {path, path + "not"});
    }
    const bool only_failed = GENERATE(false, true);
    std::vector<std::string> options = {"--comm=opens_f[i]les"};
    if (only_failed) {
        options.emplace_back("--failed");
    }
    Trace trace("open", "{}", options);
    CHECK(run(command).code == 1);
    std::multiset<std::string> opened;
    std::multiset<std::string> failed;
    for (const json &line : trace.finish()) {
        CAPTURE(line.dump());
        const std::string path = line.at("path");
        CHECK(line.at("comm") == "opens_files");
        if (there.contains(path)) {
            opened.insert(path);
            CHECK(line.at("result").get<int>() >= 3);
        } else if (missing_files.contains(path)) {
            failed.insert(path);
            CHECK(line.at("error") == "ENOENT");
        }
        CHECK((!only_failed || line.at("result").get<int>() < 0));
    }
    CHECK(opened == (only_failed ? std::multiset<std::string>{}
                                 : std::multiset<std::string>(there.begin(), there.end())));
    CHECK(failed == std::multiset<std::string>(missing_files.begin(), missing_files.end()));
}

TEST_CASE("a trace of the whole machine does not trace itself", "[kernel]") {
    require_bpf();
    Trace trace("syscall", "targets: {all_processes: true}\n", {"--count=500"});
    CHECK(trace.process().wait() == 0);
    const auto lines = trace.calls();
    CHECK(lines.size() == 500);
    CHECK(std::ranges::none_of(
        lines, [&](const json &line) { return line["pid"] == trace.process().pid(); }));
}

TEST_CASE("a trace of fences says that it traces, and ends when it is told to", "[kernel]") {
    require_bpf();
    if (!gpusnoop::ebpf::tracepoint_fields("dma_fence", "dma_fence_init")) {
        missing("tracefs, or a kernel with DMA fences");
    }
    Trace trace("fence", "targets: {all_processes: true}\n", {"--format=text"});
    CHECK(trace.process().output().find("msg=\"tracing\" events=fence") != std::string::npos);
    trace.process().signal(SIGINT);
    CHECK(trace.process().wait() == 0);
    CHECK(trace.process().output().find("msg=\"trace ended\" written=") != std::string::npos);
    CHECK(trace.lines().starts_with("TIME (UTC)"));
}

TEST_CASE("what cannot be traced ends at once, with the reason", "[kernel]") {
    require_bpf();
    for (const std::string what : {"pcie", "nvlink"}) {
        CAPTURE(what);
        const Finished end = run({exporter_binary(), "trace", what, "--duration=100ms"});
        const bool has_kprobes = gpusnoop::ebpf::check_kprobes().has_value();
        CHECK(end.code == (has_kprobes ? 0 : 1));
        const std::string reason =
            "this kernel has no kprobes: one with CONFIG_KPROBE_EVENTS is needed";
        CHECK((end.output.find(reason) != std::string::npos) == !has_kprobes);
    }
    const TemporaryDirectory directory;
    const std::string file = (directory / "config.yaml").string();
    write_file(file, "targets: {gpu_processes: false}\n");
    for (const std::string what : {"fence", "syscall"}) {
        const Finished end = run({exporter_binary(), "trace", what, "--config.file=" + file});
        CHECK(end.code == 1);
        CHECK(end.output.find(
                  "no process to trace: name some with --pid, --ppid, --comm or in `targets`") !=
              std::string::npos);
    }
    CHECK(run({exporter_binary(), "trace", "syscall", "--syscall=frobnicate"}).code == 2);
}
