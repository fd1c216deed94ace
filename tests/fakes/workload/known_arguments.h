// What kernels are launched with under --known-arguments, for tests of who reads it.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace demo {

inline constexpr std::size_t kKnownArguments = 16;

// Argument n, from 0 on, is a word of 64 bits.
constexpr std::uint64_t known_argument(std::size_t n) {
    return 0xa11ce00000000000U + n * 0x1111U;
}

// In the form of a launch: a pointer to each.
class KnownArguments {
public:
    KnownArguments() {
        for (std::size_t n = 0; n < kKnownArguments; ++n) {
            words_[n] = known_argument(n);
            pointers_[n] = &words_[n];
        }
    }
    KnownArguments(const KnownArguments &) = delete;
    KnownArguments &operator=(const KnownArguments &) = delete;
    void **pointers() { return pointers_.data(); }

private:
    std::array<std::uint64_t, kKnownArguments> words_{};
    std::array<void *, kKnownArguments> pointers_{};
};

}  // namespace demo
