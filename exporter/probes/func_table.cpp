#include "exporter/probes/func_table.h"

#include <utility>

namespace gpusnoop::probes {

std::uint32_t FuncTable::number_of(FuncFunction function) {
    const std::lock_guard lock(mutex_);
    const auto [first, last] = by_name_.equal_range(function.name);
    for (auto known = first; known != last; ++known) {
        const FuncFunction &other = *functions_[known->second];
        if (other.library == function.library && other.group == function.group &&
            other.options == function.options) {
            return known->second;
        }
    }
    const auto number = static_cast<std::uint32_t>(functions_.size());
    by_name_.emplace(function.name, number);
    functions_.push_back(std::make_shared<const FuncFunction>(std::move(function)));
    return number;
}

std::shared_ptr<const FuncFunction> FuncTable::find(std::uint32_t number) const {
    const std::lock_guard lock(mutex_);
    return number < functions_.size() ? functions_[number] : nullptr;
}

}  // namespace gpusnoop::probes
