// Cgroups that a test makes, for the processes that it starts.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace harness {

// The directory of the v2 hierarchy, or of the freezer's v1 hierarchy; empty: not mounted.
inline std::filesystem::path mounted(bool is_v2) {
    std::ifstream mounts("/proc/self/mounts");
    for (std::string line; std::getline(mounts, line);) {
        std::istringstream words(line);
        std::string device;
        std::string at;
        std::string type;
        std::string options;
        words >> device >> at >> type >> options;
        if (is_v2 ? type == "cgroup2"
                  : type == "cgroup" &&
                        ("," + options + ",").find(",freezer,") != std::string::npos) {
            return at;
        }
    }
    return {};
}

// A cgroup with this path, gone with this object: then nothing may run in it.
class Cgroup {
public:
    Cgroup(const std::filesystem::path &root, const std::string &path) : root_(root) {
        std::filesystem::path at = root;
        for (const std::filesystem::path &name : std::filesystem::path(path)) {
            at /= name;
            if (::mkdir(at.c_str(), 0755) == 0) {
                made_.push_back(at);
            }
        }
        path_ = at;
        REQUIRE(std::filesystem::exists(path_ / "cgroup.procs"));
    }
    ~Cgroup() {
        for (auto at = made_.rbegin(); at != made_.rend(); ++at) {
            ::rmdir(at->c_str());
        }
    }
    Cgroup(const Cgroup &) = delete;
    Cgroup &operator=(const Cgroup &) = delete;

    [[nodiscard]] std::vector<std::string> enter() const {
        return {"sh", "-c", "echo $$ >" + (path_ / "cgroup.procs").string() + " && exec \"$@\"",
                "sh"};
    }

private:
    std::filesystem::path root_;
    std::filesystem::path path_;
    std::vector<std::filesystem::path> made_;
};

}  // namespace harness
