// What processes and their users may take of discovery: time, and files that are attached to.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "exporter/base/log.h"
#include "exporter/discovery/discovery.h"
#include "exporter/processes/proc.h"
#include "exporter/processes/user_shares.h"
#include "exporter/system/machine.h"

namespace gpusnoop::discovery {

namespace {

// So that one user does not use up descriptors and memory. Containers of many users are root's.
constexpr std::size_t max_attached_of_user = 512;
constexpr std::size_t max_attached_of_root = 4096;

// Those map each file, to have it identified. Their parent is a process that only forks them.
bool is_own_reader(std::uint32_t tgid) {
    const auto parent = processes::parent_of(tgid);
    return parent && processes::parent_of(*parent) == static_cast<std::uint32_t>(::getpid());
}

}  // namespace

bool Discovery::may_try(const ebpf::Mapping &mapping) {
    if (!mapping.is_by_process()) {
        return true;
    }
    const auto next = shares_.failures.next(mapping.tgid);
    if (next == FailedFiles::Next::next_look) {
        news_.processes.insert(mapping.tgid);
    }
    if (next == FailedFiles::Next::next_rescan) {
        constexpr std::string_view line =
            "a process maps many files that cannot be attached to: the remaining ones wait for "
            "the rescan";
        if (const auto more = shares_.lines.due(line)) {
            log::warn(line,
                      {{"pid", std::to_string(mapping.tgid)}, {"more_since_last_line", *more}});
        }
    }
    return next == FailedFiles::Next::now;
}

std::uint32_t Discovery::user_of(std::uint32_t tgid) {
    return processes::sharing_user_of(tgid).value_or(unknown_user);
}

// Each file that is attached to takes descriptors and memory of the exporter.
std::optional<Error> Discovery::over_limit(const ebpf::Mapping &mapping, std::uint32_t user) const {
    if (!has_spare_files()) {
        return Error{"too many files are open" + limit_hint(EMFILE), EMFILE};
    }
    const std::size_t of_user = offers_.of_user(user);
    return !mapping.is_by_process() ||
                   of_user < (user == 0 ? max_attached_of_root : max_attached_of_user)
               ? std::nullopt
               : std::optional(Error{std::to_string(of_user) +
                                     " files of processes of its user are attached to already"});
}

// Root has no such limit: its processes include the containers of many people.
bool Discovery::must_wait_for_share(const Key &key, const ebpf::Mapping &mapping) {
    shares_.files.forget();
    if (!mapping.is_by_process() || offers_.at(key).attached || shares_.files.is_even()) {
        return false;
    }
    const std::uint32_t user = user_of(mapping.tgid);
    if (user == 0 || shares_.files.spent_by(user) < share_of_user) {
        return false;
    }
    await_answer(key, mapping, Error{"files of its user took too much time of late", ETIMEDOUT});
    return true;
}

// Whether a process has mapped something meanwhile whose user has taken less time.
bool Discovery::others_wait(std::uint32_t user) {
    if (shares_.turns.is_even()) {
        return false;
    }
    hear_of_mappings();
    const auto spent = shares_.turns.spent_by(user);
    return std::ranges::any_of(news_.processes, [&](std::uint32_t tgid) {
        return spent_on(tgid) < spent && !is_own_reader(tgid);
    });
}

// The user is asked for first, as the process may end meanwhile.
Turns::Spending Discovery::spend_on(std::uint32_t tgid) {
    return {shares_.turns, tgid == 0 ? std::nullopt : std::optional(user_of(tgid))};
}

Discovery::Clock::duration Discovery::spent_on(std::uint32_t tgid) const {
    return shares_.turns.is_even() || tgid == 0 ? Clock::duration::zero()
                                                : shares_.turns.spent_by(user_of(tgid));
}

}  // namespace gpusnoop::discovery
