// What processes and their users may take of discovery: time, and files that are attached to.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/base/log.h"
#include "exporter/discovery/discovery.h"
#include "exporter/processes/user_shares.h"
#include "exporter/system/machine.h"

namespace gpusnoop::discovery {

namespace {

// So that one user does not use up descriptors and memory. Containers of many users are root's.
constexpr std::ptrdiff_t max_attached_of_user = 512;
constexpr std::ptrdiff_t max_attached_of_root = 4096;

}  // namespace

bool Discovery::may_try(const ebpf::Mapping &mapping) {
    if (!mapping.is_by_process()) {
        return true;
    }
    const auto next = failures_.next(mapping.tgid);
    if (next == FailedFiles::Next::next_look) {
        news_.processes.insert(mapping.tgid);
    }
    if (next == FailedFiles::Next::next_rescan) {
        constexpr std::string_view line =
            "a process maps many files that cannot be attached to: the remaining ones wait for "
            "the rescan";
        if (const auto more = lines_.due(line)) {
            log::warn(line,
                      {{"pid", std::to_string(mapping.tgid)}, {"more_since_last_line", *more}});
        }
    }
    return next == FailedFiles::Next::now;
}

// Each file that is attached to takes descriptors and memory of the exporter.
std::optional<Error> Discovery::over_limit(const ebpf::Mapping &mapping, Known &known) const {
    known.user = unknown_user;
    if (!has_spare_files()) {
        return Error{"too many files are open" + limit_hint(EMFILE), EMFILE};
    }
    if (!mapping.is_by_process()) {
        return std::nullopt;
    }
    const std::uint32_t user = processes::sharing_user_of(mapping.tgid).value_or(unknown_user);
    const auto of_user = std::ranges::count_if(known_, [user](const auto &entry) {
        return (entry.second.is_attached() || entry.second.opening) && entry.second.user == user;
    });
    known.user = user;
    return of_user < (user == 0 ? max_attached_of_root : max_attached_of_user)
               ? std::nullopt
               : std::optional(Error{std::to_string(of_user) +
                                     " files of processes of its user are attached to already"});
}

// The user is asked for first, as the process may end meanwhile.
Turns::Spending Discovery::spend_on(std::uint32_t tgid) {
    if (tgid == 0) {
        return {turns_, std::nullopt};
    }
    return {turns_, processes::sharing_user_of(tgid).value_or(unknown_user)};
}

Discovery::Clock::duration Discovery::spent_on(std::uint32_t tgid) const {
    if (turns_.is_even() || tgid == 0) {
        return Clock::duration::zero();
    }
    return turns_.spent_by(processes::sharing_user_of(tgid).value_or(unknown_user));
}

// Files of users that have taken the least time come first.
std::vector<Discovery::Key> Discovery::openings_in_turn() const {
    std::vector<std::pair<Clock::duration, Key>> order;
    std::map<std::uint32_t, Clock::duration> spent_on_process;  // one can have thousands of files
    for (const Key &key : openings_.keys) {
        const Known &known = known_.at(key);
        const std::uint32_t tgid = known.opening ? known.opening->mapping().tgid
                                   : known.next  ? known.next->tgid
                                                 : 0;
        const auto [spent, is_new] = spent_on_process.try_emplace(tgid);
        if (is_new) {
            spent->second = spent_on(tgid);
        }
        order.emplace_back(spent->second, key);
    }
    std::ranges::stable_sort(order, {}, [](const auto &one) { return one.first; });
    std::vector<Key> keys;
    for (const auto &[spent, key] : order) {
        keys.push_back(key);
    }
    return keys;
}

}  // namespace gpusnoop::discovery
