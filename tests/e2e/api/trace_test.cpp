// `gpusnoop_exporter trace cuda` on real processes: its lines against what the library counted.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "exporter/probes/cuda/attach/functions.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"
#include "tests/harness/trace.h"
#include "workload/known_arguments.h"

using namespace harness;
using nlohmann::json;

namespace {

// Keep the libraries in use, so that they are attached to when the test begins.
struct Holders {
    Process runtime{{standin("workload"), "--iterations", "0", "--hold", "--name", "holder"}};
    Process driver{{standin("driver_workload"), "--iterations", "0", "--hold"}};

    Holders() {
        runtime.wait_for_output("holding");
        driver.wait_for_output("holding");
    }
};

class CudaTrace : Holders, public Trace {
public:
    explicit CudaTrace(const std::vector<std::string> &arguments, const std::string &mode = "auto")
        : Trace("cuda", "cuda:\n  attach: " + mode + "\n", arguments) {}
};

std::vector<std::string> command(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), standin("workload"));
    return arguments;
}

truth::TruthSnapshot run_workload(const std::vector<std::string> &arguments) {
    const TemporaryDirectory truth_directory;
    Process workload(command(arguments), {{"STANDIN_TRUTH_DIR", truth_directory.path().string()}});
    REQUIRE(workload.wait() == 0);
    const auto truths = truth::read_truth(truth_directory.path());
    REQUIRE(truths.size() == 1);
    return truths.front();
}

using Results = std::map<std::pair<std::string, int>, std::uint64_t>;

// Calls about events and ends of streams are traced while a stream captures: no program here does.
bool is_traced_in_captures_only(std::string_view symbol) {
    return symbol.find("EventRecord") != symbol.npos ||
           symbol.find("StreamWaitEvent") != symbol.npos ||
           symbol.find("StreamDestroy") != symbol.npos;
}

// How often which function ended how, of those that are traced at all.
Results results_of(const truth::TruthSnapshot &truth) {
    Results results;
    for (const auto &[key, count] : truth.results) {
        for (const auto &function : gpusnoop::probes::cuda_functions()) {
            if (function.symbol == key.first && !function.entry_only &&
                !is_traced_in_captures_only(function.symbol)) {
                results[key] = count;
            }
        }
    }
    return results;
}

Results results_of(const std::vector<json> &calls, pid_t pid) {
    Results results;
    for (const json &call : calls) {
        if (call["pid"] == pid) {
            results[{call["function"], call["result"]}]++;
        }
    }
    return results;
}

std::uint64_t bytes_of(const std::vector<json> &calls, const json &pattern) {
    std::uint64_t sum = 0;
    for (const json &call : calls) {
        const bool matches = std::ranges::all_of(pattern.items(), [&](const auto &item) {
            return call.contains(item.key()) && call[item.key()] == item.value();
        });
        if (matches) {
            sum += call["bytes"].get<std::uint64_t>();
        }
    }
    return sum;
}

}  // namespace

TEST_CASE("every call that the library counts is a line, with its bytes", "[e2e][core]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    CudaTrace trace({"--comm=traced"}, mode);
    const auto truth = run_workload({"--threads", "4", "--iterations", "500", "--failures",
                                     "--memory-kinds", "--name", "traced"});
    const auto calls = trace.finish();
    const Results expected = results_of(truth);
    CHECK(expected.size() > 10);
    CHECK(results_of(calls, truth.pid) == expected);

    const auto sum = [&](json pattern) {
        pattern["pid"] = truth.pid;
        pattern["result"] = 0;
        return bytes_of(calls, pattern);
    };
    CHECK(sum({{"operation", "allocate"}}) == truth.all_memory().allocated_bytes);
    CHECK(sum({{"operation", "allocate"}, {"memory_kind", "managed"}}) ==
          truth.of(truth::MemoryKind::managed).allocated_bytes);
    using truth::CopyKind;
    using truth::CopyMode;
    for (const auto &[kind, name] :
         {std::pair(CopyKind::h2d, "h2d"), {CopyKind::d2h, "d2h"}, {CopyKind::d2d, "d2d"}}) {
        CAPTURE(name);
        CHECK(sum({{"direction", name}, {"mode", "sync"}}) == truth.of(kind, CopyMode::sync).bytes);
        CHECK(sum({{"direction", name}, {"mode", "async"}}) ==
              truth.of(kind, CopyMode::async).bytes);
    }
    const auto named = std::ranges::count_if(calls, [&](const json &call) {
        return call["pid"] == truth.pid && call["operation"] == "launch" && call["result"] == 0 &&
               call["kernel"] != "unknown";
    });
    CHECK(static_cast<std::uint64_t>(named) == truth.launches);
}

TEST_CASE("everything that the stand-in libraries offer is traced", "[e2e]") {
    require_bpf();
    const std::string mode = GENERATE("session", "multi");  // perf: above, its detaching is slow
    CAPTURE(mode);
    CudaTrace trace({"--comm=traced"}, mode);
    const auto truth =
        run_workload({"--everything", "--api", "both", "--iterations", "40", "--name", "traced"});
    const auto calls = trace.finish();
    CHECK(results_of(calls, truth.pid) == results_of(truth));
    CHECK(std::ranges::any_of(calls, [](const json &call) { return call["api"] == "driver"; }));
}

TEST_CASE("kernels' arguments are the words that they were launched with", "[e2e]") {
    require_bpf();
    const std::string mode = GENERATE("session", "multi");  // perf: above, its detaching is slow
    CAPTURE(mode);
    CudaTrace trace({"--function=*LaunchKernel*", "--comm=traced"}, mode);
    const std::string api = GENERATE("runtime", "driver");
    CAPTURE(api);
    const auto truth =
        run_workload({"--known-arguments", "--api", api, "--iterations", "20", "--name", "traced"});
    std::vector<std::string> words;
    for (std::size_t n = 0; n < demo::kKnownArguments; n++) {
        std::ostringstream word;
        word << "0x" << std::hex << demo::known_argument(n);
        words.push_back(word.str());
    }
    std::uint64_t known = 0;
    for (const json &call : trace.finish()) {
        if (call["pid"] != truth.pid || call["grid"] != json({2, 3, 4})) {
            continue;
        }
        known++;
        const auto arguments = call["arguments"].get<std::vector<std::string>>();
        CHECK(call["block"] == json({5, 6, 7}));
        CHECK(call["shared_bytes"] == 512);
        CHECK(call["stream"] == "0x0");
        // As many as the kernel's name says, and all of them where it has sixteen.
        REQUIRE(arguments.size() <= words.size());
        CHECK(std::equal(arguments.begin(), arguments.end(), words.begin()));
        if (call["kernel"] == "sixteenWords") {
            CHECK(arguments == words);
        }
    }
    CHECK(known == truth.launches);
    CHECK(known > 0);
}

TEST_CASE("a traced call for the time between events has the time that the driver gave", "[e2e]") {
    require_bpf();
    const TemporaryDirectory directory;
    const std::string go = (directory / "go").string();
    CudaTrace trace({"--function=*EventElapsedTime*", "--comm=timed"});
    const Process timed({standin("events"), "timed", go, "0.5", "nan", "gone", "unrecorded", "3"});
    timed.wait_for_output("ready");
    write_file(go, "");
    timed.wait_for_output("holding");
    const auto calls = trace.finish();
    REQUIRE(calls.size() == 5);
    for (const json &call : calls) {
        CHECK(call["function"] == "cudaEventElapsedTime");
        CHECK(call["operation"] == "read_elapsed_time");
    }
    CHECK(calls[0]["elapsed_ns"] == 500'000);
    CHECK(calls[4]["elapsed_ns"] == 3'000'000);
    for (const std::size_t without : {1, 2, 3}) {
        CHECK_FALSE(calls[without].contains("elapsed_ns"));
    }
    CHECK(calls[3]["result_name"] == "cudaErrorInvalidResourceHandle");
}

// Of both versions of the runtime, which have the stream at another position.
TEST_CASE("a traced batch has the number of its copies and its stream", "[e2e]") {
    require_bpf();
    const TemporaryDirectory directory;
    const std::string go = (directory / "go").string();
    const std::string form = GENERATE("runtime12", "runtime13");
    CAPTURE(form);
    const Process holder({standin("batches"), "holder", "/nowhere/go", "runtime13"});
    holder.wait_for_output("ready");
    CudaTrace trace({"--function=*Batch*", "--function=cudaStreamSynchronize", "--comm=batched"});
    const Process batched(
        {standin("batches"), "batched", go, form, "5", "3d:2", "failing", "sync"});
    batched.wait_for_output("ready");
    write_file(go, "");
    batched.wait_for_output("holding");
    const auto calls = trace.finish();
    REQUIRE(calls.size() == 4);
    const json stream = calls[3]["stream"];
    CHECK(stream != "0x0");
    const std::vector<std::uint64_t> copies = {5, 2, 3};
    for (std::size_t i = 0; i < copies.size(); i++) {
        CHECK(calls[i]["operation"] == "copy");
        CHECK(calls[i]["mode"] == "async");
        CHECK(calls[i]["copies"] == copies[i]);
        CHECK(calls[i]["stream"] == stream);
        CHECK_FALSE(calls[i].contains("bytes"));
    }
    CHECK(calls[2]["result_name"] == "cudaErrorInvalidValue");
}

TEST_CASE("a trace can be of some processes and some functions", "[e2e]") {
    require_bpf();
    const TemporaryDirectory directory;
    const auto go = (directory / "go").string();
    Process chosen(command({"--name", "chosen", "--iterations", "100", "--wait-for-file", go}));
    // A child of the shell, and so none of ours.
    Process other({"sh", "-c",
                   "setpriv --pdeathsig KILL " + quoted(standin("workload")) +
                       " --name other --iterations 100 --wait-for-file " + quoted(go) +
                       "; exit $?"});
    std::string filter = GENERATE("pid", "ppid", "comm");
    CAPTURE(filter);
    filter = filter == "pid"    ? "--pid=" + std::to_string(chosen.pid())
             : filter == "ppid" ? "--ppid=" + std::to_string(::getpid())
                                : "--comm=chos*";
    CudaTrace trace({"--function=cudaMalloc", "--function=cudaMemcpy*", filter});
    write_file(go, "");
    CHECK(chosen.wait() == 0);
    CHECK(other.wait() == 0);
    const auto calls = trace.finish();
    CHECK(calls.size() > 100);
    for (const json &call : calls) {
        CHECK(call["pid"] == chosen.pid());
        CHECK(call["ppid"] == ::getpid());
        CHECK(call["comm"] == "chosen");
        const std::string function = call["function"];
        CHECK((function == "cudaMalloc" || function.starts_with("cudaMemcpy")));
    }
}

TEST_CASE("a trace ends after so many calls, or so long", "[e2e]") {
    require_bpf();
    SECTION("calls") {
        CudaTrace trace({"--count=5"});
        run_workload({"--iterations", "100"});
        CHECK(trace.process().wait() == 0);
        CHECK(trace.calls().size() == 5);
    }
    SECTION("time") {
        CudaTrace trace({"--duration=500ms"});
        CHECK(trace.process().wait() == 0);
    }
}

TEST_CASE("a trace ends when nobody reads it any more", "[e2e]") {
    require_bpf();
    const Process holder(command({"--rate", "100", "--seconds", "600"}));
    Process reader({"bash", "-c",
                    quoted(exporter_binary()) +
                        " trace cuda 2>/dev/null | head -n 1; echo codes ${PIPESTATUS[*]}"});
    CHECK(reader.wait() == 0);
    CHECK(reader.output().find("codes 0 0") != std::string::npos);
}

TEST_CASE("a process cannot speak to the terminal through its name", "[e2e]") {
    require_bpf();
    const std::string format = GENERATE("text", "json");
    CudaTrace trace({"--format=" + format});
    const std::string name = "\x1b[31m\xff\n\xC2\x9b";
    run_workload({"--iterations", "10", "--name", name + "x"});
    trace.process().signal(SIGTERM);
    CHECK(trace.process().wait() == 0);
    const std::string lines = trace.lines();
    CHECK(std::ranges::count(lines, '\n') > 10);
    CHECK(std::ranges::none_of(lines, [](char c) {
        return (static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7f || c == '\xff';
    }));
    CHECK(lines.find("\xC2\x9b") == std::string::npos);
    CHECK(lines.find("[31m") != std::string::npos);
}

TEST_CASE("a stack leads to the function that made the call", "[e2e]") {
    require_bpf();
    const std::string mode = GENERATE("session", "multi");  // perf: above, its detaching is slow
    CAPTURE(mode);
    CudaTrace trace({"--stack", "--function=cudaMalloc", "--comm=traced"}, mode);
    Process workload(command({"--iterations", "10", "--hold", "--name", "traced"}));
    workload.wait_for_output("holding");
    eventually("the trace to write", [&] { return trace.calls().size() >= 10; });
    for (const json &call : trace.finish()) {
        REQUIRE(call["stack"].size() > 1);
        CHECK(call["stack"][0]["module"] == "workload");
        CHECK(call["stack"][0]["function"].get<std::string>().find("demo::") == 0);
    }
}

TEST_CASE("a trace and an exporter do not disturb each other", "[e2e]") {
    require_bpf();
    const Exporter exporter;
    CudaTrace trace({"--comm=both"});
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    const TemporaryDirectory truth_directory;
    Process workload(command({"--threads", "2", "--iterations", "500", "--failures", "--name",
                              "both", "--hold"}),
                     {{"STANDIN_TRUTH_DIR", truth_directory.path().string()}});
    workload.wait_for_output("holding");
    const auto truth = truth::read_truth(truth_directory.path()).front();
    const Page page =
        exporter.wait_for("gpusnoop_cuda_kernel_launches_total", {{"comm", truth.comm}},
                          static_cast<double>(truth.launches));
    check_counters(page, truth, truth.comm);
    CHECK(results_of(trace.finish(), truth.pid) == results_of(truth));
}

TEST_CASE("a wrong request for a trace is refused with the reason", "[e2e]") {
    const auto refused = [](const std::string &argument) {
        const auto finished = run({exporter_binary(), "trace", "cuda", argument});
        CHECK(finished.code != 0);
        return finished.output;
    };
    CHECK(refused("--duration=fast").find("must be like") != std::string::npos);
    CHECK(refused("--format=xml").find("xml") != std::string::npos);
    require_bpf();
    CHECK(refused("--function=cudaNothing*").find("cudaNothing*") != std::string::npos);
}
