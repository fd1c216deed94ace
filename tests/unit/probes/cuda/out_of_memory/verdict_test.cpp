// Why programs are refused GPU memory: the verdict, by what was true then.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "exporter/probes/cuda/out_of_memory/report.h"
#include "exporter/probes/cuda/out_of_memory/verdict.h"
#include "tests/unit/probes/cuda/out_of_memory/bench.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using std::chrono::nanoseconds;
using std::chrono::seconds;

namespace {

constexpr std::uint64_t gib = std::uint64_t{1} << 30U;

MemoryHolder holder(std::uint32_t pid, const std::string &script, std::uint64_t bytes) {
    MemoryHolder one;
    one.pid = pid;
    one.names.comm = "python3";
    one.names.script = script;
    one.bytes[MEMORY_device] = bytes;
    return one;
}

// A GPU with 80 GiB, of which `free` are free, and train.py, which holds `own` and asks for 2 GiB.
OutOfMemory refusal_on_80(std::uint64_t own, std::uint64_t free) {
    OutOfMemory event;
    event.gpu = "3";
    event.function = "cudaMalloc";
    event.kind = "device";
    event.requested = 2 * gib;
    event.asker = holder(10, "train.py", own);
    event.memory = MemoryFigures{.free = free, .total = 80 * gib, .age = nanoseconds(-1'000)};
    return event;
}

void add_other(OutOfMemory &event, MemoryHolder other) {
    event.others_bytes += other.on_gpu();
    event.others.push_back(std::move(other));
}

// With the verdict, as the page has it.
std::string said_of(OutOfMemory event) {
    event.verdict = judge(event);
    return std::string(to_string(event.verdict)) + ": " + oom_sentence(event);
}

}  // namespace

TEST_CASE("the program's own growth is the verdict where it holds the most") {
    OutOfMemory event = refusal_on_80(78 * gib, gib);
    event.sites = {{"forward < train", 70 * gib}, {"load < main", 8 * gib}};
    event.asker.growth = static_cast<std::int64_t>(30 * gib);
    event.asker.growth_over = seconds(300);
    CHECK(said_of(event) ==
          "own_use: train.py (pid 10) asked for 2.00 GiB on GPU 3; it holds 78.0 GiB of 80.0 GiB "
          "itself, 70.0 GiB of them at forward < train, 30.0 GiB more than 5m 0s before");
    event.asker.growth = 100;
    CHECK_THAT(said_of(event), EndsWith("at forward < train"));
    // How much is free is not known of that moment: what it holds explains it.
    event.memory->age = seconds(100);
    CHECK(judge(event) == OomVerdict::own_use);
}

TEST_CASE("a neighbor is the verdict where others hold the most") {
    OutOfMemory event = refusal_on_80(17 * gib, gib);
    event.asker.pod_uid = "u1";
    add_other(event, holder(11, "eval.py", 61 * gib));
    event.others[0].pod_uid = "u2";
    CHECK(
        said_of(event) ==
        "neighbor: train.py (pid 10) asked for 2.00 GiB on GPU 3; eval.py (pid 11) of another pod "
        "holds 61.0 GiB of 80.0 GiB");
    event.memory->age = seconds(100);
    CHECK(judge(event) == OomVerdict::neighbor);

    OutOfMemory several = refusal_on_80(10 * gib, gib);
    add_other(several, holder(11, "eval.py", 40 * gib));
    add_other(several, holder(12, "serve.py", 28 * gib));
    several.others[0].names.slurm_job_id = "86";
    CHECK_THAT(said_of(several),
               EndsWith("2 other processes hold 68.0 GiB of 80.0 GiB, eval.py (pid 11) of Slurm "
                        "job 86 the most: 40.0 GiB"));
    several.others[0].names = {
        .comm = "a", .script = "", .container = "c", .slurm_job_id = "", .user = ""};
    CHECK_THAT(said_of(several), ContainsSubstring("a (pid 11) of another container the most"));
    // One has only host memory.
    add_other(several, holder(13, "loader.py", 0));
    CHECK_THAT(said_of(several), ContainsSubstring("; 2 other processes hold"));
}

TEST_CASE("fragmentation is the verdict where PyTorch has reserved enough and uses less") {
    OutOfMemory event = refusal_on_80(72 * gib, gib);
    event.torch = {.allocated = 40 * gib, .reserved = 71 * gib};
    CHECK(said_of(event) ==
          "fragmentation: train.py (pid 10) asked for 2.00 GiB on GPU 3; PyTorch has reserved 71.0 "
          "GiB and uses 40.0 GiB of them: fragmentation");
    event.torch->allocated = 70 * gib;  // what is unused is too little in any case
    CHECK(judge(event) == OomVerdict::own_use);
}

TEST_CASE("a request that the GPU cannot hold is the verdict, whoever holds the rest") {
    OutOfMemory event = refusal_on_80(gib, 78 * gib);
    event.requested = 100 * gib;
    CHECK(said_of(event) ==
          "too_large: train.py (pid 10) asked for 100 GiB on GPU 3; the GPU has a total of 80.0 "
          "GiB, of "
          "which 78.0 GiB were free");
    event.requested = 60 * gib;
    event.memory->free = 40 * gib;
    add_other(event, holder(11, "eval.py", 38 * gib));
    CHECK(judge(event) == OomVerdict::too_large);
    event.requested = 30 * gib;
    event.memory->free = 18 * gib;
    event.others[0].bytes[MEMORY_device] = 60 * gib;
    event.others_bytes = 60 * gib;
    CHECK(judge(event) == OomVerdict::neighbor);
}

TEST_CASE("a small GPU, or an instance of one, is compared with nobody else's memory") {
    OutOfMemory event = refusal_on_80(9 * gib, gib / 2);
    event.compares = false;
    event.memory->total = 10 * gib;
    CHECK(judge(event) == OomVerdict::own_use);
    event.requested = 12 * gib;
    CHECK_THAT(said_of(event), ContainsSubstring("cudaMemGetInfo returned a total of 10.0 GiB"));
    CHECK(judge(event) == OomVerdict::too_large);
    // The rest may be anybody's.
    event.requested = 2 * gib;
    event.asker.bytes[MEMORY_device] = gib;
    CHECK(judge(event) == OomVerdict::unknown);
    CHECK_FALSE(event.not_accounted_for());
}

TEST_CASE("the program's own limit is the verdict where enough was free") {
    OutOfMemory event = refusal_on_80(10 * gib, 70 * gib);
    CHECK(said_of(event) ==
          "own_limit: train.py (pid 10) asked for 2.00 GiB on GPU 3; 70.0 GiB are free: the "
          "program's own limit");
    event.memory->age = seconds(30);  // who knows what was free then
    CHECK(judge(event) == OomVerdict::unknown);
    event.memory->age = {};
    event.memory->is_outdated = true;
    CHECK(judge(event) == OomVerdict::unknown);
    event.memory->is_outdated = false;
    // A piece of a larger request: its size says nothing of the request.
    event.memory->age = {};
    event.may_be_piece = true;
    CHECK(judge(event) == OomVerdict::unknown);
    CHECK_THAT(said_of(event), ContainsSubstring("asked for at least 2.00 GiB"));
    event.torch = {.allocated = 10 * gib, .reserved = 10 * gib};  // which said the whole size
    CHECK(judge(event) == OomVerdict::own_limit);
}

TEST_CASE("memory that nobody holds is the verdict where it is most of the GPU's") {
    OutOfMemory event = refusal_on_80(28 * gib, gib);
    add_other(event, holder(11, "eval.py", 11 * gib));
    CHECK(event.not_accounted_for() == 40 * gib);
    CHECK_THAT(said_of(event),
               ContainsSubstring("not_accounted_for: ") &&
                   ContainsSubstring("; 40.0 GiB of 80.0 GiB are not accounted for (contexts,"));
    // Managed memory may be on the GPU.
    event.managed_bytes = 5 * gib;
    CHECK(judge(event) == OomVerdict::not_accounted_for);
    event.managed_bytes = 30 * gib;
    CHECK(judge(event) == OomVerdict::unknown);
}

TEST_CASE("the verdict is unknown where it cannot be told") {
    OutOfMemory event = refusal_on_80(10 * gib, gib);
    event.memory.reset();
    CHECK(said_of(event) ==
          "unknown: train.py (pid 10) asked for 2.00 GiB on GPU 3; the cause is unknown");
    // Little is held, and how much is free is not known.
    event = refusal_on_80(10 * gib, gib);
    event.memory->age = seconds(100);
    CHECK(judge(event) == OomVerdict::unknown);
    // Managed memory may be larger than the GPU.
    event = refusal_on_80(78 * gib, gib);
    event.kind = "managed";
    CHECK(judge(event) == OomVerdict::unknown);
    // A launch that failed while most was free.
    event = refusal_on_80(gib, 79 * gib);
    event.kind = {};
    event.requested.reset();
    event.function = "cudaLaunchKernel";
    event.gpu = "unknown";
    CHECK(said_of(event) ==
          "unknown: train.py (pid 10) ran out of memory in cudaLaunchKernel on a GPU that is not "
          "known; the cause is unknown");
}

// What the API, the page and sinks have of refusals of GPU memory.

TEST_CASE("the document has the last events, the newest first") {
    OutOfMemoryBench fixture;
    for (std::uint64_t i = 0; i < max_kept_out_of_memory + 5; i++) {
        fixture.allocations(refused(oom_gib + i, (100 + i * 20) * second_ns));
        fixture.until(110 + i * 20);
    }
    const ApiPage document = out_of_memory_page(fixture.aggregator->out_of_memory().list());
    CHECK(document.name == "out_of_memory");
    const auto read = [&](const QueryParameters &parameters) {
        return document.write(parameters)->text;
    };
    const auto count = [](const std::string &text) {
        std::size_t events = 0;
        for (auto at = text.find("last_time"); at != std::string::npos; events++) {
            at = text.find("last_time", at + 1);
        }
        return events;
    };
    CHECK(count(read({})) == max_kept_out_of_memory);
    const std::string newest = read({{"limit", "1"}});
    CHECK_THAT(newest, ContainsSubstring("\"requested_bytes\":" +
                                         std::to_string(oom_gib + max_kept_out_of_memory + 4)));
    CHECK_THAT(
        newest,
        ContainsSubstring(R"("verdict":"neighbor")") &&
            ContainsSubstring(R"("process":{"pid":42,)") &&
            ContainsSubstring(R"("others":[{"pid":43,)") &&
            ContainsSubstring("\"bytes_by_kind\":{\"device\":" + std::to_string(66 * oom_gib)) &&
            ContainsSubstring("\"total_bytes\":" + std::to_string(80 * oom_gib)) &&
            ContainsSubstring(R"("torch":null)") && ContainsSubstring("eval (pid 43)"));
    CHECK_THAT(newest, EndsWith("\"left_out\":" + std::to_string(max_kept_out_of_memory - 1) +
                                ",\"truncated\":true}\n"));
    CHECK(read({{"pid", "43"}}) == "{\"out_of_memory\":[],\"left_out\":0,\"truncated\":false}\n");
    CHECK(count(read({{"gpu", "4"}, {"limit", "3"}})) == 3);
    CHECK(count(read({{"gpu", "5"}})) == 0);
    CHECK_FALSE(document.write({{"kind", "x"}}));
    CHECK_FALSE(document.write({{"limit", "x"}}));

    const OutOfMemoryOverview overview = fixture.aggregator->out_of_memory().overview();
    CHECK(overview.count == max_kept_out_of_memory + 5);
    CHECK(overview.last.size() == max_overview_out_of_memory);
    CHECK(overview.last[0].verdict == "neighbor");
    CHECK_THAT(out_of_memory_line(fixture.aggregator->out_of_memory().list()[0]),
               StartsWith(R"({"event":"out_of_memory","time":")"));
}
