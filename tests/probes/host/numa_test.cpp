// What is counted by NUMA node, on each node of the machine. Guests have two (scripts/vm.sh).
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/harness/exporter.h"
#include "tests/harness/guest.h"
#include "tests/harness/machine/directory.h"
#include "tests/harness/machine/memory_cgroup.h"
#include "tests/probes/host/time.h"

using namespace harness;
using namespace harness::host_time;
namespace fs = std::filesystem;

namespace {

constexpr auto cpu_seconds = "gpusnoop_host_launch_thread_cpu_seconds_total";
constexpr auto numa_bytes = "gpusnoop_host_memory_numa_bytes";
constexpr auto gpu_node = "gpusnoop_gpu_numa_node";

// A CPU of each node that has some.
std::map<unsigned, std::string> cpus_by_node() {
    std::map<unsigned, std::string> cpus;
    for (const auto &entry : fs::directory_iterator("/sys/devices/system/node")) {
        const std::string name = entry.path().filename();
        int cpu = -1;
        if (name.starts_with("node") && std::ifstream(entry.path() / "cpulist") >> cpu) {
            cpus[static_cast<unsigned>(std::stoul(name.substr(4)))] = std::to_string(cpu);
        }
    }
    REQUIRE(cpus.size() >= (in_guest() ? 2U : 1U));
    return cpus;
}

double on_node(const Page &page, const std::string &comm, unsigned node) {
    return page.sum(cpu_seconds, {{"comm", comm}, {"numa_node", std::to_string(node)}});
}

Notes run_to_wait(Process &process) {
    process.go_on_to(2);
    INFO(process.output());
    const Notes notes = notes_in(process.output());
    REQUIRE(notes.ran > 0);
    return notes;
}

// Of a cgroup's memory.numa_stat: the anonymous memory by node.
std::map<unsigned, double> anonymous_in(const fs::path &cgroup) {
    const bool is_v2 = fs::exists(cgroup / "cgroup.controllers");
    const double unit = is_v2 ? 1 : static_cast<double>(::sysconf(_SC_PAGESIZE));
    std::map<unsigned, double> nodes;
    std::ifstream lines(cgroup / "memory.numa_stat");
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string word;
        words >> word;  // of v1 "anon=" and the sum of all nodes
        if (word != "anon" && !word.starts_with("anon=")) {
            continue;
        }
        while (words >> word) {
            const std::size_t equals = word.find('=');
            nodes[static_cast<unsigned>(std::stoul(word.substr(1, equals - 1)))] =
                std::stod(word.substr(equals + 1)) * unit;
        }
    }
    return nodes;
}

// A node's directory of the NVIDIA driver, with one GPU at that address.
void add_gpu(const fs::path &proc, const std::string &address) {
    fs::create_directories(proc / "gpus" / address);
    write_file(proc / "gpus" / address / "information",
               "Model: \t\t NVIDIA H200\nIRQ:   \t\t 42\nGPU UUID: \t "
               "GPU-00000000-1111-2222-3333-444444444444\nVideo BIOS: \t 96\nBus Type: \t "
               "PCIe\nBus Location: \t " +
                   address + "\nDevice Minor: \t 0\nGPU Excluded:\t No\n");
}

}  // namespace

TEST_CASE("a launching thread's CPU time is of the NUMA node that it ran on", "[kernel]") {
    require_bpf();
    const auto cpus = cpus_by_node();
    const Exporter exporter(host_time_config(attach_modes().front()));
    std::map<unsigned, Notes> notes;
    std::vector<Process> processes;
    for (const auto &[node, cpu] : cpus) {
        processes.push_back(start(exporter, {"name", "node_" + std::to_string(node), "pin", cpu,
                                             "launch", "burn", "300", "wait"}));
        notes[node] = run_to_wait(processes.back());
    }
    // This one moves from one to the next, and burns 100 ms more on each.
    std::vector<std::string> steps = {"name", "moves", "pin", cpus.begin()->second, "launch"};
    int burnt = 0;
    for (const auto &[node, cpu] : cpus) {
        burnt += 100;
        steps.insert(steps.end(), {"pin", cpu, "burn", std::to_string(burnt)});
    }
    steps.emplace_back("wait");
    processes.push_back(start(exporter, steps));
    const Notes moved = run_to_wait(processes.back());

    const Page page = exporter.scrape();
    for (const auto &[node, cpu] : cpus) {
        const std::string comm = "node_" + std::to_string(node);
        CAPTURE(comm);
        CHECK(is_near(on_node(page, comm, node), notes.at(node).ran));
        CHECK(on_node(page, comm, node) == page.sum(cpu_seconds, {{"comm", comm}}));
    }
    CHECK(is_near(page.sum(cpu_seconds, {{"comm", "moves"}}), moved.ran));
    burnt = 0;
    for (const auto &[node, cpu] : cpus) {
        burnt += 100;
        CAPTURE(node);
        CHECK(on_node(page, "moves", node) >= 0.98 * burnt / 1e3 - slack());
    }
}

TEST_CASE("a cgroup's memory is by NUMA node, as its file has it", "[kernel]") {
    require_bpf();
    const auto cpus = cpus_by_node();
    const auto cgroup = MemoryCgroup::make(1U << 30U);
    if (!cgroup) {
        missing("a memory controller");
    }
    std::vector<std::string> command = {standin("lives"), "wait"};
    int touched = 0;  // MiB: 16 more on each node
    for (const auto &[node, cpu] : cpus) {
        touched += 16;
        command.insert(command.end(), {"pin", cpu, "touch", std::to_string(touched)});
    }
    command.emplace_back("wait");
    Process process(command);
    process.wait_for_output("waiting 1");
    cgroup->take(process.pid());
    process.go_on_to(2);
    const Exporter exporter(
        "cuda: {enabled: false}\ntargets: {comms: [\"li[v]es\"]}\nhost: {pressure: {enabled: "
        "true}}\n");
    const std::string name = cgroup->path().filename();
    Page page = exporter.scrape();
    std::map<unsigned, double> truth;
    eventually("the same file before and after a page", [&] {
        truth = anonymous_in(cgroup->path());
        page = exporter.scrape();
        return !truth.empty() && truth == anonymous_in(cgroup->path());
    });
    CHECK(truth.size() >= cpus.size());
    for (const auto &[node, bytes] : truth) {
        CAPTURE(node, bytes);
        CHECK(page.sum(numa_bytes,
                       {{"cgroup", name}, {"kind", "anon"}, {"numa_node", std::to_string(node)}}) ==
              bytes);
    }
    // The kernel's file lacks up to 64 pages a CPU (memcg_vmstats_needs_flush() in
    // mm/memcontrol.c).
    const double not_yet_there = 64.0 * 4096 * static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN));
    touched = 0;
    for (const auto &[node, cpu] : cpus) {
        touched += 16;
        CAPTURE(node);
        CHECK(truth[node] >= touched * 1024.0 * 1024.0 - not_yet_there);
    }
    process.finish();
}

TEST_CASE("the NUMA node of a GPU is what the kernel says of its device", "[kernel]") {
    require_bpf();
    // Any device stands for a GPU.
    const fs::path devices = "/sys/bus/pci/devices";
    if (!fs::exists(devices) || fs::is_empty(devices)) {
        missing("a PCI device");
    }
    const fs::path device = fs::directory_iterator(devices)->path();
    const std::string before = read_file(device / "numa_node");
    const TemporaryDirectory proc;
    add_gpu(proc.path(), device.filename());
    const auto page = [&] {
        return Exporter(
                   "cuda: {enabled: false}\nhost: {pressure: {enabled: true}}\ndiscovery: "
                   "{nvidia_proc_path: " +
                   proc.path().string() + "}\n")
            .scrape();
    };
    const auto check = [&](int node) {
        CAPTURE(node);
        const Page now = page();
        CHECK(now.has(gpu_node, {{"gpu", "0"}}) == (node >= 0));
        CHECK(now.sum(gpu_node, {{"gpu", "0"}}) == (node >= 0 ? node : 0));
    };
    check(std::stoi(before));
    if (in_guest()) {  // QEMU's devices are on no node, unless one says so
        for (const auto &[node, cpu] : cpus_by_node()) {
            write_file(device / "numa_node", std::to_string(node));
            check(static_cast<int>(node));
        }
        write_file(device / "numa_node", before);
    }
}
