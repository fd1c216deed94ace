// A directory that is deleted with its object.
#pragma once

#include <stdlib.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <string>
#include <system_error>

namespace harness {

class TemporaryDirectory {
public:
    explicit TemporaryDirectory(
        const std::filesystem::path &in = std::filesystem::temp_directory_path()) {
        std::string path = (in / "gpusnoop-test-XXXXXX").string();
        REQUIRE(::mkdtemp(path.data()) != nullptr);
        path_ = path;
    }
    ~TemporaryDirectory() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TemporaryDirectory(const TemporaryDirectory &) = delete;
    TemporaryDirectory &operator=(const TemporaryDirectory &) = delete;

    [[nodiscard]] const std::filesystem::path &path() const { return path_; }
    [[nodiscard]] std::filesystem::path operator/(const std::string &name) const {
        return path_ / name;
    }

private:
    std::filesystem::path path_;
};

}  // namespace harness
