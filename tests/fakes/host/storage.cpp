#include "host/storage.h"

#include "host/states.h"

#include <array>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace spends {

namespace {

// Coprime with the number of pages: visits all of them, and no two that the kernel reads together.
constexpr std::size_t kJump = 1009;

}  // namespace

int cold_file(const char *path, std::size_t bytes) {
    const int file = ::open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    check(file >= 0, path);
    const std::vector<char> data(kMiB, 'x');
    for (std::size_t written = 0; written < bytes; written += kMiB) {
        check(::write(file, data.data(), data.size()) > 0, "write");
    }
    check(::fsync(file) == 0, "fsync");
    ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    ::posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
    return file;
}

void read_through(int file, int mib) {
    std::vector<char> data(kMiB);
    for (int i = 0; i < mib; i++) {
        check(::pread(file, data.data(), kMiB, static_cast<off_t>(i) * 1'048'576) > 0, "pread");
    }
}

Mapping::Mapping(int file, int pages)
    : memory_(static_cast<volatile char *>(
          ::mmap(nullptr, bytes(pages), PROT_READ, MAP_SHARED, file, 0))),
      bytes_(bytes(pages)) {
    ::madvise(const_cast<char *>(memory_), bytes_, MADV_RANDOM);
}

Mapping::~Mapping() {
    ::munmap(const_cast<char *>(memory_), bytes_);
}

void Mapping::touch(int pages) const {
    for (int i = 0; i < pages; i++) {
        (void)memory_[static_cast<std::size_t>(i) * kPage * kStride];
    }
}

void write_through(int file, int times) {
    for (int i = 0; i < times; i++) {
        check(::pwrite(file, "a", 1, i) == 1 && ::fsync(file) == 0, "fsync");
    }
}

void read_cold(const char *path, int pages) {
    constexpr std::size_t all = 64 * kMiB / kPage;
    static const int file = [path] {
        const int made = cold_file(path, all * kPage);
        ::unlink(path);
        return made;
    }();
    ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    static std::size_t at = 0;
    std::array<char, kPage> page{};
    for (int i = 0; i < pages; i++) {
        at = (at + kJump) % all;
        check(::pread(file, page.data(), kPage, static_cast<off_t>(at * kPage)) > 0, "pread");
    }
}

void touch_memory(int mib, int pages) {
    const std::size_t all = static_cast<std::size_t>(mib) * kMiB / kPage;
    static auto *const memory = static_cast<volatile char *>(
        ::mmap(nullptr, all * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    static std::size_t at = 0;
    ::madvise(const_cast<char *>(memory), all * kPage, MADV_NOHUGEPAGE);
    for (int i = 0; i < pages; i++) {
        at = (at + kJump) % all;
        memory[at * kPage] = 'x';
    }
}

}  // namespace spends
