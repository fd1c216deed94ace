// A copy of the library with traced functions, for tests that run beside others.
#pragma once

#include <filesystem>

#include "tests/harness/exporter.h"
#include "tests/harness/machine/directory.h"
#include "tests/harness/process.h"

namespace harness {

// Programs load it as libcalls.so.1. Exporters know it by a name that those of the tests that run
// beside this one do not look for: these calls would keep their accounts from being at rest.
struct OwnCopy {
    static constexpr const char *name = "own_copy.so";

    TemporaryDirectory directory;

    OwnCopy() {
        std::filesystem::copy_file(standin("libcalls.so.1"), library());
        std::filesystem::create_symlink(name, directory / "libcalls.so.1");
    }
    [[nodiscard]] std::filesystem::path library() const { return directory / name; }
    [[nodiscard]] Process::Environment environment() const {
        return {{"LD_LIBRARY_PATH", directory.path().string()}};
    }
};

}  // namespace harness
