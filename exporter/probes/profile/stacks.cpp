#include "exporter/probes/profile/stacks.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace gpusnoop::probes {

namespace {

// What it takes in memory, about.
constexpr std::size_t of_stack = 256;

std::size_t bytes_of(const trace::StackNames::Named &stack) {
    std::size_t bytes = of_stack;
    for (const symbols::Frame &frame : stack.frames) {
        bytes += bytes_of(frame);
    }
    return bytes;
}

std::size_t bytes_of(const std::vector<PythonFrame> &stack) {
    std::size_t bytes = of_stack;
    for (const PythonFrame &frame : stack) {
        bytes += bytes_of(frame.function);
    }
    return bytes;
}

}  // namespace

Result<std::unique_ptr<ProfiledStacks>> ProfiledStacks::start(Sources sources,
                                                              std::size_t max_bytes) {
    auto names = trace::StackNames::start();
    if (!names) {
        return tl::unexpected(names.error());
    }
    return std::unique_ptr<ProfiledStacks>(
        new ProfiledStacks(std::move(*names), std::move(sources), max_bytes));
}

void ProfiledStacks::name(const ProfileReading &reading) {
    std::vector<trace::StackNames::Stack> asked;
    std::vector<Key> of;
    for (const auto &[key, unused] : reading) {
        const ProcessKey process = process_of(key);
        if (!sources_.is_wanted(process)) {
            continue;
        }
        name_kernel(key.kernel);
        name_python(key);
        const Key stack{process, PROFILE_STACK_ID(key.user)};
        if (key.user == 0 || bytes_ >= max_bytes_ || users_.contains(stack)) {
            continue;
        }
        std::vector<std::uint64_t> addresses = sources_.addresses(key.user);
        if (addresses.empty()) {
            continue;
        }
        users_.try_emplace(stack);
        asked.push_back({.process = {key.tgid, key.since_ns},
                         .code_start = 0,
                         .addresses = std::move(addresses),
                         .begins_at_instruction = sources_.begins_at_instruction});
        of.push_back(stack);
    }
    auto named = names_->name(asked);
    for (std::size_t i = 0; i < of.size(); i++) {
        named[i].frames.resize(asked[i].addresses.size());  // those without a name, too
        bytes_ += bytes_of(named[i]);
        users_[of[i]] = std::move(named[i]);
    }
    names_->forget_old();
}

void ProfiledStacks::name_kernel(std::uint64_t stack) {
    const std::uint64_t id = PROFILE_STACK_ID(stack);
    if (stack == 0 || bytes_ >= max_bytes_ || kernels_.contains(id)) {
        return;
    }
    std::vector<std::uint64_t> addresses = sources_.addresses(stack);
    if (addresses.empty()) {
        return;
    }
    bytes_ += addresses.size() * sizeof(std::uint64_t);
    for (const std::uint64_t address : addresses) {
        (void)kernel_function(address);
    }
    kernels_.emplace(id, std::move(addresses));
}

void ProfiledStacks::name_python(const profile_key &key) {
    const Key stack{process_of(key), PROFILE_STACK_ID(key.python)};
    if (key.python == 0 || bytes_ >= max_bytes_ || pythons_.contains(stack)) {
        return;
    }
    const std::vector<std::uint64_t> words = sources_.addresses(key.python);
    if (!words.empty()) {
        const auto named = pythons_.emplace(stack, sources_.python(stack.first, words)).first;
        bytes_ += bytes_of(named->second);
    }
}

const std::string &ProfiledStacks::kernel_function(std::uint64_t address) {
    const auto [found, is_new] = kernel_functions_.try_emplace(address);
    if (is_new) {
        found->second = sources_.kernel_function(address);
    }
    return found->second;
}

const trace::StackNames::Named *ProfiledStacks::user(const profile_key &key) const {
    const auto found = users_.find({process_of(key), PROFILE_STACK_ID(key.user)});
    return key.user == 0 || found == users_.end() ? nullptr : &found->second;
}

std::vector<PythonFrame> ProfiledStacks::python(const profile_key &key) const {
    const auto found = pythons_.find({process_of(key), PROFILE_STACK_ID(key.python)});
    return key.python == 0 || found == pythons_.end() ? std::vector<PythonFrame>() : found->second;
}

std::vector<std::string> ProfiledStacks::kernel(const profile_key &key) const {
    std::vector<std::string> names;
    const auto found = kernels_.find(PROFILE_STACK_ID(key.kernel));
    if (key.kernel == 0 || found == kernels_.end()) {
        return names;
    }
    for (const std::uint64_t address : found->second) {
        const std::string &name = kernel_functions_.at(address);
        // The profile's own program at the switch is no part of what the thread does.
        if (!name.starts_with("bpf_prog_") && !name.starts_with("bpf_trace_run") &&
            !name.starts_with("__traceiter_")) {
            names.emplace_back(name.empty() ? "[unknown]" : name);
        }
    }
    return names;
}

bool ProfiledStacks::lacks(const profile_key &key) const {
    return bytes_ >= max_bytes_ && key.user != 0 && user(key) == nullptr;
}

void ProfiledStacks::keep_only(std::span<const ProfileReading *const> readings) {
    std::set<Key> users;
    std::set<Key> pythons;
    std::set<std::uint64_t> kernels;
    for (const ProfileReading *reading : readings) {
        for (const auto &[key, unused] : *reading) {
            users.emplace(process_of(key), PROFILE_STACK_ID(key.user));
            pythons.emplace(process_of(key), PROFILE_STACK_ID(key.python));
            kernels.insert(PROFILE_STACK_ID(key.kernel));
        }
    }
    std::erase_if(users_, [&](const auto &one) { return !users.contains(one.first); });
    std::erase_if(pythons_, [&](const auto &one) { return !pythons.contains(one.first); });
    std::erase_if(kernels_, [&](const auto &one) { return !kernels.contains(one.first); });
    bytes_ = 0;
    for (const auto &[key, named] : users_) {
        bytes_ += bytes_of(named);
    }
    for (const auto &[key, python] : pythons_) {
        bytes_ += bytes_of(python);
    }
    for (const auto &[id, addresses] : kernels_) {
        bytes_ += addresses.size() * sizeof(std::uint64_t);
    }
}

namespace {

// The same stack in all generations.
profile_key without_generation(profile_key key) {
    key.user = PROFILE_STACK_ID(key.user);
    key.kernel = PROFILE_STACK_ID(key.kernel);
    key.generation = 0;
    return key;
}

struct ByBytes {
    bool operator()(const profile_key &one, const profile_key &other) const {
        return std::memcmp(&one, &other, sizeof(one)) < 0;
    }
};

}  // namespace

ProfileReading merged(std::span<const ProfileSlice *const> slices, const ProfileReading &current) {
    std::map<profile_key, profile_count, ByBytes> counts;
    const auto add = [&](const ProfileReading &reading) {
        for (const auto &[key, count] : reading) {
            profile_count &sum = counts[without_generation(key)];
            sum.samples += count.samples;
            sum.amount += count.amount;
        }
    };
    for (const ProfileSlice *slice : slices) {
        add(slice->reading);
    }
    add(current);
    return {counts.begin(), counts.end()};
}

void ProfileSlices::add(ProfileSlice slice, std::chrono::nanoseconds oldest) {
    samples_ += slice.reading.size();
    slices_.push_back(std::move(slice));
    while (slices_.size() > 1 && (slices_.front().ended < oldest || samples_ > max_samples)) {
        samples_ -= slices_.front().reading.size();
        slices_.pop_front();
    }
}

std::vector<const ProfileSlice *> ProfileSlices::since(std::chrono::nanoseconds since) const {
    std::vector<const ProfileSlice *> found;
    for (const ProfileSlice &slice : slices_) {
        if (slice.ended >= since) {
            found.push_back(&slice);
        }
    }
    return found;
}

std::vector<const ProfileReading *> ProfileSlices::readings() const {
    std::vector<const ProfileReading *> readings;
    readings.reserve(slices_.size());
    for (const ProfileSlice &slice : slices_) {
        readings.push_back(&slice.reading);
    }
    return readings;
}

}  // namespace gpusnoop::probes
