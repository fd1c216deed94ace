#include "exporter/probes/callers.h"

#include <algorithm>
#include <string_view>

namespace gpusnoop::probes {

namespace {

constexpr std::string_view interrupt = "interrupt";

// There are hundreds of these kernel threads, which take whatever work there is.
std::string common_name(std::string comm) {
    constexpr std::string_view worker = "kworker";
    return comm.starts_with(std::string(worker) + "/") ? std::string(worker) : std::move(comm);
}

}  // namespace

const Callers::Caller &Callers::find(std::uint32_t tgid, const process_identity &identity) {
    const auto comm = std::find(std::begin(identity.comm), std::end(identity.comm), '\0');
    Key key{tgid, identity.start_boottime_ns, std::string(std::begin(identity.comm), comm)};
    const auto [found, is_new] = known_.try_emplace(std::move(key));
    Known &known = found->second;
    if (is_new) {
        ProcessIdentity process;
        take(process, identity);
        known.number = ++numbers_;
        known.caller.labels = {tgid == 0 ? std::string(interrupt) : common_name(process.comm),
                               process.container};
        if (pid_label_) {
            known.caller.labels.push_back(std::to_string(tgid));
        }
        known.caller.owner = groups_.join(known.caller.labels);
    }
    return known.caller;
}

std::vector<series::Owner> Callers::tidy(std::chrono::nanoseconds now) {
    std::vector<std::pair<ProcessKey, std::chrono::nanoseconds>> running;
    for (const auto &[key, known] : known_) {
        if (key.tgid != 0) {
            running.emplace_back(ProcessKey{key.tgid, known.number},
                                 std::chrono::nanoseconds(key.started_ns));
        }
    }
    const std::vector<ProcessKey> ended = ended_.look(running);
    std::erase_if(known_, [&](const auto &entry) {
        const ProcessKey key{entry.first.tgid, entry.second.number};
        if (std::ranges::find(ended, key) == ended.end()) {
            return false;
        }
        groups_.leave(entry.second.caller.labels, now);
        return true;
    });
    return groups_.expire(now, retention_);
}

}  // namespace gpusnoop::probes
