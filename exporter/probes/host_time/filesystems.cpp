#include "exporter/probes/host_time/filesystems.h"

#include <algorithm>
#include <array>
#include <utility>

namespace gpusnoop::probes {

namespace {

// From the kernel's include/uapi/linux/magic.h and the sources of its file systems, and for those
// that are not in it, from statfs(2) and from the names that stat(1) prints.
constexpr std::array<std::pair<std::uint32_t, std::string_view>, 21> filesystem_names = {{
    {0x00000000, "unknown"}, {0x0000ef53, "ext4"},  {0x58465342, "xfs"},      {0x9123683e, "btrfs"},
    {0x2fc12fc1, "zfs"},     {0xf2f52010, "f2fs"},  {0x73717368, "squashfs"}, {0x00006969, "nfs"},
    {0x0bd00bd0, "lustre"},  {0x47504653, "gpfs"},  {0x19830326, "beegfs"},   {0x00c36400, "ceph"},
    {0x65735546, "fuse"},    {0x01021997, "9p"},    {0xff534d42, "cifs"},     {0xfe534d42, "cifs"},
    {0x794c7630, "overlay"}, {0x01021994, "tmpfs"}, {0x62646576, "block"},    {0x00009fa0, "proc"},
    {0x62656572, "sysfs"},
}};

}  // namespace

std::string_view filesystem_name(std::uint32_t magic) {
    const auto *const found = std::ranges::find(filesystem_names, magic,
                                                &std::pair<std::uint32_t, std::string_view>::first);
    return found == filesystem_names.end() ? "other" : found->second;
}

}  // namespace gpusnoop::probes
