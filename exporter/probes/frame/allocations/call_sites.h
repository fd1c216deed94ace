// The call sites of allocations: the stacks that processes use, and the names of the sites.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "exporter/probes/frame/allocations/site_stacks.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/probes/frame/processes/user_room.h"
#include "exporter/symbols/stacks/stack_namer.h"

namespace gpusnoop::probes {

// An amount of memory, and the number of its allocations.
struct Amount {
    std::uint64_t bytes = 0;
    std::uint64_t count = 0;

    bool operator==(const Amount &) const = default;
};

// The place of an allocation: a stack in the kernel's table of stacks, or without a stack there,
// the address that the allocating call returned to.
struct Site {
    std::int32_t stack = -1;  // negative: none
    std::uint64_t caller = 0;
    std::uint64_t python = 0;  // the stack of Python's functions, in a table of its own; 0: none

    auto operator<=>(const Site &) const = default;
};

struct SiteName {
    std::string label;  // empty until it is known
    SharedStack stack{};
};

// The sites of one process.
class ProcessSites {
public:
    // Empty if it is not known, or not yet.
    [[nodiscard]] const SiteName &name_of(const Site &site) const;

    // Of labels with their bytes, the ones that a page shows: up to `at_most`, the most bytes
    // first. One that the page before has shown stays until another has an eighth more.
    using Labels = std::vector<std::pair<std::string_view, std::uint64_t>>;
    [[nodiscard]] Labels choose(Labels labels, std::size_t at_most) const;

private:
    friend class SiteNames;

    struct Named {
        SiteName name;
        bool is_idle = false;  // nothing was live when it was looked at last
    };
    ProcessStacks kept_;
    std::map<Site, Named> names_;
    std::unordered_set<std::int32_t> stacks_;           // keys in the kernel's table
    mutable std::set<std::string, std::less<>> shown_;  // by the last page
};

// For the aggregating thread.
class SiteNames {
public:
    // The limit of named sites of a process.
    static constexpr std::size_t max_sites = 4'096;

    struct Callbacks {
        std::function<ProcessSites *(const ProcessKey &)> find;  // null: the process has gone
        // The last process that allocated from that stack has gone.
        std::function<void(std::int32_t stack)> forget_stack;
        // A site's label, from its frames, if the answer has none.
        std::function<std::string(const std::vector<symbols::Frame> &)> label_of;
    };
    explicit SiteNames(Callbacks callbacks, const UserRoom::Limits &limits = room_for_stacks)
        : callbacks_(std::move(callbacks)), room_(std::make_shared<UserRoom>(limits)) {}

    // The process has allocated there. Gives a ticket once for a site: its name, which the caller
    // must ask for, comes with it.
    [[nodiscard]] std::optional<std::uint64_t> used(ProcessSites &sites,
                                                    const ProcessIdentity &process,
                                                    const Site &site);
    // The process no longer needs its stacks.
    void ended(ProcessSites &sites);
    // Forgets the sites that hold nothing, now and the last time: for about once a minute.
    static void forget_idle(ProcessSites &sites,
                            const std::function<bool(const Site &)> &holds_memory);
    void on_name(symbols::StackReply answer);

private:
    Callbacks callbacks_;
    std::shared_ptr<UserRoom> room_;
    std::uint64_t next_ticket_ = 1;
    std::unordered_map<std::uint64_t, std::pair<ProcessKey, Site>> tickets_;
    std::unordered_map<std::int32_t, std::uint32_t> stack_users_;  // processes
};

// A probe's table of call stacks in the kernel.
// Both take the table's descriptor. `max_frames` is how many frames a stack has in the table.
//
// The addresses of a call site, innermost first.
[[nodiscard]] std::vector<std::uint64_t> addresses_of(int stacks, std::size_t max_frames,
                                                      const Site &site);
void forget_stack(int stacks, std::int32_t stack);

}  // namespace gpusnoop::probes
