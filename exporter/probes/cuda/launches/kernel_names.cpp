#include "exporter/probes/cuda/launches/kernel_names.h"

#include <algorithm>

namespace gpusnoop::probes {

namespace {

// A function of the driver stands for a kernel of the driver, which stands for a host function.
// They could also stand for one another.
constexpr int max_handles_in_a_row = 4;
constexpr std::size_t max_former_names = 16;

// After this time, a process or a file system that did not answer is tried again, and a file is
// read again. The time doubles with each answer without a name.
constexpr std::chrono::minutes first_time_to_ask_again{2};
constexpr std::uint8_t max_not_found = 6;

}  // namespace

void KernelNames::set_meaning(std::uint64_t handle, std::uint64_t stands_for, std::uint64_t at_ns) {
    if (!has_room_for(handle)) {
        return;
    }
    Kernel &kernel = kernels_[handle];
    const bool is_another = std::exchange(kernel.stands_for, stands_for) != stands_for;
    if (!kernel.name) {
        return;
    }
    const auto meant = kernels_.find(stands_for);
    const bool is_named = meant != kernels_.end() && meant->second.name;
    if (is_named && meant->second.name->empty() && !kernel.told.empty()) {
        return;
    }
    if (is_another || (is_named && meant->second.name != kernel.name)) {
        rename(kernel, is_named ? meant->second.name : std::nullopt, at_ns);
    }
}

bool KernelNames::set_name(std::uint64_t handle, std::string name, std::uint64_t at_ns) {
    if (!has_room_for(handle)) {
        return false;
    }
    Kernel &kernel = kernels_[handle];
    kernel.told = name;
    if (kernel.name == name) {
        return false;
    }
    if (kernel.name) {
        rename(kernel, std::move(name), at_ns);
        return false;
    }
    kernel.name = std::move(name);
    return kernel.is_asked;
}

bool KernelNames::on_found(const Request &request, std::string name) {
    const auto kernel = kernels_.find(request.kernel);
    if (kernel == kernels_.end() || kernel->second.renamed != request.rename) {
        return false;
    }
    Kernel &found = kernel.value();
    found.is_asked = false;
    found.since.reset();
    if (name.empty()) {
        name = found.told;
    }
    if (name.empty()) {
        found.not_found++;  // there is no request over the limit
    }
    if (!found.name) {
        found.name = std::move(name);
        return true;
    }
    if (found.name->empty() && !name.empty()) {
        // Not a rename: launches that are still in a ring have this name, too.
        found.name = std::move(name);
        found.renamed = ++renames_;
    }
    return false;
}

// It is another kernel now: later launches are not counted under the former name.
void KernelNames::rename(Kernel &kernel, std::optional<std::string> name, std::uint64_t at_ns) {
    // A name that was not found may have been this one.
    if (kernel.name && !kernel.name->empty()) {
        if (kernel.former_names.size() >= max_former_names) {
            kernel.former_names.erase(kernel.former_names.begin());
        }
        kernel.former_names.emplace_back(at_ns, *kernel.name);
    }
    kernel.name = std::move(name);
    kernel.is_asked = false;
    kernel.not_found = 0;
    kernel.since.reset();
    kernel.renamed = ++renames_;
}

KernelNames::Name KernelNames::find(std::uint64_t kernel) {
    auto [entry, is_new] = kernels_.try_emplace(kernel);
    Kernel &found = entry.value();
    if (is_new && kernel == surplus_kernel) {
        found.name = "other";
    } else if (is_new) {
        found.stands_for = kernel;
    }
    std::uint64_t meant = found.stands_for;
    for (int i = 0; i < max_handles_in_a_row && !found.name; i++) {
        const auto other = kernels_.find(meant);
        if (other == kernels_.end()) {
            break;
        }
        found.name = other->second.name;
        meant = other->second.stands_for;
    }
    if (found.name && found.name->empty()) {
        found.name = found.told;
    }
    Name answer{found.name ? &*found.name : nullptr, std::nullopt};
    if (!found.name && !found.is_asked) {
        found.is_asked = true;
        answer.request = {kernel, found.renamed, meant};
    }
    return answer;
}

bool KernelNames::give_up(std::chrono::nanoseconds now, std::chrono::nanoseconds patience) {
    bool gave_up = false;
    unknown_ = 0;
    for (auto entry = kernels_.begin(); entry != kernels_.end(); ++entry) {
        Kernel &kernel = entry.value();
        unknown_ += kernel.name && kernel.name->empty() ? 1 : 0;
        if (kernel.name || !kernel.is_asked) {
            continue;
        }
        // Not the time of the request: this thread may not have run since, so that the answer is
        // there, and was not read.
        if (!kernel.since) {
            kernel.since = now;
        } else if (now - *kernel.since >= patience) {
            kernel.name = "";
            gave_up = true;
        }
    }
    return gave_up;
}

std::vector<KernelNames::Request> KernelNames::ask_again(std::chrono::nanoseconds now) {
    std::vector<Request> requests;
    for (auto entry = kernels_.begin(); entry != kernels_.end(); ++entry) {
        Kernel &kernel = entry.value();
        if (!kernel.name || !kernel.name->empty() || kernel.is_asked ||
            kernel.not_found >= max_not_found) {
            continue;
        }
        const int doublings = std::max<int>(kernel.not_found, 1) - 1;
        if (!kernel.since) {
            kernel.since = now;
        } else if (now - *kernel.since >= first_time_to_ask_again * (1 << doublings)) {
            kernel.is_asked = true;
            kernel.since.reset();
            requests.push_back({entry->first, kernel.renamed, meaning_of(kernel.stands_for)});
        }
    }
    return requests;
}

// What a handle stands for in the end.
std::uint64_t KernelNames::meaning_of(std::uint64_t key) const {
    for (int i = 0; i < max_handles_in_a_row; i++) {
        const auto entry = kernels_.find(key);
        if (entry == kernels_.end() || entry->second.stands_for == key) {
            break;
        }
        key = entry->second.stands_for;
    }
    return key;
}

bool KernelNames::is_waiting() const {
    return std::ranges::any_of(
        kernels_, [](const auto &kernel) { return !kernel.second.name && kernel.second.is_asked; });
}

// Launches and names come through different rings: a launch may be older than its handle's present
// name.
const std::string *KernelNames::former_name(std::uint64_t kernel, std::uint64_t at_ns) const {
    const auto found = kernels_.find(kernel);
    if (found == kernels_.end()) {
        return nullptr;
    }
    for (const auto &[until_ns, name] : found->second.former_names) {
        if (at_ns < until_ns) {
            return &name;
        }
    }
    return nullptr;
}

bool KernelNames::was_renamed_since(std::uint64_t kernel, std::uint64_t renames) const {
    const auto found = kernels_.find(kernel);
    return found != kernels_.end() && found->second.renamed > renames;
}

}  // namespace gpusnoop::probes
