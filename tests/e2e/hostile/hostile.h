// Programs and files of a user who wants to keep the exporter busy or waiting.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/child.h"
#include "tests/harness/machine/hanging_file_system.h"
#include "tests/harness/process.h"

namespace e2e {

inline constexpr uid_t nobody = 65534;

// A copy of a library or a program that takes no more room on the disk, but has a table of that
// many symbols without names.
void make_sparse(const std::filesystem::path &original, const std::filesystem::path &path,
                 std::uint64_t symbols);
// The same of the stand-in runtime.
void make_sparse_library(const std::filesystem::path &path, std::uint64_t symbols);

// Maps these files as code, as the user nobody; then there is a file at `mapped`. For the body of a
// child.
void map_as_nobody(const std::vector<std::filesystem::path> &files,
                   const std::filesystem::path &mapped);

// A process that keeps its mappings locked from lock() on. Then its name is "locker", its user is
// nobody, and it does nothing more: BPF programs see none of it.
class LocksItsMappings {
public:
    // It also maps these files, to read them.
    explicit LocksItsMappings(std::vector<std::filesystem::path> also_maps = {});
    void lock() const;
    // It goes on running then.
    void unlock() { files_.reset(); }
    [[nodiscard]] pid_t pid() const { return user_->pid(); }

private:
    [[nodiscard]] int run() const;

    std::vector<std::filesystem::path> also_maps_;
    std::unique_ptr<Child> user_;  // ends after the file system, for which its end would wait
    harness::TemporaryDirectory directory_;
    std::unique_ptr<harness::HangingFileSystem> files_;
};

// A process of nobody's that has mapped its own copy of the runtime 60,000 times, and does so once
// more all the time.
class MapsAllTheTime {
public:
    MapsAllTheTime();

private:
    [[nodiscard]] int run() const;

    harness::TemporaryDirectory directory_;
    std::unique_ptr<Child> user_;
};

// A process of nobody's, with the name "addresses", that launches kernels at thousands of
// addresses. Its file has millions of symbols to look for them in, which an exporter does that was
// started later.
class LaunchesAtAnyAddress {
public:
    LaunchesAtAnyAddress();

private:
    harness::TemporaryDirectory directory_;
    std::unique_ptr<harness::Process> program_;
};

// A process of nobody's, with the name "pythons", that runs all the time and maps 20 files with the
// name of Python's library, each with millions of symbols.
class HasPythons {
public:
    HasPythons();

private:
    harness::TemporaryDirectory directory_;
    std::unique_ptr<Child> user_;
};

// A process of nobody's, with the name "stacks", that runs code which it has made. The map of that
// code takes half a minute to read.
class HasSlowMap {
public:
    HasSlowMap();
    ~HasSlowMap();
    HasSlowMap(const HasSlowMap &) = delete;
    HasSlowMap &operator=(const HasSlowMap &) = delete;

private:
    harness::TemporaryDirectory directory_;
    harness::HangingFileSystem files_;
    harness::Process program_;
    std::filesystem::path path_;
};

}  // namespace e2e
