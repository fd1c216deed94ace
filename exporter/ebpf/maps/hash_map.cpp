#include "exporter/ebpf/maps/hash_map.h"

#include <iterator>
#include <string>

#include "exporter/base/fd.h"

namespace gpusnoop::ebpf {

bool can_link_to_entries() {
    constexpr bpf_insn instructions[] = {
        {.code = BPF_ALU64 | BPF_MOV | BPF_K,
         .dst_reg = BPF_REG_0,
         .src_reg = 0,
         .off = 0,
         .imm = 0},
        {.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0},
    };
    const int id = libbpf_find_vmlinux_btf_id("bpf_map_elem", BPF_TRACE_ITER);
    if (id <= 0) {
        return false;
    }
    LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = BPF_TRACE_ITER,
                .attach_btf_id = static_cast<std::uint32_t>(id));
    const Fd program(bpf_prog_load(BPF_PROG_TYPE_TRACING, "gpusnoop_probe", "GPL", instructions,
                                   std::size(instructions), &options));
    return static_cast<bool>(program);
}

Result<Link> link_to_entries(const bpf_program *program, int map) {
    bpf_iter_link_info info{};
    info.map.map_fd = static_cast<std::uint32_t>(map);
    LIBBPF_OPTS(bpf_iter_attach_opts, options, .link_info = &info, .link_info_len = sizeof(info));
    Link link(bpf_program__attach_iter(program, &options));
    if (!link) {
        return fail_errno(std::string("attach the BPF program ") + bpf_program__name(program));
    }
    return link;
}

}  // namespace gpusnoop::ebpf
