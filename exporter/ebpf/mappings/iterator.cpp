#include "exporter/ebpf/mappings/iterator.h"

#include <bpf/bpf.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace gpusnoop::ebpf {

namespace {

int link_one(int program, std::uint32_t tgid) {
    bpf_iter_link_info info{};
    info.task.pid = tgid;
    LIBBPF_OPTS(bpf_link_create_opts, options);
    options.iter_info = &info;
    options.iter_info_len = sizeof(info);
    return bpf_link_create(program, 0, BPF_TRACE_ITER, &options);
}

}  // namespace

Result<Fd> link_iterator(int program) {
    const int link = bpf_link_create(program, 0, BPF_TRACE_ITER, nullptr);
    if (link < 0) {
        return fail_errno("attach a BPF iterator", -link);
    }
    return Fd(link);
}

Result<Fd> link_iterator_of(int program, std::uint32_t tgid) {
    const int link = link_one(program, tgid);
    if (link == -ESRCH) {
        return fail_errno("attach a BPF iterator", ESRCH);
    }
    return link < 0 ? link_iterator(program) : Fd(link);
}

bool can_iterate_over_one(int program) {
    const Fd link(link_one(program, static_cast<std::uint32_t>(::getpid())));
    return static_cast<bool>(link);
}

Result<> read_iterator(int link, std::size_t record_bytes,
                       const std::function<void(std::span<const std::byte>)> &use) {
    const Fd iterator(bpf_iter_create(link));
    if (!iterator) {
        return fail_errno("start a BPF iterator");
    }
    // The kernel collects eight pages at most, or one whole record.
    std::vector<std::byte> buffer(std::max<std::size_t>(32'768, record_bytes));
    std::size_t filled = 0;
    while (true) {
        const ssize_t got = ::read(iterator.get(), buffer.data() + filled, buffer.size() - filled);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
            continue;
        }
        if (got < 0) {
            return fail_errno("read a BPF iterator");
        }
        if (got == 0) {
            return filled == 0 ? Result<>() : fail("a BPF iterator ended within a record");
        }
        filled += static_cast<std::size_t>(got);
        std::size_t used = 0;
        for (; filled - used >= record_bytes; used += record_bytes) {
            use(std::span(buffer).subspan(used, record_bytes));
        }
        filled -= used;
        std::memmove(buffer.data(), buffer.data() + used, filled);
    }
}

}  // namespace gpusnoop::ebpf
