// The kernel's table of the processes that the configuration names (bpf/processes/targets.bpf.c),
// and the thread that keeps it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "bpf/lib/processes/target.h"
#include "exporter/base/fd.h"
#include "exporter/base/result.h"
#include "exporter/config/config.h"
#include "exporter/ebpf/libbpf.h"
#include "exporter/ebpf/maps/ring.h"
#include "exporter/ebpf/object.h"

struct targets_bpf;

namespace gpusnoop::probes {

// The block `targets:` of the configuration: the processes that kernel-side probes trace.
struct TargetsConfig {
    bool gpu_processes = true;
    bool all_processes = false;
    std::vector<std::uint32_t> pids;
    std::vector<std::uint32_t> parents;   // children of these; only a trace sets it
    std::vector<std::string> comms;       // globs
    std::vector<std::string> containers;  // beginnings of ids
    bool operator==(const TargetsConfig &) const = default;
};

// Whether it names processes besides GPU processes.
[[nodiscard]] bool names_any(const TargetsConfig &targets);

void read_targets(config::Section targets, config::Config &config);

// A glob for names of processes, as the programs in the kernel match them: a process is a target
// from the moment that it becomes a program with such a name. Nothing for a glob that matches no
// name of a process, as it needs more characters than a name can have. Also nothing for a malformed
// glob, whose matches depend on the C library.
[[nodiscard]] std::optional<target_pattern> compile_comm_pattern(const std::string &glob);

// A process that matches by comm or container is found when it executes another program, or when a
// parent that matches forks it. If it takes its name later, the next rescan finds it.
class TargetTable {
public:
    // Matching processes that run already are in the table when this returns.
    static Result<std::unique_ptr<TargetTable>> start(const TargetsConfig &config,
                                                      std::chrono::nanoseconds rescan_interval);
    ~TargetTable();
    TargetTable(const TargetTable &) = delete;
    TargetTable &operator=(const TargetTable &) = delete;

    // As in bpf/lib/processes/target.bpf.h.
    [[nodiscard]] int map() const;

    // Grows with each change of the table, but for those of the programs. For any thread.
    [[nodiscard]] std::uint64_t changes() const { return changes_; }

private:
    TargetTable(const TargetsConfig &config, std::chrono::nanoseconds rescan_interval);
    Result<> load();
    Result<> attach();
    void run(const std::stop_token &stop);
    void rescan();
    void on_exec(const target_exec_record &record);
    void classify(std::uint32_t tgid, std::chrono::nanoseconds started, std::uint32_t parent,
                  const std::string &comm, const std::string &container);
    void warn_of_losses();

    const TargetsConfig config_;
    const std::chrono::nanoseconds rescan_interval_;
    ebpf::Skeleton<targets_bpf> skeleton_;
    std::vector<ebpf::Link> links_;  // detached before the skeleton goes
    std::unique_ptr<ebpf::Ring> execs_;
    Fd stopping_;
    std::uint64_t lost_ = 0;
    bool is_full_ = false;
    std::atomic<std::uint64_t> changes_ = 0;
    std::jthread thread_;  // ends first
};

}  // namespace gpusnoop::probes
