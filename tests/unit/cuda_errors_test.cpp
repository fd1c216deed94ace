#include "exporter/probes/cuda_errors.h"

#include <dlfcn.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

using gpusnoop::probes::cuda_error_name;

namespace {

// A CUDA runtime of this machine, nullptr if it has none.
void *open_runtime() {
    std::vector<std::string> folders;
    if (const char *home = std::getenv("CUDA_HOME"); home != nullptr && *home != '\0') {
        folders.push_back(std::string(home) + "/lib64/");
    }
    folders.insert(folders.end(), {"/usr/local/cuda/lib64/", ""});  // "" is the loader's own search
    for (const std::string &folder : folders) {
        for (const char *name : {"libcudart.so.13", "libcudart.so.12", "libcudart.so"}) {
            if (void *runtime = ::dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL)) {
                return runtime;
            }
        }
    }
    return nullptr;
}

}  // namespace

TEST_CASE("names of CUDA errors", "[cuda_errors]") {
    CHECK(cuda_error_name(0) == "cudaSuccess");
    CHECK(cuda_error_name(2) == "cudaErrorMemoryAllocation");
    CHECK(cuda_error_name(999) == "cudaErrorUnknown");
    CHECK(cuda_error_name(10000) == "cudaErrorApiFailureBase");
    for (const int code : {-1, 10, 998, 1000, 10001, 2147483647, -2147483647 - 1}) {
        CHECK(cuda_error_name(code).empty());
    }
}

TEST_CASE("names of CUDA errors are those of the CUDA runtime", "[cuda_errors]") {
    void *const runtime = open_runtime();
    if (runtime == nullptr) {
        SKIP("no libcudart in CUDA_HOME, /usr/local/cuda or the loader's search path");
    }
    using Version = int (*)(int *);
    using ErrorName = const char *(*)(int);
    const auto version_of = reinterpret_cast<Version>(::dlsym(runtime, "cudaRuntimeGetVersion"));
    const auto error_name = reinterpret_cast<ErrorName>(::dlsym(runtime, "cudaGetErrorName"));
    REQUIRE(version_of != nullptr);
    REQUIRE(error_name != nullptr);
    int version = 0;
    CHECK(version_of(&version) == 0);
    CAPTURE(version);

    const std::string_view unknown = error_name(1999);
    int known = 0;
    for (int code = 0; code < 2000; ++code) {
        CAPTURE(code);
        const std::string_view theirs = error_name(code);
        const std::string_view ours = cuda_error_name(code);
        if (theirs != unknown) {
            ++known;
            CHECK(ours == theirs);
        } else if (version >= 13000 && version < 13010) {  // the version that the table is from
            CHECK(ours.empty());
        }
    }
    CHECK(known > 100);
}
