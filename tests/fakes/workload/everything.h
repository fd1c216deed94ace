// One thread of --everything: every function there is, in a random order, round after round. It
// keeps an account of its own of what its calls did, by which the truth itself is checked.

#pragma once

#include "truth_reader.h"
#include "workload/options.h"
#include "workload/pacer.h"

#include "cuda_types.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <vector>

namespace demo {

// A function by the name that it is counted under.
template <typename... Parameters>
struct Named {
    const char *name;
    int (*address)(Parameters...);
};

template <typename... Parameters>
Named(const char *, int (*)(Parameters...)) -> Named<Parameters...>;

// What one node of a graph does when the graph is launched.
struct GraphStep {
    standin::NodeType type = standin::kEmptyNode;
    const char *kernel = nullptr;
    standin::Dim3 grid;
    standin::Dim3 block;
    truth::CopyKind direction{};
    std::size_t bytes = 0;
    bool enabled = true;
};

class Everything {
public:
    // A context: one of the thread's own, or the primary one of a device.
    struct Where {
        standin::Context own = nullptr;
        int device = 0;
        bool operator==(const Where &) const = default;
    };

    // Memory that the thread has.
    struct Live {
        void *start;
        std::size_t bytes;
        truth::MemoryKind kind;
        Where where;
        bool registered = false;  // the program's own memory, which the API has only pinned
    };

    Everything(const Options &options, unsigned index)
        : options_(options),
          index_(index),
          generator_(options.seed * 10007 + index),
          pacer_(options),
          host_(kHostBytes),
          to_register_(new char[kToRegister * kRoom]) {}

    // What one API adds. Each action calls at least one function; `free` frees memory of any kind,
    // and says whether it did; `allocate` is for device memory.
    std::vector<std::function<void()>> beginnings;
    std::vector<std::function<void()>> actions;
    std::vector<std::function<void()>> failures;
    std::vector<std::function<bool(const Live &)>> frees;
    std::vector<std::function<void()>> allocations;
    std::vector<std::function<void()>> endings;

    void run();
    const truth::TruthSnapshot &tally() const { return tally_; }

    // Everything below is for the actions.
    const Options &options() const { return options_; }
    unsigned index() const { return index_; }

    template <typename... Parameters, typename... Arguments>
    int make(const Named<Parameters...> &function, Arguments... arguments) {
        pacer_.wait();
        return record(function.name, function.address(arguments...));
    }
    int record(const char *function, int error) {
        ++tally_.entered[function];
        ++tally_.results[{function, error}];
        return error;
    }

    std::uint64_t random(std::uint64_t below) { return generator_() % below; }
    bool coin() { return random(2) == 0; }
    template <typename Value>
    Value &any(std::vector<Value> &values) {
        return values[random(values.size())];
    }
    std::size_t random_bytes() { return 4096 + random(60000); }
    standin::Dim3 random_grid();
    standin::Dim3 random_block();

    // The thread's contexts, the current one last. None yet: device 0, as the runtime has it.
    std::vector<Where> stack;
    Where current() const { return stack.empty() ? Where{} : stack.back(); }
    // Makes it current in place of what is; for the first, too.
    void replace_current(const Where &where);

    void note_allocation(truth::MemoryKind kind, void *start, std::size_t bytes,
                         bool registered = false);
    void note_allocation(const Live &live);
    void note_empty_allocation(truth::MemoryKind kind) { ++memory(kind).empty_allocations; }
    void note_empty_free() { ++tally_.empty_frees; }
    void note_free(const Live &live);
    void note_reset(const Where &where);
    void note_copy(truth::CopyKind kind, truth::CopyMode mode, std::size_t bytes);
    void note_set(truth::CopyMode mode, std::size_t bytes);
    void note_launch(const char *kernel, standin::Dim3 grid, standin::Dim3 block);
    void note_captured(truth::Captured what) {
        ++tally_.captured[device()][static_cast<std::size_t>(what)];
    }
    void note_graph(const std::vector<GraphStep> &steps);
    void note_elapsed(float milliseconds) {
        ++tally_.elapsed_times;
        tally_.elapsed_ns += static_cast<std::uint64_t>(milliseconds * 1'000) * 1'000;
    }
    void note_wait() { ++tally_.synchronizations[device()]; }
    // Memory with a handle has no context, and may have been allocated on another device.
    truth::Memory &memory(truth::MemoryKind kind, int device);
    truth::Memory &memory(truth::MemoryKind kind) { return memory(kind, current().device); }

    // Any of the thread's memory of one of these kinds; it stays in the list until note_free.
    std::optional<Live> pick(std::initializer_list<truth::MemoryKind> kinds);
    std::optional<Live> pick_registered();
    // kRoom bytes of the program's own that are not registered; nullptr if all are.
    void *room_to_register();
    std::size_t count(std::initializer_list<truth::MemoryKind> kinds) const;
    // Start of at least kRoom bytes; nullptr if there are none to be had.
    void *device_room();
    void *host_room();

    static constexpr std::size_t kRoom = 4096;
    static constexpr std::size_t kMostLive = 12;  // of each kind, before more is freed

private:
    static constexpr std::size_t kHostBytes = 65536;
    static constexpr std::size_t kToRegister = 8;

    truth::LaunchKey key(const char *kernel, standin::Dim3 grid, standin::Dim3 block) const;
    std::size_t device() const { return static_cast<std::size_t>(current().device); }
    void finish();

    const Options &options_;
    unsigned index_;
    std::mt19937_64 generator_;
    Pacer pacer_;
    std::vector<char> host_;
    char *to_register_;  // never given back: with --hold, some of it stays registered
    std::vector<Live> live_;
    truth::TruthSnapshot tally_;
};

// Frees `live` by calling `free`, once for sure, and on while there is too much of these kinds.
template <typename Free>
void free_some(Everything &all, std::initializer_list<truth::MemoryKind> kinds, Free &&free) {
    for (std::size_t most = Everything::kMostLive * kinds.size() + 8; most != 0; --most) {
        const auto live = all.pick(kinds);
        if (!live) {
            return;
        }
        if (free(*live) == standin::kSuccess) {
            all.note_free(*live);
        }
        if (all.count(kinds) <= Everything::kMostLive * kinds.size()) {
            return;
        }
    }
}

// The shape of a copy or a memset that fits into kRoom.
inline constexpr std::size_t kPitch = 64;
inline constexpr std::size_t kRows = 8;
struct Shape {
    std::size_t width;
    std::size_t height;
    std::size_t depth;
    std::size_t bytes() const { return width * height * depth; }
};
inline Shape random_shape(Everything &all) {
    return {1 + all.random(kPitch), all.random(kRows + 1), all.random(5)};
}

// The two ends of a copy.
struct Ends {
    bool to_device;
    bool from_device;
    void *to;
    void *from;
    explicit operator bool() const { return to != nullptr && from != nullptr; }
    truth::CopyKind kind() const {
        return static_cast<truth::CopyKind>((from_device ? 2 : 0) + (to_device ? 1 : 0));
    }
    int direction() const { return static_cast<int>(kind()); }
};
inline Ends ends(Everything &all, bool to_device, bool from_device) {
    return {to_device, from_device, to_device ? all.device_room() : all.host_room(),
            from_device ? all.device_room() : all.host_room()};
}
inline Ends random_ends(Everything &all) {
    return ends(all, all.coin(), all.coin());
}

void add_runtime_actions(Everything &all);
void add_driver_actions(Everything &all);

}  // namespace demo
