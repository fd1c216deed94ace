#include "exporter/ebpf/hash_map.h"

#include <string>

namespace gpusnoop::ebpf {

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
