// A bounded queue of questions about processes, in which no user delays the questions of others for
// longer than one turn takes.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace gpusnoop {

// The next turn is that of the user whose questions have taken the least time so far, and among the
// user's processes, of the process whose questions have. Time that a user or a process did not use
// while it had no questions is not saved up. For one thread at a time.
template <typename Item>
class FairQueue {
public:
    using Duration = std::chrono::steady_clock::duration;
    struct Owner {
        std::uint32_t user = 0;
        std::uint32_t process = 0;
    };
    struct Turn {
        Owner owner;
        std::vector<Item> items;
    };

    explicit FairQueue(std::size_t max_items) : max_items_(max_items) {}

    [[nodiscard]] bool empty() const { return items_ == 0; }

    // Returns the item that has no room: this one, or one of an owner with more of them.
    [[nodiscard]] std::optional<Item> push(const Owner &owner, Item item) {
        std::optional<Item> refused;
        if (items_ >= max_items_) {
            refused = make_room(owner);
            if (!refused) {
                return item;
            }
        }
        wait(owner).items.push_back(std::move(item));
        return refused;
    }

    // Up to `most` items of the owner whose turn it is; no items if the queue is empty.
    [[nodiscard]] Turn take(std::size_t most) {
        if (waiting_.empty()) {
            return {};
        }
        forget_idle();
        const std::uint32_t user_id = waiting_.begin()->second;
        User &user = users_[user_id];
        const std::uint32_t process_id = user.waiting.begin()->second;
        Process &process = user.processes[process_id];
        floor_ = std::max(floor_, user.spent);
        user.floor = std::max(user.floor, process.spent);
        Turn turn{{user_id, process_id}, {}};
        while (!process.items.empty() && turn.items.size() < most) {
            turn.items.push_back(std::move(process.items.front()));
            process.items.pop_front();
        }
        remove_items(turn.owner, turn.items.size());
        return turn;
    }

    // After a turn: what it took, and the items that it did not come to, which are the next.
    void end_turn(const Owner &owner, Duration spent, std::vector<Item> left) {
        User &user = users_[owner.user];
        Process &process = user.processes[owner.process];
        if (user.items > 0) {
            waiting_.erase({user.spent, owner.user});
            waiting_.insert({user.spent + spent, owner.user});
        }
        if (!process.items.empty()) {
            user.waiting.erase({process.spent, owner.process});
            user.waiting.insert({process.spent + spent, owner.process});
        }
        user.spent += spent;
        process.spent += spent;
        while (!left.empty()) {
            wait(owner).items.push_front(std::move(left.back()));
            left.pop_back();
        }
    }

private:
    using Waiting = std::set<std::pair<Duration, std::uint32_t>>;  // time spent, id
    struct Process {
        Duration spent{};
        std::deque<Item> items;
    };
    struct User {
        Duration spent{};
        Duration floor{};  // what each of its processes is taken to have spent
        std::size_t items = 0;
        std::map<std::uint32_t, Process> processes;
        Waiting waiting;
    };

    // The process, which is about to get an item.
    Process &wait(const Owner &owner) {
        User &user = users_[owner.user];
        Process &process = user.processes[owner.process];
        if (user.items == 0) {
            user.spent = std::max(user.spent, floor_);
            waiting_.insert({user.spent, owner.user});
        }
        if (process.items.empty()) {
            process.spent = std::max(process.spent, user.floor);
            user.waiting.insert({process.spent, owner.process});
        }
        user.items++;
        items_++;
        return process;
    }

    void remove_items(const Owner &owner, std::size_t count) {
        User &user = users_[owner.user];
        const Process &process = user.processes[owner.process];
        user.items -= count;
        items_ -= count;
        if (process.items.empty()) {
            user.waiting.erase({process.spent, owner.process});
        }
        if (user.items == 0) {
            waiting_.erase({user.spent, owner.user});
        }
    }

    // Takes the newest item of the user with the most items, of its process whose turn comes last.
    // Empty if that is not worse off than the owner.
    std::optional<Item> make_room(const Owner &owner) {
        const auto largest = std::ranges::max_element(
            users_, {}, [](const auto &entry) { return entry.second.items; });
        if (largest == users_.end() || largest->second.items == 0) {
            return std::nullopt;
        }
        User &user = largest->second;
        const std::uint32_t last = user.waiting.rbegin()->second;
        Process &process = user.processes[last];
        const auto own_user = users_.find(owner.user);
        const bool is_other_user = largest->first != owner.user;
        std::size_t own = 0;
        if (own_user != users_.end()) {
            const auto own_process = own_user->second.processes.find(owner.process);
            own = is_other_user ? own_user->second.items
                  : own_process != own_user->second.processes.end()
                      ? own_process->second.items.size()
                      : 0;
        }
        if ((is_other_user ? user.items : process.items.size()) <= own + 1) {
            return std::nullopt;
        }
        if (!is_other_user && last == owner.process) {
            return std::nullopt;
        }
        Item item = std::move(process.items.back());
        process.items.pop_back();
        remove_items({largest->first, last}, 1);
        return item;
    }

    // Those that have nothing to wait for, and nothing to make up for.
    void forget_idle() {
        if (++turns_ % 1024 != 0) {
            return;
        }
        for (auto &[id, user] : users_) {
            std::erase_if(user.processes, [floor = user.floor](const auto &entry) {
                return entry.second.items.empty() && entry.second.spent <= floor;
            });
        }
        std::erase_if(users_, [this](const auto &entry) {
            return entry.second.items == 0 && entry.second.spent <= floor_;
        });
        if (users_.size() > max_items_) {  // all of them have just had a turn
            std::erase_if(users_, [](const auto &entry) { return entry.second.items == 0; });
        }
    }

    std::size_t max_items_;
    std::size_t items_ = 0;
    std::uint64_t turns_ = 0;
    Duration floor_{};
    std::map<std::uint32_t, User> users_;
    Waiting waiting_;
};

}  // namespace gpusnoop
