// A BpfProbe of the host group: it counts followed processes.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "exporter/base/log.h"
#include "exporter/base/result.h"
#include "exporter/probes/frame/bpf/bpf_probe.h"
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

    // While the probe is up.
    [[nodiscard]] FollowedProcesses &followed() { return *followed_; }
    [[nodiscard]] const FollowedProcesses &followed() const { return *followed_; }
    [[nodiscard]] TracedProcesses &traced() { return *traced_; }

private:
    TracedProcessesPtr traced_;
    FollowedProcesses *followed_ = nullptr;
};

}  // namespace gpusnoop::probes
