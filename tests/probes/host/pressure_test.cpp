// What the cgroups of followed processes lacked and have, against the kernel's files about them.
#include <signal.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/harness/exporter.h"
#include "tests/harness/guest.h"
#include "tests/harness/machine/cpu_cgroup.h"
#include "tests/harness/machine/memory_cgroup.h"
#include "tests/harness/probe_state.h"

using namespace harness;

namespace {

// In a file of lines of words, the number behind `key` in the line that begins with `line`.
double number_behind(const std::filesystem::path &file, const std::string &line,
                     const std::string &key) {
    std::ifstream lines(file);
    for (std::string text; std::getline(lines, text);) {
        std::istringstream words(text);
        std::string word;
        words >> word;
        if (word != line) {
            continue;
        }
        while (words >> word) {
            if (word.starts_with(key)) {
                return std::stod(word.substr(key.size()));
            }
        }
    }
    FAIL(file << " has no line '" << line << "' with '" << key << "'");
    return 0;
}

double microseconds(double counted) {
    return std::round(counted * 1e6);
}

// So many processes with the name "crowd", each in a cgroup of its own below the directory.
class Crowd {
public:
    Crowd(const std::filesystem::path &below, int count) : below_(below), count_(count) {
        std::filesystem::create_symlink("/bin/sleep", files_ / "crowd");
        const std::string start_all = R"(
            for i in $(seq "$2"); do
                mkdir "$0/$i"
                sh -c 'echo $$ >"$0/cgroup.procs" && exec "$1" 600' "$0/$i" "$1" &
            done
            echo ready
            wait)";
        process_.emplace(std::vector<std::string>{"sh", "-c", start_all, below.string(),
                                                  (files_ / "crowd").string(),
                                                  std::to_string(count)});
        process_->wait_for_output("ready");
    }
    ~Crowd() {
        for (int i = 1; i <= count_; i++) {
            std::ifstream members(below_ / std::to_string(i) / "cgroup.procs");
            for (pid_t pid = 0; members >> pid;) {
                ::kill(pid, SIGKILL);
            }
        }
        (void)process_->wait();
        for (int i = 1; i <= count_; i++) {
            ::rmdir((below_ / std::to_string(i)).c_str());
        }
    }
    Crowd(const Crowd &) = delete;
    Crowd &operator=(const Crowd &) = delete;

private:
    std::filesystem::path below_;
    int count_;
    TemporaryDirectory files_;
    std::optional<Process> process_;
};

}  // namespace

TEST_CASE("of the cgroups of one user, some are read", "[kernel]") {
    require_bpf();
    constexpr std::size_t most = 512;
    const auto memory = MemoryCgroup::make(1U << 30U);
    if (!memory) {
        missing("a memory controller");
    }
    const Crowd crowd(memory->path(), most + 8);
    const Exporter exporter(
        "cuda: {enabled: false}\ntargets: {comms: [crowd]}\nhost: {pressure: {enabled: true}}\n"
        "series: {budget: 100000}\n");
    const auto cgroups = [&] {
        std::set<std::string> names;
        const Page page = exporter.scrape();
        for (const std::string family :
             {"gpusnoop_host_pressure_seconds_total", "gpusnoop_host_memory_numa_bytes"}) {
            for (const Sample &sample : page.samples(family)) {
                names.insert(sample.labels.at("cgroup"));
            }
        }
        return names.size();
    };
    eventually("cgroups to be read", [&] { return cgroups() >= most; });
    CHECK(cgroups() == most);
}

TEST_CASE("what a cgroup lacked and has is what its files say", "[kernel][core]") {
    require_bpf();
    // In version 2 this only switches the controller on: a process is in one cgroup.
    const auto memory = MemoryCgroup::make(1U << 30U);
    if (!memory) {
        missing("a memory controller");
    }
    const CpuCgroup cpu;
    const bool is_v2 = std::filesystem::exists(cpu.path() / "cgroup.controllers");
    REQUIRE((is_v2 || !in_guest()));  // guests have no other
    Process process({standin("lives"), "wait", "touch", "20", "burn", "200", "wait"});
    process.wait_for_output("waiting 1");
    if (!is_v2) {
        memory->take(process.pid());
    }
    cpu.take(process.pid());
    // It finds it there: of one that moves, the exporter looks for the cgroups later.
    const Exporter exporter(
        "cuda: {enabled: false}\ntargets: {comms: [\"li[v]es\"]}\nhost: {pressure: {enabled: "
        "true}}\n");
    process.go_on_to(2);

    // Until the kernel has closed the last period, and the program rests.
    Page page = exporter.scrape();
    eventually("the same throttling before and after a page", [&] {
        const double throttled = cpu.throttled();
        const double periods = cpu.count("nr_periods");
        page = exporter.scrape();
        return throttled > 0 && throttled == cpu.throttled() &&
               periods == cpu.count("nr_periods") &&
               page.sum("gpusnoop_host_cpu_periods_total") == periods &&
               microseconds(page.sum("gpusnoop_host_cpu_throttled_seconds_total")) ==
                   std::floor(throttled * 1e6 + 1e-3);
    });
    CHECK(page.sum("gpusnoop_host_cpu_throttled_periods_total") == cpu.count("nr_throttled"));
    CHECK(page.sum("gpusnoop_host_cpu_throttled_periods_total") >= 3);

    const auto numa = (is_v2 ? cpu.path() : memory->path()) / "memory.numa_stat";
    const double anon = page.sum("gpusnoop_host_memory_numa_bytes", {{"kind", "anon"}});
    // The kernel's file lacks up to 64 pages a CPU (memcg_vmstats_needs_flush() in
    // mm/memcontrol.c).
    const double not_yet_there = 64.0 * 4096 * static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN));
    CHECK(anon >= (20 << 20) - not_yet_there);
    if (is_v2) {
        CHECK(page.sum("gpusnoop_host_memory_numa_bytes", {{"kind", "anon"}, {"numa_node", "0"}}) ==
              number_behind(numa, "anon", "N0="));
        for (const std::string resource : {"cpu", "memory", "io"}) {
            CAPTURE(resource);
            const auto file = cpu.path() / (resource + ".pressure");
            if (!std::filesystem::exists(file)) {
                missing("a kernel with PSI");
            }
            CHECK(microseconds(page.sum("gpusnoop_host_pressure_seconds_total",
                                        {{"resource", resource}, {"kind", "some"}})) ==
                  number_behind(file, "some", "total="));
        }
        // Throttled, its only thread waits for a CPU.
        CHECK(page.sum("gpusnoop_host_pressure_seconds_total",
                       {{"resource", "cpu"}, {"kind", "full"}}) > 0.1);
    }
    CHECK(state_of(page, "host_pressure") == "up");
    process.finish();
}
