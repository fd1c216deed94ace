// What probes on functions that hold no limit by themselves cost a process, for the one that does.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"

namespace gpusnoop::probes {

// For any thread.
class CostTables {
public:
    // The table of processes of a probe's programs, whose values begin with a process_entry. Keeps
    // a descriptor of its own.
    Result<> add(int table);

    // What they have cost the process of this id. It falls when another process gets the id.
    [[nodiscard]] std::chrono::nanoseconds cost_of(std::uint32_t tgid) const;

private:
    struct Table {
        Fd map;
        std::size_t value_bytes;
    };

    mutable std::mutex mutex_;
    std::vector<Table> tables_;
};

using CostTablesPtr = std::shared_ptr<CostTables>;

}  // namespace gpusnoop::probes
