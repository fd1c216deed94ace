#include "exporter/sinks/sinks.h"

#include <algorithm>

namespace gpusnoop::sinks {

Result<> Sinks::start() {
    for (const SinkConfig &config : configs_) {
        auto sink = Sink::start(
            {.name = config.name, .target = config.target, .queue_bytes = config.queue_bytes});
        if (!sink) {
            return fail_in("start the sink " + config.name, sink.error());
        }
        sinks_.push_back(std::move(*sink));
    }
    return {};
}

bool Sinks::want(Events events) const {
    return sinks::want(configs_, events);
}

bool Sinks::want_entries() const {
    return std::ranges::any_of(configs_, &SinkConfig::entries);
}

void Sinks::send(Events events, std::string_view line) const {
    for (std::size_t i = 0; i < sinks_.size(); i++) {
        if (configs_[i].events.contains(events)) {
            sinks_[i]->offer(line);
        }
    }
}

void Sinks::send_entry(std::string_view line) const {
    for (std::size_t i = 0; i < sinks_.size(); i++) {
        if (configs_[i].entries) {
            sinks_[i]->offer(line);
        }
    }
}

std::vector<Status> Sinks::status(std::uint64_t entries_lost) const {
    std::vector<Status> all;
    for (std::size_t i = 0; i < sinks_.size(); i++) {
        all.push_back(sinks_[i]->status());
        if (configs_[i].entries) {
            all.back().lost["ring_full"] = entries_lost;
        }
    }
    return all;
}

}  // namespace gpusnoop::sinks
