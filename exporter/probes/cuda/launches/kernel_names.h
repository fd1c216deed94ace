// The names of one process's CUDA kernels, by what launches call them: a host function or a handle.
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

// Of a process; what is more is counted as "other", like what is past the family's budget.
inline constexpr std::size_t max_kernels = 16'384;
inline constexpr std::uint64_t surplus_kernel = 0;  // stands for all of them; no kernel is there

class KernelNames {
public:
    [[nodiscard]] bool contains(std::uint64_t kernel) const { return kernels_.contains(kernel); }
    [[nodiscard]] bool has_room_for(std::uint64_t kernel) const {
        return kernels_.size() < max_kernels || contains(kernel);
    }

    // A handle stands for another handle, or for a host function, from `at_ns` on.
    void set_meaning(std::uint64_t handle, std::uint64_t stands_for, std::uint64_t at_ns);
    // The driver gives handles again when their module was unloaded: the latest name holds. True:
    // the name was asked for, so launches wait for it.
    bool set_name(std::uint64_t handle, std::string name, std::uint64_t at_ns);
    // What was asked for is found. True: as above. False: the kernel has been given up meanwhile.
    bool on_found(std::uint64_t kernel, std::string name);

    struct Name {
        const std::string *known;  // null: not known yet; empty: not to be found
        // What to ask for, if that is to be done now.
        std::optional<std::uint64_t> to_ask_for;
    };
    // Of a kernel that is launched. What is asked for is noted with the time.
    [[nodiscard]] Name find(std::uint64_t kernel, std::chrono::nanoseconds now);

    // Kernels whose names were asked for before `until` are unknown for good. True: there were
    // some.
    bool give_up(std::chrono::nanoseconds until);
    // Names that were asked for and are still to come.
    [[nodiscard]] bool is_waiting() const;

    // How many kernels got another name so far. 0 spares a launch what is below.
    [[nodiscard]] std::uint64_t renames() const { return renames_; }
    // The name that the kernel had at the time, if it has another one now.
    [[nodiscard]] const std::string *former_name(std::uint64_t kernel, std::uint64_t at_ns) const;
    // Was it renamed behind so many of the renames?
    [[nodiscard]] bool was_renamed_since(std::uint64_t kernel, std::uint64_t renames) const;

private:
    struct Kernel {
        std::uint64_t stands_for = 0;     // another handle or a host function; the address itself
        std::optional<std::string> name;  // none yet; "": not to be found
        std::optional<std::chrono::nanoseconds> asked;  // when
        std::uint64_t renamed = 0;                      // which of the renames was its last
        // What its handle stood for before, and until when: the latest of them.
        std::vector<std::pair<std::uint64_t, std::string>> former_names;
    };

    void rename(Kernel &kernel, std::optional<std::string> name, std::uint64_t at_ns);

    tsl::robin_map<std::uint64_t, Kernel> kernels_;
    std::uint64_t renames_ = 0;
};

}  // namespace gpusnoop::probes
