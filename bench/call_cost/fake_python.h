// The functions of a Python program, which this one is not: the structures that an interpreter has
// of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "exporter/probes/frame/python/interpreter.h"

namespace gpusnoop::bench {

class FakePython {
public:
    // The calling thread is in so many functions.
    explicit FakePython(std::size_t functions);
    FakePython(const FakePython &) = delete;
    FakePython &operator=(const FakePython &) = delete;

    [[nodiscard]] const probes::PythonInterpreter &interpreter() const { return python_; }

private:
    using Object = std::array<std::uint64_t, 64>;

    std::vector<Object> objects_;
    probes::PythonInterpreter python_;
};

}  // namespace gpusnoop::bench
