// A BpfProbe of the host group: it counts followed processes.
#pragma once

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/base/log.h"
#include "exporter/base/result.h"
#include "exporter/ebpf/maps/hash_map.h"
#include "exporter/probes/frame/bpf/bpf_probe.h"
#include "exporter/probes/frame/processes/followed_processes.h"
#include "exporter/probes/frame/processes/process_table.h"
#include "exporter/probes/frame/processes/traced_processes.h"

namespace gpusnoop::probes {

// The settings for the series of a host probe: the table of followed processes says who a process
// is.
[[nodiscard]] inline SeriesSettings host_series_settings(const config::Config &config,
                                                         const TracedProcessesPtr &traced) {
    SeriesSettings settings = series_settings(config);
    settings.look_up = [traced](ProcessIdentity &identity) {
        const auto followed = traced->follow();
        return followed ? (*followed)->identify(identity) : look_up(identity);
    };
    return settings;
}

// The skeleton `S` has the maps of bpf/lib/processes/followed.bpf.h, too; see there. The
// aggregator's ProcessTable must keep processes for a while after their end (`host_grace`), as
// records of one event lie in two rings.
inline constexpr std::chrono::seconds host_grace{2};

template <typename S, typename Aggregator>
class HostProbe : public BpfProbe<S, Aggregator> {
protected:
    HostProbe(std::string name, const config::Config &config, TracedProcessesPtr traced)
        : BpfProbe<S, Aggregator>(std::move(name), config, host_series_settings(config, traced)),
          traced_(std::move(traced)) {}

    // Opened, not loaded, as in BpfProbe.
    virtual Result<> configure_programs(S & /*skeleton*/) { return {}; }

    Result<> configure(S &skeleton) final {
        auto followed = traced_->follow();
        if (!followed) {
            return tl::unexpected(followed.error());
        }
        followed_ = *followed;
        if (auto shared = followed_->share_maps_with(skeleton); !shared) {
            return shared;
        }
        return configure_programs(skeleton);
    }

    void drain_others() override { followed_->drain(); }
    // refresh() first: for processes that ended before it, it has their last counts.
    void tick(std::chrono::nanoseconds now) override {
        this->refresh();
        followed_->end_gone(this->aggregator().processes(), now);
        (void)this->aggregator().processes().tidy(now);
    }
    void add_others(probe_account &account) const override { followed_->add_lost(account); }

    // Attaches the programs in their order, and says that the probe follows `what` of the followed
    // processes.
    Result<> attach_following(std::span<const bpf_program *const> programs, std::string_view what) {
        return this->attach_each(programs).map([&] {
            const std::string of = traced_->describe_followed();
            this->state().up(programs.size(), "following " + of);
            log::info("following " + std::string(what),
                      {{"probe", this->state().probe()}, {"of", of}});
        });
    }

    // The ring of a trace, which uses each record that is valid, with its process.
    template <typename Record, typename IsValid, typename Use>
    std::vector<ProbeRing> ring_of_trace(bpf_map *map, IsValid is_valid, Use use) {
        return {{map, bpf_map__max_entries(map), [=, this](auto bytes) {
                     const auto record = ebpf::decode<Record>(bytes);
                     if (!record || record->role >= FOLLOWED_ROLES || !is_valid(*record)) {
                         return false;
                     }
                     followed_->drain();  // who the process is
                     use(*record,
                         this->aggregator().process_of({record->head.tgid, record->head.since_ns}));
                     return true;
                 }}};
    }

    // Calls use(key, value) for each entry of a table of counts. `Key` has the process as `tgid`
    // and `since_ns`. Entries of processes that are not known any more have been used before, and
    // are deleted: the ProcessTable has the grace counts_grace. `what` the table has is for the
    // log.
    template <typename Key, typename Value, typename Use>
    void read_counts(const bpf_map *map, std::string_view what, Use use) {
        std::vector<std::pair<Key, Value>> all;
        const auto read = ebpf::for_each_lookup<Key, Value>(
            bpf_map__fd(map), bpf_map__max_entries(map),
            [&](const Key &key, const Value &value) { all.emplace_back(key, value); });
        if (!read) {
            log::warn("cannot read a table of counts",
                      {{"of", what}, {"reason", read.error().message}});
        }
        followed_->drain();  // who the processes are
        for (const auto &[key, value] : all) {
            const ProcessKey process{key.tgid, key.since_ns};
            if (this->aggregator().processes().contains(process) || followed_->knows(process)) {
                use(key, value);
            } else {
                bpf_map_delete_elem(bpf_map__fd(map), &key);
            }
        }
    }

    // While the probe is up.
    [[nodiscard]] FollowedProcesses &followed() { return *followed_; }
    [[nodiscard]] const FollowedProcesses &followed() const { return *followed_; }
    [[nodiscard]] TracedProcesses &traced() { return *traced_; }

private:
    TracedProcessesPtr traced_;
    FollowedProcesses *followed_ = nullptr;
};

}  // namespace gpusnoop::probes
