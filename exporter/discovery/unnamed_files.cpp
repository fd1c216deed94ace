#include "exporter/discovery/unnamed_files.h"

#include <algorithm>

namespace gpusnoop::discovery {

UnnamedFiles::Key UnnamedFiles::key_of(const ebpf::Mapping &mapping) {
    return {mapping.file.inode, mapping.file.device, mapping.file.generation, mapping.state.bytes,
            mapping.state.modified.count()};
}

void UnnamedFiles::forget(const Key &key) {
    const auto file = files_.find(key);
    if (file == files_.end()) {
        return;
    }
    if (const auto user = files_of_user_.find(file->second.user); --user->second == 0) {
        files_of_user_.erase(user);
    }
    files_.erase(file);
}

bool UnnamedFiles::see(const ebpf::Mapping &mapping) {
    const auto known = files_.find(key_of(mapping));
    if (known == files_.end()) {
        return false;
    }
    known->second.seen_in = scan_;
    return true;
}

void UnnamedFiles::add(std::uint32_t user, const ebpf::Mapping &mapping, Clock::time_point now) {
    const Key key = key_of(mapping);
    if (files_.size() >= max_files || files_of_user_[user] >= max_of_user) {
        return;
    }
    files_.emplace(key, File{.user = user, .seen_in = scan_});
    files_of_user_[user]++;
    if (waiting_.empty()) {
        not_before_ = std::max(not_before_, now + first_delay);
    }
    if (const auto refused = waiting_.push({user, mapping.tgid}, mapping)) {
        forget(key_of(*refused));  // the next scan adds it again
    }
}

std::optional<UnnamedFiles::Turn> UnnamedFiles::begin_turn(Clock::time_point now) {
    if (now < not_before_ || waiting_.empty()) {
        return std::nullopt;
    }
    auto turn = waiting_.take(1);
    return Turn{turn.owner, std::move(turn.items.front()), now};
}

void UnnamedFiles::end_turn(const Turn &turn, Clock::time_point now) {
    const auto spent = now - turn.began;
    waiting_.end_turn(turn.owner, spent, {});
    not_before_ = now + std::min<Clock::duration>(9 * spent, longest_pause);
}

bool UnnamedFiles::may_name(const Turn &turn) {
    const std::uint32_t user = turn.owner.user;
    const auto of_user = std::ranges::count(named_, user, &decltype(named_)::value_type::first);
    return static_cast<std::size_t>(of_user) < max_named &&
           named_.emplace(user, key_of(turn.mapping)).second;
}

std::set<std::uint32_t> UnnamedFiles::take_changed(Clock::time_point now) {
    if (changed_.empty() || now < scan_at_) {
        return {};
    }
    scan_at_ = now + between_scans;
    return std::exchange(changed_, {});
}

void UnnamedFiles::end_scan() {
    for (auto file = files_.begin(); file != files_.end();) {
        const auto next = std::next(file);
        if (file->second.seen_in + 1 < scan_) {
            forget(Key(file->first));
        }
        file = next;
    }
    scan_++;
}

void UnnamedFiles::examine_again() {
    waiting_ = FairQueue<ebpf::Mapping>(max_waiting);
    files_.clear();
    files_of_user_.clear();
}

}  // namespace gpusnoop::discovery
