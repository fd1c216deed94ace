// The stacks of call sites, which take limited memory: a process can have thousands of sites, each
// with a hundred functions of long names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "exporter/symbols/stacks/stack_text.h"

namespace gpusnoop::probes {

// Sites of a process share most of their frames.
using SharedFrame = std::shared_ptr<const symbols::Frame>;
// Innermost first. Null: it is not known, or there was no room for it.
using SharedStack = std::shared_ptr<const std::vector<SharedFrame>>;

[[nodiscard]] std::vector<symbols::Frame> frames_of(const SharedStack &stack);

// The memory for stacks of all processes, of which one user has a part at most. Root has all of it:
// containers of many people are root's.
class StackRoom {
public:
    using User = std::optional<std::uint32_t>;  // none: it is not known, and all such share a part
    struct Limits {
        std::size_t bytes = std::size_t{128} << 20;
        std::size_t bytes_of_user = std::size_t{64} << 20;
    };

    explicit StackRoom(const Limits &limits) : limits_(limits) {}

    // False: there is not so much room.
    [[nodiscard]] bool take(const User &user, std::size_t bytes);
    void give_back(const User &user, std::size_t bytes);

private:
    Limits limits_;
    std::size_t taken_ = 0;
    std::map<User, std::size_t> of_users_;
};

// The stacks of one process. Gives back its room when it is destroyed.
class ProcessStacks {
public:
    ProcessStacks() = default;  // has no room
    ProcessStacks(std::shared_ptr<StackRoom> room, StackRoom::User user);
    ProcessStacks(ProcessStacks &&) = default;
    ProcessStacks &operator=(ProcessStacks &&other) noexcept;
    ~ProcessStacks();

    [[nodiscard]] bool is_limited() const { return room_ != nullptr; }

    // Null: there is no room.
    [[nodiscard]] SharedStack keep(std::vector<symbols::Frame> frames);
    void forget(const SharedStack &stack);
    // Frees the frames that no stack has any more.
    void free_unused();

private:
    struct ByValue {
        using is_transparent = void;
        bool operator()(const SharedFrame &one, const SharedFrame &other) const;
        bool operator()(const SharedFrame &one, const symbols::Frame &other) const;
        bool operator()(const symbols::Frame &one, const SharedFrame &other) const;
    };

    void give_back(std::size_t bytes);

    std::shared_ptr<StackRoom> room_;
    StackRoom::User user_;
    std::size_t bytes_ = 0;
    std::set<SharedFrame, ByValue> frames_;
};

}  // namespace gpusnoop::probes
