#include "exporter/probes/cuda/launches/kernel_names.h"

#include <algorithm>

namespace gpusnoop::probes {

namespace {

// A function of the driver stands for a kernel of the driver, which stands for a host function.
// They could also stand for one another.
constexpr int max_handles_in_a_row = 4;
constexpr std::size_t max_former_names = 16;

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
    if (is_another || (is_named && meant->second.name != kernel.name)) {
        rename(kernel, is_named ? meant->second.name : std::nullopt, at_ns);
    }
}

bool KernelNames::set_name(std::uint64_t handle, std::string name, std::uint64_t at_ns) {
    if (!has_room_for(handle)) {
        return false;
    }
    Kernel &kernel = kernels_[handle];
    if (kernel.name == name) {
        return false;
    }
    if (kernel.name) {
        rename(kernel, std::move(name), at_ns);
        return false;
    }
    kernel.name = std::move(name);
    return kernel.asked.has_value();
}

bool KernelNames::on_found(std::uint64_t kernel, std::string name) {
    Kernel &found = kernels_[kernel];
    if (found.name) {
        return false;
    }
    found.name = std::move(name);
    return found.asked.has_value();
}

// It is another kernel now: later launches are not counted under the former name.
void KernelNames::rename(Kernel &kernel, std::optional<std::string> name, std::uint64_t at_ns) {
    if (kernel.former_names.size() >= max_former_names) {
        kernel.former_names.erase(kernel.former_names.begin());
    }
    kernel.former_names.emplace_back(at_ns, kernel.name.value_or(""));
    kernel.name = std::move(name);
    kernel.asked.reset();
    kernel.renamed = ++renames_;
}

KernelNames::Name KernelNames::find(std::uint64_t kernel, std::chrono::nanoseconds now) {
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
    Name answer{found.name ? &*found.name : nullptr, std::nullopt};
    if (!found.name && !found.asked) {
        found.asked = now;
        answer.to_ask_for = meant;
    }
    return answer;
}

bool KernelNames::give_up(std::chrono::nanoseconds until) {
    bool gave_up = false;
    for (auto kernel = kernels_.begin(); kernel != kernels_.end(); ++kernel) {
        if (!kernel->second.name && kernel->second.asked && *kernel->second.asked <= until) {
            kernel.value().name = "";
            gave_up = true;
        }
    }
    return gave_up;
}

bool KernelNames::is_waiting() const {
    return std::ranges::any_of(
        kernels_, [](const auto &kernel) { return !kernel.second.name && kernel.second.asked; });
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
