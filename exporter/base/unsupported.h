// Failures because the kernel or the node lacks the thing, apart from failures that somebody can
// act on.
#pragma once

#include <cerrno>
#include <string>
#include <utility>

#include "exporter/base/result.h"

namespace gpusnoop {

[[nodiscard]] inline tl::unexpected<Error> fail_unsupported(std::string message) {
    return fail(std::move(message), EOPNOTSUPP);
}

// Also an answer of the kernel to a BPF program of a type that it does not know.
[[nodiscard]] inline bool is_unsupported(const Error &error) {
    constexpr int kernel_enotsupp = 524;  // ENOTSUPP, which is in no header of user space
    return error.code == EOPNOTSUPP || error.code == kernel_enotsupp;
}

}  // namespace gpusnoop
