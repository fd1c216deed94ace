#include "exporter/probes/functions/count/errors.h"

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <regex>
#include <string>
#include <system_error>
#include <vector>

using gpusnoop::probes::error_of;
using gpusnoop::probes::ErrorKind;

namespace {

using Code = std::optional<std::string>;

constexpr std::uint64_t dirt = 0xdead'beef'0000'0000;  // in the half that the type has not

// As the register may hold it: sign-extended, zero-extended, or with anything above.
std::vector<std::uint64_t> registers(int code) {
    const auto low = std::uint64_t{static_cast<std::uint32_t>(code)};
    return {low, low | dirt, static_cast<std::uint64_t>(std::int64_t{code})};
}

void check(ErrorKind kind, int code, const Code &expected) {
    for (const std::uint64_t result : registers(code)) {
        CAPTURE(code, result);
        CHECK(error_of(kind, result) == expected);
    }
}

std::string content(const std::filesystem::path &path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Where this file is, of each CUDA of this machine.
std::vector<std::filesystem::path> folders_with(const std::string &name) {
    std::vector<std::filesystem::path> folders = {"/usr/include"};
    std::error_code error;
    for (const auto &entry : std::filesystem::directory_iterator("/usr/local", error)) {
        if (entry.path().filename().string().starts_with("cuda")) {
            folders.push_back(entry.path() / "include");
        }
    }
    std::erase_if(folders, [&](const auto &folder) { return content(folder / name).empty(); });
    return folders;
}

// The enumerators with this prefix that have a number, in the text from `begin` to `end`.
std::map<int, std::string> names_in(const std::string &text, const std::string &prefix,
                                    const std::string &begin, const std::string &end) {
    const auto first = text.find(begin);
    REQUIRE(first != std::string::npos);
    const auto last = text.find(end, first);
    REQUIRE(last != std::string::npos);
    const std::string part = text.substr(first, last - first);
    const std::regex enumerator("\\b(" + prefix +
                                "\\w+)(?: CUDNN_DEPRECATED_ENUM)?\\s*=\\s*(\\d+)\\b");
    std::map<int, std::string> names;
    for (std::sregex_iterator at(part.begin(), part.end(), enumerator), none; at != none; ++at) {
        names.try_emplace(std::stoi((*at)[2]), (*at)[1]);
    }
    return names;
}

// The value of a macro.
int number_of(const std::string &text, const std::string &macro) {
    std::smatch match;
    const std::regex definition("#define\\s+" + macro + "\\s+(\\d+)");
    REQUIRE(std::regex_search(text, match, definition));
    return std::stoi(match[1]);
}

// Each of the header's numbers has the header's name. A header of the version that the names here
// are of has no other names, a newer one may have more.
void compare(ErrorKind kind, const std::map<int, std::string> &names, int least, int version,
             int known_version) {
    REQUIRE(names.contains(0));  // success
    for (int code = least; code <= 10'000; code++) {
        const auto name = names.find(code);
        const std::string number = "code_" + std::to_string(code);
        const auto shown = error_of(kind, std::uint64_t{static_cast<std::uint32_t>(code)});
        CAPTURE(code, version);
        if (name == names.end()) {
            CHECK((version != known_version || shown == number));
        } else if (version <= known_version || shown != number) {
            CHECK(shown == name->second);
        }
    }
}

}  // namespace

TEST_CASE("cuBLAS says its errors by their names") {
    check(ErrorKind::cublas_status, 0, std::nullopt);
    check(ErrorKind::cublas_status, 1, "CUBLAS_STATUS_NOT_INITIALIZED");
    check(ErrorKind::cublas_status, 2, "code_2");
    check(ErrorKind::cublas_status, 13, "CUBLAS_STATUS_EXECUTION_FAILED");
    check(ErrorKind::cublas_status, 16, "CUBLAS_STATUS_LICENSE_ERROR");
    check(ErrorKind::cublas_status, 17, "code_17");
    check(ErrorKind::cublas_status, INT32_MAX, "code_2147483647");
    check(ErrorKind::cublas_status, INT32_MIN, "code_-2147483648");
    check(ErrorKind::cublas_status, -1, "code_-1");
}

TEST_CASE("cuDNN's errors have the names of its version") {
    check(ErrorKind::cudnn_status, 0, std::nullopt);
    check(ErrorKind::cudnn_status, 3, "CUDNN_STATUS_BAD_PARAM");  // 8
    check(ErrorKind::cudnn_status, 8, "CUDNN_STATUS_EXECUTION_FAILED");
    check(ErrorKind::cudnn_status, 14, "CUDNN_STATUS_VERSION_MISMATCH");
    check(ErrorKind::cudnn_status, 15, "code_15");
    check(ErrorKind::cudnn_status, 1000, "code_1000");
    check(ErrorKind::cudnn_status, 2000, "CUDNN_STATUS_BAD_PARAM");  // 9
    check(ErrorKind::cudnn_status, 2001, "CUDNN_STATUS_INVALID_VALUE");
    check(ErrorKind::cudnn_status, 5000, "CUDNN_STATUS_EXECUTION_FAILED");
    check(ErrorKind::cudnn_status, 5005, "code_5005");
    check(ErrorKind::cudnn_status, -1, "code_-1");
}

TEST_CASE("what NCCL has begun is no error") {
    check(ErrorKind::nccl_result, 0, std::nullopt);
    check(ErrorKind::nccl_result, 7, std::nullopt);
    check(ErrorKind::nccl_result, 1, "ncclUnhandledCudaError");
    check(ErrorKind::nccl_result, 6, "ncclRemoteError");
    check(ErrorKind::nccl_result, 8, "code_8");
    check(ErrorKind::nccl_result, -7, "code_-7");
}

TEST_CASE("CUDA's errors have the runtime's names") {
    check(ErrorKind::cuda_error, 0, std::nullopt);
    check(ErrorKind::cuda_error, 2, "cudaErrorMemoryAllocation");
    check(ErrorKind::cuda_error, 700, "cudaErrorIllegalAddress");
    check(ErrorKind::cuda_error, 123'456, "code_123456");
    check(ErrorKind::cuda_error, -1, "code_-1");
}

TEST_CASE("an errno is a small negative number") {
    check(ErrorKind::errno_value, 0, std::nullopt);
    check(ErrorKind::errno_value, 1, std::nullopt);
    check(ErrorKind::errno_value, ENOENT, std::nullopt);
    check(ErrorKind::errno_value, INT32_MAX, std::nullopt);
    check(ErrorKind::errno_value, -1, "-1");  // errno itself is not seen, it need not be EPERM
    check(ErrorKind::errno_value, -ENOENT, "ENOENT");
    check(ErrorKind::errno_value, -EAGAIN, "EAGAIN");
    check(ErrorKind::errno_value, -EHWPOISON, "EHWPOISON");
    check(ErrorKind::errno_value, -1'000, "-1000");  // nobody's
    check(ErrorKind::errno_value, -4'095, "-4095");
    check(ErrorKind::errno_value, -4'096, std::nullopt);
    check(ErrorKind::errno_value, INT32_MIN, std::nullopt);
}

TEST_CASE("any number but 0 is itself, and the upper half is none of it") {
    check(ErrorKind::nonzero, 0, std::nullopt);
    check(ErrorKind::nonzero, 1, "1");
    check(ErrorKind::nonzero, -1, "-1");
    check(ErrorKind::nonzero, INT32_MAX, "2147483647");
    check(ErrorKind::nonzero, INT32_MIN, "-2147483648");
}

TEST_CASE("a null pointer is null in all its bits") {
    CHECK(error_of(ErrorKind::null, 0) == "null");
    for (const std::uint64_t result :
         {std::uint64_t{1}, dirt, std::uint64_t{1} << 32, ~std::uint64_t{0}}) {
        CHECK(error_of(ErrorKind::null, result) == std::nullopt);
    }
}

TEST_CASE("of other functions the result says nothing") {
    for (const int code : {0, 1, -1, 7, INT32_MIN}) {
        check(ErrorKind::none, code, std::nullopt);
    }
}

TEST_CASE("the names of cuBLAS are those of its header") {
    const auto folders = folders_with("cublas_api.h");
    for (const auto &folder : folders) {
        const std::string text = content(folder / "cublas_api.h");
        const auto names =
            names_in(text, "CUBLAS_STATUS_", "CUBLAS_STATUS_SUCCESS", "cublasStatus_t");
        CHECK(names.size() >= 10);
        compare(ErrorKind::cublas_status, names, 1, number_of(text, "CUBLAS_VER_MAJOR"), 13);
    }
    if (folders.empty()) {
        SKIP("no cublas_api.h");
    }
}

TEST_CASE("the names of cuDNN are those of its header") {
    const auto check_folders = [](const std::string &header, int least) {
        const auto folders = folders_with(header);
        for (const auto &folder : folders) {
            const auto names = names_in(content(folder / header), "CUDNN_STATUS_",
                                        "CUDNN_STATUS_SUCCESS", "cudnnStatus_t");
            CHECK(names.size() >= 12);
            const std::string version = content(folder / "cudnn_version.h");
            compare(ErrorKind::cudnn_status, names, least,
                    number_of(version, "CUDNN_MAJOR") * 100 + number_of(version, "CUDNN_MINOR"),
                    919);
        }
        return !folders.empty();
    };
    const bool has_9 = check_folders("cudnn_graph.h", 1'000);
    const bool has_8 = check_folders("cudnn_ops_infer.h", 1);
    if (!has_9 && !has_8) {
        SKIP("no header of cuDNN");
    }
}

TEST_CASE("the names of NCCL are those of its header") {
    const auto folders = folders_with("nccl.h");
    for (const auto &folder : folders) {
        const std::string text = content(folder / "nccl.h");
        auto names = names_in(text, "nccl", "ncclSuccess", "ncclResult_t;");
        CHECK(names.size() >= 8);
        if (names.contains(7)) {
            CHECK(names[7] == "ncclInProgress");
        }
        std::erase_if(names, [](const auto &row) {
            return row.second == "ncclInProgress" || row.second == "ncclNumResults";
        });
        compare(ErrorKind::nccl_result, names, 8, number_of(text, "NCCL_VERSION_CODE"), 22'809);
        names.erase(0);
        for (const auto &[code, name] : names) {
            check(ErrorKind::nccl_result, code, name);
        }
    }
    if (folders.empty()) {
        SKIP("no nccl.h");
    }
}

TEST_CASE("the names of CUDA's errors are those of its header") {
    const auto folders = folders_with("driver_types.h");
    for (const auto &folder : folders) {
        const auto names =
            names_in(content(folder / "driver_types.h"), "cuda", "cudaSuccess ", "};");
        CHECK(names.size() >= 100);
        compare(ErrorKind::cuda_error, names, 1,
                number_of(content(folder / "cuda_runtime_api.h"), "CUDART_VERSION"), 13'000);
    }
    if (folders.empty()) {
        SKIP("no driver_types.h");
    }
}
