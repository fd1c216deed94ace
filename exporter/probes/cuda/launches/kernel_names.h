// The names of one process's CUDA kernels, by their keys in launches: a host function or a handle.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tsl/robin_map.h>

namespace gpusnoop::probes {

// Per process; further kernels are counted as "other", like folded label sets.
inline constexpr std::size_t max_kernels = 16'384;
inline constexpr std::uint64_t surplus_kernel = 0;  // for all of these; no kernel is at 0

class KernelNames {
public:
    [[nodiscard]] bool contains(std::uint64_t kernel) const { return kernels_.contains(kernel); }
    [[nodiscard]] bool has_room_for(std::uint64_t kernel) const {
        return kernels_.size() < max_kernels || contains(kernel);
    }

    // From `at_ns` on, a handle stands for another handle, or for a host function.
    void set_meaning(std::uint64_t handle, std::uint64_t stands_for, std::uint64_t at_ns);
    // The driver reuses handles after their module was unloaded: the latest name counts. True: the
    // name was asked for, so launches wait for it.
    bool set_name(std::uint64_t handle, std::string name, std::uint64_t at_ns);
    // The answer to a request. True: as above. False: the kernel was given up meanwhile.
    bool on_found(std::uint64_t kernel, std::string name);

    struct Name {
        const std::string *known;  // null: not known yet; empty: not found
        // The key to ask for, if it must be asked for now.
        std::optional<std::uint64_t> to_ask_for;
    };
    // For a kernel that is launched. Notes the time of a request.
    [[nodiscard]] Name find(std::uint64_t kernel, std::chrono::nanoseconds now);

    // Kernels whose names were asked for before `until` stay unknown. True: there were some.
    bool give_up(std::chrono::nanoseconds until);
    // Is any requested name still missing?
    [[nodiscard]] bool is_waiting() const;

    // The number of renamed kernels so far. While it is 0, a launch can skip the functions below.
    [[nodiscard]] std::uint64_t renames() const { return renames_; }
    // The name that the kernel had at the time, if it has another one now.
    [[nodiscard]] const std::string *former_name(std::uint64_t kernel, std::uint64_t at_ns) const;
    // Was the kernel renamed after the first `renames` renames?
    [[nodiscard]] bool was_renamed_since(std::uint64_t kernel, std::uint64_t renames) const;

private:
    struct Kernel {
        std::uint64_t stands_for = 0;     // another handle or a host function; the address itself
        std::optional<std::string> name;  // nothing: none yet; "": not found
        std::optional<std::chrono::nanoseconds> asked;  // when
        std::uint64_t renamed = 0;                      // the number of its last rename
        // Its former names, each with the time until which it had it; only the latest are kept.
        std::vector<std::pair<std::uint64_t, std::string>> former_names;
    };

    void rename(Kernel &kernel, std::optional<std::string> name, std::uint64_t at_ns);

    tsl::robin_map<std::uint64_t, Kernel> kernels_;
    std::uint64_t renames_ = 0;
};

}  // namespace gpusnoop::probes
