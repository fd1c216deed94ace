#include "bench/call_cost/library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <utility>

namespace gpusnoop::bench {

void Library::Closer::operator()(void *handle) const {
    ::dlclose(handle);
}

Result<Library> Library::open(const std::filesystem::path &path) {
    Library library;
    library.path_ = path.string();
    Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status{};
    if (!file || ::fstat(file.get(), &status) != 0) {
        return fail_errno("open " + library.path_);
    }
    library.found_.id = {status.st_ino, 0, 0, 0};
    library.found_.file = std::move(file);
    library.found_.name = path.filename().string();
    library.handle_.reset(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL));
    if (!library.handle_) {
        return fail(std::string("load a library: ") + ::dlerror());
    }
    if (auto found = library.look_up(); !found) {
        return tl::unexpected(found.error());
    }
    return library;
}

Result<Library> Library::copy_to(const std::filesystem::path &folder) const {
    const std::filesystem::path copy = folder / std::filesystem::path(path_).filename();
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    std::filesystem::copy_file(path_, copy, error);
    if (error) {
        return fail("copy " + path_ + " to " + folder.string() + ": " + error.message());
    }
    return open(copy);
}

Result<> Library::look_up() {
    constexpr std::array names = {"cudaMalloc",       "cudaFree",       "cudaMemcpy",
                                  "cudaLaunchKernel", "cuLaunchKernel", "cuMemAlloc_v2",
                                  "cuMemFree_v2"};
    std::array<void *, names.size()> found{};
    for (std::size_t i = 0; i < names.size(); i++) {
        found[i] = ::dlsym(handle_.get(), names[i]);
        if (found[i] != nullptr) {
            traced_.emplace_back(names[i]);
            first_ = static_cast<const unsigned char *>(found[i]);
        } else {
            found[i] = ::dlsym(handle_.get(), (std::string("untraced_") + names[i]).c_str());
        }
        if (found[i] == nullptr) {
            return fail(path_ + " has no " + names[i]);
        }
    }
    functions_ = {reinterpret_cast<decltype(Functions::cuda_malloc)>(found[0]),
                  reinterpret_cast<decltype(Functions::cuda_free)>(found[1]),
                  reinterpret_cast<decltype(Functions::cuda_memcpy)>(found[2]),
                  reinterpret_cast<decltype(Functions::cuda_launch_kernel)>(found[3]),
                  reinterpret_cast<decltype(Functions::cu_launch_kernel)>(found[4])};
    return {};
}

std::string_view Library::entry_now() const {
    switch (*static_cast<const volatile unsigned char *>(first_)) {
        case 0xcc:
            return "int3";
        case 0xe8:
            return "call";
        default:
            return "their own code";
    }
}

}  // namespace gpusnoop::bench
