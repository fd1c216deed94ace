#include "exporter/probes/cuda/memory/call_sites.h"

#include <map>
#include <unordered_set>

#include "exporter/symbols/stacks/stack_text.h"

namespace gpusnoop::probes {

namespace {

constexpr std::size_t max_sites = 4'096;  // named sites of a process

}  // namespace

struct CallSites::State final : PartState {
    static constexpr Part part = Part::call_sites;

    std::map<Site, SiteName> names;
    std::unordered_set<std::int32_t> stacks;  // keys of its stacks in the kernel's table
};

void CallSites::started(Process &process) {
    add_state<State>(process);
}

void CallSites::ended(const Process &process) {
    for (const std::int32_t stack : state_of<State>(process).stacks) {
        const auto users = stack_users_.find(stack);
        if (users != stack_users_.end() && --users->second == 0) {
            stack_users_.erase(users);
            callbacks_.forget_stack(stack);
        }
    }
}

void CallSites::used(Process &process, const Site &site) {
    auto &state = state_of<State>(process);
    if (site.stack >= 0 && state.stacks.insert(site.stack).second) {
        stack_users_[site.stack]++;
    }
    if (!state.names.contains(site) && state.names.size() < max_sites) {
        state.names.try_emplace(site);
        const std::uint64_t ticket = next_ticket_++;
        tickets_.emplace(ticket, std::pair(process.key, site));
        callbacks_.ask_for_site(ticket, process, site);
    }
}

void CallSites::on_name(symbols::StackReply answer) {
    const auto ticket = tickets_.find(answer.ticket);
    if (ticket == tickets_.end()) {
        return;
    }
    const auto [key, site] = ticket->second;
    tickets_.erase(ticket);
    if (Process *const process = processes_.find(key)) {
        SiteName &name = state_of<State>(*process).names[site];
        name.label = symbols::site_label(answer.frames);
        if (name.label.empty()) {
            name.label = "unknown";
        }
        name.frames = std::move(answer.frames);
    }
}

const SiteName &CallSites::name_of(const Process &process, const Site &site) {
    static const SiteName unknown;
    const auto &names = state_of<State>(process).names;
    const auto name = names.find(site);
    return name != names.end() ? name->second : unknown;
}

}  // namespace gpusnoop::probes
