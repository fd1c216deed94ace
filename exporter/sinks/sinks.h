// The sinks of the configuration, which probes share.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/sinks/settings.h"
#include "exporter/sinks/sink.h"

namespace gpusnoop::sinks {

// For any thread after start().
class Sinks {
public:
    explicit Sinks(SinkConfigs configs) : configs_(std::move(configs)) {}

    // Starts their threads, with the privileges of the caller. Once, before send().
    Result<> start();

    [[nodiscard]] bool want(Events events) const;
    // Some sink has `entries`.
    [[nodiscard]] bool want_entries() const;

    // Offers a line, without its newline, to the sinks that want it.
    void send(Events events, std::string_view line) const;
    void send_entry(std::string_view line) const;

    // In the order of their configuration. `entries_lost`: calls that began, of which the sinks
    // with `entries` were not told.
    [[nodiscard]] std::vector<Status> status(std::uint64_t entries_lost) const;

private:
    SinkConfigs configs_;
    std::vector<std::unique_ptr<Sink>> sinks_;  // in the order of configs_
};

using SinksPtr = std::shared_ptr<const Sinks>;

}  // namespace gpusnoop::sinks
