#include <dlfcn.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/symbols/names/cuda_errors.h"

using gpusnoop::probes::cuda_driver_error_name;
using gpusnoop::probes::cuda_error_name;
using gpusnoop::probes::cupti_error_name;

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

struct Header {
    int version = 0;
    std::map<int, std::string> names;  // of CUresult
};

// The cuda.h of this machine; without names if it has none.
Header read_header() {
    const char *home = std::getenv("CUDA_HOME");
    std::ifstream file;
    if (home != nullptr && *home != '\0') {
        file.open(std::string(home) + "/include/cuda.h");
    }
    if (!file.is_open()) {
        file.open("/usr/local/cuda/include/cuda.h");
    }
    const std::regex version(R"(#define CUDA_VERSION (\d+).*)");
    const std::regex enumerator(R"(\s+(CUDA_\w+)\s*=\s*(\d+),?\s*)");
    Header header;
    bool inside = false;
    std::smatch match;
    for (std::string line; std::getline(file, line);) {
        inside = (inside || line.starts_with("typedef enum cudaError_enum")) &&
                 !line.starts_with("} CUresult;");
        if (std::regex_match(line, match, version)) {
            header.version = std::stoi(match[1]);
        } else if (inside && std::regex_match(line, match, enumerator)) {
            header.names[std::stoi(match[2])] = match[1];
        }
    }
    return header;
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

TEST_CASE("names of CUDA driver errors", "[cuda_errors]") {
    CHECK(cuda_driver_error_name(0) == "CUDA_SUCCESS");
    CHECK(cuda_driver_error_name(2) == "CUDA_ERROR_OUT_OF_MEMORY");
    CHECK(cuda_driver_error_name(201) == "CUDA_ERROR_INVALID_CONTEXT");
    CHECK(cuda_driver_error_name(916) == "CUDA_ERROR_KEY_ROTATION");
    CHECK(cuda_driver_error_name(999) == "CUDA_ERROR_UNKNOWN");
    for (const int code : {-1, 9, 998, 1000, 10000, 2147483647, -2147483647 - 1}) {
        CHECK(cuda_driver_error_name(code).empty());
    }
}

TEST_CASE("names of CUDA driver errors are those of cuda.h", "[cuda_errors]") {
    const Header header = read_header();
    if (header.names.empty()) {
        SKIP("no cuda.h in CUDA_HOME or /usr/local/cuda");
    }
    CAPTURE(header.version);
    for (int code = 0; code < 2000; ++code) {
        CAPTURE(code);
        const auto theirs = header.names.find(code);
        if (theirs != header.names.end()) {
            CHECK(cuda_driver_error_name(code) == theirs->second);
        } else if (header.version == 13000) {  // the version that the table is from
            CHECK(cuda_driver_error_name(code).empty());
        }
    }
    CHECK(header.names.size() > 90);
}

TEST_CASE("names of CUDA driver errors are those of the driver", "[cuda_errors]") {
    void *const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (driver == nullptr) {
        SKIP("no libcuda.so.1: no NVIDIA driver");
    }
    using Version = int (*)(int *);
    using ErrorName = int (*)(int, const char **);
    const auto version_of = reinterpret_cast<Version>(::dlsym(driver, "cuDriverGetVersion"));
    const auto error_name = reinterpret_cast<ErrorName>(::dlsym(driver, "cuGetErrorName"));
    REQUIRE(version_of != nullptr);
    REQUIRE(error_name != nullptr);
    int version = 0;
    CHECK(version_of(&version) == 0);
    CAPTURE(version);
    int known = 0;
    for (int code = 0; code < 2000; ++code) {
        CAPTURE(code);
        const char *theirs = nullptr;
        if (error_name(code, &theirs) == 0 && theirs != nullptr) {
            ++known;
            const std::string_view ours = cuda_driver_error_name(code);
            // A newer driver has names that the table cannot have.
            CHECK((ours == theirs || (ours.empty() && version >= 13010)));
        }
    }
    CHECK(known > 90);
}

TEST_CASE("names of CUPTI's errors") {
    CHECK(cupti_error_name(0) == "CUPTI_SUCCESS");
    CHECK(cupti_error_name(39) == "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED");
    CHECK(cupti_error_name(999) == "CUPTI_ERROR_UNKNOWN");
    for (const int code : {-1, 998, 1000, 2147483647}) {
        CHECK(cupti_error_name(code).empty());
    }
}

TEST_CASE("names of CUPTI's errors are those of its header") {
    const char *home = std::getenv("CUDA_HOME");
    std::ifstream file(std::string(home != nullptr ? home : "/usr/local/cuda") +
                       "/include/cupti_result.h");
    if (!file.is_open()) {
        SKIP("there is no cupti_result.h on this machine");
    }
    const std::regex enumerator(R"(\s+(CUPTI_\w+)\s*=\s*(\d+)\s*,?\s*)");
    std::smatch match;
    int names = 0;
    for (std::string line; std::getline(file, line);) {
        if (std::regex_match(line, match, enumerator)) {
            CAPTURE(line);
            const std::string_view name = cupti_error_name(std::stoi(match[2]));
            CHECK((name == match[1].str() || name.empty()));  // newer than the table
            names++;
        }
    }
    CHECK(names > 40);
}
