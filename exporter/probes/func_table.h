// The functions that are traced, by the numbers that records have for them.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "exporter/config/functions.h"

namespace gpusnoop::probes {

// What calls of a function are shown as, and how they are counted.
struct FuncFunction {
    std::string library;  // the file's name
    std::string group;
    std::string name;
    config::FunctionOptions options;
};

// Numbers are given when a library is attached to, by one thread, and looked up by another. They
// are never given again to something else.
class FuncTable {
public:
    // The number of a function; the same for the same.
    std::uint32_t number_of(FuncFunction function);

    // Null for a number that was not given.
    [[nodiscard]] std::shared_ptr<const FuncFunction> find(std::uint32_t number) const;

private:
    mutable std::mutex mutex_;
    std::vector<std::shared_ptr<const FuncFunction>> functions_;
    std::multimap<std::string, std::uint32_t> by_name_;
};

}  // namespace gpusnoop::probes
