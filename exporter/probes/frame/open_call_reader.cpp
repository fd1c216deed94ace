#include "exporter/probes/frame/open_call_reader.h"

#include <bpf/libbpf.h>

#include "exporter/ebpf/iterator.h"
#include "exporter/ebpf/object.h"
#include "exporter/ebpf/record.h"

namespace gpusnoop::probes {

namespace {

template <typename Record>
Result<std::vector<Record>> read_all(int link) {
    std::vector<Record> records;
    const auto read = ebpf::read_iterator(
        link, sizeof(Record), [&](auto bytes) { records.push_back(*ebpf::decode<Record>(bytes)); });
    return read ? Result<std::vector<Record>>(std::move(records)) : tl::unexpected(read.error());
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

Result<std::vector<open_call_record>> OpenCallReader::calls(std::chrono::nanoseconds min_age) {
    set_min_age_(static_cast<std::uint64_t>(min_age.count()));
    return read_all<open_call_record>(calls_.get());
}

Result<std::vector<blocked_thread_record>> OpenCallReader::threads(
    std::chrono::nanoseconds min_age) {
    set_min_age_(static_cast<std::uint64_t>(min_age.count()));
    return read_all<blocked_thread_record>(threads_.get());
}

Result<OpenCalls> OpenCallReader::read(
    const OpenCallQuery &query,
    const std::function<std::optional<OpenCall>(const open_call_record &)> &call_of) {
    OpenCalls open;
    const auto records = calls(query.min_age);
    if (!records) {
        return tl::unexpected(records.error());
    }
    for (const open_call_record &record : *records) {
        if (auto call = call_of(record)) {
            open.calls.push_back(*std::move(call));
        }
    }
    if (query.with_threads) {
        auto read = threads(query.min_age);
        if (!read) {
            return tl::unexpected(read.error());
        }
        open.threads = *std::move(read);
    }
    return open;
}

}  // namespace gpusnoop::probes
