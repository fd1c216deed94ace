// Where exporters of a test pin.
#pragma once

#include <sys/mount.h>

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "tests/harness/exporter.h"
#include "tests/harness/machine/directory.h"
#include "tests/harness/process.h"

namespace harness {

// A directory of pins, in a file system of its own, that is gone with the test.
struct PinDirectory {
    const TemporaryDirectory file_system;
    const std::string path = (file_system / "gpusnoop").string();

    PinDirectory() { REQUIRE(::mount("bpf", file_system.path().c_str(), "bpf", 0, nullptr) == 0); }
    PinDirectory(const PinDirectory &) = delete;
    PinDirectory &operator=(const PinDirectory &) = delete;
    ~PinDirectory() {
        (void)unpin();
        ::umount2(file_system.path().c_str(), MNT_DETACH);
    }

    [[nodiscard]] std::string config(const std::string &mode = "auto") const {
        return "cuda:\n  attach: " + mode + "\n  pin: true\n  pin_path: " + path + "\n";
    }
    // With the default, which pins if the exporter is supervised.
    [[nodiscard]] std::string default_config(const std::string &mode = "auto") const {
        return "cuda:\n  attach: " + mode + "\n  pin_path: " + path + "\n";
    }
    [[nodiscard]] Finished unpin() const {
        const TemporaryDirectory directory;
        write_file(directory / "config.yaml", "cuda:\n  pin_path: " + path + "\n");
        return run(
            {exporter_binary(), "unpin", "--config.file=" + (directory / "config.yaml").string()});
    }
};

}  // namespace harness
