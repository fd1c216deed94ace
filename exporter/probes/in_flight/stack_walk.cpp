#include "exporter/probes/in_flight/stack_walk.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

namespace gpusnoop::probes {

namespace {

constexpr std::size_t max_places = 128;
constexpr std::size_t window_bytes = 65'536;
constexpr std::uint64_t word = sizeof(std::uint64_t);

// A return address, and where it lies.
struct Found {
    std::uint64_t at = 0;
    StackPlace place;
};

class Walk {
public:
    Walk(const blocked_thread_record &thread, std::span<const OpenCall *const> calls,
         const symbols::ReadMemory &read)
        : thread_(thread), calls_(calls.begin(), calls.end()), read_(read) {
        std::ranges::sort(calls_, {}, &OpenCall::sp);  // the innermost first
        window_ = read_(thread.tgid, thread.stack, window_bytes).value_or("");
    }

    std::vector<StackPlace> places() {
        follow_frames(thread_.frame, thread_.stack);
        for (const OpenCall *const call : calls_) {
            add_return(*call);
        }
        std::ranges::sort(found_, {}, &Found::at);
        std::vector<StackPlace> places = {{thread_.instruction, nullptr}};
        for (const Found &found : found_) {
            if (places.size() < max_places) {
                places.push_back(found.place);
            }
        }
        return places;
    }

private:
    [[nodiscard]] std::optional<std::uint64_t> word_at(std::uint64_t address) const {
        const std::uint64_t offset = address - thread_.stack;
        if (address < thread_.stack || window_.size() < word || offset > window_.size() - word) {
            return symbols::read_word(thread_.tgid, address, read_);
        }
        std::uint64_t value = 0;
        std::memcpy(&value, window_.data() + offset, sizeof(value));
        return value;
    }

    // Each frame begins with the caller's frame and the return address. A stack grows down, so the
    // caller's frame lies higher: this also ends the walk.
    void follow_frames(std::uint64_t frame, std::uint64_t below) {
        while (found_.size() < max_places && frame >= below && frame % word == 0) {
            const auto next = word_at(frame);
            const auto address = word_at(frame + word);
            if (!next || !address || *address == 0) {
                break;
            }
            if (!add(frame + word, *address)) {
                break;  // the rest is known, too
            }
            below = frame + word;
            frame = *next;
        }
    }

    // The kernel puts the address of its trampoline in the place of the real one. False: it was
    // added before.
    bool add(std::uint64_t at, std::uint64_t address) {
        if (std::ranges::find(found_, at, &Found::at) != found_.end()) {
            return false;
        }
        if (thread_.trampoline == 0 || address != thread_.trampoline) {
            const OpenCall *const call = call_at(at);
            found_.push_back({at, {address, call}});
            return true;
        }
        // One without a return probe is not on this stack, or its address is no trampoline's.
        const auto call = std::ranges::find_if(calls_, [&](const OpenCall *one) {
            return one->sp >= at && one->returns_to != 0 && !is_found(*one);
        });
        if (call != calls_.end()) {
            found_.push_back({at, {(*call)->returns_to, *call}});
        }
        return true;
    }

    [[nodiscard]] const OpenCall *call_at(std::uint64_t at) const {
        const auto call = std::ranges::find(calls_, at, &OpenCall::sp);
        return call == calls_.end() ? nullptr : *call;
    }

    [[nodiscard]] bool is_found(const OpenCall &call) const {
        return std::ranges::any_of(found_,
                                   [&](const Found &one) { return one.place.left == &call; });
    }

    // Functions without frame pointers, such as those of most libcs, hide the frames around them.
    void add_return(const OpenCall &call) {
        if (is_found(call)) {
            return;
        }
        std::uint64_t address = call.returns_to;
#if defined(__x86_64__)
        if (address == 0) {
            address = word_at(call.sp).value_or(0);
        }
#endif
        if (address != 0 && address != thread_.trampoline) {
            found_.push_back({call.sp, {address, &call}});
        }
#if defined(__x86_64__)
        // A function with a frame pointer begins by pushing its caller's.
        if (const auto frame = word_at(call.sp - word); frame && *frame > call.sp) {
            follow_frames(*frame, call.sp);
        }
#endif
    }

    const blocked_thread_record &thread_;
    std::vector<const OpenCall *> calls_;
    const symbols::ReadMemory &read_;
    std::string window_;  // of the stack, from its top on
    std::vector<Found> found_;
};

}  // namespace

std::vector<StackPlace> walk_stack(const blocked_thread_record &thread,
                                   std::span<const OpenCall *const> calls,
                                   const symbols::ReadMemory &read) {
    return Walk(thread, calls, read).places();
}

}  // namespace gpusnoop::probes
