#include "exporter/probes/frame/allocations/call_sites.h"

#include <bpf/bpf.h>

#include <algorithm>
#include <tuple>

namespace gpusnoop::probes {

const SiteName &ProcessSites::name_of(const Site &site) const {
    static const SiteName unknown;
    const auto name = names_.find(site);
    return name != names_.end() ? name->second.name : unknown;
}

ProcessSites::Labels ProcessSites::choose(Labels labels, std::size_t at_most) const {
    const auto weight = [&](const auto &label) {
        return label.second + (shown_.contains(label.first) ? label.second / 8 : 0);
    };
    std::ranges::sort(labels, [&](const auto &a, const auto &b) {
        return std::tuple(weight(b), b.second, a.first) < std::tuple(weight(a), a.second, b.first);
    });
    labels.resize(std::min(labels.size(), at_most));
    std::ranges::sort(labels, [](const auto &a, const auto &b) {
        return std::tie(b.second, a.first) < std::tie(a.second, b.first);
    });
    shown_.clear();
    for (const auto &[label, bytes] : labels) {
        shown_.emplace(label);
    }
    return labels;
}

std::optional<std::uint64_t> SiteNames::used(ProcessSites &sites, const ProcessIdentity &process,
                                             const Site &site) {
    if (site.stack >= 0 && sites.stacks_.insert(site.stack).second) {
        stack_users_[site.stack]++;
    }
    if (const auto known = sites.names_.find(site); known != sites.names_.end()) {
        known->second.is_idle = false;
        return std::nullopt;
    }
    if (sites.names_.size() >= max_sites) {
        return std::nullopt;
    }
    if (!sites.kept_.is_limited()) {
        sites.kept_ = ProcessStacks(UserShare(room_, process.uid));
    }
    sites.names_.try_emplace(site);
    const std::uint64_t ticket = next_ticket_++;
    tickets_.emplace(ticket, std::pair(process.key, site));
    return ticket;
}

void SiteNames::ended(ProcessSites &sites) {
    for (const std::int32_t stack : std::exchange(sites.stacks_, {})) {
        const auto users = stack_users_.find(stack);
        if (users != stack_users_.end() && --users->second == 0) {
            stack_users_.erase(users);
            callbacks_.forget_stack(stack);
        }
    }
}

void SiteNames::forget_idle(ProcessSites &sites,
                            const std::function<bool(const Site &)> &holds_memory) {
    for (auto entry = sites.names_.begin(); entry != sites.names_.end();) {
        auto &[site, known] = *entry;
        const bool was_idle = std::exchange(known.is_idle, !holds_memory(site));
        if (was_idle && known.is_idle) {
            sites.kept_.forget(known.name.stack);
            entry = sites.names_.erase(entry);
        } else {
            ++entry;
        }
    }
    sites.kept_.free_unused();
}

void SiteNames::on_name(symbols::StackReply answer) {
    const auto ticket = tickets_.find(answer.ticket);
    if (ticket == tickets_.end()) {
        return;
    }
    const auto [process, site] = ticket->second;
    tickets_.erase(ticket);
    ProcessSites *const sites = callbacks_.find(process);
    if (sites == nullptr) {
        return;
    }
    const auto known = sites->names_.find(site);
    if (known == sites->names_.end()) {
        return;  // it was idle
    }
    SiteName &name = known->second.name;
    name.label =
        answer.label.empty() ? callbacks_.label_of(answer.frames) : std::move(answer.label);
    if (name.label.empty()) {
        name.label = "unknown";
    }
    name.stack = sites->kept_.keep(std::move(answer.frames));
}

std::vector<std::uint64_t> addresses_of(int stacks, std::size_t max_frames, const Site &site) {
    std::vector<std::uint64_t> addresses;
    std::vector<std::uint64_t> frames(max_frames);
    if (site.stack >= 0 && bpf_map_lookup_elem(stacks, &site.stack, frames.data()) == 0) {
        // The first is the traced function itself. The kernel finds who called it by frame
        // pointers, which the function has not set up yet: only since 6.12 is the caller not left
        // out (commit cfa7f3d2c526, "perf,x86: avoid missing caller address in stack traces").
        for (std::size_t i = 1; i < frames.size() && frames[i] != 0; i++) {
            addresses.push_back(frames[i]);
        }
    }
    if (site.caller != 0 && (addresses.empty() || addresses.front() != site.caller)) {
        addresses.insert(addresses.begin(), site.caller);
    }
    return addresses;
}

void forget_stack(int stacks, std::int32_t stack) {
    bpf_map_delete_elem(stacks, &stack);
}

}  // namespace gpusnoop::probes
