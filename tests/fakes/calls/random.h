// Numbers that look random and are the same for the same seed, on every machine.
#pragma once

#include <cstdint>
#include <span>

namespace scenario {

class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed) {}

    // splitmix64
    std::uint64_t below(std::uint64_t end) {
        state_ += 0x9e3779b97f4a7c15U;
        std::uint64_t z = state_;
        z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
        z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
        return (z ^ (z >> 31U)) % end;
    }
    long number() { return static_cast<long>(below(1000)); }
    bool one_in(std::uint64_t cases) { return below(cases) == 0; }
    int one_of(std::span<const int> values) { return values[below(values.size())]; }

private:
    std::uint64_t state_;
};

}  // namespace scenario
