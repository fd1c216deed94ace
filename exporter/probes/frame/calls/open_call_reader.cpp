#include "exporter/probes/frame/calls/open_call_reader.h"

#include <bpf/libbpf.h>

#include <algorithm>
#include <set>

#include "exporter/ebpf/mappings/iterator.h"
#include "exporter/ebpf/maps/ring.h"

namespace gpusnoop::probes {

namespace {

template <typename Record>
Result<> read_all(int link, const std::function<void(const Record &)> &use) {
    return ebpf::read_iterator(link, sizeof(Record),
                               [&](auto bytes) { use(*ebpf::decode<Record>(bytes)); });
}

}  // namespace

Result<> OpenCallReader::use_map(const bpf_object *object, int threads_map) {
    const int error = bpf_map__reuse_fd(ebpf::find_map(object, "threads"), threads_map);
    return error == 0 ? Result<>() : fail_errno("use the probe's map of threads", -error);
}

Result<std::unique_ptr<OpenCallReader>> OpenCallReader::link(const bpf_object *object,
                                                             SetMinAge set_min_age) {
    auto calls = ebpf::link_iterator(bpf_program__fd(ebpf::find_program(object, "calls")));
    if (!calls) {
        return tl::unexpected(calls.error());
    }
    auto threads = ebpf::link_iterator(bpf_program__fd(ebpf::find_program(object, "blocked")));
    if (!threads) {
        return tl::unexpected(threads.error());
    }
    return std::unique_ptr<OpenCallReader>(
        new OpenCallReader(std::move(*calls), std::move(*threads), std::move(set_min_age)));
}

Result<OldestCalls> OpenCallReader::read_oldest(std::chrono::nanoseconds min_age,
                                                const IsShown &is_shown) {
    set_min_age_(static_cast<std::uint64_t>(min_age.count()));
    OldestCalls oldest;
    const auto read = read_all<open_call_record>(calls_.get(), [&](const open_call_record &record) {
        if (is_shown(record)) {
            const std::chrono::nanoseconds began(static_cast<std::int64_t>(record.call.started_ns));
            const auto [first, is_new] = oldest.try_emplace({record.tgid, record.since_ns}, began);
            first->second = std::min(first->second, began);
        }
    });
    return read ? Result<OldestCalls>(std::move(oldest)) : tl::unexpected(read.error());
}

Result<OpenCalls> OpenCallReader::read(const OpenCallQuery &query,
                                       OpenCallList::Describe describe) {
    set_min_age_(static_cast<std::uint64_t>(query.min_age.count()));
    OpenCallList list(std::move(describe));
    if (const auto read = read_all<open_call_record>(
            calls_.get(), [&](const open_call_record &record) { list.add(record); });
        !read) {
        return tl::unexpected(read.error());
    }
    OpenCalls open = list.take();
    if (query.with_threads) {
        std::set<std::uint32_t> listed;
        for (const OpenCall &call : open.calls) {
            listed.insert(call.tid);
        }
        if (const auto read =
                read_all<blocked_thread_record>(threads_.get(),
                                                [&](const blocked_thread_record &thread) {
                                                    if (listed.contains(thread.tid)) {
                                                        open.threads.push_back(thread);
                                                    }
                                                });
            !read) {
            return tl::unexpected(read.error());
        }
    }
    return open;
}

}  // namespace gpusnoop::probes
