// Files and memory whose contents are not in memory when a thread asks for them.

#pragma once

#include <cstddef>

namespace spends {

inline constexpr std::size_t kMiB = std::size_t{1} << 20U;
inline constexpr std::size_t kPage = 4096;

// A file of so many bytes, none of which is in memory.
int cold_file(const char *path, std::size_t bytes);

// Reads so much of the file from its beginning.
void read_through(int file, int mib);
// Touches so many pages of the file through a mapping, each some pages after the one before.
class Mapping {
public:
    Mapping(int file, int pages);
    ~Mapping();
    Mapping(const Mapping &) = delete;
    Mapping &operator=(const Mapping &) = delete;

    static std::size_t bytes(int pages) {
        return static_cast<std::size_t>(pages) * kPage * kStride;
    }
    void touch(int pages) const;

private:
    static constexpr std::size_t kStride = 8;
    volatile char *memory_;
    std::size_t bytes_;
};
// Writes a byte and waits for the disk, so often.
void write_through(int file, int times);

// Reads so many pages here and there of a file that it makes at the first time, and which is cold
// again each time.
void read_cold(const char *path, int pages);

// Writes to so many pages, here and there in memory of so many MiB that it keeps.
void touch_memory(int mib, int pages);

}  // namespace spends
