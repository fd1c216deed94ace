// Starts, ends and signals of followed processes -> counters and histograms. No BPF here: records
// in, families out.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "bpf/host_life.h"
#include "exporter/config/config.h"
#include "exporter/probes/frame/processes/process_table.h"
#include "exporter/probes/host_life/exits.h"
#include "exporter/probes/host_life/reports/report.h"

namespace gpusnoop::probes {

struct HostLifeFamilies {
    series::Family &starts, &exits, &lifetimes, &signals;
};

HostLifeFamilies make_host_life_families(series::FamilySet &set);

struct HostLifeProcess : KnownProcess {
    // Counted so far: by number, sender and role.
    std::map<std::tuple<std::uint16_t, std::uint8_t, std::uint8_t>, std::uint64_t> signals;
};

// What a trace gets instead of counts.
struct OnLife {
    std::function<void(const life_exit_record &, const ProcessIdentity &)> exit;
    std::function<void(const life_last_call_record &)> late_call;  // as add_late_call()
    std::function<void(const life_signal_record &, const ProcessIdentity &)> signal;
    std::function<void(const JobReport &)> report;
    // With reports: a GPU process runs. Again at each rescan.
    std::function<void(const ProcessKey &)> running;
};

class HostLifeAggregator : public CountingAggregator<make_host_life_families, HostLifeProcess> {
public:
    explicit HostLifeAggregator(const SeriesSettings &settings);

    // How many ends are kept.
    void keep(std::size_t exits) { history_ = ExitHistory(exits); }

    // A record of the table of followed processes.
    void on_follow(const follow_record &record);
    // A record of bpf/host_life.h; the wall clock is `to_realtime` ahead of the monotonic one.
    // False: not one.
    bool on_record(std::span<const std::byte> bytes, std::chrono::nanoseconds to_realtime,
                   const OnLife &trace = {});
    // The table of signals; an entry may occur twice. Counts the difference from the last reading.
    using Signals = std::vector<std::pair<life_key, std::uint64_t>>;
    void on_signals(const Signals &signals);

    [[nodiscard]] ExitHistory &history() { return history_; }
    [[nodiscard]] const ExitHistory &history() const { return history_; }

private:
    void on_exit(const life_exit_record &record, std::chrono::nanoseconds to_realtime);

    ExitHistory history_{0};
};

struct HostLifeConfig {
    bool enabled = true;
    std::uint32_t keep = 100;  // ends that /api/v1/exits shows
    bool operator==(const HostLifeConfig &) const = default;
};

void read_host_life(config::Section &host, config::Config &config);

}  // namespace gpusnoop::probes
