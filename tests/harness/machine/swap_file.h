// A file that the machine swaps to. Nothing does that but cgroups that have too little memory, as
// long as the machine has enough.
#pragma once

#include <sys/swap.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/harness/machine/directory.h"
#include "tests/harness/process.h"

namespace harness {

class SwapFile {
public:
    explicit SwapFile(std::size_t mib) {
        const std::vector<char> zeros(std::size_t{1} << 20);
        std::ofstream file(path_);
        for (std::size_t i = 0; i < mib; i++) {
            file.write(zeros.data(), static_cast<std::streamsize>(zeros.size()));
        }
        file.close();
        std::filesystem::permissions(
            path_, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
        is_used_ = run({"mkswap", path_}).code == 0 && ::swapon(path_.c_str(), 0) == 0;
    }
    ~SwapFile() {
        if (is_used_) {
            ::swapoff(path_.c_str());
        }
    }
    SwapFile(const SwapFile &) = delete;
    SwapFile &operator=(const SwapFile &) = delete;

    // False: this machine, or the file system, lets nobody swap.
    [[nodiscard]] bool is_used() const { return is_used_; }

private:
    TemporaryDirectory directory_;
    std::string path_ = (directory_ / "swap").string();
    bool is_used_ = false;
};

}  // namespace harness
