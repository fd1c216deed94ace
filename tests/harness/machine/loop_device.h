// A block device that nobody else uses, over a file in memory.
#pragma once

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "exporter/base/fd.h"

namespace harness {

class LoopDevice {
public:
    // Empty: this machine has none, or lets nobody make one.
    static std::optional<LoopDevice> make(std::uint64_t bytes) {
        const gpusnoop::Fd control(::open("/dev/loop-control", O_RDWR | O_CLOEXEC));
        const int number = ::ioctl(control.get(), LOOP_CTL_GET_FREE);
        if (number < 0) {
            return std::nullopt;
        }
        LoopDevice device;
        device.name_ = "loop" + std::to_string(number);
        // There may be nobody who makes nodes in /dev.
        (void)::mknod(device.path().c_str(), S_IFBLK | 0600,
                      makedev(7U, static_cast<unsigned>(number)));
        device.fd_ = gpusnoop::Fd(::open(device.path().c_str(), O_RDWR | O_CLOEXEC));
        const gpusnoop::Fd memory(::memfd_create("disk", MFD_CLOEXEC));
        if (!device.fd_ || ::ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0 ||
            ::ioctl(device.fd_.get(), LOOP_SET_FD, memory.get()) != 0) {
            return std::nullopt;
        }
        // Each access is a request, also beside that of another program.
        std::ofstream("/sys/block/" + device.name_ + "/queue/nomerges") << 2;
        return device;
    }
    ~LoopDevice() {
        if (fd_) {
            (void)::ioctl(fd_.get(), LOOP_CLR_FD, 0);
        }
    }
    LoopDevice(LoopDevice &&) = default;
    LoopDevice &operator=(LoopDevice &&) = delete;
    LoopDevice(const LoopDevice &) = delete;
    LoopDevice &operator=(const LoopDevice &) = delete;

    // Whether the kernel has this I/O scheduler ("none": no scheduler), which it uses from now on.
    [[nodiscard]] bool use_scheduler(const std::string &scheduler) const {
        const std::string file = "/sys/block/" + name_ + "/queue/scheduler";
        std::ofstream(file) << scheduler;
        std::string used;
        std::getline(std::ifstream(file), used);
        return used == scheduler || used.find('[' + scheduler + ']') != std::string::npos;
    }

    [[nodiscard]] const std::string &name() const { return name_; }
    [[nodiscard]] std::string path() const { return "/dev/" + name_; }

private:
    LoopDevice() = default;

    std::string name_;
    gpusnoop::Fd fd_;
};

}  // namespace harness
