// The functions of bench/library.c, which do nothing, in one of its builds.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/discovery/library.h"

namespace gpusnoop::bench {

struct Shape {
    unsigned x, y, z;
};

struct Functions {
    int (*cuda_malloc)(void **, std::size_t);
    int (*cuda_free)(void *);
    int (*cuda_memcpy)(void *, const void *, std::size_t, int);
    int (*cuda_launch_kernel)(const void *, Shape, Shape, void **, std::size_t, void *);
    int (*cu_launch_kernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                            unsigned, void *, void **, void **);
};

class Library {
public:
    // Loads it into this process.
    static Result<Library> open(const std::filesystem::path &path);
    // A copy of the file in the folder: other functions, which are traced by themselves.
    [[nodiscard]] Result<Library> copy_to(const std::filesystem::path &folder) const;

    [[nodiscard]] const std::string &path() const { return path_; }
    [[nodiscard]] const Functions &functions() const { return functions_; }
    // The functions under names that tracers look for.
    [[nodiscard]] const std::vector<std::string> &traced() const { return traced_; }
    // As discovery would have found it.
    [[nodiscard]] const discovery::Library &found() const { return found_; }
    // The present first instruction of the traced functions: "int3", "call" (an optimized uprobe),
    // or "their own code".
    [[nodiscard]] std::string_view entry_now() const;

private:
    struct Closer {
        void operator()(void *handle) const;
    };

    Result<> look_up();

    std::string path_;
    std::unique_ptr<void, Closer> handle_;
    Functions functions_{};
    std::vector<std::string> traced_;
    const unsigned char *first_ = nullptr;
    discovery::Library found_;
};

}  // namespace gpusnoop::bench
