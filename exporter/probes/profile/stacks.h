// The stacks of a profile, with the names of their functions.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bpf/profile/profile.h"
#include "exporter/base/result.h"
#include "exporter/base/work_limit.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/probes/frame/python/stacks.h"
#include "exporter/trace/stack_names.h"

namespace gpusnoop::probes {

// What the kernel's table has.
using ProfileReading = std::vector<std::pair<profile_key, profile_count>>;

inline ProcessKey process_of(const profile_key &key) {
    return {key.tgid, key.since_ns};
}

// For one thread.
class ProfiledStacks {
public:
    struct Sources {
        // Of a stack in the kernel's table, innermost first; empty: it is not there.
        std::function<std::vector<std::uint64_t>(std::uint64_t stack)> addresses;
        std::function<std::string(std::uint64_t address)> kernel_function;  // "": not known
        std::function<bool(const ProcessKey &)> is_wanted;
        // The functions of a stack of Python's.
        std::function<std::vector<PythonFrame>(const ProcessKey &, std::span<const std::uint64_t>)>
            python;
        // Of a sample, but for those of the heap, which are of calls that have returned.
        bool begins_at_instruction = false;
    };
    // Has at most so many bytes of text, about.
    static Result<std::unique_ptr<ProfiledStacks>> start(Sources sources, std::size_t max_bytes);

    // Looks up the functions of stacks that it does not have yet. Call it while the processes run,
    // and while the table has the stacks.
    void name(const ProfileReading &reading);

    // Nothing is looked up beyond this limit. At first, there is none.
    void set_limit(const WorkLimit &limit) { names_->set_limit(limit); }

    // Null: there is none, or no room for it.
    [[nodiscard]] const trace::StackNames::Named *user(const profile_key &key) const;
    // Empty: the thread ran no Python, or there is no room.
    [[nodiscard]] std::vector<PythonFrame> python(const profile_key &key) const;
    // Names of functions, innermost first.
    [[nodiscard]] std::vector<std::string> kernel(const profile_key &key) const;
    // Whether the thread had a stack that found no room here.
    [[nodiscard]] bool lacks(const profile_key &key) const;

    // Forgets the stacks of other samples.
    void keep_only(std::span<const ProfileReading *const> readings);

private:
    using Key = std::pair<ProcessKey, std::uint64_t>;

    ProfiledStacks(std::unique_ptr<trace::StackNames> names, Sources sources, std::size_t max_bytes)
        : names_(std::move(names)), sources_(std::move(sources)), max_bytes_(max_bytes) {}
    void name_kernel(std::uint64_t stack);
    void name_python(const profile_key &key);
    const std::string &kernel_function(std::uint64_t address);

    const std::unique_ptr<trace::StackNames> names_;
    const Sources sources_;
    const std::size_t max_bytes_;
    std::size_t bytes_ = 0;
    std::map<Key, trace::StackNames::Named> users_;
    std::map<Key, std::vector<PythonFrame>> pythons_;
    std::map<std::uint64_t, std::vector<std::uint64_t>> kernels_;
    std::map<std::uint64_t, std::string> kernel_functions_;  // by addresses
};

// The past of a profile that does not end, in slices.
struct ProfileSlice {
    std::chrono::nanoseconds began{};  // CLOCK_MONOTONIC
    std::chrono::nanoseconds ended{};
    ProfileReading reading;
    std::uint64_t samples_lost = 0;
    std::uint64_t stacks_lost = 0;
};

// All of them together: each stack of each thread once.
[[nodiscard]] ProfileReading merged(std::span<const ProfileSlice *const> slices,
                                    const ProfileReading &current);

// For one thread.
class ProfileSlices {
public:
    // Forgets the slices that ended before `oldest`, and the oldest ones where their samples take
    // more than this, so that a machine with many threads has a shorter past.
    static constexpr std::size_t max_samples = 131'072;  // of 88 bytes
    void add(ProfileSlice slice, std::chrono::nanoseconds oldest);

    // That ended at `since` or later, oldest first.
    [[nodiscard]] std::vector<const ProfileSlice *> since(std::chrono::nanoseconds since) const;

    [[nodiscard]] std::vector<const ProfileReading *> readings() const;

private:
    std::deque<ProfileSlice> slices_;
    std::size_t samples_ = 0;
};

}  // namespace gpusnoop::probes
