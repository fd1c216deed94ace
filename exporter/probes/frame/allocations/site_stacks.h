// The stacks of call sites, which take limited memory: a process can have thousands of sites, each
// with a hundred functions of long names.
#pragma once

#include <cstddef>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "exporter/probes/frame/processes/user_room.h"
#include "exporter/symbols/stacks/stack_text.h"

namespace gpusnoop::probes {

// Sites of a process share most of their frames.
using SharedFrame = std::shared_ptr<const symbols::Frame>;
// Innermost first. Null: it is not known, or there was no room for it.
using SharedStack = std::shared_ptr<const std::vector<SharedFrame>>;

[[nodiscard]] std::vector<symbols::Frame> frames_of(const SharedStack &stack);

// Of all processes together.
inline constexpr UserRoom::Limits room_for_stacks{.bytes = std::size_t{128} << 20,
                                                  .bytes_of_user = std::size_t{64} << 20};

// The stacks of one process.
class ProcessStacks {
public:
    ProcessStacks() = default;
    explicit ProcessStacks(UserShare share) : share_(std::move(share)) {}

    [[nodiscard]] bool is_limited() const { return share_.is_limited(); }

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

    UserShare share_;
    std::set<SharedFrame, ByValue> frames_;
};

}  // namespace gpusnoop::probes
