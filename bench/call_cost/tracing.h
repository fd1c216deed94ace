// A way to trace a library, in force while it lives.
#pragma once

#include <cstdint>
#include <memory>

#include "exporter/base/result.h"

namespace gpusnoop::bench {

class Tracing {
public:
    Tracing() = default;
    virtual ~Tracing() = default;
    Tracing(const Tracing &) = delete;
    Tracing &operator=(const Tracing &) = delete;

    // Events that it failed to record. Does not fail if that cannot be known.
    [[nodiscard]] virtual Result<std::uint64_t> lost() const { return 0; }
};

using TracingResult = Result<std::unique_ptr<Tracing>>;

}  // namespace gpusnoop::bench
