// What ended processes did last and held, against a program that knows which calls it made.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/harness/exporter.h"
#include "tests/harness/gpu_node.h"
#include "tests/harness/guest.h"
#include "tests/harness/probe_state.h"
#include "tests/harness/trace.h"

using namespace harness;
using Json = nlohmann::json;

namespace {

constexpr auto host_exits_enabled = "host: {life: {enabled: true, keep: 1000}}\n";

Process host_exits_lives(const std::vector<std::string> &steps,
                         const Process::Environment &environment = {}) {
    std::vector<std::string> command = {standin("lives")};
    command.insert(command.end(), steps.begin(), steps.end());
    return Process(std::move(command), environment);
}

Json exits_of(const Exporter &exporter, const std::string &comm) {
    const HttpAnswer answer = http(exporter.port(), "/api/v1/exits?comm=" + comm);
    REQUIRE(answer.status == 200);
    return Json::parse(answer.body).at("exits");
}

// The ends of the processes of that name, the newest first, once so many are known with all that
// `cuda` has of them.
Json wait_for_exits(const Exporter &exporter, const std::string &comm, std::size_t expected) {
    Json exits;
    eventually(std::to_string(expected) + " ends of " + comm, [&] {
        exits = exits_of(exporter, comm);
        std::size_t counted = 0;
        for (const Json &exit : exits) {
            counted += exit.at("role") == "worker" || !exit.at("device_memory").is_null() ? 1 : 0;
        }
        return counted == expected;
    });
    return exits;
}

void host_exits_check_call(const Json &exit, const std::string &function, bool is_in_flight) {
    CAPTURE(exit.dump());
    CHECK(exit.at("last_cuda_call").at("function") == function);
    CHECK(exit.at("last_cuda_call").at("in_flight") == is_in_flight);
    CHECK(exit.at("last_cuda_call").at("age_seconds") > 0);
    CHECK(exit.at("last_cuda_call").at("age_seconds") < exit.at("lifetime_seconds"));
}

std::uint64_t bytes_in(const Json &memory) {
    std::uint64_t sum = 0;
    for (const auto &[gpu, bytes] : memory.at("gpus").items()) {
        sum += bytes.get<std::uint64_t>();
    }
    CHECK(memory.at("bytes") == sum);
    return sum;
}

}  // namespace

TEST_CASE("an ended process has its last CUDA call and the device memory that it held",
          "[kernel]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const Exporter exporter(attached_by(mode) + host_exits_enabled);
    const Process holder = host_exits_lives({"name", "holder", "wait"});
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    if (mode != "perf") {  // which attaches to the runtime alone
        exporter.wait_until_attached_to(standin("driver/libcuda.so.1"));
    }

    // Its children make no call, or one of their own.
    Process ends =
        host_exits_lives({"name", "ends", "allocate", "1000003", "allocate", "500009", "pinned",
                          "7777", "free", "exits", "4", "1", "call", "cudaMemset", "exit", "3"});
    CHECK(ends.wait() == 3);
    const Json exits = wait_for_exits(exporter, "ends", 2);
    CHECK(exits[0].at("cause") == "3");
    host_exits_check_call(exits[0], "cudaMemset", false);
    CHECK(bytes_in(exits[0].at("device_memory")) == 500'009);
    CHECK(exits[0].at("device_memory").at("complete") == true);
    CHECK(exits[1].at("role") == "worker");
    CHECK(exits[1].at("cause") == "4");
    CHECK(exits[1].at("last_cuda_call").is_null());
    CHECK(exits[1].at("device_memory").is_null());

    // The call that began last, whichever thread made it, and whether it has ended or not.
    Process killed =
        host_exits_lives({"name", "killed", "allocate", "4099", "hang", "cudaMemcpy", "hang",
                          "cudaMemset", "hang", "cudaDeviceSynchronize", "wait"});
    killed.wait_for_output("waiting 1");
    killed.signal(SIGKILL);
    CHECK(killed.wait() == 128 + SIGKILL);
    const Json of_killed = wait_for_exits(exporter, "killed", 1);
    CHECK(of_killed[0].at("cause") == "SIGKILL");
    host_exits_check_call(of_killed[0], "cudaDeviceSynchronize", true);
    CHECK(bytes_in(of_killed[0].at("device_memory")) == 4'099);
    Process later = host_exits_lives({"name", "later", "allocate", "4096", "hang", "cudaMemset",
                                      "allocate", "8191", "exit", "0"});
    CHECK(later.wait() == 0);
    const Json of_later = wait_for_exits(exporter, "later", 1);
    host_exits_check_call(of_later[0], "cudaMalloc", false);
    CHECK(bytes_in(of_later[0].at("device_memory")) == 4'096 + 8'191);

    // Of a GPU process's children, one has made a call, and one has become another program.
    Process parent =
        host_exits_lives({"name", "parent", "allocate", "64", "execs", "1", "caller", "wait"});
    parent.wait_for_output("waiting 1");
    parent.wait_for_output("idle ");
    parent.signal(SIGKILL);
    (void)parent.wait();
    const Json of_parent = wait_for_exits(exporter, "parent", 2);
    for (const Json &exit : of_parent) {
        host_exits_check_call(exit, "cudaMalloc", false);
    }
    CHECK(bytes_in(of_parent[0].at("device_memory")) + bytes_in(of_parent[1].at("device_memory")) ==
          64 + 1);
    const Json of_next = wait_for_exits(exporter, "lives", 1);
    CHECK(of_next[0].at("last_cuda_call").is_null());
    CHECK(of_next[0].at("device_memory").is_null());

    const Page page = exporter.scrape();
    const Labels probe = {{"probe", "host_life"}};
    CHECK(state_of(page, "host_life") == "up");
    CHECK(page.sum("gpusnoop_probe_events_lost_total", probe) == 0);
    CHECK(page.sum("gpusnoop_probe_entries_total", probe) ==
          page.sum("gpusnoop_probe_events_total", probe));
}

TEST_CASE("the memory of an ended process is by GPU", "[kernel]") {
    require_bpf();
    const GpuNode node(2);
    const Exporter exporter(host_exits_enabled + node.config());
    const Process holder = host_exits_lives({"name", "holder", "wait"});
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    // The first device is known of a process whose libraries were all probed when it began.
    exporter.wait_until_attached_to(standin("driver/libcuda.so.1"));
    Process process = host_exits_lives({"name", "devices", "allocate", "100", "device", "1",
                                        "allocate", "30", "allocate", "7", "wait"},
                                       {{"STANDIN_DEVICES", "2"}});
    process.wait_for_output("waiting 1");
    (void)exporter.wait_for("gpusnoop_cuda_memory_outstanding_bytes", {{"comm", "devices"}}, 137);
    process.finish();
    const Json memory = wait_for_exits(exporter, "devices", 1)[0].at("device_memory");
    CAPTURE(memory.dump());
    CHECK(bytes_in(memory) == 137);
    CHECK(memory.at("gpus").at("0") == 100);
    CHECK(memory.at("gpus").at("1") == 37);
}

TEST_CASE("the program after an exec has nothing of the one before", "[kernel]") {
    require_bpf();
    const bool has_cuda = GENERATE(true, false);
    CAPTURE(has_cuda);
    // Followed by its name, before the exec and after it.
    const Exporter exporter(std::string("targets: {comms: [\"li[v]es\"]}\n") +
                            (has_cuda ? "" : "cuda: {enabled: false}\n") + host_exits_enabled);
    const Process holder = host_exits_lives({"wait"});
    if (has_cuda) {
        exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    }
    Process process = host_exits_lives({"allocate", "64", "exec", "exit", "6"});
    CHECK(process.wait() == 6);
    Json end;
    eventually("its end", [&] {
        for (const Json &exit : exits_of(exporter, "lives")) {
            end = exit.at("cause") == "6" ? exit : end;
        }
        return !end.is_null();
    });
    CHECK(end.at("role") == "gpu");
    CHECK(end.at("last_cuda_call").is_null());
    CHECK(end.at("device_memory").is_null());
    // Without the probe cuda, nobody sees calls.
    Process other = host_exits_lives({"allocate", "64", "exit", "5"});
    CHECK(other.wait() == 5);
    eventually("its end and what it held", [&] {
        for (const Json &exit : exits_of(exporter, "lives")) {
            end = exit.at("cause") == "5" ? exit : end;
        }
        return end.at("cause") == "5" && (!has_cuda || !end.at("device_memory").is_null());
    });
    CHECK(end.at("last_cuda_call").is_null() != has_cuda);
    CHECK(end.at("device_memory").is_null() != has_cuda);
}

TEST_CASE("of threads that are killed at once, the one whose call began last counts", "[kernel]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const Exporter exporter(attached_by(mode) + host_exits_enabled);
    const Process holder = host_exits_lives({"name", "holder", "wait"});
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    const std::size_t rounds = in_guest() ? 6 : 40;
    for (std::size_t i = 0; i < rounds; i++) {
        const std::string newest = i % 2 == 0 ? "cudaMemcpy" : "cudaDeviceSynchronize";
        std::vector<std::string> steps = {"name", "crowd", "allocate", "64"};
        for (int thread = 0; thread < 8; thread++) {
            steps.insert(steps.end(), {"hang", "cudaMemset"});
        }
        steps.insert(steps.end(), {"hang", newest, "wait"});
        Process process = host_exits_lives(steps);
        process.wait_for_output("waiting 1");
        process.signal(SIGKILL);
        (void)process.wait();
    }
    const Json exits = wait_for_exits(exporter, "crowd", rounds);
    for (std::size_t i = 0; i < rounds; i++) {
        // The newest first: the last round was an odd one.
        host_exits_check_call(exits[i], i % 2 == 0 ? "cudaDeviceSynchronize" : "cudaMemcpy", true);
        CHECK(bytes_in(exits[i].at("device_memory")) == 64);
    }
}

TEST_CASE("a trace of ends has the last CUDA call", "[kernel]") {
    require_bpf();
    const Process holder = host_exits_lives({"name", "holder", "wait"});
    holder.wait_for_output("waiting 1");
    Trace trace("exit", "", {});
    Process process = host_exits_lives(
        {"name", "traced", "allocate", "64", "hang", "cudaMemset", "exits", "2", "1", "exit", "3"});
    CHECK(process.wait() == 3);
    const auto ends = [&] {
        std::vector<Json> lines = trace.calls();
        std::erase_if(lines, [](const Json &line) { return line.at("comm") != "traced"; });
        return lines;
    };
    eventually("both ends", [&] { return ends().size() == 2; });
    const Json child = ends()[0];
    CHECK(child.at("cause") == "2");
    CHECK(child.at("last_cuda_call").is_null());
    CHECK(child.at("last_cuda_call_age_ns").is_null());
    CHECK(child.at("last_cuda_call_in_flight").is_null());
    const Json parent = ends()[1];
    CHECK(parent.at("cause") == "3");
    CHECK(parent.at("last_cuda_call") == "cudaMemset");
    CHECK(parent.at("last_cuda_call_age_ns") > 0);
    CHECK(parent.at("last_cuda_call_age_ns") < parent.at("lifetime_ns"));
    CHECK(parent.at("last_cuda_call_in_flight") == "true");
    (void)trace.finish();
}

TEST_CASE("a trace of ends waits for the calls of threads that are killed at once", "[kernel]") {
    require_bpf();
    const Process holder = host_exits_lives({"name", "holder", "wait"});
    holder.wait_for_output("waiting 1");
    Trace trace("exit", "", {});
    const std::size_t rounds = in_guest() ? 6 : 40;
    for (std::size_t i = 0; i < rounds; i++) {
        std::vector<std::string> steps = {"name", "crowd", "allocate", "64"};
        for (int thread = 0; thread < 8; thread++) {
            steps.insert(steps.end(), {"hang", "cudaMemset"});
        }
        steps.insert(steps.end(), {"hang", "cudaMemcpy", "exit", "3"});
        CHECK(host_exits_lives(steps).wait() == 3);
    }
    std::vector<Json> ends;
    eventually("all ends", [&] {
        ends = trace.calls();
        std::erase_if(ends, [](const Json &line) { return line.at("comm") != "crowd"; });
        return ends.size() == rounds;
    });
    for (const Json &end : ends) {
        CAPTURE(end.dump());
        CHECK(end.at("last_cuda_call") == "cudaMemcpy");
        CHECK(end.at("last_cuda_call_in_flight") == "true");
    }
    (void)trace.finish();
}
