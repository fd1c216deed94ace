// Programs that run out of GPU memory: what is said of them, against what they asked for and hold.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"
#include "tests/harness/gpu_node.h"
#include "tests/harness/json_lines.h"

using namespace harness;
using Catch::Matchers::ContainsSubstring;
using OomJson = nlohmann::json;

namespace {

constexpr std::uint64_t oom_mib = 1U << 20U;
const std::string oom_family = "gpusnoop_cuda_out_of_memory_total";

std::string mib(std::uint64_t count) {
    return std::to_string(count * oom_mib);
}

// A program of its steps, that waits before them until oom_go(). Its device has `limit` MiB for it.
Process oom_program(const Exporter &exporter, const std::string &name, std::uint64_t limit,
                    const std::vector<std::string> &steps, Process::Environment environment = {}) {
    environment["STANDIN_MEMORY_LIMIT"] = mib(limit);
    std::vector<std::string> command = {
        standin("steps"), "name", name, "allocate", "0", "0", "wait"};
    command.insert(command.end(), steps.begin(), steps.end());
    Process process(command, environment);
    process.wait_for_output("waiting 1");
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    return process;
}

void oom_go(const Process &process, int next = 2) {
    process.signal(SIGUSR1);
    process.wait_for_output("waiting " + std::to_string(next));
}

OomJson oom_events(const Exporter &exporter, pid_t pid) {
    const HttpAnswer answer =
        http(exporter.port(), "/api/v1/out_of_memory?pid=" + std::to_string(pid));
    REQUIRE(answer.status == 200);
    return OomJson::parse(answer.body).at("out_of_memory");
}

// Of a process whose event is there.
OomJson oom_event(const Exporter &exporter, pid_t pid) {
    eventually("the event", [&] { return !oom_events(exporter, pid).empty(); });
    const OomJson events = oom_events(exporter, pid);
    CHECK(events.size() == 1);
    return events[0];
}

Finished why_oom(const Exporter &exporter, const std::vector<std::string> &more = {}) {
    std::vector<std::string> command = {
        exporter_binary(), "why", "--oom",
        "--address=http://127.0.0.1:" + std::to_string(exporter.port())};
    command.insert(command.end(), more.begin(), more.end());
    return run(command);
}

}  // namespace

TEST_CASE("who held the memory is known of each program that is refused some, in each mode",
          "[kernel][core][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const GpuNode node(1);
    const TemporaryDirectory directory;
    const std::string sink = directory.path() / "oom.jsonl";
    const Exporter exporter(attached_by(mode) + node.config() +
                            "sinks: [{type: file, path: " + sink + ", events: out_of_memory}]\n");
    // It frees something and gets what it was refused, as PyTorch's allocator does.
    const Process retries = oom_program(exporter, "retries", 300,
                                        {"allocate", "1", mib(200), "refuse", mib(150), "refuse",
                                         mib(150), "free", "1", "allocate", "1", mib(150), "wait"});
    oom_go(retries);
    const Process pins = oom_program(exporter, "pins", 100, {"pin", mib(200), "wait"});
    oom_go(pins);
    // Host memory is not what it was refused.
    const Process falls_back = oom_program(
        exporter, "falls_back", 300,
        {"allocate", "1", mib(200), "refuse", mib(150), "free", "1", "host", mib(150), "wait"});
    oom_go(falls_back);
    std::vector<std::string> many;
    for (int i = 0; i < 50; i++) {
        many.insert(many.end(), {"refuse", mib(400)});
    }
    many.emplace_back("wait");
    const Process storm = oom_program(exporter, "storm", 300, many);
    oom_go(storm);
    const Process neighbor =
        oom_program(exporter, "neighbor", 700, {"allocate", "3", mib(200), "wait"});
    oom_go(neighbor);
    const Process asker = oom_program(
        exporter, "asker", 300, {"allocate", "2", mib(150), "refuse", mib(200), "info", "wait"},
        {{"STANDIN_MEMORY_TOTAL", mib(1'000)}, {"STANDIN_MEMORY_FREE", mib(60)}});
    oom_go(asker);

    const OomJson event = oom_event(exporter, asker.pid());
    INFO(event.dump(2));
    CHECK(event.at("verdict") == "neighbor");
    CHECK(event.at("gpu") == "0");
    CHECK(event.at("requested_bytes") == 200 * oom_mib);
    CHECK(event.at("requested_is_lower_bound") == false);
    CHECK(event.at("memory_kind") == "device");
    CHECK(event.at("function") == "cudaMalloc");
    CHECK(event.at("count") == 1);
    CHECK_THAT(event.at("site").get<std::string>(), ContainsSubstring("main"));
    CHECK(event.at("process").at("bytes") == 300 * oom_mib);
    REQUIRE(!event.at("sites").empty());
    CHECK(event.at("sites")[0].at("bytes") == 300 * oom_mib);
    CHECK_THAT(event.at("sites")[0].at("site").get<std::string>(), ContainsSubstring("main"));
    REQUIRE(!event.at("others").empty());
    CHECK(event.at("others")[0].at("pid") == neighbor.pid());
    CHECK(event.at("others")[0].at("bytes") == 600 * oom_mib);
    CHECK(event.at("memory").at("total_bytes") == 1'000 * oom_mib);
    CHECK(event.at("memory").at("free_bytes") == 60 * oom_mib);
    CHECK(event.at("memory").at("age_seconds").get<double>() < 0);
    // Other programs of this test hold a little more.
    CHECK_THAT(event.at("summary").get<std::string>(),
               ContainsSubstring("neighbor (pid " + std::to_string(neighbor.pid()) + ")"));

    // These were before.
    CHECK(oom_event(exporter, storm.pid()).at("count") == 50);
    CHECK(oom_events(exporter, retries.pid()).empty());
    CHECK(oom_events(exporter, pins.pid()).empty());
    CHECK(oom_event(exporter, falls_back.pid()).at("requested_bytes") == 150 * oom_mib);
    const Page page = exporter.wait_for(
        oom_family, {{"comm", "asker"}, {"gpu", "0"}, {"verdict", "neighbor"}}, 1);
    CHECK(page.sum(oom_family, {{"comm", "storm"}}) == 1);
    CHECK_FALSE(page.has(oom_family, {{"comm", "retries"}}));
    CHECK_FALSE(page.has(oom_family, {{"comm", "pins"}}));
    exporter.wait_for_log("a program ran out of GPU memory");
    eventually("the sink to have the event", [&] {
        for (const auto &line : json_lines_of_file(sink)) {
            if (line.at("process").at("pid") == asker.pid()) {
                return line.at("event") == "out_of_memory" && line.at("verdict") == "neighbor";
            }
        }
        return false;
    });
    check_account_at_rest(exporter);
}

TEST_CASE("pieces, launches and ends of programs that are refused memory", "[kernel]") {
    require_bpf();
    const GpuNode node(2);
    const Exporter exporter(node.config());
    // Its own figures say that nearly all is free: it has a limit of its own.
    const Process limited = oom_program(
        exporter, "limited", 100, {"allocate", "1", mib(50), "info", "refuse", mib(100), "wait"},
        {{"STANDIN_MEMORY_TOTAL", mib(1'000)}, {"STANDIN_MEMORY_FREE", mib(900)}});
    oom_go(limited);
    const Process pieces = oom_program(exporter, "pieces", 100, {"piece", "0", mib(200), "wait"});
    oom_go(pieces);
    // One that ends at once, of its refusal.
    Process dies =
        oom_program(exporter, "dies", 300, {"allocate", "1", mib(250), "info", "refuse", mib(200)});
    dies.finish();

    const OomJson limit = oom_event(exporter, limited.pid());
    INFO(limit.dump(2));
    CHECK(limit.at("function") == "cudaMalloc");
    CHECK(limit.at("memory").at("total_bytes") == 1'000 * oom_mib);
    const OomJson piece = oom_event(exporter, pieces.pid());
    CHECK(piece.at("function") == "cuMemCreate");
    CHECK(piece.at("requested_is_lower_bound") == true);
    CHECK(piece.at("memory_kind") == "vmm");
    const OomJson dead = oom_event(exporter, dies.pid());
    INFO(dead.dump(2));
    CHECK(dead.at("process").at("bytes") == 250 * oom_mib);
    CHECK(dead.at("process").at("comm") == "dies");
    (void)exporter.wait_for(oom_family, {{"comm", "dies"}}, 1);
    check_account_at_rest(exporter);

    const Finished all = why_oom(exporter);
    INFO(all.output);
    CHECK(all.code == 0);
    CHECK_THAT(all.output, ContainsSubstring("asked for at least 200 MiB") &&
                               ContainsSubstring("limited (pid ") && ContainsSubstring("<- asked"));
    const Finished one = why_oom(exporter, {"--comm", "dies"});
    CHECK_THAT(one.output, ContainsSubstring("dies (pid "));
    CHECK_THAT(one.output, !ContainsSubstring("limited"));
    const Finished none = why_oom(exporter, {"--comm", "nobody"});
    CHECK(none.code == 0);
    CHECK_THAT(none.output, ContainsSubstring("No matching program has run out of GPU memory"));
    CHECK(
        OomJson::parse(why_oom(exporter, {"--format", "json"}).output).at("out_of_memory").size() ==
        3);
}

TEST_CASE("a context that a device has no memory for is refused on that device", "[kernel]") {
    require_bpf();
    const GpuNode node(2);
    const Exporter exporter(node.config());
    // The same call for another device repairs nothing.
    const Process full =
        oom_program(exporter, "full", 100, {"refuse_device", "1", "use", "0", "wait"},
                    {{"STANDIN_DEVICES", "2"}, {"STANDIN_FULL_DEVICE", "1"}});
    oom_go(full);
    const OomJson event = oom_event(exporter, full.pid());
    INFO(event.dump(2));
    CHECK(event.at("gpu") == "1");
    CHECK(event.at("function") == "cudaSetDevice");
    CHECK(event.at("requested_bytes").is_null());
    check_account_at_rest(exporter);
}

TEST_CASE("what PyTorch's allocator says when it refuses is in the event", "[kernel]") {
    require_bpf();
    const GpuNode node(1);
    const Exporter exporter(node.config() + "torch: {enabled: true}\n");
    const auto refused = [&](const std::string &name, std::uint64_t hold, std::uint64_t allocated,
                             std::uint64_t ask, const std::vector<std::string> &more,
                             const std::string &free) {
        std::vector<std::string> command = {standin("refused"), name, mib(hold), mib(allocated),
                                            mib(ask)};
        command.insert(command.end(), more.begin(), more.end());
        Process process(command, {{"STANDIN_MEMORY_LIMIT", mib(hold + 10)},
                                  {"STANDIN_MEMORY_TOTAL", mib(1'000)},
                                  {"STANDIN_MEMORY_FREE", free}});
        process.wait_for_output("waits");
        exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
        exporter.wait_until_attached_to(standin("torch/2/libc10.so"));
        process.signal(SIGUSR1);
        process.wait_for_output("refused");
        return process;
    };
    const Process fragments = refused("fragments", 900, 400, 100, {}, mib(10));
    OomJson event = oom_event(exporter, fragments.pid());
    INFO(event.dump(2));
    CHECK(event.at("verdict") == "fragmentation");
    CHECK(event.at("count") == 1);
    CHECK(event.at("torch").at("reserved_bytes") == 900 * oom_mib);
    CHECK(event.at("torch").at("allocated_bytes") == 400 * oom_mib);
    CHECK(event.at("function") == "cudaMalloc");
    const Process fraction = refused("fraction", 100, 100, 100, {"--fraction"}, mib(500));
    event = oom_event(exporter, fraction.pid());
    INFO(event.dump(2));
    CHECK(event.at("verdict") == "own_limit");
    CHECK(event.at("function").is_null());
    CHECK(event.at("requested_bytes") == 100 * oom_mib);
}
