// What the NVIDIA driver shows of a node's GPUs below /proc, for discovery.nvidia_proc_path.
#pragma once

#include <filesystem>
#include <string>

#include "tests/harness/exporter.h"
#include "tests/harness/machine/directory.h"

namespace harness {

class GpuNode {
public:
    // GPU k is at the address 0000:(3+k)b:00.0, and its UUID begins with GPU-0000000k.
    explicit GpuNode(int gpus) {
        for (int gpu = 0; gpu < gpus; gpu++) {
            std::filesystem::create_directories(information(gpu).parent_path());
            write_file(information(gpu),
                       "Model: \t\t NVIDIA H200\nIRQ:   \t\t 42\nGPU UUID: \t "
                       "GPU-0000000" +
                           std::to_string(gpu) +
                           "-1111-2222-3333-444444444444\nVideo BIOS: \t 96\nBus Type: \t PCIe\n"
                           "Bus Location: \t " +
                           address_of(gpu) + "\nDevice Minor: \t " + std::to_string(gpu) +
                           "\nGPU Excluded:\t No\n");
        }
    }

    // A line of the configuration.
    [[nodiscard]] std::string config() const { return "discovery: {" + setting() + "}\n"; }
    [[nodiscard]] std::string setting() const {
        return "nvidia_proc_path: " + files_.path().string();
    }

    // The file that describes a GPU.
    [[nodiscard]] std::filesystem::path information(int gpu) const {
        return files_ / ("gpus/" + address_of(gpu) + "/information");
    }

private:
    static std::string address_of(int gpu) { return "0000:" + std::to_string(3 + gpu) + "b:00.0"; }

    TemporaryDirectory files_;
};

}  // namespace harness
