// Errors as values: Result<T> is a value or a sentence that says what went wrong.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace gpusnoop {

// One failure. `message` is a sentence for a person, outermost step first:
// "cuda: attach libcudart.so.12: Permission denied". `code` is the errno behind it, 0 if none.
struct Error {
    std::string message;
    int code = 0;

    // The same failure, with the name of an outer step in front.
    [[nodiscard]] Error in(std::string_view step) const {
        return Error{std::string(step) + ": " + message, code};
    }
};

template <typename T = void>
using Result = tl::expected<T, Error>;

[[nodiscard]] inline tl::unexpected<Error> fail(std::string message, int code = 0) {
    return tl::unexpected<Error>(Error{std::move(message), code});
}

// A failed system call: "<step>: <strerror(code)>". `code` is positive.
[[nodiscard]] inline tl::unexpected<Error> fail_errno(std::string_view step, int code = errno) {
    return fail(std::string(step) + ": " + std::strerror(code), code);
}

// Passes a failure on with one more step in front of it.
[[nodiscard]] inline tl::unexpected<Error> fail_in(std::string_view step, const Error &error) {
    return tl::unexpected<Error>(error.in(step));
}

// Failures because the kernel or the node lacks the thing, apart from failures that somebody can
// act on.

[[nodiscard]] inline tl::unexpected<Error> fail_unsupported(std::string message) {
    return fail(std::move(message), EOPNOTSUPP);
}

// Also an answer of the kernel to a BPF program of a type that it does not know.
[[nodiscard]] inline bool is_unsupported(const Error &error) {
    constexpr int kernel_enotsupp = 524;  // ENOTSUPP, which is in no header of user space
    return error.code == EOPNOTSUPP || error.code == kernel_enotsupp;
}

}  // namespace gpusnoop
