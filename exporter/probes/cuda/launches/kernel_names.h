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

    // From `at_ns` on, a handle stands for another handle, or for a host function. If that has no
    // name, the last one by set_name() stays.
    void set_meaning(std::uint64_t handle, std::uint64_t stands_for, std::uint64_t at_ns);
    // The driver reuses handles after their module was unloaded: the latest name counts. True: the
    // name was asked for, so launches wait for it.
    bool set_name(std::uint64_t handle, std::string name, std::uint64_t at_ns);

    // What to ask for a kernel's name, and what the answer needs.
    struct Request {
        std::uint64_t kernel = 0;
        std::uint64_t rename = 0;  // the kernel's last one
        std::uint64_t key = 0;     // the key to ask for

        friend bool operator==(const Request &, const Request &) = default;
    };
    // The answer to a request; an empty name: not found. True: launches wait for it. A kernel that
    // is unknown by now has the name from now on. One that was renamed meanwhile does not get it.
    bool on_found(const Request &request, std::string name);

    struct Name {
        const std::string *known;        // null: not known yet; empty: not found
        std::optional<Request> request;  // if it must be asked for now
    };
    // For a kernel that is launched.
    [[nodiscard]] Name find(std::uint64_t kernel);

    // For once a second. Kernels that wait for their names since a call at least `patience` ago are
    // unknown, until the answer comes. True: there were some.
    bool give_up(std::chrono::nanoseconds now, std::chrono::nanoseconds patience);
    // For the same times. The kernels whose names were not found and are worth another request: a
    // file or a process may answer later. A few times each, at growing intervals.
    [[nodiscard]] std::vector<Request> ask_again(std::chrono::nanoseconds now);
    // Is any requested name still missing?
    [[nodiscard]] bool is_waiting() const;
    // How many kernels had no name at the last give_up().
    [[nodiscard]] std::size_t unknown() const { return unknown_; }

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
        std::string told;                 // the last name by set_name()
        bool is_asked = false;            // a request has no answer yet
        std::uint8_t not_found = 0;       // answers without a name
        // Of is_asked, or else of the last answer: the first call of give_up() or ask_again().
        std::optional<std::chrono::nanoseconds> since;
        std::uint64_t renamed = 0;  // the number of its last rename
        // Its former names, each with the time until which it had it; only the latest are kept.
        std::vector<std::pair<std::uint64_t, std::string>> former_names;
    };

    void rename(Kernel &kernel, std::optional<std::string> name, std::uint64_t at_ns);
    [[nodiscard]] std::uint64_t meaning_of(std::uint64_t key) const;

    tsl::robin_map<std::uint64_t, Kernel> kernels_;
    std::uint64_t renames_ = 0;
    std::size_t unknown_ = 0;
};

}  // namespace gpusnoop::probes
