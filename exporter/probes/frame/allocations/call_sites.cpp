#include "exporter/probes/frame/allocations/call_sites.h"

#include <algorithm>
#include <iterator>
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

std::optional<std::uint64_t> SiteNames::used(ProcessSites &sites, const ProcessKey &process,
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
    sites.names_.try_emplace(site);
    const std::uint64_t ticket = next_ticket_++;
    tickets_.emplace(ticket, std::pair(process, site));
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
        entry = was_idle && known.is_idle ? sites.names_.erase(entry) : std::next(entry);
    }
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
    name.frames = std::move(answer.frames);
}

}  // namespace gpusnoop::probes
