// A container image for a chroot: the workloads, and everything that they need to run.
#pragma once

#include <filesystem>
#include <string>

#include "tests/harness/process.h"

namespace e2e {

// Where the CUDA runtime and driver are inside the image.
inline constexpr const char *image_library = "/opt/cuda/libcudart.so.12";
inline constexpr const char *image_driver = "/opt/cuda/libcuda.so.1";

void make_image(const std::filesystem::path &directory);

// How a container makes the image its root: as runtimes do, or as old scripts do, which leaves the
// namespace's root where it was.
enum class Enter { pivot_root, chroot };

// A workload in a mount namespace of its own, in which `mount` (a shell script) has put an image at
// "$1". Its truth is in /truth, and it waits for /go.
class Container {
public:
    Container(const std::string &mount, const std::string &comm, Enter enter = Enter::pivot_root,
              const std::string &workload = "workload");

    [[nodiscard]] harness::Process &process() { return process_; }
    // The path from outside of what is at `path` inside.
    [[nodiscard]] std::filesystem::path outside(const std::string &path) const;
    void wait_until_ready() const { process_.wait_for_output("ready"); }
    // Lets it make its calls, and returns when it has.
    void go() const;

private:
    harness::TemporaryDirectory root_;
    harness::Process process_;
};

}  // namespace e2e
