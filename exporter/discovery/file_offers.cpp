#include "exporter/discovery/file_offers.h"

#include <algorithm>
#include <functional>
#include <ranges>

#include "exporter/discovery/host_mounts.h"

namespace gpusnoop::discovery {

void FileOffers::move_to(State state, const Key &key, File &file) {
    file.state = state;
    if (state == State::waiting || state == State::awaits_turn || state == State::opening) {
        busy_.insert(key);
    } else {
        busy_.erase(key);
    }
    const bool counts = file.opening || file.attached;
    if (counts == file.is_counted) {
        return;
    }
    file.is_counted = counts;
    if (counts) {
        of_user_[file.user]++;
    } else if (const auto user = of_user_.find(file.user); --user->second == 0) {
        of_user_.erase(user);
    }
}

// To the next try.
void FileOffers::leave(const Key &key, File &file) {
    move_to(file.next ? State::waiting : State::wanted, key, file);
}

std::unique_ptr<FileOffers::Opening> FileOffers::let_go(File &file) {
    file.attached.reset();
    file.settled_as.reset();
    return std::move(file.opening);
}

void FileOffers::use(const Key &key, Clock::time_point now) {
    File &file = files_[key];
    file.idle_rescans = 0;
    file.used_at = now;
}

bool FileOffers::has_changed(const Key &key, const ebpf::Mapping &mapping) const {
    const File &file = files_.at(key);
    return file.settled_as && *file.settled_as != mapping.state;
}

bool FileOffers::may_begin(const Key &key, const ebpf::Mapping &mapping, Clock::time_point now) {
    File &file = files_.at(key);
    if (file.state == State::settled ||
        (file.failed_for == mapping.tgid && now < file.failed_until)) {
        return false;
    }
    if (file.state == State::opening || file.state == State::awaits_turn ||
        (file.state == State::waiting && now < file.not_before)) {
        file.next = mapping;
        return false;
    }
    return true;
}

void FileOffers::begin(const Key &key, std::unique_ptr<Opening> opening, std::uint32_t user) {
    File &file = files_.at(key);
    if (!file.attached) {
        file.user = user;
    }
    file.next.reset();
    file.opening = std::move(opening);
    move_to(State::opening, key, file);
}

std::unique_ptr<FileOffers::Opening> FileOffers::end_opening(const Key &key) {
    File &file = files_.at(key);
    auto opening = std::move(file.opening);
    move_to(State::opened, key, file);
    return opening;
}

void FileOffers::postpone(const Key &key, const ebpf::Mapping &mapping, Clock::time_point until) {
    File &file = files_.at(key);
    file.next = mapping;
    file.not_before = until;
    move_to(State::waiting, key, file);
}

void FileOffers::await_turn(const Key &key, const ebpf::Mapping &mapping) {
    File &file = files_.at(key);
    file.next = mapping;
    move_to(State::awaits_turn, key, file);
}

void FileOffers::refuse(const Key &key, std::uint32_t tgid, Clock::time_point until) {
    File &file = files_.at(key);
    file.failed_for = tgid;
    file.failed_until = until;
    if (file.next && file.next->tgid == tgid) {
        file.next.reset();
    }
    leave(key, file);
}

void FileOffers::try_again(const Key &key) {
    leave(key, files_.at(key));
}

void FileOffers::attach(const Key &key, Attached attached, const FileState &state) {
    File &file = files_.at(key);
    attached.is_lasting = file.attached && file.attached->is_lasting;  // until that is known newly
    file.attached = std::move(attached);
    new_.push_back(key);
    settle(key, state);
}

void FileOffers::reject(const Key &key, const FileState &state) {
    files_.at(key).attached.reset();
    settle(key, state);
}

void FileOffers::settle(const Key &key, const FileState &state) {
    File &file = files_.at(key);
    file.next.reset();
    file.interruptions = 0;
    file.settled_as = state;
    move_to(State::settled, key, file);
}

std::optional<ebpf::Mapping> FileOffers::take_next(const Key &key, Clock::time_point now) {
    File &file = files_.at(key);
    if (file.state != State::awaits_turn &&
        (file.state != State::waiting || now < file.not_before)) {
        return std::nullopt;
    }
    auto next = std::exchange(file.next, std::nullopt);
    move_to(State::wanted, key, file);
    return next;
}

void FileOffers::offer_again(const Key &key) {
    if (File &file = files_.at(key); file.state == State::settled) {
        move_to(State::wanted, key, file);
    }
}

void FileOffers::begin_rescan() {
    for (auto &[key, file] : files_) {
        file.idle_rescans++;
        if (file.is_slow && !file.attached && file.settled_as) {
            file.settled_as.reset();
            offer_again(key);
        }
    }
}

std::unique_ptr<FileOffers::Opening> FileOffers::forget_contents(const Key &key) {
    File &file = files_.at(key);
    auto opening = let_go(file);
    leave(key, file);
    return opening;
}

std::unique_ptr<FileOffers::Opening> FileOffers::hold(const Key &key) {
    File &file = files_.at(key);
    auto opening = let_go(file);
    file.next.reset();
    leave(key, file);
    return opening;
}

std::unique_ptr<FileOffers::Opening> FileOffers::forget(const Key &key) {
    auto opening = hold(key);
    files_.erase(key);
    return opening;
}

std::vector<FileOffers::Key> FileOffers::in_turn(
    const std::function<Clock::duration(std::uint32_t)> &spent_on) const {
    std::vector<std::pair<Clock::duration, Key>> order;
    std::map<std::uint32_t, Clock::duration> spent;  // one process can have thousands of files
    for (const Key &key : busy_) {
        const File &file = files_.at(key);
        const std::uint32_t tgid = file.opening ? file.opening->mapping().tgid : file.next->tgid;
        const auto [of_process, is_new] = spent.try_emplace(tgid);
        if (is_new) {
            of_process->second = spent_on(tgid);
        }
        order.emplace_back(of_process->second, key);
    }
    std::ranges::stable_sort(order, {}, [](const auto &one) { return one.first; });
    std::vector<Key> keys;
    for (const auto &[time, key] : order) {
        keys.push_back(key);
    }
    return keys;
}

bool FileOffers::is_any_busy(State state) const {
    return std::ranges::any_of(busy_,
                               [&](const Key &key) { return files_.at(key).state == state; });
}

bool FileOffers::awaits_turn() const {
    return is_any_busy(State::awaits_turn);
}

bool FileOffers::is_opening() const {
    return is_any_busy(State::opening) || awaits_turn();
}

// A file of the host that nobody uses may be used again soon, by the next job.
std::vector<FileOffers::Key> FileOffers::unused(Clock::time_point now, Clock::duration keep) const {
    std::vector<Key> unused;
    std::vector<std::pair<Clock::time_point, Key>> lasting;
    for (const auto &[key, file] : files_) {
        if (file.idle_rescans < rescans_before_letting_go) {
            continue;
        }
        if (file.attached && file.attached->is_lasting && now - file.used_at < keep &&
            !is_deleted(file.attached->file)) {
            lasting.emplace_back(file.used_at, key);
        } else {
            unused.push_back(key);
        }
    }
    std::ranges::sort(lasting, std::ranges::greater{}, &decltype(lasting)::value_type::first);
    for (const auto &[used_at, key] : lasting | std::views::drop(max_kept)) {
        unused.push_back(key);
    }
    return unused;
}

std::size_t FileOffers::of_user(std::uint32_t user) const {
    const auto found = of_user_.find(user);
    return found == of_user_.end() ? 0 : found->second;
}

std::size_t FileOffers::slow() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(files_, [](const auto &entry) { return entry.second.is_slow; }));
}

}  // namespace gpusnoop::discovery
