#include "exporter/ebpf/nothing.h"

#include <link.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <string>

namespace gpusnoop::ebpf {

// The shortest program: return 0.
Result<Fd> load_nothing(bpf_prog_type type, int expected_attach_type) {
    const std::array<bpf_insn, 2> code = {{
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0},
        {.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0},
    }};
    LIBBPF_OPTS(bpf_prog_load_opts, options);
    options.expected_attach_type = static_cast<bpf_attach_type>(expected_attach_type);
    const int fd = bpf_prog_load(type, "gpusnoop_test", "GPL", code.data(), code.size(), &options);
    if (fd < 0) {
        return fail_errno("load a BPF program", -fd);
    }
    return Fd(fd);
}

Result<Fd> link_nothing(int program, int attach_type, int file, std::uint64_t offset,
                        std::uint32_t flags, int only_tgid) {
    const std::string path = "/proc/self/fd/" + std::to_string(file);
    bpf_attr attr{};
    attr.link_create.prog_fd = static_cast<std::uint32_t>(program);
    attr.link_create.attach_type = static_cast<std::uint32_t>(attach_type);
    attr.link_create.uprobe_multi.path = reinterpret_cast<std::uint64_t>(path.c_str());
    attr.link_create.uprobe_multi.offsets = reinterpret_cast<std::uint64_t>(&offset);
    attr.link_create.uprobe_multi.cnt = 1;
    attr.link_create.uprobe_multi.flags = flags;
    attr.link_create.uprobe_multi.pid = static_cast<std::uint32_t>(only_tgid);
    Fd link(static_cast<int>(::syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr))));
    if (!link) {
        return fail_errno("attach");
    }
    return link;
}

std::uint64_t file_offset(std::uintptr_t address) {
    struct Search {
        std::uintptr_t address;
        std::uint64_t offset;
    } search{address, 0};
    ::dl_iterate_phdr(
        [](dl_phdr_info *object, std::size_t, void *data) {
            auto &wanted = *static_cast<Search *>(data);
            for (ElfW(Half) i = 0; i < object->dlpi_phnum; i++) {
                const ElfW(Phdr) &part = object->dlpi_phdr[i];
                const std::uintptr_t start = object->dlpi_addr + part.p_vaddr;
                if (part.p_type == PT_LOAD && wanted.address >= start &&
                    wanted.address - start < part.p_filesz) {
                    wanted.offset = wanted.address - start + part.p_offset;
                    return 1;
                }
            }
            return 0;
        },
        &search);
    return search.offset;
}

}  // namespace gpusnoop::ebpf
