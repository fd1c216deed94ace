#include "exporter/discovery/driver_library.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "exporter/base/read_file.h"

namespace gpusnoop::discovery {

namespace {

constexpr std::string_view driver = "libcuda.so.1";
constexpr std::size_t max_cache_bytes = 4U << 20;
constexpr std::uint32_t max_cache_entries = 65'536;

// A cache may begin with one of an older format. Offsets of names count from this on.
constexpr std::string_view magic = "glibc-ld.so.cache1.1";

// As glibc's sysdeps/generic/dl-cache.h has them.
struct CacheHeader {
    char magic[20];
    std::uint32_t entries;
    std::uint32_t name_bytes;
    std::uint32_t others[5];
};
static_assert(sizeof(CacheHeader) == 48);

struct CacheEntry {
    std::uint32_t flags;
    std::uint32_t name;
    std::uint32_t path;
    std::uint32_t os_version;
    std::uint64_t hardware;
};
static_assert(sizeof(CacheEntry) == 24);

// FLAG_ELF_LIBC6, and the ABI of this program.
#if defined(__x86_64__)
constexpr std::uint32_t own_abi = 0x0303;
#elif defined(__aarch64__)
constexpr std::uint32_t own_abi = 0x0a03;
#endif

template <typename T>
std::optional<T> read_at(std::string_view bytes, std::size_t at) {
    T value;
    if (at > bytes.size() || bytes.size() - at < sizeof(value)) {
        return std::nullopt;
    }
    std::memcpy(&value, bytes.data() + at, sizeof(value));
    return value;
}

std::string_view text_at(std::string_view bytes, std::size_t at) {
    if (at >= bytes.size()) {
        return {};
    }
    bytes.remove_prefix(at);
    const std::size_t end = bytes.find('\0');
    return end == std::string_view::npos ? std::string_view() : bytes.substr(0, end);
}

// Of packages for Debian and others, RHEL and others, containers of NVIDIA's toolkit, the driver
// containers of the GPU operator, Container-Optimized OS, WSL, NixOS.
constexpr std::string_view folders[] = {
#if defined(__x86_64__)
    "/usr/lib/x86_64-linux-gnu",
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu",
#elif defined(__aarch64__)
    "/usr/lib/aarch64-linux-gnu",
    "/run/nvidia/driver/usr/lib/aarch64-linux-gnu",
#endif
    "/usr/lib64",
    "/usr/lib",
    "/run/nvidia/driver/usr/lib64",
    "/usr/local/nvidia/lib64",
    "/home/kubernetes/bin/nvidia/lib64",
    "/usr/lib/wsl/lib",
    "/run/opengl-driver/lib",
};

}  // namespace

std::vector<std::string> paths_in_linker_cache(std::string_view cache, std::string_view library,
                                               std::uint32_t flags) {
    const std::size_t begin = cache.find(magic);
    if (begin == std::string_view::npos) {
        return {};
    }
    cache.remove_prefix(begin);
    const auto header = read_at<CacheHeader>(cache, 0);
    const std::uint32_t entries = header ? std::min(header->entries, max_cache_entries) : 0;
    std::vector<std::string> paths;
    for (std::uint32_t n = 0; n < entries; n++) {
        const auto entry = read_at<CacheEntry>(cache, sizeof(CacheHeader) + n * sizeof(CacheEntry));
        if (!entry) {
            break;
        }
        const std::string_view path = text_at(cache, entry->path);
        if (entry->flags == flags && text_at(cache, entry->name) == library &&
            path.starts_with('/')) {
            paths.emplace_back(path);
        }
    }
    return paths;
}

std::vector<std::string> driver_library_paths(const std::string &root) {
    const auto cache = read_start(root + "/etc/ld.so.cache", max_cache_bytes);
    std::vector<std::string> paths = paths_in_linker_cache(cache.value_or(""), driver, own_abi);
    for (const std::string_view folder : folders) {
        std::string path = std::string(folder) + "/" + std::string(driver);
        if (std::ranges::find(paths, path) == paths.end()) {
            paths.push_back(std::move(path));
        }
    }
    return paths;
}

}  // namespace gpusnoop::discovery
