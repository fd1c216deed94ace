#include "exporter/discovery/host_mounts.h"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <set>
#include <string>

#include "tests/harness/machine/directory.h"

using namespace gpusnoop;
using namespace gpusnoop::discovery;

TEST_CASE("the host keeps the file systems where programs are installed") {
    const Mounts mounts(
        "25 1 259:2 / / rw,relatime shared:1 - ext4 /dev/root rw\n"
        "26 25 0:6 / /dev rw - devtmpfs udev rw\n"
        "40 25 259:3 / /usr ro shared:5 - ext4 /dev/nvme0n1p3 ro\n"
        "41 25 259:4 / /home rw - ext4 /dev/nvme0n1p4 rw\n"
        "42 41 0:50 / /home rw - nfs4 server:/home rw\n"
        "43 25 8:17 / /mnt/usb rw - vfat /dev/sdb1 rw\n"
        "44 25 0:60 / /var/lib/containers/1/merged rw - overlay overlay rw\n"
        "45 25 0:61 / /opt\\040x rw - tmpfs tmpfs rw\n"
        "47 25 259:2 /srv /mnt/bind rw - ext4 /dev/root rw\n"
        "x 25 0:62 / /opt rw - tmpfs tmpfs rw\n"
        "46\n");
    CHECK(mounts.lasting_devices() == std::set<std::string>{"259:2", "259:3", "0:50"});
    CHECK(mounts.device(43) == "8:17");
    CHECK(mounts.device(47) == "259:2");
    CHECK_FALSE(mounts.device(46));
    CHECK_FALSE(mounts.device(1));
    CHECK(Mounts("").lasting_devices().empty());
}

TEST_CASE("only files on such a file system are on a lasting mount") {
    const auto self = static_cast<std::uint32_t>(::getpid());
    const Fd status(::open("/proc/self/status", O_RDONLY | O_CLOEXEC));
    CHECK_FALSE(is_on_lasting_mount(status, self));
    CHECK_FALSE(is_on_lasting_mount(Fd(), self));
    CHECK_FALSE(is_on_lasting_mount(status, 0));
    const auto mount = mount_of(status);
    REQUIRE(mount);
    CHECK(Mounts::of_process(self).device(*mount));
}

TEST_CASE("a file is known by its mount, and knows when its last name is gone") {
    const harness::TemporaryDirectory directory;
    const auto path = directory / "file";
    std::ofstream(path) << "x";
    const Fd file(::open(path.c_str(), O_PATH | O_CLOEXEC));
    const Fd other(::open("/proc/self/status", O_RDONLY | O_CLOEXEC));
    REQUIRE(mount_of(file));
    REQUIRE(mount_of(other));
    CHECK(mount_of(file) != mount_of(other));
    CHECK(mount_of(file) == mount_of(Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC))));
    CHECK_FALSE(mount_of(Fd()));
    CHECK_FALSE(is_deleted(file));
    ::unlink(path.c_str());
    CHECK(is_deleted(file));
}
