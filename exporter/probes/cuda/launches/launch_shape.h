// What launches are counted by: one kernel in one shape on one device.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string_view>
#include <unordered_map>

#include "bpf/cuda/cuda.h"

namespace gpusnoop::probes {

// The values of the label `via`.
enum class Via : std::uint8_t { stream, graph };

struct LaunchShape {
    std::uint64_t kernel = 0;  // as the launch named it: host function or handle
    std::int32_t device = 0;
    std::array<std::uint32_t, 3> grid{};
    std::array<std::uint32_t, 3> block{};
    Via via = Via::stream;

    // Hashed and compared once for each launch, so in whole words.
    using Words = std::array<std::uint64_t, 5>;
    [[nodiscard]] Words words() const {
        const auto both = [](std::uint32_t low, std::uint32_t high) {
            return low | static_cast<std::uint64_t>(high) << 32;
        };
        return {kernel, both(static_cast<std::uint32_t>(device), static_cast<std::uint32_t>(via)),
                both(grid[0], block[0]), both(grid[1], block[1]), both(grid[2], block[2])};
    }
    bool operator==(const LaunchShape &other) const {
        const Words own = words();
        const Words others = other.words();
        std::uint64_t difference = 0;
        for (std::size_t i = 0; i < own.size(); i++) {
            difference |= own[i] ^ others[i];
        }
        return difference == 0;
    }

    struct Hash {
        std::size_t operator()(const LaunchShape &shape) const {
            // Multiplies each word by its own odd number. The products do not depend on each other.
            const Words words = shape.words();
            const std::uint64_t hash =
                words[0] * 0x9e3779b97f4a7c15 + words[1] * 0xbf58476d1ce4e5b9 +
                words[2] * 0x94d049bb133111eb + words[3] * 0xd6e8feb86659fd93 +
                words[4] * 0xa0761d6478bd642f;
            return hash ^ (hash >> 32);
        }
    };
};

// Of the kernel's table of counted launches. By its bytes: it has no padding.
struct CountedLaunchHash {
    std::size_t operator()(const cuda_launch_key &key) const {
        return std::hash<std::string_view>()({reinterpret_cast<const char *>(&key), sizeof(key)});
    }
};
struct CountedLaunchEqual {
    bool operator()(const cuda_launch_key &one, const cuda_launch_key &other) const {
        return std::memcmp(&one, &other, sizeof(one)) == 0;
    }
};
using CountedLaunches =
    std::unordered_map<cuda_launch_key, std::uint64_t, CountedLaunchHash, CountedLaunchEqual>;

}  // namespace gpusnoop::probes
